from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.protocols.nhv import CurvePoint, Frame, hypervolume, unit_frame, variants

shares = st.floats(0, 1, allow_nan=False)
curves = st.lists(st.builds(CurvePoint, shares, shares), min_size=1, max_size=8)


def slow(points: list[CurvePoint], frame: Frame) -> float:
    """The area of all cells of the grid through the points that some point dominates."""
    width, height = frame.utility_best - frame.utility_ref, frame.leakage_ref - frame.leakage_best
    placed = [
        (
            min(1.0, max(0.0, (one.utility - frame.utility_ref) / width)),
            min(1.0, max(0.0, (frame.leakage_ref - one.leakage) / height)),
        )
        for one in points
    ]
    xs, ys = (sorted({0.0, *values}) for values in zip(*placed))
    area = 0.0
    for left, right in pairwise(xs):
        for low, high in pairwise(ys):
            if any(u >= right and v >= high for u, v in placed):
                area += (right - left) * (high - low)
    return area


@given(curves)
def test_the_hypervolume_is_the_dominated_area(points: list[CurvePoint]) -> None:
    found = hypervolume(points, unit_frame())
    assert found == pytest.approx(slow(points, unit_frame()), abs=1e-9)


@given(curves, st.floats(0, 0.4), st.floats(0.6, 1), st.floats(0.6, 1), st.floats(0, 0.4))
def test_it_is_the_dominated_area_in_any_frame(
    points: list[CurvePoint], low: float, high: float, most: float, least: float
) -> None:
    frame = Frame(low, high, most, least)
    assert hypervolume(points, frame) == pytest.approx(slow(points, frame), abs=1e-9)


@given(curves, st.builds(CurvePoint, shares, shares))
def test_another_point_never_makes_it_smaller(points: list[CurvePoint], more: CurvePoint) -> None:
    before, after = hypervolume(points, unit_frame()), hypervolume([*points, more], unit_frame())
    assert before is not None
    assert after is not None
    assert after >= before - 1e-12


def test_known_values() -> None:
    assert hypervolume([CurvePoint(1, 0)], unit_frame()) == 1
    assert hypervolume([CurvePoint(0.8, 0.6)], unit_frame()) == pytest.approx(0.32)
    two = [CurvePoint(0.8, 0.6), CurvePoint(0.5, 0.2)]  # .3·.4 + .5·.8
    assert hypervolume(two, unit_frame()) == pytest.approx(0.52)


def test_the_papers_levels_give_about_a_third_without_a_reference() -> None:
    found = variants([CurvePoint(0.8447, 0.626)], CurvePoint(0.8019, 0.699), CurvePoint(0.02, 0.576))
    assert found["nhv_unit"] == pytest.approx(0.8447 * 0.374)
    assert found["nhv_chance"] == pytest.approx((0.699 - 0.626) / (0.699 - 0.576))
    assert found["nhv_minmax"] == 1  # better than raw in both: the extreme of both


def test_a_frame_without_extent_is_not_measurable() -> None:
    raw = CurvePoint(0.5, 0.3)
    assert variants([raw], raw, CurvePoint(0.1, 0.3))["nhv_chance"] is None
    assert variants([raw], None, None) == {
        "nhv_unit": pytest.approx(0.35),
        "nhv_chance": None,
        "nhv_minmax": None,
    }


def test_per_cents_and_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="share"):
        CurvePoint(80.0, 0.5)
    with pytest.raises(UsageError, match="at least one point"):
        hypervolume([], unit_frame())
