"""Seconds ↔ feature steps. A step stands for the centre of its window: step i is at frame i·stride + window/2."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch

from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.records import DetectionVideo


def to_grid(seconds: Fraction, fps: Fraction, stride: int, window: int) -> Fraction:
    """(seconds·fps − window/2) / stride, exactly; below 0 for times before the centre of the first window."""
    return (seconds * fps - Fraction(window, 2)) / stride


def to_seconds(step: Fraction, fps: Fraction, stride: int, window: int) -> Fraction:
    """(step·stride + window/2) / fps, exactly: the inverse of `to_grid`."""
    return (step * stride + Fraction(window, 2)) / fps


def covered(video: DetectionVideo, steps: int) -> Fraction:
    """Seconds from the start of the video to the end of the last feature's window."""
    return Fraction((steps - 1) * video.feat_stride + video.num_frames) / video.fps


def target(video: DetectionVideo, classes: Sequence[str]) -> Target:
    """The actions of a video on its feature grid."""
    numbers = {label: number for number, label in enumerate(classes)}
    rows = [
        [float(to_grid(t, video.fps, video.feat_stride, video.num_frames)) for t in (s.start, s.end)]
        for s in video.segments
    ]
    labels = [numbers[s.label] for s in video.segments]
    return Target(
        torch.tensor(rows, dtype=torch.float32).reshape(-1, 2), torch.tensor(labels, dtype=torch.int64)
    )


def segments_in_seconds(steps: np.ndarray, video: DetectionVideo) -> np.ndarray:
    """Segments (n, 2) in feature steps → seconds, cut to the video."""
    seconds = (steps * video.feat_stride + 0.5 * video.num_frames) / float(video.fps)
    return np.clip(seconds, 0.0, float(video.duration))
