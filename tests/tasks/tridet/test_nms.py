"""Soft-NMS: the published check value and a slow twin."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.tasks.tridet.nms import soft_nms

Row = tuple[float, float, float, int]  # start, end, score, label


def fast(rows: list[Row], top: int = 2000) -> list[tuple[int, float]]:
    columns = torch.tensor([row[:3] for row in rows], dtype=torch.float64).reshape(-1, 3)
    labels = torch.tensor([row[3] for row in rows], dtype=torch.int64)
    kept, scores = soft_nms(columns[:, :2], columns[:, 2], labels, sigma=0.5, min_score=0.001, top=top)
    return list(zip(kept.tolist(), scores.tolist()))


def slow(rows: list[Row], top: int = 2000) -> list[tuple[int, float]]:
    """Class after class, the best of what is left, then everything sorted."""
    result = []
    for label in {row[3] for row in rows}:
        left = {i: row[2] for i, row in enumerate(rows) if row[3] == label}
        taken = 0
        while left and taken < top:
            best = min(left, key=lambda i: (-left[i], i))
            result.append((best, left.pop(best)))
            taken += 1
            for i in list(left):
                inter = max(0.0, min(rows[i][1], rows[best][1]) - max(rows[i][0], rows[best][0]))
                union = (rows[i][1] - rows[i][0] + 1e-6) + (rows[best][1] - rows[best][0] + 1e-6) - inter
                left[i] *= math.exp(-((inter / union) ** 2) / 0.5)
                if left[i] < 0.001:
                    del left[i]
    return sorted(result, key=lambda pair: (-pair[1], pair[0]))[:top]


def test_the_published_example_is_reproduced() -> None:
    found = fast([(0, 10, 0.9, 0), (1, 11, 0.8, 0), (20, 30, 0.5, 0)])
    assert [i for i, _ in found] == [0, 2, 1]
    assert [score for _, score in found] == pytest.approx([0.9, 0.5, 0.2097191], abs=1e-7)


def test_classes_do_not_suppress_each_other() -> None:
    assert fast([(0, 10, 0.9, 0), (0, 10, 0.8, 1)]) == [(0, 0.9), (1, 0.8)]


def test_nothing_in_gives_nothing_out() -> None:
    assert fast([]) == []


def test_what_falls_below_the_least_score_is_gone() -> None:
    assert fast([(0, 10, 0.9, 0), (0, 10, 0.005, 0)]) == [(0, 0.9)]


rows = st.tuples(
    st.integers(0, 60).map(float), st.integers(1, 30).map(float), st.integers(2, 1000), st.integers(0, 2)
).map(lambda r: (r[0], r[0] + r[1], r[2] / 1000, r[3]))


@given(st.lists(rows, max_size=40, unique_by=lambda r: r[2]), st.integers(1, 45))
@settings(max_examples=100, deadline=None)
def test_soft_nms_equals_its_slow_twin(candidates: list[Row], top: int) -> None:
    one, two = fast(candidates, top), slow(candidates, top)
    assert [score for _, score in one] == pytest.approx([score for _, score in two], abs=1e-9)
    # the order may differ only among scores that are equal up to rounding
    place = dict(two)
    assert all(score == pytest.approx(place.get(i, score), abs=1e-9) for i, score in one)
