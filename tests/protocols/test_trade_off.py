from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from videoveil.data.twins.plan import MARKER
from videoveil.protocols.base import Cell, pooled
from videoveil.protocols.scales import TINY
from videoveil.protocols.subjects import Subject, raw
from videoveil.protocols.tables import comparisons
from videoveil.protocols.trade_off import (
    AREA,
    LEAKAGE,
    NHV,
    POINTS,
    PROTOCOLS,
    UTILITY,
    finish,
    pictures,
)
from videoveil.protocols.workshop import Workshop


def cells(row: str, utility: float | None, leakage: float) -> list[Cell]:
    own = ("vispr", "pa-hmdb51")
    return [
        Cell(POINTS.id, row, UTILITY.name, utility, 10.0, "twin", own),
        Cell(POINTS.id, row, LEAKAGE.name, leakage, 50.0, "twin", own),
    ]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    roots = {}
    for name in ("vispr", "pa-hmdb51"):
        roots[name] = tmp_path / name
        roots[name].mkdir()
        (roots[name] / MARKER).write_text("twin")
    return Workshop(tmp_path / "out", roots, TINY)


def test_runs_of_a_family_are_one_curve(shop: Workshop) -> None:
    who = [raw(), Subject("SPLAVU@1"), Subject("SPLAVU@2"), Subject("veil")]
    given = [
        *cells("Raw", 90.0, 90.0),
        *cells("SPLAVU@1", 80.0, 70.0),
        *cells("SPLAVU@2", 50.0, 60.0),
        *cells("veil", 70.0, 70.0),
    ]
    found = {(cell.row, cell.column): cell for cell in finish(shop, who, given)}
    assert {row for row, _ in found} == {"SPLAVU", "veil"}
    assert found["SPLAVU", "nhv_unit"].value == pytest.approx(0.3 * 0.3 + 0.5 * 0.4)
    # from chance (10, 50) to raw (90, 90): (.875, .5) and (.5, .75)
    assert found["SPLAVU", "nhv_chance"].value == pytest.approx(0.375 * 0.5 + 0.5 * 0.75)
    assert found["SPLAVU", "nhv_unit"].note == "2 points"
    assert found["veil", "nhv_unit"].note == "1 point"
    assert {cell.data for cell in found.values()} == {"twin"}


def test_a_family_with_a_point_that_is_not_measurable_has_no_area(shop: Workshop) -> None:
    who = [raw(), Subject("veil@1"), Subject("veil@2")]
    given = [*cells("Raw", 90.0, 90.0), *cells("veil@1", 80.0, 70.0), *cells("veil@2", None, 70.0)]
    found = finish(shop, who, given)
    assert [(cell.column, cell.value) for cell in found] == [(name, None) for name in NHV]
    assert {cell.note for cell in found} == {"not measurable: 1 of 2 points without a value"}


def test_what_one_seed_cannot_measure_does_not_end_an_evaluation(shop: Workshop) -> None:
    who = [raw(), Subject("veil")]
    seeds = []
    for utility in (80.0, None):
        given = [*cells("Raw", 90.0, 90.0), *cells("veil", utility, 70.0)]
        seeds.append([*given, *finish(shop, who, given)])
    areas = [cell for cell in pooled(seeds) if cell.table == AREA.id]
    assert [cell.value for cell in areas] == [None] * 3
    assert all(cell.note.startswith("not measurable") for cell in areas)


def test_data_that_were_not_given_have_no_area(shop: Workshop) -> None:
    who = [raw(), Subject("veil")]
    assert finish(shop, who, [*cells("Raw", 90.0, 90.0)[:1], *cells("veil", 80.0, 70.0)[:1]]) == []


def test_every_run_is_drawn_and_every_family_is_a_line(shop: Workshop) -> None:
    who = [raw(), Subject("SPLAVU@1"), Subject("SPLAVU@2"), Subject("veil"), Subject("lost")]
    given = [
        *cells("Raw", 90.0, 90.0),
        *cells("SPLAVU@1", 80.0, 70.0),
        *cells("SPLAVU@2", 50.0, 60.0),
        *cells("veil", 70.0, 70.0),
        *cells("lost", None, 70.0),
    ]
    (figure,) = pictures([shop], who, given).values()
    (axes,) = figure.axes
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]  # type: ignore[index]
    assert points == [(90, 90), (70, 80), (60, 50), (70, 70)]
    (joined,) = (line for line in axes.lines if line.get_marker() != "o" and line.get_linestyle() == "-")
    assert (list(joined.get_xdata()), list(joined.get_ydata())) == ([60, 70], [50, 80])  # type: ignore[arg-type]
    assert "ours, twin" in axes.get_xlabel()
    assert "blind guess" in [text.get_text() for text in axes.texts]


def test_a_void_run_says_so_in_the_picture(shop: Workshop) -> None:
    given = [replace(cell, void="void: why") for cell in cells("Raw", 90.0, 90.0)]
    given += [replace(cell, void="void: why") for cell in cells("veil", 80.0, 70.0)]
    (figure,) = pictures([shop], [raw(), Subject("veil")], given).values()
    assert "(void)" in [text.get_text() for text in figure.axes[0].texts]


def test_more_families_than_colours_are_several_pictures(shop: Workshop) -> None:
    rows = ["Raw", *(f"run {n}" for n in range(7))]
    given = [cell for row in rows for cell in cells(row, 50.0, 60.0)]
    found = pictures([shop], [Subject(row) for row in rows], given)
    assert list(found) == ["trade-off", "trade-off1"]


def test_a_twin_and_real_data_are_never_one_picture(shop: Workshop) -> None:
    utility, leakage = cells("veil", 90.0, 90.0)
    assert list(pictures([shop], [Subject("veil")], [utility, leakage])) == ["trade-off"]
    assert pictures([shop], [Subject("veil")], [replace(utility, data="real"), leakage]) == {}
    assert pictures([shop], [Subject("veil")], []) == {}


def test_nothing_of_ours_stands_beside_the_papers_area(shop: Workshop) -> None:
    who = [raw(), Subject("SPLAVU@1")]
    given = [*cells("Raw", 90.0, 90.0), *cells("SPLAVU@1", 80.0, 70.0)]
    tables = comparisons(PROTOCOLS[0], [*given, *finish(shop, who, given)])
    area = next(table for table in tables if table.name == AREA.id)
    columns = [(column.head.name, column.origin) for column in area.columns()]
    assert columns == [("NHV", "paper"), ("nhv_unit", "twin"), ("nhv_chance", "twin"), ("nhv_minmax", "twin")]
