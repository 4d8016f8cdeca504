"""Geometry of boxes: nothing uncovered by rounding, suppression as the slow twin, letterboxes that can be undone."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.anonymizers.errors import ShapeMismatch, Withheld
from videoveil.anonymizers.obfuscate.boxes import (
    Letterbox,
    checked,
    checked_frame,
    iou,
    nms,
    nobody,
    rectangles,
)

number = st.floats(-40, 140, width=32)
score = st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9])


@st.composite
def some_boxes(draw: st.DrawFn) -> np.ndarray:
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        xs, ys = sorted([draw(number), draw(number)]), sorted([draw(number), draw(number)])
        rows.append([xs[0], ys[0], xs[1], ys[1], draw(score)])
    return np.array(rows, np.float32).reshape(-1, 5)


def slow_iou(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(float), b.astype(float)
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    joint = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - wide * high
    return wide * high / joint if joint > 0 else 0.0


def slow_nms(boxes: np.ndarray, threshold: float) -> list[list[float]]:
    """Go through the boxes from the best on; keep one unless a kept one overlaps it too much."""
    kept: list[np.ndarray] = []
    for box in sorted(boxes, key=lambda b: (-b[4], b[3], b[2], b[1], b[0])):
        if all(slow_iou(box, other) <= threshold for other in kept):
            kept.append(box)
    return [box.tolist() for box in kept]


@given(some_boxes(), some_boxes())
def test_overlaps_are_those_of_the_slow_twin(a: np.ndarray, b: np.ndarray) -> None:
    found = iou(a, b)
    assert found.shape == (len(a), len(b))
    for i, first in enumerate(a):
        for j, second in enumerate(b):
            assert found[i, j] == pytest.approx(slow_iou(first, second), abs=1e-12)


@given(some_boxes(), st.sampled_from([0.2, 0.45, 0.7]), st.randoms())
def test_suppression_is_that_of_the_slow_twin_in_any_order(
    boxes: np.ndarray, threshold: float, random: Random
) -> None:
    kept = nms(boxes, threshold)
    assert kept.dtype == np.float32
    assert kept.tolist() == slow_nms(boxes, threshold)
    order = list(range(len(boxes)))
    random.shuffle(order)
    assert nms(boxes[order], threshold).tolist() == kept.tolist()


def test_suppression_keeps_the_best_of_a_heap_and_the_one_aside() -> None:
    heap = np.array(
        [[0, 0, 10, 10, 0.5], [1, 0, 11, 10, 0.9], [0, 1, 10, 11, 0.4], [50, 0, 60, 10, 0.3]], np.float32
    )
    assert nms(heap, 0.45)[:, 4].tolist() == pytest.approx([0.9, 0.3])


def test_boxes_that_overlap_by_exactly_the_threshold_both_stay() -> None:
    pair = np.array([[0, 0, 10, 10, 0.9], [0, 0, 10, 5, 0.8]], np.float32)
    assert len(nms(pair, 0.5)) == 2
    assert len(nms(pair, 0.49)) == 1


@given(some_boxes(), st.integers(1, 100), st.integers(1, 100), st.sampled_from([0.0, 0.1, 0.5]))
def test_every_pixel_that_a_box_touches_is_in_a_rectangle(
    boxes: np.ndarray, height: int, width: int, margin: float
) -> None:
    covered = np.zeros((height, width), bool)
    for top, bottom, left, right in rectangles(boxes, height, width, margin):
        assert 0 <= top < bottom <= height
        assert 0 <= left < right <= width
        covered[top:bottom, left:right] = True
    for x0, y0, x1, y1 in boxes[:, :4].astype(float):
        dx, dy = margin * (x1 - x0), margin * (y1 - y0)
        for y in range(height):
            for x in (0, width // 2, width - 1):
                if x0 - dx < x + 1 and x < x1 + dx and y0 - dy < y + 1 and y < y1 + dy:
                    assert covered[y, x]


def test_boxes_without_area_or_outside_cover_nothing() -> None:
    boxes = np.array([[5, 5, 5, 5, 1], [-9, -9, -1, -1, 1], [20, 3, 30, 6, 1]], np.float32)
    assert rectangles(boxes, 10, 10) == []
    assert rectangles(nobody(), 10, 10) == []


sides = st.integers(1, 700)


@given(some_boxes(), sides, sides, st.sampled_from([(64, 64), (352, 352), (640, 320)]))
@settings(max_examples=60)
def test_boxes_come_back_from_a_letterbox_where_they_were(
    boxes: np.ndarray, height: int, width: int, outer: tuple[int, int]
) -> None:
    inside = boxes[:, :4].clip(0, [width, height, width, height])
    keep = (inside[:, 2] - inside[:, 0] > 0.01) & (inside[:, 3] - inside[:, 1] > 0.01)
    boxes = np.concatenate([inside, boxes[:, 4:]], 1)[keep].astype(np.float32)
    ways = [
        Letterbox.fit((height, width), outer),
        Letterbox.longest((height, width), max(outer)),
        Letterbox.stretch((height, width), outer),
    ]
    for way in ways:
        there = way.into(boxes)
        assert (there[:, :2] >= [way.left - 1e-3, way.top - 1e-3]).all()
        assert (there[:, 2] <= way.left + way.inner[1] + 0.01).all()
        assert (there[:, 3] <= way.top + way.inner[0] + 0.01).all()
        # float32 in the network's pixels, so the error grows where the picture was made smaller
        tolerance = 1e-4 * max(1.0, height / way.inner[0], width / way.inner[1])
        np.testing.assert_allclose(way.back(there), boxes, atol=tolerance * 4)


@given(sides, sides, st.integers(32, 700))
@settings(max_examples=60)
def test_letterboxes_hold_the_whole_picture_in_proportion(height: int, width: int, side: int) -> None:
    for way in (Letterbox.fit((height, width), (side, side)), Letterbox.longest((height, width), side)):
        assert way.top + way.inner[0] <= way.outer[0]
        assert way.left + way.inner[1] <= way.outer[1]
        assert max(way.inner) == side
        assert abs(way.inner[0] / side - height / max(height, width)) <= 0.51 / side + 1 / side
    assert all(part % 32 == 0 for part in Letterbox.longest((height, width), side).outer)


def test_a_letterboxed_picture_lies_in_grey() -> None:
    image = np.full((10, 20, 3), 200, np.uint8)
    way = Letterbox.fit((10, 20), (40, 40))
    out = way.apply(image)
    assert out.shape == (40, 40, 3)
    assert (out[10:30] == 200).all()
    assert (out[:10] == 114).all()
    assert (out[30:] == 114).all()


def test_boxes_in_the_padding_are_dropped() -> None:
    way = Letterbox.fit((10, 20), (40, 40))
    assert len(way.back(np.array([[0, 0, 40, 8, 0.9]], np.float32))) == 0


@pytest.mark.parametrize(
    "bad",
    [
        [[0, 0, np.nan, 4, 1]],
        [[0, 0, np.inf, 4, 1]],
        [[9, 0, 4, 4, 1]],
        [[0, 9, 4, 4, 1]],
        [[0, 0, 4, 4]],
        [0, 0, 4, 4, 1],
        [["a"] * 5],
        np.zeros((3, 0)),
    ],
)
def test_boxes_that_cannot_be_covered_withhold_the_picture(bad: list[list[float]]) -> None:
    with pytest.raises(Withheld):
        checked(bad, "detector")  # type: ignore[arg-type]


def test_no_boxes_may_be_written_in_several_ways() -> None:
    for empty in ([], np.zeros((0, 4)), np.zeros((0, 5), np.float64)):
        assert checked(empty, "detector").shape == (0, 5)  # type: ignore[arg-type]


def test_frames_are_uint8_rgb() -> None:
    assert checked_frame(np.zeros((4, 6, 3), np.uint8)) == (4, 6)
    for bad in (
        np.zeros((4, 6, 3), np.float32),
        np.zeros((4, 6), np.uint8),
        np.zeros((4, 6, 4), np.uint8),
        "x",
    ):
        with pytest.raises(ShapeMismatch, match="uint8"):
            checked_frame(bad)  # type: ignore[arg-type]
    with pytest.raises(ShapeMismatch, match="has pixels"):
        checked_frame(np.zeros((0, 6, 3), np.uint8))
