"""What an attacker is to find: attributes (n, k) of 0, 1 and NaN, or one class (n,) per row; NaN is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from videoveil.attacks.metrics import attribute_report, class_report
from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class Data:
    """Features with their targets, checked."""

    x: np.ndarray  # (n, d) float64
    y: np.ndarray  # (n, k) float64 of 0, 1, NaN; or (n,) float64 of class labels, all known
    classes: np.ndarray | None  # (C,) the labels of the columns of scores; None for attributes

    @property
    def columns(self) -> int:
        return self.y.shape[1] if self.classes is None else len(self.classes)

    @property
    def codes(self) -> np.ndarray:
        """(n,) position of every row's class among `classes`; −1 for a class that is not there."""
        assert self.classes is not None
        place = np.searchsorted(self.classes, self.y).clip(max=len(self.classes) - 1)
        return np.where(self.classes[place] == self.y, place, -1)

    def quality(self, scores: np.ndarray) -> float:
        """Mean average precision of scores (n, columns), by which attackers choose; −1 where it is not defined."""
        if not np.isfinite(scores).all():
            return -1.0
        if self.classes is None:
            found = attribute_report(self.y, scores).cmap
            return -1.0 if found is None else found
        return class_report(self.y, scores, self.classes).macro_ap


def together(data: Data, validation: Data | None) -> Data:
    """Training and validation rows as one: what an attacker learns from once everything has been chosen."""
    if validation is None:
        return data
    known = np.full(len(validation.x), True) if data.classes is None else validation.codes >= 0
    x, y = validation.x[known], validation.y[known]
    return Data(np.concatenate((data.x, x)), np.concatenate((data.y, y)), data.classes)


def as_features(x: Any, width: int | None = None) -> np.ndarray:
    """(n, d) float64, finite."""
    if hasattr(x, "detach"):
        x = x.detach().cpu().numpy()
    features = np.asarray(x, dtype=np.float64)
    if features.ndim != 2 or not features.shape[1] or (width is not None and features.shape[1] != width):
        raise UsageError(f"attack: features must be (n, {width or 'd'}), not {features.shape}")
    bad = np.flatnonzero(~np.isfinite(features).all(1))
    if len(bad):
        raise UsageError(
            f"attack: features of {len(bad)} rows are NaN or infinite, the first is row {bad[0]}"
        )
    return features


def prepare(x: Any, y: Any, like: Data | None = None) -> Data:
    """Check features and targets; `like`: the training data that validation data must fit."""
    features = as_features(x, None if like is None else like.x.shape[1])
    if hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    targets = np.asarray(y, dtype=np.float64)
    if targets.ndim not in (1, 2) or len(targets) != len(features):
        raise UsageError(f"attack: {len(features)} features need targets (n, k) or (n,), not {targets.shape}")
    if like is not None and targets.ndim != like.y.ndim:
        raise UsageError("attack: training and validation targets must both be attributes or both be classes")
    if targets.ndim == 2:
        return _attributes(features, targets, like)
    return _classes(features, targets, like)


def _attributes(features: np.ndarray, targets: np.ndarray, like: Data | None) -> Data:
    strange = ~np.isnan(targets) & (targets != 0) & (targets != 1)
    if strange.any():
        raise UsageError(f"attack: an attribute is 0, 1 or NaN (unknown), not {targets[strange][0]:g}")
    if not targets.shape[1] or (like is not None and targets.shape[1] != like.columns):
        raise UsageError(f"attack: targets {targets.shape} have the wrong number of attributes")
    if like is None and np.isnan(targets).all(0).any():
        column = int(np.flatnonzero(np.isnan(targets).all(0))[0])
        raise UsageError(f"attack: no training row knows attribute {column}; leave it out")
    return Data(features, targets, None)


def _classes(features: np.ndarray, targets: np.ndarray, like: Data | None) -> Data:
    known = ~np.isnan(targets) & (targets >= 0)
    features, targets = features[known], targets[known]
    if not len(targets):
        raise UsageError("attack: no row has a known class")
    classes = np.unique(targets) if like is None else like.classes
    assert classes is not None
    if like is None and len(classes) < 2:
        raise UsageError("attack: all training rows are of one class; there is nothing to tell apart")
    return Data(features, targets, classes)
