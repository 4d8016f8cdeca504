"""Detected actions as an outcome: mean average precision over temporal IoU, measured again on any choice of videos.

Which predictions are right is decided inside a video, so it is decided once. What changes with the choice is how the
predictions of all videos, ordered by certainty, run into each other. The figure is equal to what `tridet.evaluate` says
of the videos written out one by one. Chance is the same figure of segments that are laid end to end without a look at
the video.

Shapes: n videos, m predictions, C classes that occur in the truth, H thresholds, B draws.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from videoveil import files
from videoveil.errors import AnnotationError, StoreError
from videoveil.tasks.outcomes import Measure, weights
from videoveil.tasks.tridet import Detections, DetectionVideo
from videoveil.tasks.tridet.evaluation import THRESHOLDS, match, without_doubles


@dataclass(frozen=True)
class Predictions:
    """All predictions of all videos, the most certain first."""

    rows: np.ndarray  # (m,) which video
    labels: np.ndarray  # (m,) which class
    scores: np.ndarray  # (m,) how certain
    hits: np.ndarray  # (m, H) bool: right at this threshold
    _classes: dict[int, _Ordered] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        made = {int(label): _Ordered.of(self, int(label)) for label in np.unique(self.labels)}
        object.__setattr__(self, "_classes", made)

    def right(self, label: int, counts: np.ndarray) -> np.ndarray:
        """counts (n,), how often each video is taken → (H, p), the predictions of one class in order."""
        one = self._classes.get(label)
        return np.zeros((self.hits.shape[1], 0)) if one is None else one.taken(counts)


@dataclass(frozen=True)
class _Ordered:
    """The predictions of one class. Those of one video that are equally certain are a run: a video that is taken twice
    has every run twice, one after the other."""

    hits: np.ndarray  # (H, p) of 0 and 1
    starts: np.ndarray  # (r,) where every run begins
    lengths: np.ndarray  # (r,)
    videos: np.ndarray  # (r,)

    @classmethod
    def of(cls, every: Predictions, label: int) -> _Ordered:
        mine = np.flatnonzero(every.labels == label)
        rows, scores = every.rows[mine], every.scores[mine]
        new = np.flatnonzero((np.diff(rows) != 0) | (np.diff(scores) != 0)) + 1
        starts = np.concatenate(([0], new))
        hits = np.ascontiguousarray(every.hits[mine].T, dtype=np.float64)
        return cls(hits, starts, np.diff(np.append(starts, len(mine))), rows[starts])

    def taken(self, counts: np.ndarray) -> np.ndarray:
        runs = np.repeat(np.arange(len(self.starts)), counts[self.videos])
        lengths = self.lengths[runs]
        before = np.cumsum(lengths) - lengths
        places = np.repeat(self.starts[runs] - before, lengths) + np.arange(int(lengths.sum()))
        return np.asarray(self.hits[:, places])


@dataclass(frozen=True)
class DetectionOutcome:
    """What a detector found, and what laying segments end to end would find."""

    items: tuple[str, ...]
    classes: tuple[str, ...]
    truths: np.ndarray  # (n, C) true segments of every video
    found: Predictions
    blind: Predictions
    metric: str = "map"

    def measure(self, chosen: np.ndarray | None = None) -> Measure:
        values, chances = self.draws(weights(chosen, len(self.items))[None])
        return Measure(*(None if np.isnan(part[0]) else float(part[0]) for part in (values, chances)))

    def draws(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """counts (B, n), how often each video is taken → mAP (B,) and its chance; NaN where no action is there."""
        whole = counts.astype(np.int64)
        both = (np.array([self._mean(one, row) for row in whole]) for one in (self.found, self.blind))
        return next(both), next(both)

    def _mean(self, predictions: Predictions, counts: np.ndarray) -> float:
        """The mean over thresholds, and over the classes that the videos taken have."""
        total = counts @ self.truths  # (C,)
        there = np.flatnonzero(total)
        each = [_precision(predictions.right(label, counts), total[label]) for label in there.tolist()]
        return float(np.mean(each)) if each else float("nan")


def _precision(hits: np.ndarray, truths: float) -> float:
    """(H, p) of 0 and 1, the most certain first → average precision as in VOC 2011, the mean over thresholds.

    Each right prediction counts with the best precision from there on, and for one of so many true segments.
    """
    precision = np.cumsum(hits, 1) / np.arange(1, hits.shape[1] + 1)
    best = np.maximum.accumulate(precision[:, ::-1], 1)[:, ::-1]
    return float((hits * best).sum(1).mean() / truths)


def of_detections(
    found: Sequence[Detections],
    blind: Sequence[Detections],
    videos: Sequence[DetectionVideo],
    thresholds: Sequence[float] = THRESHOLDS,
) -> DetectionOutcome:
    """The outcome of a detector beside that of a blind one on the same test videos."""
    ordered = sorted(videos, key=lambda video: video.id)
    truth = [
        [(s.label, (float(s.start), float(s.end))) for s in without_doubles(v.segments)] for v in ordered
    ]
    classes = tuple(sorted({label for own in truth for label, _ in own}))
    if not classes:
        raise AnnotationError("nothing to score against: no test video has an action that lasts")
    true = [
        {label: np.array([ends for name, ends in own if name == label]).reshape(-1, 2) for label in classes}
        for own in truth
    ]
    counts = np.array([[len(own[label]) for label in classes] for own in true], dtype=np.float64)
    places = {video.id: place for place, video in enumerate(ordered)}
    both = (_predictions(one, places, true, classes, thresholds) for one in (found, blind))
    return DetectionOutcome(tuple(places), classes, counts, next(both), next(both))


def _predictions(
    detections: Sequence[Detections],
    places: Mapping[str, int],
    true: Sequence[Mapping[str, np.ndarray]],
    classes: Sequence[str],
    thresholds: Sequence[float],
) -> Predictions:
    """Matched inside every video; equal scores are ordered by video and time, as in `tridet.evaluate`."""
    rows: list[int] = []
    labels: list[int] = []
    scores = [np.zeros(0)]
    hits = [np.zeros((0, len(thresholds)), dtype=bool)]
    for one in sorted(detections, key=lambda own: own.video):
        for label in np.unique(one.labels).tolist():
            if one.classes[label] not in classes:
                continue
            mine = np.flatnonzero(one.labels == label)
            segments, certain = one.segments[mine], one.scores[mine]
            order = np.lexsort((segments[:, 1], segments[:, 0], -certain))
            place = places[one.video]
            hits.append(match(segments[order], true[place][one.classes[label]], thresholds).T)
            scores.append(certain[order])
            rows += [place] * len(mine)
            labels += [classes.index(one.classes[label])] * len(mine)
    certain = np.concatenate(scores)
    order = np.argsort(-certain, kind="stable")
    numbers = (np.array(part, dtype=np.int64)[order] for part in (rows, labels))
    return Predictions(next(numbers), next(numbers), certain[order], np.concatenate(hits)[order])


# --- on disk ------------------------------------------------------------------------------------------------

_PARTS = ("rows", "labels", "scores", "hits")


def save(destination: str | Path, outcomes: Mapping[str, DetectionOutcome]) -> None:
    """Outcomes by name in one file of plain arrays; whole or not at all."""
    arrays: dict[str, Any] = {"names": np.array(list(outcomes), dtype=np.str_)}
    for place, one in enumerate(outcomes.values()):
        arrays[f"{place}.items"] = np.array(one.items, dtype=np.str_)
        arrays[f"{place}.classes"] = np.array(one.classes, dtype=np.str_)
        arrays[f"{place}.truths"] = one.truths
        for who in ("found", "blind"):
            arrays |= {f"{place}.{who}.{part}": getattr(getattr(one, who), part) for part in _PARTS}
    with files.atomic_path(destination) as temporary, open(temporary, "wb") as handle:
        np.savez(handle, allow_pickle=False, **arrays)


def load(source: str | Path) -> dict[str, DetectionOutcome]:
    """What `save` wrote; numbers come back bit for bit."""
    try:
        with np.load(source, allow_pickle=False) as stored:
            return {str(name): _restore(stored, place) for place, name in enumerate(stored["names"])}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StoreError(
            f"{source}: not the outcomes of a detector ({error}); delete it to measure again"
        ) from error


def _restore(stored: Any, place: int) -> DetectionOutcome:
    names = (tuple(str(one) for one in stored[f"{place}.{part}"]) for part in ("items", "classes"))
    both = (Predictions(*(stored[f"{place}.{who}.{part}"] for part in _PARTS)) for who in ("found", "blind"))
    return DetectionOutcome(next(names), next(names), stored[f"{place}.truths"], next(both), next(both))
