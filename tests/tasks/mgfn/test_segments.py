"""32-segment reduction and magnitude channel: golden values, a slow twin, gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.tasks.mgfn.segments import (
    boundaries,
    draw_rows,
    mean_by_owner,
    row_ranges,
    segment_means,
    with_magnitude,
)


def slow_segments(rows: list[float], segments: int) -> list[float]:
    """The definition, row by row."""
    out = []
    for i in range(segments):
        first, stop = math.floor(i * len(rows) / segments), math.floor((i + 1) * len(rows) / segments)
        part = rows[first:stop] if first != stop else [rows[first]]
        out.append(sum(part) / len(part))
    return out


def rows(length: int) -> torch.Tensor:
    return torch.arange(length, dtype=torch.float32)[:, None]


def test_five_rows_are_repeated_over_32_segments() -> None:
    found = segment_means(rows(5), 32).flatten().tolist()
    assert found == [0.0] * 7 + [1.0] * 6 + [2.0] * 7 + [3.0] * 6 + [4.0] * 6


def test_a_hundred_rows_have_the_published_boundaries_and_means() -> None:
    edges = boundaries(100, 32)
    assert edges[:10] == [0, 3, 6, 9, 12, 15, 18, 21, 25, 28]
    assert edges[-3:] == [93, 96, 100]
    means = segment_means(rows(100), 32).flatten().tolist()
    assert means[:6] == [1, 4, 7, 10, 13, 16]
    assert means[-2:] == [94, 97.5]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(2, 40))
def test_segments_equal_a_slow_twin(length: int, segments: int) -> None:
    assert segment_means(rows(length), segments).flatten().tolist() == pytest.approx(
        slow_segments(list(map(float, range(length))), segments), rel=1e-6
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10_000), st.integers(2, 40))
def test_every_row_is_used_and_every_segment_has_one(length: int, segments: int) -> None:
    ranges = row_ranges(length, segments)
    assert all(len(part) >= 1 for part in ranges)
    assert {row for part in ranges for row in part} == set(range(length))


def test_crops_are_reduced_independently() -> None:
    features = torch.randn(50, 3, 4)
    apart = torch.stack([segment_means(features[:, crop], 32) for crop in range(3)], 1)
    assert torch.equal(segment_means(features, 32), apart)


def test_a_video_without_snippets_has_no_segments() -> None:
    with pytest.raises(ValueError, match="without snippets"):
        segment_means(torch.zeros(0, 4), 32)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 9))
def test_drawn_rows_stay_in_their_segment_and_under_the_limit(length: int, most: int, seed: int) -> None:
    drawn, owner = draw_rows(length, 32, most, torch.Generator().manual_seed(seed))
    ranges = row_ranges(length, 32)
    for i, part in enumerate(ranges):
        own = drawn[owner == i].tolist()
        assert len(own) == len(set(own)) == min(most, len(part))
        assert set(own) <= set(part)


def test_drawing_all_rows_gives_the_segment_means() -> None:
    features = torch.randn(77, 2, 5)
    drawn, owner = draw_rows(77, 32, most=100)
    assert torch.allclose(mean_by_owner(features[drawn], owner, 32), segment_means(features, 32), atol=1e-6)


def test_drawn_rows_change_with_the_generator() -> None:
    first, _ = draw_rows(500, 32, 4, torch.Generator().manual_seed(0))
    again, _ = draw_rows(500, 32, 4, torch.Generator().manual_seed(0))
    other, _ = draw_rows(500, 32, 4, torch.Generator().manual_seed(1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_magnitude_is_the_norm_of_the_mean_not_the_mean_of_norms() -> None:
    opposite = (
        torch.tensor([[3.0, 4.0], [-3.0, -4.0]]).repeat_interleave(1, 0).repeat(32, 1)
    )  # mean 0, norms 5
    segments = with_magnitude(segment_means(opposite, 32))
    assert segments.shape == (32, 3)
    assert torch.equal(segments, torch.zeros(32, 3))
    assert torch.equal(with_magnitude(opposite)[:, 2], torch.full((64,), 5.0))


def test_the_gradient_of_a_zero_feature_is_a_number() -> None:
    features = torch.zeros(2, 4, requires_grad=True)
    with_magnitude(features).sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()
