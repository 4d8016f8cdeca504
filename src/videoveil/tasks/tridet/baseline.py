"""What can be scored without looking at a video: the level every detector has to leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from videoveil.errors import BadItems
from videoveil.tasks.tridet.records import Detections, DetectionVideo


def uniform_detections(
    train: Sequence[DetectionVideo], videos: Sequence[DetectionVideo], classes: Sequence[str]
) -> list[Detections]:
    """Segments of each class's median training length, end to end over every video; the score is how common it is.

    Knows only the training labels and the durations of the videos, so its mAP is the chance level of the data.
    """
    lengths: dict[str, list[float]] = {label: [] for label in classes}
    for video in train:
        for s in video.segments:
            lengths[s.label].append(float(s.end - s.start))
    total = sum(map(len, lengths.values()))
    if not total:
        raise BadItems("no training video has an action, so there is no length to tile with")
    found = []
    for video in videos:
        segments, labels, scores = [], [], []
        for number, label in enumerate(classes):
            if lengths[label]:
                tiles = _tiles(float(video.duration), median(lengths[label]))
                segments.append(tiles)
                labels += [number] * len(tiles)
                scores += [len(lengths[label]) / total] * len(tiles)
        order = np.argsort(-np.array(scores), kind="stable")
        rows = np.concatenate(segments)[order]
        found.append(
            Detections(
                video.id, tuple(classes), rows, np.array(labels, np.int64)[order], np.array(scores)[order]
            )
        )
    return found


def _tiles(duration: float, length: float) -> np.ndarray:
    """[0, length], [length, 2·length], … up to the end of the video, (n, 2)."""
    starts = np.arange(max(1, int(duration // length))) * length
    return np.stack((starts, np.minimum(starts + length, duration)), 1)
