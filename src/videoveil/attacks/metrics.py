"""What an attacker's scores are worth, next to what a blind guess is worth.

Attributes: truth (n, k) of 0, 1 and NaN (unknown, left out), scores (n, k). Classes: truth (n,), scores (n, C).
Step-wise average precision throughout; a blind guess has the share of positives as its average precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from videoveil.errors import UsageError
from videoveil.tasks.metrics import average_precision

THRESHOLD = 0.5


def f1(truth: np.ndarray, predicted: np.ndarray) -> float | None:
    """2·TP / (2·TP + FP + FN) of truth (n,) and decisions (n,). None where neither has a 1."""
    positive, said = truth > 0, predicted > 0
    either = int(positive.sum() + said.sum())
    return 2 * int((positive & said).sum()) / either if either else None


@dataclass(frozen=True, slots=True)
class AttributeScore:
    """One attribute. None where the data does not define the value."""

    name: str
    known: int  # rows whose value is known
    chance: float | None  # share of positives: the average precision of a blind guess
    ap: float | None
    f1: float | None
    f1_chance: float | None  # of saying yes to everything


@dataclass(frozen=True, slots=True)
class AttributeReport:
    """All attributes and their unweighted means over those that are defined."""

    attributes: tuple[AttributeScore, ...]
    cmap: float | None
    chance: float | None
    f1: float | None
    f1_chance: float | None

    @property
    def score(self) -> float | None:
        """The one number by which attackers are compared."""
        return self.cmap

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ClassReport:
    """One label out of many, such as an identity."""

    rows: int
    classes: int  # classes that are there to be found
    accuracy: float
    accuracy_chance: float  # share of the most frequent class: the best constant answer
    macro_ap: float  # one class against the rest, unweighted mean over the classes that are there
    chance: float  # mean share of those classes

    @property
    def score(self) -> float:
        """The one number by which attackers are compared."""
        return self.macro_ap

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def attribute_report(
    truth: np.ndarray, scores: np.ndarray, names: Sequence[str] | None = None, threshold: float = THRESHOLD
) -> AttributeReport:
    """truth, scores (n, k): every attribute by the rows that know it. F1 is of the decision score > threshold."""
    if truth.ndim != 2 or truth.shape != scores.shape:
        raise UsageError(
            f"truth {truth.shape} and scores {scores.shape} must be two matrices (n, k) of one shape"
        )
    _check_finite(scores)
    names = names or [str(i) for i in range(truth.shape[1])]
    if len(names) != truth.shape[1]:
        raise UsageError(f"{len(names)} names for {truth.shape[1]} attributes")
    found = tuple(_attribute(n, t, s, threshold) for n, t, s in zip(names, truth.T, scores.T))
    defined = [a for a in found if a.ap is not None]
    return AttributeReport(
        found,
        cmap=_mean(a.ap for a in defined),
        chance=_mean(a.chance for a in defined),
        f1=_mean(a.f1 for a in defined),
        f1_chance=_mean(a.f1_chance for a in defined),
    )


def _attribute(name: str, truth: np.ndarray, scores: np.ndarray, threshold: float) -> AttributeScore:
    known = ~np.isnan(truth)
    truth, scores = truth[known], scores[known]
    if not len(truth):
        return AttributeScore(name, 0, None, None, None, None)
    ap = average_precision(truth, scores)
    everything = f1(truth, np.ones_like(truth))
    return AttributeScore(
        name, len(truth), float((truth > 0).mean()), ap, f1(truth, scores > threshold), everything
    )


def class_report(truth: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> ClassReport:
    """truth (n,), scores (n, C) of the given classes (C,); NaN and negative truths are unknown and left out.

    A class that the attacker has never seen cannot be named by it: its rows count as wrong, its average precision as
    that of a blind guess.
    """
    if truth.ndim != 1 or scores.shape != (len(truth), len(classes)):
        raise UsageError(
            f"truth {truth.shape} needs scores ({len(truth)}, {len(classes)}), not {scores.shape}"
        )
    _check_finite(scores)
    known = ~np.isnan(truth) & (truth >= 0)
    truth, scores = truth[known], scores[known]
    if not len(truth):
        raise UsageError("no row has a known class")
    there, counts = np.unique(truth, return_counts=True)
    columns = {label: scores[:, i] for i, label in enumerate(classes.tolist())}
    blind = np.zeros(len(truth))
    found = [average_precision(truth == label, columns.get(label, blind)) for label in there.tolist()]
    return ClassReport(
        rows=len(truth),
        classes=len(there),
        accuracy=float((classes[scores.argmax(1)] == truth).mean()),
        accuracy_chance=float(counts.max() / len(truth)),
        macro_ap=float(np.mean([ap for ap in found if ap is not None])),
        chance=float(np.mean(counts / len(truth))),
    )


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        raise UsageError("a score is NaN or infinite")


def _mean(values: Any) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None
