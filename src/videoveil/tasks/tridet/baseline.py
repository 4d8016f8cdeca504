"""What can be scored without looking at a video: the level every detector has to leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from videoveil.errors import BadItems
from videoveil.tasks.tridet.records import Detections, DetectionVideo


@dataclass(frozen=True)
class Tiling:
    """Of every class the median length of its actions in training, in seconds, and how common it is; 0 if unseen."""

    classes: tuple[str, ...]
    lengths: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, train: Sequence[DetectionVideo], classes: Sequence[str]) -> Tiling:
        lengths: dict[str, list[float]] = {label: [] for label in classes}
        for video in train:
            for s in video.segments:
                lengths[s.label].append(float(s.end - s.start))
        total = sum(map(len, lengths.values()))
        if not total:
            raise BadItems("no training video has an action, so there is no length to tile with")
        return cls(
            tuple(classes),
            tuple(median(lengths[label]) if lengths[label] else 0.0 for label in classes),
            tuple(len(lengths[label]) / total for label in classes),
        )

    def detections(self, videos: Sequence[DetectionVideo]) -> list[Detections]:
        """Segments of each class's median length, end to end over every video; the score is how common it is."""
        return [self._tile(video) for video in videos]

    def _tile(self, video: DetectionVideo) -> Detections:
        segments, labels, scores = [np.zeros((0, 2))], [], []
        for number, (length, share) in enumerate(zip(self.lengths, self.shares)):
            if length > 0:
                tiles = _tiles(float(video.duration), length)
                segments.append(tiles)
                labels += [number] * len(tiles)
                scores += [share] * len(tiles)
        order = np.argsort(-np.array(scores), kind="stable")
        rows = np.concatenate(segments)[order]
        numbers, certain = np.array(labels, np.int64)[order], np.array(scores)[order]
        return Detections(video.id, self.classes, rows, numbers, certain)


def uniform_detections(
    train: Sequence[DetectionVideo], videos: Sequence[DetectionVideo], classes: Sequence[str]
) -> list[Detections]:
    """Knows only the training labels and the durations of the videos, so its mAP is the chance level of the data."""
    return Tiling.of(train, classes).detections(videos)


def _tiles(duration: float, length: float) -> np.ndarray:
    """[0, length], [length, 2·length], … up to the end of the video, (n, 2)."""
    starts = np.arange(max(1, int(duration // length))) * length
    return np.stack((starts, np.minimum(starts + length, duration)), 1)
