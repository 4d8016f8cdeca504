"""Names beside points: everyone written once, near its point, and not over another."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Annotation

from videoveil.report.labels import overlap
from videoveil.report.plots import Point, tradeoff


def written(points: list[Point]) -> dict[str, tuple[float, ...]]:
    figure = tradeoff(points, "x", "y")
    figure.draw_without_rendering()
    return {
        child.get_text(): tuple(child.get_window_extent().extents)
        for child in figure.axes[0].get_children()
        if isinstance(child, Annotation)
    }


def test_names_of_near_points_do_not_cover_each_other() -> None:
    near = [(0.50, 0.70), (0.53, 0.705), (0.56, 0.70), (0.54, 0.68), (0.9, 0.9), (0.1, 0.1)]
    boxes = written([Point("s", "k", x, y, label=f"method {i}") for i, (x, y) in enumerate(near)])
    assert sorted(boxes) == [f"method {i}" for i in range(len(near))]
    assert all(overlap(a, b) == 0 for a, b in combinations(boxes.values(), 2))


def test_a_name_at_the_edge_stays_inside_the_axes() -> None:
    points = [Point("s", "k", x, 0.5, label="a rather long name") for x in (0.0, 1.0)]
    figure = tradeoff(points, "x", "y")
    figure.draw_without_rendering()
    left, _, right, _ = figure.axes[0].bbox.extents
    texts = [child for child in figure.axes[0].get_children() if isinstance(child, Annotation)]
    assert len(texts) == 2
    for text in texts:
        box = text.get_window_extent().extents
        assert left <= box[0]
        assert box[2] <= right


def test_points_without_a_name_get_none() -> None:
    assert written([Point("s", "k", 0, 0), Point("s", "k", 1, 1)]) == {}


boxes = st.tuples(*[st.integers(-5, 5)] * 2, *[st.integers(1, 4)] * 2).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)


@given(a=boxes, b=boxes)
@settings(max_examples=60, deadline=None)
def test_overlap_is_the_number_of_shared_unit_squares(
    a: tuple[int, int, int, int], b: tuple[int, int, int, int]
) -> None:
    def squares(box: tuple[int, int, int, int]) -> set[tuple[int, int]]:
        return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}

    assert overlap(a, b) == pytest.approx(len(squares(a) & squares(b)))
