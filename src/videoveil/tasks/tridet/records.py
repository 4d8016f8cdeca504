"""What goes into the detector and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from videoveil.data.records import Segment


@dataclass(frozen=True)
class DetectionVideo:
    """One untrimmed video as a sequence of features, with its actions where they are known.

    Feature i covers the frames `[i·feat_stride, i·feat_stride + num_frames)` of a video of `fps` frames per second.
    """

    id: str
    features: (
        np.ndarray | Callable[[], np.ndarray]
    )  # (T, D) float32, or a function that reads them when needed
    fps: Fraction
    feat_stride: int
    num_frames: int
    duration: Fraction  # seconds
    segments: tuple[Segment, ...] = ()

    def array(self) -> np.ndarray:
        """The features, (T, D)."""
        return self.features() if callable(self.features) else self.features


@dataclass(frozen=True, slots=True)
class Detection:
    """One action found in a video, in seconds."""

    video: str
    label: str
    start: float
    end: float
    score: float


@dataclass(frozen=True)
class Detections:
    """Everything found in one video, the most certain first. n actions."""

    video: str
    classes: tuple[str, ...]
    segments: np.ndarray  # (n, 2) float64, seconds
    labels: np.ndarray  # (n,) int64, indices into classes
    scores: np.ndarray  # (n,) float64

    def __len__(self) -> int:
        return len(self.scores)

    def __iter__(self) -> Iterator[Detection]:
        for (start, end), label, score in zip(
            self.segments.tolist(), self.labels.tolist(), self.scores.tolist()
        ):
            yield Detection(self.video, self.classes[label], start, end, score)

    @classmethod
    def collect(cls, video: str, classes: tuple[str, ...], found: list[Detection]) -> Detections:
        """Single detections of one video as one record; ties keep their order."""
        found = sorted(found, key=lambda d: -d.score)
        numbers = {label: number for number, label in enumerate(classes)}
        return cls(
            video,
            classes,
            np.array([(d.start, d.end) for d in found], dtype=np.float64).reshape(-1, 2),
            np.array([numbers[d.label] for d in found], dtype=np.int64),
            np.array([d.score for d in found], dtype=np.float64),
        )
