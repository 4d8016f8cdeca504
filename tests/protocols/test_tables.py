from __future__ import annotations

import pytest

from videoveil.protocols.base import Cell
from videoveil.protocols.tables import reductions, reductions_text


def cell(row: str, value: float | None, chance: float | None = 25.0) -> Cell:
    return Cell("x/T", row, "cMAP", value, chance, "twin")


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
    assert reductions([cell("Raw", 5.0, None), cell("SPAct", 3.0, None)]) == []  # minutes, gaps: no chance
    assert reductions_text([]) == ""
