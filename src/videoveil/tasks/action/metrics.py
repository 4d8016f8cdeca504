"""What predictions of whole videos are worth: accuracies for one class per video, cMAP for tags.

Shapes: n videos, C classes or k tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from videoveil.tasks.base import Metric, Score
from videoveil.tasks.metrics import average_precision
from videoveil.tasks.targets import Targets

GUESS = "always the classes that are commonest in training"
BLIND = "a random order of the videos: the share of videos with the tag"


@dataclass(frozen=True)
class Prior:
    """How common every class or tag was in training; all that a blind guess knows."""

    shares: tuple[float, ...]

    @classmethod
    def of(cls, targets: Targets) -> Prior:
        if targets.several:
            return cls(tuple(targets.values.mean(0).tolist()))
        counts = np.bincount(targets.values, minlength=len(targets.names))
        return cls(tuple((counts / counts.sum()).tolist()))

    def commonest(self, count: int) -> np.ndarray:
        """The `count` most common classes, the first of equals first."""
        return np.argsort(-np.array(self.shares), kind="stable")[:count]


def rank_of_truth(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """(n, C), (n,) → (n,): how many classes are at least as probable as the true one; 0 means it is the answer.

    A class that ties with the true one counts against it, so a model that answers the same for all gains nothing.
    """
    own = probabilities[np.arange(len(truth)), truth][:, None]
    return (probabilities >= own).sum(1) - 1


def score_classes(task: str, probabilities: np.ndarray, targets: Targets, prior: Prior) -> Score:
    """Top-1, top-5 and the mean over classes of their accuracies."""
    truth, names = targets.values, targets.names
    rank = rank_of_truth(probabilities, truth)
    right = rank == 0
    present = sorted(set(truth.tolist()))
    own = {number: float(right[truth == number].mean()) for number in present}
    few = min(5, len(names))
    metrics = (
        Metric("top1", float(right.mean()), float(np.isin(truth, prior.commonest(1)).mean())),
        Metric("top5", float((rank < few).mean()), float(np.isin(truth, prior.commonest(few)).mean())),
        Metric("mean_per_class", float(np.mean(list(own.values()))), 1 / len(present)),
    )
    per_class = {
        names[number]: {"accuracy": own[number], "videos": float((truth == number).sum())}
        for number in present
    }
    return Score(task, len(truth), metrics, per_class, GUESS)


def score_tags(task: str, probabilities: np.ndarray, targets: Targets) -> Score:
    """cMAP: the mean over tags of average precision; tags that no test video has are left out and named."""
    precision: dict[str, float | None] = {
        name: average_precision(targets.values[:, tag], probabilities[:, tag])
        for tag, name in enumerate(targets.names)
    }
    share = dict(zip(targets.names, targets.values.mean(0).tolist()))
    defined = [name for name, value in precision.items() if value is not None]
    cmap = float(np.mean([precision[name] for name in defined])) if defined else None  # type: ignore[arg-type]
    chance = float(np.mean([share[name] for name in defined])) if defined else None
    per_class: dict[str, dict[str, float | None]] = {
        name: {"ap": precision[name], "chance": share[name]} for name in targets.names
    }
    return Score(task, len(targets.values), (Metric("cmap", cmap, chance),), per_class, BLIND)


def score(task: str, probabilities: np.ndarray, targets: Targets, prior: Prior) -> Score:
    """The metrics that fit the kind of label."""
    if targets.several:
        return score_tags(task, probabilities, targets)
    return score_classes(task, probabilities, targets, prior)


def top(probabilities: Sequence[float], names: Sequence[str], count: int = 5) -> list[tuple[str, float]]:
    """The most probable names, the first of equals first."""
    order = np.argsort(-np.asarray(probabilities), kind="stable")[:count]
    return [(names[i], float(probabilities[i])) for i in order]
