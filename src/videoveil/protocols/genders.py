"""Gender bias: how a biased training set is made up, and how well a probe does on either gender.

NTU-Bias-F and -M are made by `data.ntu60` (options `bias=F`, `bias=M`); `composition` counts what came out of it, to
the item, and `problems` says what is not as the paper describes. On Toyota Smarthome nothing is taken out: its natural
imbalance is kept, and only people must not be in both parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from videoveil.data.ntu60 import KEEP_FEW, KEEP_MANY
from videoveil.data.records import Dataset
from videoveil.errors import AnnotationError
from videoveil.protocols.base import Reading

if TYPE_CHECKING:
    from videoveil.tasks.action.probe import FittedProbe
    from videoveil.tasks.base import Features

GENDERS = ("female", "male")


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

    A gap is never below 0, so chance alone makes one; a difference says who is better off.

    The chance level is that of always answering with the commonest class of the training set.
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
    return gap_of(right, usual, np.array([item.gender for item in data.items]), labels)


def gap_of(
    right: np.ndarray, usual: np.ndarray, genders: np.ndarray, labels: np.ndarray
) -> dict[str, Reading]:
    """From answers (n,) that are right, and those that a blind guess gets right."""
    found = {}
    for gender in GENDERS:
        own = genders == gender
        value = float(right[own].mean()) if own.any() else None
        found[gender] = Reading(value, float(usual[own].mean()) if own.any() else None)
    female, male = found["female"].value, found["male"].value
    gap = None if female is None or male is None else abs(female - male)
    per_class = [float(right[labels == one].mean()) for one in np.unique(labels)]
    return {
        **found,
        "overall": Reading(float(right.mean()), float(usual.mean())),
        "gap": Reading(gap),
        "difference": Reading(None if female is None or male is None else male - female),
        "mean_per_class": Reading(float(np.mean(per_class)), 1 / len(per_class)),
    }
