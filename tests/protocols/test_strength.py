from __future__ import annotations

import numpy as np
import pytest

from videoveil.protocols.base import Cell, Panel, own_table, pooled
from videoveil.protocols.intervals import Answers
from videoveil.protocols.papers import PaperColumn, Unit
from videoveil.protocols.strength import beats_chance, marked
from videoveil.protocols.tables import comparison
from videoveil.report.comparison import markdown
from videoveil.tasks.outcomes import MeanOutcome

COLUMN = PaperColumn("who", "top1", "%", "lower", ())
TABLE = own_table("x", "X", (COLUMN,))


def told(row: str, right: float, items: int = 40, chance: float = 0.5, seeds: int = 2) -> Cell:
    """An attack that is right about this share of the items."""
    ids = tuple(f"v{place:03d}" for place in range(items))
    values = (np.arange(items) < round(right * items)).astype(float)
    said = Answers(MeanOutcome("top1", ids, values, np.full(items, chance)), 100.0)
    value = 100 * float(values.mean())
    one = Cell(TABLE.id, row, COLUMN.name, value, 100 * chance, "twin", (), (value,), answers=said)
    return pooled([[one]] * seeds)[0]


def void(*cells: Cell) -> list[bool]:
    return [bool(one.void) for one in marked(cells)]


def test_an_attack_that_is_weak_on_raw_data_is_void_and_keeps_its_figure() -> None:
    raw, other = marked([told("Raw", 0.55), told("SPAct", 0.5)])
    assert raw.void.startswith("void: ")
    assert other.void.startswith("void: on raw data")
    assert raw.value == pytest.approx(55.0)
    assert Cell.from_json(raw.to_json()).void == raw.void
    text = markdown([comparison(Panel(TABLE, {COLUMN.name: None}), [raw, other])])
    assert f"[1] {raw.void}" in text
    assert "| Raw | 55.00 [" in text


def test_an_attack_that_clearly_beats_chance_on_raw_data_is_not_void() -> None:
    assert void(told("Raw", 0.9), told("SPAct", 0.5)) == [False, False]
    # what an attack clearly finds in anonymized data it finds, whatever it found in raw data
    assert void(told("Raw", 0.5), told("SPAct", 0.9)) == [True, False]
    assert void(told("I3D / Raw", 0.5), told("tiny / Raw", 0.9), told("tiny / x", 0.5)) == [
        True,
        False,
        False,
    ]


def test_more_test_items_show_what_few_do_not() -> None:
    assert [beats_chance(told("Raw", 0.65, items)) for items in (20, 400)] == [False, True]


def test_where_no_interval_tells_only_a_figure_at_chance_is_void() -> None:
    assert void(Cell("x", "Raw", "a", 60.0, 50.0, "twin")) == [False]
    assert void(Cell("x", "Raw", "a", 50.0, 50.0, "twin")) == [True]
    assert void(Cell("x", "Raw", "a", 50.0, None, "twin")) == [False]  # minutes
    assert void(told("Raw", 0.55, seeds=1)) == [True]  # by its items


@pytest.mark.parametrize(("unit", "factor"), [("%", 100.0), ("1", 1.0)])
def test_clearly_is_by_the_margin_of_audits(unit: Unit, factor: float) -> None:
    """Two points, in the unit of the column."""
    for low, beats in ((0.01, False), (0.03, True)):
        ends = (factor * low, factor * 0.2)
        one = Cell("x", "Raw", "a", factor * 0.6, factor * 0.5, "twin", above=ends, unit=unit)
        assert beats_chance(one) is beats
    assert beats_chance(Cell("x", "Raw", "a", factor * 0.515, factor * 0.5, "twin", unit=unit)) is False


def test_what_is_void_is_void_in_the_picture_too() -> None:
    cells = marked([told("Raw", 0.55), told("SPAct", 0.9), told("veil", 0.5)])
    figures = comparison(Panel(TABLE, {COLUMN.name: None}), cells).figures
    assert {one.row: one.void for one in figures} == {"Raw": True, "SPAct": False, "veil": True}


def test_an_interval_over_seeds_alone_counts_too() -> None:
    cells = [Cell("x", "Raw", "a", value, 50.0, "twin", (), (value,)) for value in (40.0, 70.0)]
    (made,) = pooled([[one] for one in cells])
    assert beats_chance(made) is False
    (sure,) = pooled([[Cell("x", "Raw", "a", v, 50.0, "twin", (), (v,))] for v in (69.0, 70.0)])
    assert beats_chance(sure) is True
