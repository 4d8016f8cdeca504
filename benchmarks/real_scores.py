"""What attackers and probes find in real features, item by item, and intervals over test items and encoders.

Shapes: n test rows, k attributes (or classes), a attackers, B bootstrap draws. A draw takes sources (films, people,
pictures) with replacement, so that rows of one source come and go together, and seeds with replacement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import real_data
from benchmarks.real_data import Videos
from videoveil import files
from videoveil.attacks import attacker, split
from videoveil.data.records import Item
from videoveil.tasks.action import probe
from videoveil.tasks.targets import targets
from videoveil.training import seeds

DRAWS = 1000
CLIP = 16  # frames of a moving clip of `tiny`, at stride 1
LEAST = 15  # labelled clips that must have an attribute, and as many that must not, for it to be attacked
KTH_SEEN = (
    "boxing",
    "handclapping",
    "jogging",
    "walking",
)  # what identity is learnt from; tested on the others
KTH_CLIPS = 3  # of a video, evenly spaced, for identity

Families = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Found:
    """What was found about n test rows. Actions have no attackers: one probe, `scores` 1 where it was right."""

    truth: np.ndarray  # (n, k) of 0 and 1
    scores: np.ndarray  # (a, n, k) float32
    source: np.ndarray  # (n,) rows of one number are drawn together
    fold: np.ndarray  # (n,) rows are ranked among those of their fold
    kinds: tuple[str, ...]
    families: Families  # columns that are averaged first
    accuracy: bool = False

    def save(self, path: Path) -> None:
        facts = [f"{name}={','.join(map(str, columns))}" for name, columns in self.families.items()]
        arrays: dict[str, Any] = {
            "truth": self.truth,
            "scores": self.scores,
            "source": self.source,
            "fold": self.fold,
            "kinds": np.array(self.kinds),
            "families": np.array(facts),
            "accuracy": np.array([self.accuracy]),
        }
        with files.atomic_path(path) as temporary, temporary.open("wb") as handle:
            np.savez_compressed(handle, **arrays)

    @classmethod
    def load(cls, path: Path) -> Found:
        with np.load(path) as there:
            pairs = [str(text).rsplit("=", 1) for text in there["families"]]
            families = {name: tuple(map(int, columns.split(","))) for name, columns in pairs}
            arrays = {name: there[name] for name in ("truth", "scores", "source", "fold")}
            kinds = tuple(str(kind) for kind in there["kinds"])
            return cls(**arrays, kinds=kinds, families=families, accuracy=bool(there["accuracy"][0]))


# --- finding ------------------------------------------------------------------------------------------------


def actions(videos: Videos, test: str, seed: int) -> Found:
    """A linear probe on the training split, five clips of every test video: right or wrong."""
    train, held_out = videos.part("train"), videos.part(test)
    names = tuple(sorted({str(item.action) for item in train.items}))
    fitted = probe.fit(train, targets(train.items, names, "action"), seed=seed, device="cpu")
    truth = targets(held_out.items, names, "action").values
    right = fitted.probabilities(held_out).argmax(1) == truth
    guess = fitted.prior.commonest(1)[0]
    return Found(
        truth=(truth == guess)[:, None].astype(
            np.uint8
        ),  # a blind guess is right where the commonest class is true
        scores=right[None, :, None].astype(np.float32),
        source=numbered([item.extra["source"] for item in held_out.items]),
        fold=np.zeros(len(truth), dtype=np.int64),
        kinds=("probe",),
        families={"top1": (0,)},
        accuracy=True,
    )


def faces(videos: Videos, test: str, kinds: Sequence[str], seed: int, device: str) -> Found:
    """Gender, race and age group from static clips. On the test part the attackers choose on the validation part."""
    names = ("female", *real_data.RACES, *real_data.AGE_GROUPS)
    x, parts = videos.static[:, 0], np.array([item.split for item in videos.items])
    y = np.array(
        [[(item.attributes or {})[name] for name in names] for item in videos.items], dtype=np.float64
    )
    learn, aim = np.flatnonzero(parts == "train"), np.flatnonzero(parts == test)
    choose = np.flatnonzero(parts == "val")
    if test == "val":
        inner, rest = split(len(learn), 0.2, seed)
        learn, choose = learn[inner], learn[rest]
    scores = attack(kinds, (x[learn], y[learn]), (x[choose], y[choose]), x[aim], seed, device)
    races = tuple(range(1, 1 + len(real_data.RACES)))
    families = {"gender": (0,), "race": races, "age": tuple(range(1 + len(races), len(names)))}
    none = np.zeros(len(aim), dtype=np.int64)
    return Found(y[aim].astype(np.uint8), scores, np.arange(len(aim)), none, tuple(kinds), families)


@dataclass(frozen=True)
class Labelled:
    """Rows of clips with what is known of who is in them."""

    x: np.ndarray  # (n, d)
    y: np.ndarray  # (n, k)
    video: np.ndarray  # (n,)
    film: np.ndarray  # (n,)
    fold: np.ndarray  # (n,)
    names: tuple[str, ...]


def people(
    videos: Videos, labels: Mapping[str, Item], moving: bool, kinds: Sequence[str], seed: int, device: str
) -> Found:
    """PA-HMDB51 in two folds of films: attackers learn from one and are tested on the other."""
    rows = person_rows(videos, labels, moving)
    scores = np.zeros((len(kinds), *rows.y.shape), dtype=np.float32)
    for fold in (0, 1):
        others, aim = np.flatnonzero(rows.fold != fold), np.flatnonzero(rows.fold == fold)
        learn, choose = (others[part] for part in split(len(others), 0.2, seed, rows.film[others]))
        data = [(rows.x[part], rows.y[part]) for part in (learn, choose)]
        scores[:, aim] = attack(kinds, data[0], data[1], rows.x[aim], seed, device)
    families = {name: (place,) for place, name in enumerate(rows.names)}
    return Found(rows.y.astype(np.uint8), scores, rows.film, rows.fold, tuple(kinds), families)


def person_rows(videos: Videos, labels: Mapping[str, Item], moving: bool) -> Labelled:
    """Every labelled clip, with the attributes that enough videos have and enough have not."""
    found: list[tuple[np.ndarray, dict[str, int], int]] = []
    for i, item in enumerate(videos.items):
        label = labels.get(item.id)
        if label is None:
            continue
        if moving:
            clips = range(videos.offsets[i], videos.offsets[i + 1])
            spans = [(videos.clip[c], int(videos.starts[c]), int(videos.starts[c]) + CLIP) for c in clips]
        else:
            spans = [(x, int(f), int(f) + 1) for x, f in zip(videos.static[i], videos.frames[i])]
        for x, first, stop in spans:
            known = real_data.in_frames(label, first, stop)
            if known is not None:
                found.append((x, known, i))
    owner = np.array([i for _, _, i in found])
    films = [videos.items[i].extra["source"] for i in sorted(set(owner.tolist()))]
    fold = real_data.halves(films)
    names = tuple(sorted(found[0][1]))
    y = np.array([[known[name] for name in names] for _, known, _ in found], dtype=np.float64)
    enough = [column for column in range(len(names)) if enough_of_both(y[:, column], owner)]
    source = [videos.items[i].extra["source"] for i in owner]
    return Labelled(
        np.stack([x for x, _, _ in found]),
        y[:, enough],
        owner,
        numbered(source),
        np.array([fold[name] for name in source]),
        tuple(names[column] for column in enough),
    )


def enough_of_both(y: np.ndarray, owner: np.ndarray) -> bool:
    """Whether at least `LEAST` videos mostly have the attribute, and as many mostly have not."""
    share = np.array([y[owner == i].mean() for i in np.unique(owner)])
    have, lack = int((share > 0.5).sum()), int((share <= 0.5).sum())
    return min(have, lack) >= min(LEAST, len(share) // 4)  # the quarter: for a quick look at a few


def identity(videos: Videos, moving: bool, kinds: Sequence[str], seed: int, device: str) -> Found:
    """Which of the 25 people of KTH: learnt from four actions, tested on the other two, all scenarios in both."""
    rows: list[np.ndarray] = []
    owners: list[int] = []
    for i in range(len(videos.items)):
        mine = videos.clip[videos.offsets[i] : videos.offsets[i + 1]] if moving else videos.static[i]
        chosen = np.unique(np.linspace(0, len(mine) - 1, KTH_CLIPS).round().astype(int))
        rows.append(mine[chosen])
        owners += [i] * len(chosen)
    x, owner = np.concatenate(rows), np.array(owners)
    people = sorted({str(item.subject) for item in videos.items})
    person = np.array([people.index(str(videos.items[i].subject)) for i in owner], dtype=np.float64)
    seen = np.array([videos.items[i].action in KTH_SEEN for i in owner])
    others, aim = np.flatnonzero(seen), np.flatnonzero(~seen)
    learn, choose = (others[part] for part in split(len(others), 0.2, seed, owner[others]))
    scores = attack(kinds, (x[learn], person[learn]), (x[choose], person[choose]), x[aim], seed, device)
    known = np.unique(person[learn]).astype(int)
    every = np.zeros((len(kinds), len(aim), len(people)), dtype=np.float32)  # a person never seen: no score
    every[:, :, known] = scores
    truth = (person[aim, None] == np.arange(len(people))).astype(np.uint8)
    families = {"identity": tuple(range(len(people)))}
    return Found(truth, every, owner[aim], np.zeros(len(aim), dtype=np.int64), tuple(kinds), families)


def attack(
    kinds: Sequence[str],
    train: tuple[np.ndarray, np.ndarray],
    validation: tuple[np.ndarray, np.ndarray],
    test: np.ndarray,
    seed: int,
    device: str,
) -> np.ndarray:
    """Attackers trained afresh → their scores (a, n, k) on the test rows."""
    fitted = [attacker(kind).fit(*train, validation, seed, device) for kind in kinds]
    return np.stack([one.scores(test) for one in fitted]).astype(np.float32)


def numbered(names: Sequence[str]) -> np.ndarray:
    return np.unique(np.array(names), return_inverse=True)[1]


# --- figures ------------------------------------------------------------------------------------------------


def draws(source: np.ndarray, name: str, count: int = DRAWS) -> np.ndarray:
    """How often every row is drawn, (1 + count, n) float32; row 0 is the data as it is."""
    sources = int(source.max()) + 1
    drawn = seeds.rng(0, "draws", name).multinomial(sources, np.full(sources, 1 / sources), size=count)
    return np.concatenate((np.ones((1, len(source))), drawn[:, source])).astype(np.float32)


def weighted_ap(truth: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Step-wise average precision (B,) of truth (n,) and scores (n,), each row counted weights (B, n) times.

    Rows of one score are one threshold. NaN where no positive row was drawn.
    """
    order = np.argsort(-scores, kind="stable")
    ordered, weight = scores[order], weights[:, order].astype(np.float64)
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)  # of every tie
    positive = np.cumsum(weight * truth[order], 1)[:, last]
    everything = np.cumsum(weight, 1)[:, last]
    gained = np.diff(positive, axis=1, prepend=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(everything > 0, positive / everything, 0)
        found: np.ndarray = (gained * precision).sum(1) / positive[:, -1]
    return found


@dataclass(frozen=True)
class Figures:
    """Figures of one `Found` in every draw."""

    found: Found
    weights: np.ndarray  # (1 + B, n)

    def value(self, families: Sequence[str]) -> tuple[np.ndarray, str]:
        """(1 + B,) of the attacker that does best on the data as it is, and its name: families averaged."""
        plain = [self._of(kind, families, self.weights[:1]) for kind in range(len(self.found.kinds))]
        best = int(np.argmax(plain))
        return self._of(best, families, self.weights), self.found.kinds[best]

    def _of(self, kind: int, families: Sequence[str], weights: np.ndarray) -> np.ndarray:
        columns = self.found.families
        return _mean([_mean([self._column(kind, c, weights) for c in columns[name]]) for name in families])

    def _column(self, kind: int, column: int, weights: np.ndarray) -> np.ndarray:
        """One attacker, one attribute: mean of the folds."""
        truth, scores, folds = (
            self.found.truth[:, column],
            self.found.scores[kind, :, column],
            self.found.fold,
        )
        if self.found.accuracy:
            right: np.ndarray = weights @ scores / weights.sum(1)
            return right
        parts = [folds == fold for fold in np.unique(folds)]
        return _mean([weighted_ap(truth[p], scores[p], weights[:, p]) for p in parts])

    def chance(self, families: Sequence[str]) -> np.ndarray:
        """(1 + B,): what a blind guess gives in the same draw."""
        found = self.found
        each = []
        for name in families:
            columns = list(found.families[name])
            for fold in np.unique(found.fold):
                p = found.fold == fold
                with np.errstate(invalid="ignore", divide="ignore"):
                    share = (
                        self.weights[:, p] @ found.truth[p][:, columns] / self.weights[:, p].sum(1)[:, None]
                    )
                share[share == 0] = np.nan  # nothing to be found: not in the mean of the values either
                each.append(_mean(list(share.T)))
        return _mean(each)


def _mean(values: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of those that are defined, draw by draw."""
    stacked = np.stack(values)
    there = ~np.isnan(stacked)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = np.where(there, stacked, 0).sum(0) / there.sum(0)
    return found


def over_seeds(values: Sequence[np.ndarray], name: str) -> np.ndarray:
    """Figures (1 + B,) of several seeds → their mean, in every draw over seeds drawn with replacement."""
    stacked = np.stack(values)  # (S, 1 + B)
    chosen = seeds.rng(0, "seeds", name).integers(len(stacked), size=stacked.shape)
    chosen[:, 0] = np.arange(len(stacked))
    return _mean(list(np.take_along_axis(stacked, chosen, 0)))


def interval(values: np.ndarray) -> list[float]:
    """The figure, and the reach of the middle 95 % of its draws about their median, put around the figure.

    Rows that are drawn twice are found together, which lifts the average precision of every draw a little: the spread
    of the draws says how sure the figure is, their place does not.
    """
    drawn = values[1:][np.isfinite(values[1:])]
    low, middle, high = np.quantile(drawn, (0.025, 0.5, 0.975))
    return [float(values[0]), float(values[0] + low - middle), float(values[0] + high - middle)]


def compare(mine: Mapping[int, Found], raw: Mapping[int, Found], group: str) -> dict[str, Any]:
    """Figures of one group by seed against those of raw features, all in the same draws.

    `kept` is value / raw for a utility; `leakage` is (value − chance) / (raw − chance) for an attack.
    """
    first = next(iter(mine.values()))
    weights = draws(first.source, group)
    every = tuple(first.families)
    figures = {seed: (Figures(mine[seed], weights), Figures(raw[seed], weights)) for seed in mine}
    named = {"all": every, **({name: (name,) for name in every} if len(every) > 1 else {})}
    found: dict[str, Any] = {}
    for name, families in named.items():
        own = {seed: pair[0].value(families) for seed, pair in figures.items()}
        base = {seed: pair[1].value(families) for seed, pair in figures.items()}
        chance = over_seeds([pair[0].chance(families) for pair in figures.values()], group)
        value, whole = (over_seeds([v for v, _ in one.values()], group) for one in (own, base))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = value / whole if first.accuracy else (value - chance) / (whole - chance)
        found[name] = {
            "value": interval(value),
            "raw": interval(whole),
            "chance": float(chance[0]),
            "to_hide": interval(whole - chance),  # where this may be 0 the leakage says nothing
            "kept" if first.accuracy else "leakage": interval(ratio),
            "seeds": {seed: float(v[0]) for seed, (v, _) in own.items()},
            "strongest": {seed: kind for seed, (_, kind) in own.items()},
        }
    return found
