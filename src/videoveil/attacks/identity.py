"""Who is it: re-identification and verification of people in published videos or features.

    fitted = IdentityAttack().fit(Clips(dataset, "train", anonymizer))
    fitted.score(Clips(dataset, "test", anonymizer))

A probe is a published video. It is compared with what is known of people by name: other published videos of theirs
("published"), or raw ones ("raw": the attacker has ordinary pictures of the people and wants to find them in what was
published). The probe's own video is never in its gallery.

- `cosine` has learnt nothing: likeness of mean features, of an encoder on clips or of the stored features.
- `lda` has learnt a measure of likeness on people of the training videos; for raw galleries from their raw and
  published videos together, so that what the anonymizer does to everybody is left out of account. `bridge` first maps
  published features back to raw ones, as far as pairs of training videos teach a linear map, and then does the same.
- on clips, a network that has learnt to tell the training people apart (`…-people`), compared by cosine.

Nobody who was learnt from is looked for. Where training and test show the same people, as in gait sets with a gallery
and probes, half of the people are learnt from and the other half are looked for, the same halves with every seed.

Rank-1 and mean average precision are re-identification; ROC-AUC and the equal error rate over all pairs are
verification. For every dataset whose items have a subject; where only the plan knows who is who, `people` says it.

Shapes: n videos, p probes, g gallery videos, width d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from videoveil import devices, files
from videoveil.attacks.frames import ClipConfig, raw_of
from videoveil.attacks.retrieval import (
    Bridge,
    Projection,
    Trial,
    blind,
    bridge,
    cosine,
    equal_error,
    hits,
    learn,
    precisions,
    precisions_by_chance,
)
from videoveil.attacks.threads import one_thread
from videoveil.data.records import Item
from videoveil.errors import AnnotationError, BadItems, UsageError
from videoveil.tasks.base import Clips, Features, Metric, Progress, Role, Score, Source
from videoveil.tasks.feature_set import load as load_features
from videoveil.tasks.metrics import roc_auc
from videoveil.tasks.outcomes import MeanOutcome, Outcome, RankOutcome

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Gallery = Literal["published", "raw"]
People = Callable[[Item], str | None]  # who is in an item; None: nobody knows
Eye = Callable[[Source, tuple[Item, ...]], np.ndarray]  # a vector (n, d) for each of these items of a source

FEWEST = 2  # people to learn from
CHANCE = "a random order of the gallery; for pairs, a coin"


def own_subject(item: Item) -> str | None:
    """Who the dataset says is in the item."""
    return item.subject


@dataclass(frozen=True, kw_only=True)
class IdentityConfig(ClipConfig):
    """What is compared with what, and the networks that learn people from clips (for features they play no part)."""

    galleries: tuple[Gallery, ...] = ("published", "raw")
    trained: bool = True
    apart: tuple[str, ...] = ()  # of `extra`: a camera or view that must not be the probe's own
    networks: tuple[str, ...] = ("tiny@own",)
    clips: int = 3
    epochs: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.galleries or set(self.galleries) - set(get_args(Gallery)):
            raise UsageError(f"galleries={self.galleries}: name published, raw or both")
        if self.knowledge == "fine-tuned":
            raise UsageError("knowledge='fine-tuned': people are learnt fresh, or from raw videos")


@dataclass(frozen=True)
class Portraits:
    """Videos of people: one vector each."""

    items: tuple[Item, ...]
    people: np.ndarray  # (n,) of str
    x: np.ndarray  # (n, d)

    def where(self, keep: np.ndarray) -> Portraits:
        """Those of bool (n,)."""
        chosen = tuple(self.items[i] for i in np.flatnonzero(keep))
        return Portraits(chosen, self.people[keep], self.x[keep])


@dataclass(frozen=True)
class Measure:
    """A likeness that was learnt: probes through the bridge, where there is one, then both through the projection."""

    projection: Projection
    bridge: Bridge | None = None

    def __call__(self, probe: np.ndarray, gallery: np.ndarray) -> np.ndarray:
        """(p, d), (g, d) → (p, g)."""
        own = probe if self.bridge is None else self.bridge(probe)
        return cosine(self.projection(own), self.projection(gallery))


@dataclass(frozen=True)
class Found:
    """What one measure of likeness says of every probe."""

    probes: tuple[str, ...]
    likeness: np.ndarray  # (p, g)
    same: np.ndarray  # (p, g) bool
    allowed: np.ndarray  # (p, g) bool

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of all allowed pairs: whether they are of one person, how alike they are, which probe."""
        probe, _ = np.nonzero(self.allowed)
        return self.same[self.allowed].astype(np.float64), self.likeness[self.allowed], probe

    def metrics(self, name: str) -> list[Metric]:
        truth, likeness, _ = self.pairs()
        coin = None if (auc := roc_auc(truth, likeness)) is None else 0.5
        precision = precisions(self.likeness, self.same, self.allowed)
        by_chance = precisions_by_chance(self.same, self.allowed)
        hit = hits(self.likeness, self.same, self.allowed)
        return [
            Metric(f"rank1_{name}", float(hit.mean()), float(blind(self.same, self.allowed).mean())),
            Metric(f"map_{name}", float(precision.mean()), float(by_chance.mean())),
            Metric(f"auc_{name}", auc, coin),
            Metric(f"eer_{name}", equal_error(truth, likeness), coin),
        ]

    def outcomes(self, name: str) -> dict[str, Outcome]:
        hit, guess = hits(self.likeness, self.same, self.allowed), blind(self.same, self.allowed)
        precision = precisions(self.likeness, self.same, self.allowed)
        by_chance = precisions_by_chance(self.same, self.allowed)
        truth, likeness, probe = self.pairs()
        return {
            f"rank1_{name}": MeanOutcome("rank1", self.probes, hit, guess),
            f"map_{name}": MeanOutcome("map", self.probes, precision, by_chance),
            f"auc_{name}": RankOutcome(truth, likeness, probe, self.probes),
        }


# --- the task -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IdentityAttack:
    """Who is in a published video. `raw` is where raw videos or features of the same items are, where the source does
    not know: features of the raw videos, or a folder of raw videos whose anonymized ones come from elsewhere."""

    config: IdentityConfig = field(default_factory=IdentityConfig)
    people: People = own_subject
    raw: Source | None = None
    name: ClassVar[str] = "identity"
    role: ClassVar[Role] = "attack"

    def fit(
        self,
        train: Source,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedIdentity:
        """Learn measures of likeness from the people of the training videos."""
        items = self._learners(train) if self.config.trained else ()
        eyes: dict[str, Eye] = {"": _features}
        taught: tuple[str, ...] = ()
        if isinstance(train, Clips):
            from videoveil.attacks import identity_networks

            fabric = fabric or devices.make_fabric(device, self.config.precision)
            job = identity_networks.Lessons(self, train, self.raw_clips(train), items, seed, fabric, run)
            eyes, taught = job.eyes(progress)
        made = FittedIdentity(self, eyes, frozenset(self.who(item) for item in items))
        if items:
            for name in eyes:
                if (
                    name not in taught
                ):  # its training people are no strangers to a network that was taught them
                    made.measures |= self._measures(name, eyes[name], train, items, seed)
        if run is not None:
            made.save(run / "attack.json")
        return made

    def load(self, source: str | Path) -> FittedIdentity:
        raise UsageError(f"{source}: what was learnt of people is not kept; run the attack again")

    # --- who and what ---

    def who(self, item: Item) -> str:
        return self.people(item) or ""

    def raw_clips(self, source: Clips) -> Clips | None:
        """The raw videos of a source; None where they are what was published."""
        if self.raw is not None:
            if not isinstance(self.raw, Clips):
                raise UsageError("identity: raw must be clips, as the published videos are")
            return self.raw.with_split(source.split)
        return None if source.anonymizer is None and source.paint is None else raw_of(source)

    def raw_source(self, source: Source) -> Source | None:
        """Where the raw gallery is; None where there is none."""
        if isinstance(source, Clips):
            return self.raw_clips(source)
        if self.raw is not None and not isinstance(self.raw, Features):
            raise UsageError("identity: raw must be features, as what was published is")
        return None if self.raw is None else self.raw.with_split(source.split)

    def galleries(self, source: Source) -> dict[str, Source]:
        """What probes of a source are compared with."""
        found: dict[str, Source] = {}
        for kind in self.config.galleries:
            place = source if kind == "published" else self.raw_source(source)
            if place is not None:
                found[kind] = place
        if not found:
            raise UsageError("identity: a raw gallery was asked for and there are no raw videos; give raw=")
        return found

    def _learners(self, train: Source) -> tuple[Item, ...]:
        """The videos to learn from, ordered by id."""
        own = {item.id: item for item in items_of(train) if self.people(item)}
        if not own:
            raise AnnotationError("nobody is named in the training videos: no item has a subject")
        every = {item.id: item for item in items_of(train.with_split(None)) if self.people(item)}
        elsewhere = {self.who(item) for id_, item in every.items() if id_ not in own}
        learners = {self.who(item) for item in own.values()}
        if train.split is None or (elsewhere and elsewhere <= learners):
            # no strangers: half of the people, with all of their videos, are learnt from. Always the same half: who is
            # looked for must not change from one training to the next
            names = np.random.default_rng(0).permutation(sorted(learners))
            learners, own = set(names[: len(names) // 2].tolist()), every
        items = tuple(own[id_] for id_ in sorted(own) if self.who(own[id_]) in learners)
        if len(learners) < FEWEST:
            raise UsageError(
                f"identity: {len(learners)} people to learn from, at least {FEWEST} are needed; set trained=False"
            )
        return items

    # --- learning ---

    def _measures(
        self, eye: str, look: Eye, train: Source, items: tuple[Item, ...], seed: int
    ) -> dict[tuple[str, str, str], Measure]:
        """What is learnt for each kind of gallery."""
        whole = train.with_split(None)
        people = np.array([self.who(item) for item in items])
        published = Portraits(items, people, look(whole, items))
        found: dict[tuple[str, str, str], Measure] = {}
        for kind, source in self.galleries(whole).items():
            enrolled = published if kind == "published" else Portraits(items, people, look(source, items))
            both = [published.x] if kind == "published" else [published.x, enrolled.x]
            with one_thread(published.x.size):
                found[eye, kind, "lda"] = Measure(
                    _learnt(
                        np.concatenate(both),
                        np.tile(people, len(both)),
                        published,
                        enrolled,
                        self.config,
                        seed,
                    )
                )
                if kind == "raw":
                    back = bridge(published.x, enrolled.x, people, seed)
                    mapped = replace(published, x=back(published.x))
                    rows = np.concatenate((mapped.x, enrolled.x))
                    learnt = _learnt(rows, np.tile(people, 2), mapped, enrolled, self.config, seed)
                    found[eye, kind, "bridge"] = Measure(learnt, back)
        return found


def items_of(source: Source) -> tuple[Item, ...]:
    if isinstance(source, Features):
        return tuple(entry.item for entry in source.items())
    return source.items()


def _features(source: Source, items: tuple[Item, ...]) -> np.ndarray:
    """The mean clip feature of each item."""
    assert isinstance(source, Features)
    stored = load_features(source, int(source.store.encoder["width"]))
    place = {item.id: number for number, item in enumerate(stored.items)}
    if missing := [item.id for item in items if item.id not in place]:
        raise BadItems(f"{source.store.root}: {len(missing)} items have no features there:", missing)
    rows = [stored.rows[stored.offsets[n] : stored.offsets[n + 1]] for n in (place[i.id] for i in items)]
    return np.stack([one.astype(np.float64).mean(0) for one in rows])


def _learnt(
    x: np.ndarray,
    people: np.ndarray,
    published: Portraits,
    enrolled: Portraits,
    config: IdentityConfig,
    seed: int,
) -> Projection:
    """Learnt on all; its strength was chosen by finding half of the people with what the other half taught."""
    names = np.random.default_rng(seed).permutation(np.unique(people))
    half = len(names) // 2
    trials: list[tuple[np.ndarray, Trial]] = []
    for some, rest in ((names[:half], names[half:]), (names[half:], names[:half])):
        rows = np.isin(people, some)
        found = compare(published, enrolled, config, frozenset(published.people) - set(rest))
        if found is not None and 1 < len(np.unique(people[rows])) < rows.sum() and len(rest) > 1:
            trials.append((rows, _worth(found)))
    return learn(x, people, trials)[0]


def _worth(found: _Pairing) -> Trial:
    def trial(projection: Projection) -> float:
        likeness = cosine(projection(found.probe.x), projection(found.gallery.x))
        return float(precisions(likeness, found.same, found.allowed).mean())

    return trial


@dataclass(frozen=True)
class _Pairing:
    """Probes and gallery with what may be compared."""

    probe: Portraits
    gallery: Portraits
    same: np.ndarray  # (p, g) bool
    allowed: np.ndarray  # (p, g) bool


def compare(
    probe: Portraits, gallery: Portraits, config: IdentityConfig, known: frozenset[str] = frozenset()
) -> _Pairing | None:
    """Everybody but the `known` ones; probes of whom nothing else is in the gallery are left out. None: none is left.

    A gallery with a split of that name is that split, and probes are then those of the split "probe".
    """
    probe = probe.where(~np.isin(probe.people, list(known)))
    gallery = gallery.where(~np.isin(gallery.people, list(known)))
    enrolled = np.array([item.split == "gallery" for item in gallery.items], dtype=bool)
    if enrolled.any():
        gallery = gallery.where(enrolled)
        probe = probe.where(np.array([item.split == "probe" for item in probe.items], dtype=bool))
    same = probe.people[:, None] == gallery.people[None, :]
    allowed = np.array([[a.id != b.id for b in gallery.items] for a in probe.items], dtype=bool)
    allowed = allowed.reshape(same.shape)
    for name in config.apart:
        sides = [np.array([item.extra.get(name, "") for item in one.items]) for one in (probe, gallery)]
        allowed &= sides[0][:, None] != sides[1][None, :]
    there = (same & allowed).any(1)
    if not there.any():
        return None
    return _Pairing(probe.where(there), gallery, same[there], allowed[there])


# --- what was learnt ----------------------------------------------------------------------------------------


@dataclass
class FittedIdentity:
    """Ways of looking at videos, measures of likeness, and the people they were learnt from."""

    task: IdentityAttack
    eyes: Mapping[str, Eye]
    known: frozenset[str]
    measures: dict[tuple[str, str, str], Measure] = field(default_factory=dict)  # eye, gallery, name

    def found(self, test: Source) -> dict[str, Found]:
        """What every attacker says; its name is the eye, the measure, and `_raw` for a raw gallery."""
        whole = test
        if test.split in ("gallery", "probe"):
            whole = test.with_split(None)
        items = tuple(sorted((i for i in items_of(whole) if self.task.people(i)), key=lambda i: i.id))
        if not items:
            raise AnnotationError("nobody is named in the test videos: no item has a subject")
        people = np.array([self.task.who(item) for item in items])
        answers: dict[str, Found] = {}
        for eye, look in self.eyes.items():
            probe = Portraits(items, people, look(whole, items))
            for kind, source in self.task.galleries(whole).items():
                gallery = probe if kind == "published" else Portraits(items, people, look(source, items))
                pairing = compare(probe, gallery, self.task.config, self.known)
                if pairing is None:
                    raise UsageError(
                        "identity: nobody can be looked for: every person of the test videos was learnt from, or is "
                        "seen once only; give a split by people with several videos of each"
                    )
                for measure, likeness in self._likeness(eye, kind, pairing):
                    name = "_".join(part for part in (eye, measure, "raw" if kind == "raw" else "") if part)
                    ids = tuple(item.id for item in pairing.probe.items)
                    answers[name] = Found(ids, likeness, pairing.same, pairing.allowed)
        return answers

    def _likeness(self, eye: str, kind: str, pairing: _Pairing) -> list[tuple[str, np.ndarray]]:
        with one_thread(pairing.probe.x.size):
            found = [("cosine", cosine(pairing.probe.x, pairing.gallery.x))]
            for (own_eye, own_kind, name), measure in self.measures.items():
                if (own_eye, own_kind) == (eye, kind):
                    found.append((name, measure(pairing.probe.x, pairing.gallery.x)))
        return found

    def score(self, test: Source) -> Score:
        """Rank-1, mAP, AUC and EER; first those of the attacker that does best, each over all attackers."""
        answers = self.found(test)
        each = [metric for name, one in answers.items() for metric in one.metrics(name)]
        best = []
        for kind in ("rank1", "map", "auc", "eer"):
            own = [m for m in each if m.name.startswith(f"{kind}_") and m.value is not None]
            if own:
                sign = -1 if kind == "eer" else 1
                most = max(own, key=lambda m: sign * (m.value or 0.0))
                best.append(replace(most, name=kind))
        probes = len(next(iter(answers.values())).probes)
        return Score(IdentityAttack.name, probes, (*best, *each), baseline=CHANCE)

    def outcomes(self, test: Source) -> dict[str, Outcome]:
        """Rank-1, mAP and AUC of every attacker, under the names of `score`."""
        made: dict[str, Outcome] = {}
        for name, one in self.found(test).items():
            made |= one.outcomes(name)
        return made

    def save(self, destination: str | Path) -> None:
        """How the attackers came to be; what they learnt is not kept."""
        value: dict[str, Any] = {
            "galleries": list(self.task.config.galleries),
            "looks": list(self.eyes),
            "learnt_from": sorted(self.known),
        }
        files.write_json(destination, value)
