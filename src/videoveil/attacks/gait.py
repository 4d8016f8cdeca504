"""The gait attack as a task: who is walking, found among people whose walks are known (CASIA-B's protocol).

`cosine` is the published protocol: nothing is trained, the mean clip feature of a walk is compared with those of the
gallery. An anonymizer that only rearranges features can blind it; so beside it are attackers that learn:

- `enrolled` learns to tell the people of the gallery apart, from the gallery: linear discriminant analysis and the
  classifiers of the attack suite. The people are the same, so its chance level is that of `cosine`.
- `open` learns a measure of likeness on half of the people (all their walks, under all conditions) and finds the other
  half with it, whom it has never seen; `open_cosine` is the untrained one with the same, smaller gallery.

What it sees is the `input`: moving clips, static clips (looks alone), or what is in moving clips beyond the static ones
(nearest to gait alone).

    fitted = GaitAttack().fit(Features(store, split="gallery"))
    fitted.score(Features(store, split="probe"))

For every dataset with people in its splits "gallery" and "probe"; `extra` may name a condition and a view.

Shapes: n walks, p probes, g gallery walks, width d.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from videoveil import files
from videoveil.attacks.features import attacker
from videoveil.attacks.retrieval import Projection, Trial, blind, cosine, hits, learn
from videoveil.attacks.threads import one_thread
from videoveil.errors import BadItems, StoreError, UsageError
from videoveil.features.store import StoredItem
from videoveil.tasks.base import Features, Metric, Progress, Role, Score, as_features
from videoveil.tasks.feature_set import feature_problems
from videoveil.tasks.outcomes import MeanOutcome, Outcome

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.attacks.base import FittedAttacker

GaitInput = Literal["clip", "static", "residual"]
GALLERY, PROBE = "gallery", "probe"
RANDOM_PICK = "a random walk of the gallery: the share of walks by the same person"
Hits = dict[str, np.ndarray]  # attacker → top-1 of every probe (p,)


@dataclass(frozen=True, kw_only=True)
class GaitConfig:
    """What the attackers see, what they may compare and which of them learn."""

    input: GaitInput = "clip"
    exclude_same_view: bool = False  # walks from the probe's own side are no candidates
    trained: bool = True
    kinds: tuple[str, ...] = ("linear",)  # classifiers of the suite among the enrolled

    def __post_init__(self) -> None:
        if self.input not in get_args(GaitInput):
            raise UsageError(f"input={self.input!r}: choose one of {', '.join(get_args(GaitInput))}")
        for kind in self.kinds:
            attacker(kind)


@dataclass(frozen=True)
class Walks:
    """Videos of people by id: one vector each, and the clips it is the mean of."""

    ids: tuple[str, ...]
    x: np.ndarray  # (n, d) float64
    people: np.ndarray  # (n,) of str
    conditions: np.ndarray  # (n,) of str, "" where none is named
    views: np.ndarray  # (n,) of str, "" where none is named
    clips: tuple[np.ndarray, ...]  # n of (·, d)

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, keep: np.ndarray) -> Walks:
        """Those of bool (n,)."""
        places = np.flatnonzero(keep)
        return Walks(
            tuple(self.ids[i] for i in places),
            self.x[keep],
            self.people[keep],
            self.conditions[keep],
            self.views[keep],
            tuple(self.clips[i] for i in places),
        )

    def join(self, other: Walks) -> Walks:
        return Walks(
            (*self.ids, *other.ids),
            np.concatenate((self.x, other.x)),
            np.concatenate((self.people, other.people)),
            np.concatenate((self.conditions, other.conditions)),
            np.concatenate((self.views, other.views)),
            (*self.clips, *other.clips),
        )


def load(source: Features, config: GaitConfig) -> Walks:
    """The walks of a split; everything that is wrong is listed."""
    stored = sorted(source.items(), key=lambda entry: entry.item.id)
    if not stored:
        there = ", ".join(f"{name} {count}" for name, count in source.records().counts().items())
        raise BadItems(
            f"{source.store.root}: no walks in split {source.split!r}; there are {there or 'none'}"
        )
    clips: list[np.ndarray] = []
    wrong: list[str] = []
    for entry in stored:
        try:
            clips.append(_seen(source, entry, config.input))
        except StoreError as error:
            wrong.append(f"{entry.item.id}: {error}")
        if not entry.item.subject:
            wrong.append(f"{entry.item.id}: nobody is named in it (no subject)")
        if config.exclude_same_view and not entry.item.extra.get("view"):
            wrong.append(f"{entry.item.id}: no view is named, and exclude_same_view needs one")
    if wrong:
        raise BadItems(f"{source.store.root}: {len(wrong)} problems with {len(stored)} walks:", wrong)
    items = [entry.item for entry in stored]
    return Walks(
        tuple(item.id for item in items),
        np.stack([rows.mean(0) for rows in clips]),
        np.array([item.subject for item in items]),
        np.array([item.extra.get("condition", "") for item in items]),
        np.array([item.extra.get("view", "") for item in items]),
        tuple(clips),
    )


def _seen(source: Features, entry: StoredItem, kind: GaitInput) -> np.ndarray:
    """The rows (·, d) float64 that an attacker sees of one video."""
    stored = source.store.read(entry)
    if kind != "clip" and stored.static is None:
        raise StoreError("no static clips; extract with static=4 (`--static 4`)")
    width = int(source.store.encoder["width"])
    parts = {"clip": stored.clip, "static": stored.static}
    used = ("clip", "static") if kind == "residual" else (kind,)
    for name in used:
        if (rows := parts[name]) is not None and (problems := feature_problems(rows, width)):
            raise StoreError(f"{name}: {'; '.join(problems)}")
    first = np.asarray(parts[used[0]], dtype=np.float64)
    return first - np.asarray(stored.static, dtype=np.float64).mean(0) if kind == "residual" else first


# --- the task -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GaitAttack:
    """Who is walking."""

    config: GaitConfig = field(default_factory=GaitConfig)
    name: ClassVar[str] = "gait"
    role: ClassVar[Role] = "attack"

    def fit(
        self,
        train: Features,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedGait:
        """Enrol the gallery of `train`'s dataset and let the attackers learn.

        The half of the people that an `open` attacker learns on is known to it with all walks, the probes among them;
        it is scored on the other half only. Takes seconds: an interrupted attack begins again, to the same result.
        """
        train = as_features(train, "this attack")
        gallery = load(train.with_split(GALLERY), self.config)
        with one_thread(gallery.x.size):
            made = FittedGait(gallery, self.config)
            if self.config.trained:
                known = gallery.join(load(train.with_split(PROBE), self.config))
                made.halves = tuple(_halves(gallery, known, self.config, seed))
                made.enrolled, made.facts = _enrol(gallery, self.config)
                where = "cpu" if device == "auto" else device
                made.classifiers = _classifiers(gallery, self.config, seed, where)
        if progress is not None:
            progress(1, 1, 0.0)
        if run is not None:
            made.save(run / "attack.json")
        return made

    def load(self, source: str | Path) -> FittedGait:
        raise UsageError(
            f"{source}: attackers are not kept, they take seconds to train; run the attack again"
        )


@dataclass(frozen=True)
class Half:
    """A measure of likeness, and the people that it was not learnt on."""

    people: np.ndarray
    projection: Projection
    facts: dict[str, Any]


@dataclass
class FittedGait:
    """The gallery, and attackers that have learnt."""

    gallery: Walks
    config: GaitConfig
    halves: tuple[Half, ...] = ()
    enrolled: Projection | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    classifiers: dict[str, dict[str, FittedAttacker]] = field(default_factory=dict)  # view left out → kind

    def score(self, test: Features) -> Score:
        """Top-1 by attacker and condition; first the best of any attacker on probes of the gallery's own condition."""
        probe = self._probes(test)
        found, chance = self.hits(probe)
        usual = np.isin(probe.conditions, self.gallery.conditions)
        usual = usual if usual.any() else np.ones_like(usual)
        closed = [name for name in found if not name.startswith("open")]
        worst = max(closed, key=lambda name: float(found[name][usual].mean()))
        metrics = [Metric("top1", *_means(found[worst], chance[worst], usual))]
        for label, name, chosen in self._cells(probe, found):
            metrics.append(Metric(label, *_means(found[name], chance[name], chosen)))
        return Score(GaitAttack.name, len(probe), tuple(metrics), baseline=RANDOM_PICK)

    def outcomes(self, test: Features) -> dict[str, Outcome]:
        """Whether each attacker finds every probe, by attacker and condition, under the names of `score`."""
        probe = self._probes(test)
        found, chance = self.hits(probe)
        made: dict[str, Outcome] = {}
        for label, name, chosen in self._cells(probe, found):
            ids = tuple(probe.ids[i] for i in np.flatnonzero(chosen))
            made[label] = MeanOutcome("top1", ids, found[name][chosen], chance[name][chosen])
        return made

    def _probes(self, test: Features) -> Walks:
        return load(test.with_split(PROBE) if test.split is None else test, self.config)

    def _cells(self, probe: Walks, found: Hits) -> Iterator[tuple[str, str, np.ndarray]]:
        """(label, attacker, bool (p,)): every attacker on the probes of every condition, the gallery's own first."""
        everywhere = list(dict.fromkeys([*np.unique(self.gallery.conditions), *np.unique(probe.conditions)]))
        for name in found:
            for condition in everywhere:
                chosen = probe.conditions == condition
                if chosen.any():
                    yield (f"{name}_{condition}" if condition else name), name, chosen

    def hits(self, probe: Walks) -> tuple[Hits, Hits]:
        """For every attacker whether it finds each probe, (p,) in [0, 1], and what a blind guess would."""
        gallery = self.gallery
        if strange := sorted(set(probe.people) - set(gallery.people)):
            raise BadItems(
                f"{len(strange)} people of the probes are not in the gallery:", [str(one) for one in strange]
            )
        same, allowed = _pairs(probe, gallery, self.config)
        guess = blind(same, allowed)
        with one_thread(gallery.x.size):
            found = {"cosine": hits(cosine(probe.x, gallery.x), same, allowed)}
            if self.enrolled is not None:
                likeness = cosine(self.enrolled(probe.x), self.enrolled(gallery.x))
                found["enrolled_lda"] = hits(likeness, same, allowed)
                found |= self._classified(probe)
            chance = dict.fromkeys(found, guess)
            if self.halves:
                for name, (own, level) in self._open(probe, same, allowed).items():
                    found[name], chance[name] = own, level
        return found, chance

    def _classified(self, probe: Walks) -> Hits:
        """The classifiers of the suite: the class with the highest mean probability over the clips of a walk."""
        found = {f"enrolled_{kind}": np.zeros(len(probe)) for kind in self.config.kinds}
        own_view = np.isin(probe.views, [view for view in self.classifiers if view])
        for view, by_kind in self.classifiers.items():
            chosen = np.flatnonzero(probe.views == view if view else ~own_view)
            names = np.unique(self.gallery.people)
            for kind, one in by_kind.items():
                assert one.classes is not None
                for i in chosen:
                    best = int(one.classes[one.scores(probe.clips[i]).mean(0).argmax()])
                    found[f"enrolled_{kind}"][i] = float(names[best] == probe.people[i])
        return found

    def _open(
        self, probe: Walks, same: np.ndarray, allowed: np.ndarray
    ) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Each half of the people among themselves, with what was learnt on the other half."""
        plain, learnt, level = (np.zeros(len(probe)) for _ in range(3))
        for half in self.halves:
            p, g = np.isin(probe.people, half.people), np.isin(self.gallery.people, half.people)
            if not p.any():
                continue
            both = np.ix_(p, g)
            x, y = probe.x[p], self.gallery.x[g]
            plain[p] = hits(cosine(x, y), same[both], allowed[both])
            likeness = cosine(half.projection(x), half.projection(y))
            learnt[p] = hits(likeness, same[both], allowed[both])
            level[p] = blind(same[both], allowed[both])
        return {"open_cosine": (plain, level), "open_lda": (learnt, level)}

    def save(self, destination: str | Path) -> None:
        """How the attackers came to be; what they learnt is not kept."""
        value = {
            "input": self.config.input,
            "exclude_same_view": self.config.exclude_same_view,
            "people": sorted({str(one) for one in self.gallery.people}),
            "enrolled": self.facts,
            "open": [half.facts for half in self.halves],
        }
        files.write_json(destination, value)


def _pairs(probe: Walks, gallery: Walks, config: GaitConfig) -> tuple[np.ndarray, np.ndarray]:
    """(p, g) twice: the same person, and what may be compared."""
    same = probe.people[:, None] == gallery.people[None, :]
    allowed = np.ones_like(same)
    if config.exclude_same_view:
        allowed = probe.views[:, None] != gallery.views[None, :]
        if len(lonely := np.flatnonzero(~(same & allowed).any(1))):
            raise BadItems(
                f"{len(lonely)} probes have no gallery walk of their person from another side; allow the same view:",
                [probe.ids[i] for i in lonely],
            )
    return same, allowed


def _means(found: np.ndarray, chance: np.ndarray, chosen: np.ndarray) -> tuple[float, float]:
    return float(found[chosen].mean()), float(chance[chosen].mean())


# --- learning -----------------------------------------------------------------------------------------------


def _halves(gallery: Walks, known: Walks, config: GaitConfig, seed: int) -> Iterator[Half]:
    """Two measures, each learnt on all walks of one half of the people; shrinkage is chosen inside that half."""
    names = np.random.default_rng(seed).permutation(np.unique(gallery.people))
    if len(names) < 8:
        raise UsageError(
            f"gait: {len(names)} people; at least 8 are needed to learn on some of them, or set trained=False"
        )
    middle = len(names) // 2
    for learners, others in ((names[:middle], names[middle:]), (names[middle:], names[:middle])):
        own = known.where(np.isin(known.people, learners))
        half = len(learners) // 2
        trials = []
        for some, rest in ((learners[:half], learners[half:]), (learners[half:], learners[:half])):
            trials.append((np.isin(own.people, some), _trial(gallery, own, rest, config)))
        projection, facts = learn(own.x, own.people, trials)
        yield Half(others, projection, facts)


def _trial(gallery: Walks, own: Walks, people: np.ndarray, config: GaitConfig) -> Trial:
    """How well a measure finds these people's other walks in their part of the gallery."""
    enrolled = gallery.where(np.isin(gallery.people, people))
    others = own.where(np.isin(own.people, people) & ~np.isin(own.ids, enrolled.ids))

    def trial(projection: Projection) -> float:
        same, allowed = _pairs(others, enrolled, config)
        return float(hits(cosine(projection(others.x), projection(enrolled.x)), same, allowed).mean())

    return trial if len(others) else lambda projection: 0.0


def _enrol(gallery: Walks, config: GaitConfig) -> tuple[Projection, dict[str, Any]]:
    """The discriminant of the gallery's people; shrinkage is chosen by finding every other walk by the rest."""
    order = np.zeros(len(gallery), dtype=np.int64)
    for one in np.unique(gallery.people):
        for view in np.unique(gallery.views):
            own = np.flatnonzero((gallery.people == one) & (gallery.views == view))
            order[own] = np.arange(len(own))
    trials = []
    for part in (0, 1):
        held_out, rest = order % 2 == part, order % 2 != part
        if held_out.any() and set(gallery.people[held_out]) <= set(gallery.people[rest]):
            trials.append((rest, _trial_of(gallery.where(held_out), gallery.where(rest), config)))
    return learn(gallery.x, gallery.people, trials)


def _trial_of(probe: Walks, gallery: Walks, config: GaitConfig) -> Trial:
    same, allowed = _pairs(probe, gallery, config)

    def trial(projection: Projection) -> float:
        return float(hits(cosine(projection(probe.x), projection(gallery.x)), same, allowed).mean())

    return trial


def _classifiers(
    gallery: Walks, config: GaitConfig, seed: int, device: str
) -> dict[str, dict[str, FittedAttacker]]:
    """The suite's classifiers of the gallery's people from its clips.

    With exclude_same_view one for every view, learnt from the other views, and one (under "") learnt from all, for
    probes from a side that the gallery does not have.
    """
    names = np.unique(gallery.people)
    found: dict[str, dict[str, FittedAttacker]] = {}
    for view in ["", *np.unique(gallery.views)] if config.exclude_same_view else [""]:
        own = gallery.where(gallery.views != view) if view else gallery
        x = np.concatenate(own.clips)
        number = np.searchsorted(names, own.people)
        y = np.repeat(number, [len(rows) for rows in own.clips]).astype(np.float64)
        held_out = np.repeat(np.arange(len(own)) % 4 == 3, [len(rows) for rows in own.clips])
        if set(y[held_out]) != set(y) or set(y[~held_out]) != set(y):
            held_out = np.zeros(len(x), dtype=bool)
        validation = (x[held_out], y[held_out]) if held_out.any() else None
        found[str(view)] = {
            kind: attacker(kind).fit(x[~held_out], y[~held_out], validation, seed, device)
            for kind in config.kinds
        }
    return found
