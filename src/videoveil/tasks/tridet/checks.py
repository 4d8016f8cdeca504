"""Everything that can be wrong with the input, found before the first step and listed in full."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from videoveil.errors import BadItems
from videoveil.tasks.tridet.grid import covered
from videoveil.tasks.tridet.records import DetectionVideo

HELP = "`checks.cut_to_video` takes out annotations that lie outside their video"
GRACE = Fraction(
    1
)  # seconds by which an annotation may pass the end: durations are rounded, last windows cut


def feature_problems(video: DetectionVideo, features: np.ndarray, width: int | None = None) -> list[str]:
    """What keeps features from being used; `width` None accepts any."""
    if features.ndim != 2 or features.dtype.kind != "f":
        return [
            f"{video.id}: features are {features.dtype} {features.shape}, not numbers of shape (steps, width)"
        ]
    if len(features) == 0:
        return [f"{video.id}: no features (0 steps)"]
    found = [] if width is None else width_problems(video, features.shape, width)
    bad = np.flatnonzero(~np.isfinite(features).all(1))
    if len(bad):
        found.append(
            f"{video.id}: {len(bad)} of {len(features)} steps have NaN or infinite values, first {bad[0]}"
        )
    return found


def width_problems(video: DetectionVideo, shape: tuple[int, ...], width: int) -> list[str]:
    """Features that another network would be needed for."""
    return [] if shape[1] == width else [f"{video.id}: features are {shape[1]} wide instead of {width}"]


def end_of(video: DetectionVideo, steps: int) -> Fraction:
    """Where annotations may end: the stated duration, or the end of the features where that comes first."""
    return min(video.duration, covered(video, steps) + Fraction(video.feat_stride) / video.fps)


def segment_problems(video: DetectionVideo, steps: int, classes: Sequence[str]) -> list[str]:
    """Actions that are unknown, empty or outside the video or its features."""
    found = []
    end = end_of(video, steps)
    for s in video.segments:
        text = f"{video.id}: {s.label} from {float(s.start):g} to {float(s.end):g} s"
        if s.label not in classes:
            found.append(f"{text} is not one of the {len(classes)} classes")
        if s.end <= s.start:
            found.append(f"{text} ends before it starts")
        elif s.start < 0 or s.end > end + GRACE:
            found.append(
                f"{text} is outside the video, which has {float(video.duration):g} s and features to {float(end):g} s"
            )
    return found


def clock_problems(video: DetectionVideo) -> list[str]:
    """A grid that has no meaning."""
    names = ("fps", "feat_stride", "num_frames", "duration")
    return [
        f"{video.id}: {name}={getattr(video, name)} must be above 0"
        for name in names
        if getattr(video, name) <= 0
    ]


def check(
    videos: Sequence[DetectionVideo],
    classes: Sequence[str],
    *,
    width: int | None = None,
    segments: bool = True,
) -> int:
    """The width of the features of sound videos; otherwise `BadItems` with every offender. Reads all features once.

    Without `width` the most common one is taken to be right. `segments=False` leaves the annotations alone.
    """
    if not videos:
        raise BadItems("no videos to work on; the split is empty or nothing was extracted")
    counts = Counter(video.id for video in videos)
    found = [f"{name}: {count} videos have this id" for name, count in counts.items() if count > 1]
    found += [f"class {name!r} is listed {n} times" for name, n in Counter(classes).items() if n > 1]
    shapes: list[tuple[DetectionVideo, tuple[int, ...]]] = []
    for video in videos:
        features = video.array()
        problems = feature_problems(video, features)
        clock = clock_problems(video)
        found += problems + clock
        if features.ndim == 2 and len(features):
            shapes.append((video, features.shape))
            if segments and not clock:
                found += segment_problems(video, len(features), classes)
    wide = width or _most_common([shape[1] for _, shape in shapes])
    found += [problem for video, shape in shapes for problem in width_problems(video, shape, wide)]
    if segments and not any(video.segments for video in videos):
        found.append("none of the videos has an action")
    if found:
        raise BadItems(f"{len(found)} things must be put right first ({HELP}):", found)
    return wide


def _most_common(values: list[int]) -> int:
    return Counter(values).most_common(1)[0][0] if values else 0


def cut_to_video(videos: Sequence[DetectionVideo]) -> tuple[list[DetectionVideo], list[str]]:
    """Videos without what lies outside them, and a note on every change.

    The public THUMOS14 file has such annotations in two training and three test videos. Actions that begin after the
    end are dropped, those that pass it are shortened.
    """
    kept, notes = [], []
    for video in videos:
        end = end_of(video, len(video.array()))
        segments = []
        for s in video.segments:
            text = f"{video.id}: {s.label} from {float(s.start):g} to {float(s.end):g} s"
            if s.start >= end or s.end <= 0:
                notes.append(f"{text} dropped, the end is at {float(end):g} s")
                continue
            if s.end > end + GRACE:
                notes.append(f"{text} shortened to {float(end):g} s")
                s = dataclasses.replace(s, end=end)
            segments.append(s)
        kept.append(dataclasses.replace(video, segments=tuple(segments)))
    return kept, notes
