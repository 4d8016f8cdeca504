"""Detection mAP over temporal IoU, as in the ActivityNet challenge.

Shapes: P predictions and G true segments of one class in one video, H thresholds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from videoveil.data.records import Segment
from videoveil.errors import AnnotationError
from videoveil.tasks.tridet.records import Detections, DetectionVideo

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)
SAME_TIME = 1e-3  # seconds; annotations of one label that differ by no more are one annotation


@dataclass(frozen=True)
class DetectionScores:
    """Average precision of every class that occurs in the truth, at every threshold."""

    thresholds: tuple[float, ...]
    classes: tuple[str, ...]
    precision: np.ndarray  # (classes, H)

    @property
    def at(self) -> dict[float, float]:
        """mAP per threshold."""
        return dict(zip(self.thresholds, self.precision.mean(0).tolist()))

    @property
    def mean(self) -> float:
        """mAP averaged over the thresholds: the figure papers quote."""
        return float(self.precision.mean())

    def per_class(self) -> dict[str, float]:
        """AP of every class, averaged over the thresholds."""
        return dict(zip(self.classes, self.precision.mean(1).tolist()))

    def to_json(self) -> dict[str, Any]:
        return {
            "mAP": self.mean,
            "mAP_at": {f"{threshold:g}": value for threshold, value in self.at.items()},
            "AP": self.per_class(),
        }


def temporal_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IoU of segments (P, 2) and (G, 2) → (P, G); 0 where both are empty."""
    shared = np.minimum(a[:, None, 1], b[None, :, 1]) - np.maximum(a[:, None, 0], b[None, :, 0])
    shared = shared.clip(min=0)
    union = (a[:, 1] - a[:, 0])[:, None] + (b[:, 1] - b[:, 0])[None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def without_doubles(segments: Sequence[Segment]) -> list[Segment]:
    """Segments of one video without empty ones and without repetitions of an earlier one (both ends within 1e-3 s)."""
    kept: list[Segment] = []
    for s in segments:
        again = any(
            k.label == s.label and abs(k.start - s.start) <= SAME_TIME and abs(k.end - s.end) <= SAME_TIME
            for k in kept
        )
        if s.end > s.start and not again:
            kept.append(s)
    return kept


def interpolated_precision(hits: np.ndarray, truths: int) -> float:
    """Area under the precision-recall curve as in VOC 2011.

    `hits` (P,) bool, the most certain first. Precision is replaced by the highest precision at any greater recall,
    and summed over the steps of recall.
    """
    right = np.cumsum(hits)
    precision = np.concatenate(([0.0], right / np.arange(1, len(hits) + 1), [0.0]))
    recall = np.concatenate(([0.0], right / truths, [1.0]))
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(recall) * precision[1:]))


def match(predicted: np.ndarray, true: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """Which predictions of one class in one video are right, (H, P) bool; predictions come the most certain first.

    At each threshold for itself, a prediction takes the free true segment that it overlaps most, if by enough.
    """
    hits = np.zeros((len(thresholds), len(predicted)), dtype=bool)
    iou = temporal_iou(predicted, true)  # (P, G)
    for row, threshold in enumerate(thresholds):
        free = np.ones(len(true), dtype=bool)
        for p in np.flatnonzero((iou >= threshold).any(1)):
            best = int(np.argmax(np.where(free, iou[p], -1.0)))
            if free[best] and iou[p, best] >= threshold:
                free[best], hits[row, p] = False, True
    return hits


def average_precision(
    predictions: Mapping[str, tuple[np.ndarray, np.ndarray]],
    truth: Mapping[str, np.ndarray],
    thresholds: Sequence[float] = THRESHOLDS,
) -> np.ndarray:
    """AP of one class at every threshold, (H,).

    `predictions`: per video segments (P, 2) and scores (P,). `truth`: per video segments (G, 2). A prediction in a
    video without this class is wrong. Equal scores are ordered by video and time, never by the order of the input.
    """
    hits, scores = [np.zeros((len(thresholds), 0), dtype=bool)], [np.zeros(0)]
    for video in sorted(predictions):
        segments, certain = predictions[video]
        order = np.lexsort((segments[:, 1], segments[:, 0], -certain))
        segments, certain = segments[order], certain[order]
        hits.append(match(segments, truth.get(video, np.zeros((0, 2))), thresholds))
        scores.append(certain)
    order = np.argsort(-np.concatenate(scores), kind="stable")
    total = sum(len(segments) for segments in truth.values())
    return np.array([interpolated_precision(row, total) for row in np.concatenate(hits, 1)[:, order]])


def evaluate(
    detections: Sequence[Detections],
    truth: Mapping[str, Sequence[Segment]],
    thresholds: Sequence[float] = THRESHOLDS,
) -> DetectionScores:
    """mAP of detections against the true segments of every test video.

    Classes that do not occur in the truth are left out, as are empty and repeated annotations. A class without
    predictions scores 0. Detections in videos that are not in `truth` count as wrong.
    """
    true: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    for video, segments in truth.items():
        for label in {s.label for s in segments}:
            rows = [(float(s.start), float(s.end)) for s in without_doubles(segments) if s.label == label]
            if rows:
                true[label][video] = np.array(rows)
    if not true:
        raise AnnotationError("nothing to score against: no test video has an action that lasts")
    found: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = defaultdict(dict)
    for one in detections:
        for number in np.unique(one.labels).tolist():
            mine = one.labels == number
            found[one.classes[number]][one.video] = one.segments[mine], one.scores[mine]
    classes = tuple(sorted(true))
    precision = [average_precision(found[label], true[label], thresholds) for label in classes]
    return DetectionScores(tuple(thresholds), classes, np.stack(precision))


def truth_of(videos: Sequence[DetectionVideo]) -> dict[str, tuple[Segment, ...]]:
    """The true segments of videos, as `evaluate` wants them."""
    return {video.id: video.segments for video in videos}
