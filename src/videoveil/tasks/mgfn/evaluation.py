"""From snippet scores to frame scores, and what they are worth against the truth of the frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from videoveil.tasks.metrics import average_precision, pr_auc, roc_auc
from videoveil.tasks.mgfn.videos import AnomalyVideo, Inspector

ROC_CHANCE = 0.5


def frame_scores(snippet_scores: np.ndarray, frames_per_snippet: int) -> np.ndarray:
    """(T,) → (T · frames_per_snippet,): a snippet's score is the score of each of its frames."""
    return np.repeat(snippet_scores, frames_per_snippet)


def stretch(scores: np.ndarray, length: int) -> np.ndarray:
    """(m,) → (length,): TeD-SPAD's way out of a wrong length; scores[i] fills ⌊iρ+½⌋ … ⌊(i+1)ρ+½⌋−1, ρ = length/m.

    In integers: ⌊iρ + ½⌋ = (2·i·length + m) // (2·m).
    """
    m = len(scores)
    edges = (2 * length * np.arange(m + 1) + m) // (2 * m)
    return np.repeat(scores, np.diff(edges))


@dataclass(frozen=True, slots=True)
class Areas:
    """Frame-level areas with the levels of a blind guess; None where the frames do not define the area."""

    videos: int
    frames: int
    abnormal_frames: int
    roc_auc: float | None
    pr_auc: float | None
    ap: float | None
    roc_chance: float
    ap_chance: float  # share of abnormal frames


@dataclass(frozen=True, slots=True)
class ClassAreas:
    """One anomaly class."""

    against_normal: Areas  # its videos and all normal videos
    within: Areas  # its videos alone: does the score rise where the anomaly is?


@dataclass(frozen=True, slots=True)
class AnomalyReport:
    """All frames of all test videos pooled; the anomalous videos alone; and every class."""

    overall: Areas
    abnormal_only: Areas
    classes: Mapping[str, ClassAreas]

    def to_json(self) -> dict[str, Any]:
        return {
            "overall": asdict(self.overall),
            "abnormal_only": asdict(self.abnormal_only),
            "classes": {name: asdict(areas) for name, areas in self.classes.items()},
        }


@dataclass(frozen=True, slots=True)
class _Frames:
    """Truth and scores of one video's frames."""

    label: int
    classes: tuple[str, ...]
    truth: np.ndarray
    scores: np.ndarray


def evaluate(
    scores: Mapping[str, np.ndarray], videos: Iterable[AnomalyVideo], *, allow_length_mismatch: bool = False
) -> AnomalyReport:
    """Score snippet scores `id → (T,)` against the frames of `videos`, pooled over all of them.

    Every video needs its truth and its scores, of the right lengths; all that do not are listed. With
    `allow_length_mismatch` scores are stretched to the truth, as TeD-SPAD does.
    """
    inspector = Inspector(need_truth=True, any_length=allow_length_mismatch)
    missing: list[str] = []
    frames: list[_Frames] = []
    for video in videos:
        usable = inspector.admit(video)
        given = scores.get(video.id)
        if given is None:
            missing.append(f"{video.id}: no scores")
        elif given.shape != (video.snippets,) or not np.isfinite(given).all():
            missing.append(
                f"{video.id}: scores of shape {given.shape}, expected {video.snippets} finite ones"
            )
        elif usable and video.truth is not None:
            frames.append(_frames(video, given))
    extra = [] if missing else _absent_classes(frames)
    inspector.settle("anomaly evaluation", missing + extra)
    return _report(frames)


def _absent_classes(frames: list[_Frames]) -> list[str]:
    """The pooled ROC needs abnormal frames and normal ones."""
    there = {value for part in frames for value in np.unique(part.truth)}
    return [
        f"no frame of any video is {name}" for v, name in ((0, "normal"), (1, "anomalous")) if v not in there
    ]


def _frames(video: AnomalyVideo, scores: np.ndarray) -> _Frames:
    assert video.truth is not None
    predicted = frame_scores(scores, video.frames_per_snippet)
    if len(predicted) != len(video.truth):
        predicted = stretch(predicted, len(video.truth))
    return _Frames(video.label, video.classes, video.truth, predicted)


def _report(frames: list[_Frames]) -> AnomalyReport:
    normal = [part for part in frames if not part.label]
    abnormal = [part for part in frames if part.label]
    classes = {}
    for name in sorted({name for part in abnormal for name in part.classes}):
        own = [part for part in abnormal if name in part.classes]
        classes[name] = ClassAreas(against_normal=_areas(own + normal), within=_areas(own))
    return AnomalyReport(_areas(frames), _areas(abnormal), classes)


def _areas(frames: list[_Frames]) -> Areas:
    truth = np.concatenate([part.truth for part in frames])
    scores = np.concatenate([part.scores for part in frames])
    abnormal = int((truth != 0).sum())
    return Areas(
        videos=len(frames),
        frames=len(truth),
        abnormal_frames=abnormal,
        roc_auc=roc_auc(truth, scores),
        pr_auc=pr_auc(truth, scores),
        ap=average_precision(truth, scores),
        roc_chance=ROC_CHANCE,
        ap_chance=abnormal / len(truth),
    )
