"""Training windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.truncate import draw_noise, inside, truncate, window_length

from .make import small


def ramp(steps: int) -> torch.Tensor:
    """(1, steps): every step says where it is."""
    return torch.arange(steps, dtype=torch.float32)[None]


def test_a_long_video_gives_full_windows_and_a_short_one_most_of_itself() -> None:
    rng = np.random.default_rng(0)
    assert {window_length(200, small(), rng) for _ in range(50)} == {64}
    assert {window_length(60, small(), rng) for _ in range(200)} == set(range(54, 61))
    assert window_length(1, small(), rng) == 1


def test_an_action_stays_when_half_of_it_is_inside_and_is_cut_and_shifted() -> None:
    target = Target(
        torch.tensor([[0.0, 20.0], [0.0, 22.0], [12.0, 15.0], [28.0, 34.0]]), torch.tensor([0, 1, 2, 3])
    )
    kept = inside(target, 10, 20, 0.5)
    assert kept.labels.tolist() == [0, 1, 2]
    assert kept.segments.tolist() == [[0, 10], [0, 12], [2, 5]]
    assert inside(target, 10, 21, 0.5).labels.tolist() == [0, 1, 2, 3]


@given(st.integers(1, 300), st.integers(0, 2**31), st.floats(0, 0.95), st.floats(0.02, 0.5))
@settings(max_examples=80, deadline=None)
def test_windows_are_contiguous_and_carry_their_actions_along(
    steps: int, seed: int, begin: float, length: float
) -> None:
    target = Target(torch.tensor([[begin * steps, (begin + length) * steps]]), torch.tensor([1]))
    window, kept = truncate(ramp(steps), target, small(), np.random.default_rng(seed))
    start, count = int(window[0, 0]), window.shape[1]
    assert window[0].tolist() == list(range(start, start + count))
    assert count <= 64
    if count == steps:
        assert torch.equal(kept.segments, target.segments)
        return
    for a, b in kept.segments.tolist():
        assert max(float(target.segments[0, 0]), start) == pytest.approx(a + start, abs=1e-3)
        assert min(float(target.segments[0, 1]), start + count) == pytest.approx(b + start, abs=1e-3)


def test_windows_keep_looking_until_they_hold_an_action() -> None:
    target = Target(torch.tensor([[100.0, 104.0]]), torch.tensor([0]))
    for seed in range(20):
        window, kept = truncate(ramp(1000), target, small(), np.random.default_rng(seed))
        assert len(kept.labels) == 1
        assert window[0, 0] <= 102 <= window[0, -1] + 1


def test_a_video_without_actions_is_still_cut() -> None:
    nothing = Target(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    window, kept = truncate(ramp(500), nothing, small(), np.random.default_rng(0))
    assert (window.shape[1], len(kept.labels)) == (64, 0)


def test_noise_has_the_stated_strength() -> None:
    noise = draw_noise(200, small(input_noise=0.0005), torch.Generator().manual_seed(0))
    assert noise.shape == (200, 64)
    assert float(noise.std()) == pytest.approx(0.0005, rel=0.05)
