"""The level without looking."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest

from videoveil.data.records import Segment
from videoveil.errors import BadItems
from videoveil.tasks.tridet import evaluate, truth_of, uniform_detections

from .make import CLASSES, some_video, some_videos


def test_tiles_have_the_median_length_cover_the_video_and_score_by_how_common_a_class_is() -> None:
    rows = [("jump", 0, 2), ("jump", 0, 4), ("jump", 0, 3), ("wave", 0, 5)]
    train = dataclasses.replace(
        some_video(0), segments=tuple(Segment(n, Fraction(a), Fraction(b)) for n, a, b in rows)
    )
    test = dataclasses.replace(some_video(1), duration=Fraction(10), segments=())
    (found,) = uniform_detections([train], [test], CLASSES)
    assert [(d.label, d.start, d.end, d.score) for d in found] == [
        ("jump", 0, 3, 0.75),
        ("jump", 3, 6, 0.75),
        ("jump", 6, 9, 0.75),
        ("wave", 0, 5, 0.25),
        ("wave", 5, 10, 0.25),
    ]


def test_a_video_shorter_than_the_action_gets_one_tile() -> None:
    train = dataclasses.replace(some_video(0), segments=(Segment("jump", Fraction(0), Fraction(20)),))
    (found,) = uniform_detections([train], [some_video(1)], CLASSES)
    assert found.segments.tolist() == [[0.0, 8.48]]


def test_the_baseline_is_poor_but_not_nothing() -> None:
    train, test = some_videos(20, seed=0), some_videos(20, seed=1)
    score = evaluate(uniform_detections(train, test, CLASSES), truth_of(test)).mean
    assert 0.0 < score < 0.2


def test_without_training_actions_there_is_no_baseline() -> None:
    with pytest.raises(BadItems, match="no training video has an action"):
        uniform_detections([dataclasses.replace(some_video(0), segments=())], some_videos(1), CLASSES)
