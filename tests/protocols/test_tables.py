from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from videoveil.protocols.base import Cell, pooled
from videoveil.protocols.intervals import Answers
from videoveil.protocols.tables import NO_ANSWERS, UNSURE, WEAK, reductions, reductions_text
from videoveil.tasks.outcomes import MeanOutcome


def cell(
    row: str,
    value: float | None,
    chance: float | None = 25.0,
    above: tuple[float, float] | None = (5.0, 60.0),
) -> Cell:
    return Cell("x/T", row, "cMAP", value, chance, "twin", above=above)


def told(row: str, right: list[float], seeds: int = 2) -> Cell:
    """A cell whose answers are at hand, by the same items whoever is measured."""
    ids = tuple(f"v{place:03d}" for place in range(len(right)))
    said = Answers(MeanOutcome("top1", ids, np.array(right), np.full(len(right), 0.25)), 100.0)
    value = 100 * float(np.mean(right))
    one = Cell("x/T", row, "top-1", value, 25.0, "twin", (), (value,), answers=said)
    (made,) = pooled([[one]] * seeds)
    return made


def test_reductions_are_relative_and_above_chance() -> None:
    (found,) = reductions([cell("Raw", 75.0), cell("SPAct", 50.0)])
    assert found.relative == pytest.approx(100 * 25 / 75)
    assert found.above_chance == pytest.approx(50.0)  # half of what raw data tell beyond chance
    assert "| x/T | SPAct | cMAP | twin | 33.3 | 50.0 |" in reductions_text([found])


def test_reductions_are_against_raw_data_of_the_same_encoder() -> None:
    cells = [cell("I3D / Raw", 75.0), cell("I3D / SPAct", 25.0), cell("tiny / SPAct", 50.0)]
    assert [(one.row, one.above_chance) for one in reductions(cells)] == [("I3D / SPAct", 100.0)]


def test_nothing_is_reduced_where_there_was_nothing_or_nothing_is_known() -> None:
    (weak,) = reductions([cell("Raw", 20.0), cell("SPAct", 10.0)])
    assert weak.above_chance is None  # raw data do not beat chance
    assert "not measurable" in reductions_text([weak])
    assert reductions([cell("Raw", 75.0), cell("SPAct", None)]) == []
    assert reductions([cell("Raw", 5.0, None), cell("SPAct", 3.0, None)]) == []  # minutes: no chance
    assert reductions_text([]) == ""


def test_nothing_is_reduced_where_raw_data_do_not_clearly_beat_chance() -> None:
    """25.1 of 24.8 by chance: 22.0 would be 1033 % less."""
    (weak,) = reductions([cell("Raw", 25.1, 24.8, (-2.0, 3.0)), cell("SPAct", 22.0, 24.8)])
    assert (weak.relative, weak.above_chance, weak.note) == (None, None, WEAK)
    assert f"| not measurable | not measurable | {WEAK} |" in reductions_text([weak])
    (unsure,) = reductions([cell("Raw", 75.0, above=None), cell("SPAct", 50.0)])
    assert (unsure.relative, unsure.above_chance, unsure.note) == (None, None, UNSURE)


def test_reductions_draw_the_same_items_for_both_rows() -> None:
    raw, same = told("Raw", [1.0] * 40 + [0.0] * 10), told("SPAct", [1.0] * 40 + [0.0] * 10)
    (nothing,) = reductions([raw, same])
    assert (nothing.relative, nothing.relative_interval) == (0.0, (0.0, 0.0))  # in every draw
    (half,) = reductions([raw, told("SPAct", [1.0] * 20 + [0.0] * 30)])
    assert half.relative == pytest.approx(50)
    assert half.above_chance == pytest.approx(100 * 40 / 55)
    for value, ends in (
        (half.relative, half.relative_interval),
        (half.above_chance, half.above_chance_interval),
    ):
        assert ends is not None
        assert value is not None
        assert 5 < value - ends[0] < 30
        assert 5 < ends[1] - value < 30
    assert f"50.0 [{half.relative_interval[0]:.1f}, " in reductions_text([half])  # type: ignore[index]


def test_without_answers_a_reduction_has_no_interval_and_says_so() -> None:
    raw, other = (
        replace(cell(row, value), values=(value, value)) for row, value in (("Raw", 75.0), ("x", 50.0))
    )
    (found,) = reductions([raw, other])
    assert (found.relative_interval, found.above_chance_interval, found.note) == (None, None, NO_ANSWERS)
    (one_seed,) = reductions([told("Raw", [1.0] * 40 + [0.0] * 10, 1), told("x", [0.0] * 50, 1)])
    assert (one_seed.relative, one_seed.relative_interval) == (100.0, None)


def test_reductions_across_two_encoders_say_so() -> None:
    own = replace(cell("SPAct", 50.0), encoder="r3d.18@bbb")
    (found,) = reductions([replace(cell("Raw", 75.0), encoder="tiny@aaa"), own])
    assert "features of tiny@aaa" in found.note
    assert "r3d.18@bbb" in found.note
    (same,) = reductions([replace(cell("Raw", 75.0), encoder="r3d.18@bbb"), own])
    assert same.note == ""
