"""Frame-level truth of the anomaly sets as 0/1 vectors."""

from __future__ import annotations

import numpy as np

from videoveil.data.records import Item
from videoveil.errors import AnnotationError

TOLERANCE = 64  # frames by which annotations may overshoot the video before something must be wrong


def frame_truth(item: Item, frames: int) -> np.ndarray:
    """(frames,) float32 with 1 in every abnormal frame.

    Spans beyond the end are cut, as the papers do. Where the truth came as a mask that is shorter than the video
    (ShanghaiTech), its last value goes on to the end.
    """
    if item.anomaly and not item.anomaly_spans:
        raise AnnotationError(f"{item.id}: abnormal, but nothing says which frames are (a training video?)")
    truth = np.zeros(frames, dtype=np.float32)
    for span in item.anomaly_spans:
        truth[span.first : min(span.stop, frames)] = 1
    known = int(item.extra.get("mask_frames", frames))
    if 0 < known < frames:
        truth[known:] = truth[known - 1]
    return truth


def check_truth(item: Item, frames: int) -> None:
    """An abnormal test video must have an abnormal frame, a normal one none, and annotations must fit the video."""
    truth = frame_truth(item, frames)
    if bool(truth.any()) != bool(item.anomaly):
        word = "abnormal" if item.anomaly else "normal"
        raise AnnotationError(
            f"{item.id}: {word}, but {int(truth.sum())} of its {frames} frames are marked abnormal"
        )
    marked = max((span.stop for span in item.anomaly_spans), default=0)
    last = max(marked, int(item.extra.get("mask_frames", 0)))
    if last > frames + TOLERANCE:
        raise AnnotationError(
            f"{item.id}: annotated up to frame {last}, the video has {frames}; is it the whole video at its own rate?"
        )
