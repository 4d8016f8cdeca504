"""Gender bias: how a biased training set is made up, and how well a probe does on either gender.

NTU-Bias-F and -M are made by `data.ntu60` (options `bias=F`, `bias=M`); `composition` counts what came out of it, to
the item, and `problems` says what is not as the paper describes. On Toyota Smarthome nothing is taken out: its natural
imbalance is kept, and only people must not be in both parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from videoveil.data.ntu60 import KEEP_FEW, KEEP_MANY
from videoveil.data.records import Dataset
from videoveil.errors import AnnotationError
from videoveil.protocols.base import Reading, Readings
from videoveil.tasks.outcomes import MeanOutcome, Measure, draws_of, weights

if TYPE_CHECKING:
    from videoveil.tasks.action.probe import FittedProbe
    from videoveil.tasks.base import Features

GENDERS = ("female", "male")
SHUFFLES = 1000  # of the genders among the test people


@dataclass(frozen=True)
class Composition:
    """Videos by split, action and gender, and who is in either part."""

    counts: dict[tuple[str, str, str], int]
    people: dict[str, dict[str, str]]  # split → person → gender

    def count(self, split: str, action: str, gender: str) -> int:
        return self.counts.get((split, action, gender), 0)

    def actions(self, split: str) -> tuple[str, ...]:
        return tuple(sorted({action for part, action, _ in self.counts if part == split}))

    def shared(self) -> tuple[str, ...]:
        """People of both parts."""
        return tuple(sorted(set(self.people.get("train", {})) & set(self.people.get("test", {}))))


def composition(dataset: Dataset) -> Composition:
    """Count; a person without a gender is an error that lists them all."""
    if unknown := sorted({str(item.subject) for item in dataset if item.gender not in GENDERS}):
        raise AnnotationError(f"{dataset.name}: bias needs gender.json with every person; unknown:", unknown)
    counts = Counter((item.split, str(item.action), str(item.gender)) for item in dataset)
    people: dict[str, dict[str, str]] = {}
    for item in dataset:
        people.setdefault(item.split, {})[str(item.subject)] = str(item.gender)
    return Composition(dict(counts), people)


def balanced_problems(found: Composition, split: str) -> list[str]:
    """What keeps a part from being balanced: as many people and, per action, as many videos of either gender."""
    wrong = []
    people = Counter(found.people.get(split, {}).values())
    if people["female"] != people["male"]:
        wrong.append(f"{split}: {people['female']} women and {people['male']} men")
    for action in found.actions(split):
        women, men = (found.count(split, action, gender) for gender in GENDERS)
        if women != men:
            wrong.append(f"{split} {action}: {women} videos of women, {men} of men")
    return wrong


def bias_problems(biased: Composition, balanced: Composition, *, favoured: str, shortcut: str) -> list[str]:
    """What is not as in NTU-Bias: people apart, test balanced, and to the item 95 % and 5 % of every action's videos.

    With m balanced videos of an action and gender, `round(.95 m)` of the favoured gender stay and `max(1, round(.05
    m))` of the other; the other way round for the shortcut action.
    """
    wrong = [f"{person} is in both parts" for person in biased.shared()]
    wrong += balanced_problems(biased, "test")
    for action in balanced.actions("train"):
        for gender in GENDERS:
            whole = balanced.count("train", action, gender)
            many = (gender == favoured) != (action == shortcut)
            due = round(KEEP_MANY * whole) if many else max(1, round(KEEP_FEW * whole))
            there = biased.count("train", action, gender)
            if there != due:
                wrong.append(f"train {action}, {gender}: {there} videos of {whole}, should be {due}")
    return wrong


def by_gender(fitted: FittedProbe, test: Features) -> dict[str, Reading]:
    """`female`, `male`, `overall` accuracy, their `gap`, the `difference` male − female and the mean over classes.

    A gap is never below 0, so chance alone makes one: its chance level is what remains of it on average when the
    genders are shuffled among the test people. A difference says who is better off.

    The chance level of accuracies is that of always answering with the commonest class of the training set.
    """
    from videoveil.tasks import feature_set
    from videoveil.tasks.action.metrics import rank_of_truth
    from videoveil.tasks.targets import targets

    data = feature_set.load(test, fitted.layer.in_features)
    if unknown := sorted({str(item.subject) for item in data.items if item.gender not in GENDERS}):
        raise AnnotationError(
            f"{test.records().name}: bias needs gender.json with every person; unknown:", unknown
        )
    labels = targets(data.items, fitted.names, "action").values
    right = rank_of_truth(fitted.probabilities(data), labels) == 0
    usual = np.isin(labels, fitted.prior.commonest(1))
    genders = np.array([item.gender for item in data.items])
    people = np.array([item.subject or item.id for item in data.items])
    return gap_of(right, usual, genders, labels, people, [item.id for item in data.items])


def gap_of(
    right: np.ndarray,
    usual: np.ndarray,
    genders: np.ndarray,
    labels: np.ndarray,
    people: np.ndarray | None = None,
    ids: Sequence[str] | None = None,
) -> dict[str, Reading]:
    """From answers (n,) that are right, and those that a blind guess gets right.

    `people` (n,): who is in it; None: everywhere somebody else. `ids` of the items: their answers are kept.
    """
    people = np.arange(len(right)) if people is None else people
    found = {}
    for gender in GENDERS:
        own = genders == gender
        found[gender] = _share(right, usual, own, ids) if own.any() else Reading(None)
    female, male = found["female"].value, found["male"].value
    gap = difference = Reading(None)
    if female is not None and male is not None:
        gap = Reading(abs(female - male), shuffled_gap(right, genders, people))
        difference = Reading(male - female)
    per_class = [float(right[labels == one].mean()) for one in np.unique(labels)]
    return {
        **found,
        "overall": _share(right, usual, np.ones(len(right), bool), ids),
        "gap": gap,
        "difference": difference,
        "mean_per_class": Reading(float(np.mean(per_class)), 1 / len(per_class)),
    }


def _share(right: np.ndarray, usual: np.ndarray, own: np.ndarray, ids: Sequence[str] | None) -> Reading:
    """How many of its `own` (n,) answers are right."""
    said = None
    if ids is not None:
        names = tuple(name for name, mine in zip(ids, own) if mine)
        said = MeanOutcome("top1", names, right[own].astype(np.float64), usual[own].astype(np.float64))
    return Reading(float(right[own].mean()), float(usual[own].mean()), said)


def shuffled_gap(
    right: np.ndarray, genders: np.ndarray, people: np.ndarray, shuffles: int = SHUFFLES, seed: int = 0
) -> float | None:
    """The mean gap when genders are shuffled among people, who keep their answers (n,); None for one gender alone.

    People are shuffled and not their videos: whoever is recognised badly is so in all of them.
    """
    _, first, who = np.unique(people, return_index=True, return_inverse=True)
    if not {*GENDERS} <= set(genders[first]):
        return None
    count, hits = np.bincount(who), np.bincount(who, right)  # (g,) of every person
    women = np.tile(genders[first] == GENDERS[0], (shuffles, 1))
    women = np.random.default_rng(seed).permuted(women, axis=1)  # (shuffles, g)
    shares = [(mask * hits).sum(1) / (mask * count).sum(1) for mask in (women, ~women)]
    return float(np.abs(shares[0] - shares[1]).mean())


@dataclass(frozen=True)
class GapOutcome:
    """Who of either gender was recognised: how far the two shares are apart, either way."""

    female: MeanOutcome
    male: MeanOutcome
    chance: float | None  # of all items; draws of people keep it
    metric: ClassVar[str] = "gap"

    @property
    def items(self) -> tuple[str, ...]:
        return (*self.female.items, *self.male.items)

    @property
    def fewest(self) -> int:
        """Items of the gender that has fewer."""
        return min(len(self.female.items), len(self.male.items))

    def measure(self, chosen: np.ndarray | None = None) -> Measure:
        values, _ = self.draws(weights(chosen, len(self.items))[None])
        known = not np.isnan(values[0])
        return Measure(float(values[0]) if known else None, self.chance if known else None)

    def draws(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """counts (B, n) → gaps and chance (B,), NaN where a choice lacks a gender."""
        women = len(self.female.items)
        shares = [draws_of(self.female, counts[:, :women])[0], draws_of(self.male, counts[:, women:])[0]]
        return np.abs(shares[0] - shares[1]), np.full(
            len(counts), np.nan if self.chance is None else self.chance
        )


def with_gap(found: Readings) -> Readings:
    """With the answers of both genders behind their gap, where they were kept."""
    gap = found["gap"]
    female, male = (found[gender].outcome for gender in GENDERS)
    if gap.value is None or not isinstance(female, MeanOutcome) or not isinstance(male, MeanOutcome):
        return found
    return {**found, "gap": replace(gap, outcome=GapOutcome(female, male, gap.chance))}
