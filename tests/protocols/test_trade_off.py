from __future__ import annotations

from pathlib import Path

import pytest

from videoveil.data.twins.plan import MARKER
from videoveil.protocols.base import Cell
from videoveil.protocols.scales import TINY
from videoveil.protocols.subjects import Subject, raw
from videoveil.protocols.tables import comparisons
from videoveil.protocols.trade_off import AREA, LEAKAGE, POINTS, PROTOCOLS, UTILITY, finish
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


def test_a_point_that_is_not_measurable_is_left_out(shop: Workshop) -> None:
    who = [raw(), Subject("veil")]
    assert finish(shop, who, [*cells("Raw", 90.0, 90.0), *cells("veil", None, 70.0)]) == []


def test_nothing_of_ours_stands_beside_the_papers_area(shop: Workshop) -> None:
    who = [raw(), Subject("SPLAVU@1")]
    given = [*cells("Raw", 90.0, 90.0), *cells("SPLAVU@1", 80.0, 70.0)]
    tables = comparisons(PROTOCOLS[0], [*given, *finish(shop, who, given)])
    area = next(table for table in tables if table.name == AREA.id)
    columns = [(column.head.name, column.origin) for column in area.columns()]
    assert columns == [("NHV", "paper"), ("nhv_unit", "twin"), ("nhv_chance", "twin"), ("nhv_minmax", "twin")]
