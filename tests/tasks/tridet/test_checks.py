"""Input that cannot be learnt from is refused before the first step, all of it at once."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from videoveil.data.records import Segment
from videoveil.errors import BadItems
from videoveil.tasks.tridet import DetectionVideo, fit
from videoveil.tasks.tridet.checks import check, cut_to_video

from .make import CLASSES, SMALL, some_video, some_videos


def changed(number: int, **changes: Any) -> DetectionVideo:
    return dataclasses.replace(some_video(number), **changes)


def with_segment(number: int, label: str, start: float, end: float) -> DetectionVideo:
    return changed(number, segments=(Segment(label, Fraction(start), Fraction(end)),))


def test_sound_videos_give_their_width() -> None:
    assert check(some_videos(3), CLASSES) == 12


def test_every_offender_is_listed_with_its_reason_before_training_starts() -> None:
    hurt = some_video(3).array().copy()
    hurt[[4, 9], 0] = np.nan, np.inf
    videos = [
        *some_videos(2),
        changed(2, features=np.zeros((0, 12), np.float32)),
        changed(3, features=hurt),
        changed(4, features=some_video(4).array()[:, :7]),
        with_segment(5, "jump", 200, 210),
        with_segment(6, "sleep", 1, 2),
        with_segment(7, "wave", 3, 3),
        with_segment(8, "wave", -1, 3),
        changed(9, features=np.zeros(12, np.float32)),
        changed(10, fps=Fraction(0)),
        changed(1),
    ]
    steps: list[int] = []
    with pytest.raises(BadItems) as caught:
        fit(videos, CLASSES, SMALL, progress=lambda step, *_: steps.append(step))
    assert steps == []
    reasons = {
        "video_001: 2 videos have this id",
        "video_002: no features (0 steps)",
        "video_003: 2 of 50 steps have NaN or infinite values, first 4",
        "video_004: features are 7 wide instead of 12",
        "video_005: jump from 200 to 210 s is outside the video, which has 8.48 s and features to 8.48 s",
        "video_006: sleep from 1 to 2 s is not one of the 3 classes",
        "video_007: wave from 3 to 3 s ends before it starts",
        "video_008: wave from -1 to 3 s is outside the video, which has 8.48 s and features to 8.48 s",
        "video_009: features are float32 (12,), not numbers of shape (steps, width)",
        "video_010: fps=0 must be above 0",
    }
    assert set(caught.value.offenders) == reasons


def test_features_of_half_a_video_are_noticed() -> None:
    long = changed(0, duration=Fraction(100), segments=(Segment("jump", Fraction(90), Fraction(95)),))
    with pytest.raises(BadItems, match=r"features to 8\.64 s"):
        check([long], CLASSES)


def test_nothing_to_learn_is_an_error() -> None:
    with pytest.raises(BadItems, match="no videos"):
        check([], CLASSES)
    with pytest.raises(BadItems, match="none of the videos has an action"):
        check([changed(0, segments=())], CLASSES)
    with pytest.raises(BadItems, match="'jump' is listed 2 times"):
        check(some_videos(2), (*CLASSES, "jump"))


def test_annotations_outside_their_video_can_be_cut_and_are_reported() -> None:
    rows = [("jump", 1, 3), ("wave", 7, 12), ("throw", 20, 25)]
    video = changed(0, segments=tuple(Segment(n, Fraction(a), Fraction(b)) for n, a, b in rows))
    (kept,), notes = cut_to_video([video])
    end = video.duration
    assert [(s.label, s.start, s.end) for s in kept.segments] == [("jump", 1, 3), ("wave", 7, end)]
    assert len(notes) == 2
    assert "shortened to 8.48 s" in notes[0]
    assert "dropped" in notes[1]
    assert check([kept], CLASSES) == 12
