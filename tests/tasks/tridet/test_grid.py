"""Seconds and feature steps: exact, and inverse to each other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from videoveil.tasks.tridet.grid import covered, segments_in_seconds, target, to_grid, to_seconds

from .make import CLASSES, some_video

times = st.fractions(0, 10_000, max_denominator=100_000)
rates = st.sampled_from([Fraction(30), Fraction(25), Fraction(30_000, 1001), Fraction(24_000, 1001)])


def test_a_step_is_the_centre_of_its_window() -> None:
    """Feature i covers frames [4i, 4i + 16), so it stands for frame 4i + 8."""
    assert to_grid(Fraction(8, 30), Fraction(30), 4, 16) == 0
    assert to_grid(Fraction(48, 30), Fraction(30), 4, 16) == 10
    assert to_grid(Fraction(0), Fraction(30), 4, 16) == -2
    assert to_seconds(Fraction(10), Fraction(30), 4, 16) == Fraction(8, 5)


@given(times, rates, st.integers(1, 64), st.integers(1, 64))
def test_seconds_survive_the_grid_exactly(t: Fraction, fps: Fraction, stride: int, window: int) -> None:
    assert to_seconds(to_grid(t, fps, stride, window), fps, stride, window) == t


def test_actions_lie_where_the_features_show_them() -> None:
    video = some_video(1, noise=0.0)
    found = target(video, CLASSES)
    for (start, end), label in zip(found.segments.tolist(), found.labels.tolist()):
        assert (start, end) == (round(start), round(end))
        assert (video.array()[int(start) : int(end), label] == 2).all()


def test_found_segments_are_cut_to_the_video() -> None:
    video = some_video(0)
    found = segments_in_seconds(np.array([[-10.0, 0.0], [3.0, 900.0]]), video)
    assert found.tolist() == [[0.0, 0.32], [0.8, float(video.duration)]]
    assert covered(video, len(video.array())) == video.duration
