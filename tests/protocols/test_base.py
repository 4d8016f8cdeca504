from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from videoveil.errors import UsageError
from videoveil.protocols.base import Cell, Evaluation, Panel, Reading, Want, own_table, pooled
from videoveil.protocols.papers import PaperColumn, table
from videoveil.protocols.scales import TINY
from videoveil.protocols.subjects import Subject, raw
from videoveil.protocols.tables import comparison
from videoveil.protocols.workshop import Workshop

TOP = PaperColumn("top-1", "top1", "%", "higher", ())


@dataclass(frozen=True)
class Fixed:
    """Gives what it is told."""

    value: float | None = 0.5

    @property
    def needs(self) -> tuple[str, ...]:
        return ()

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return "told"

    def run(self, workshop: Workshop, subject: Subject) -> dict[str, Reading]:
        return {"top1": Reading(self.value, 0.1)}


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, {}, TINY, device="cpu")


def evaluation(*panels: Panel, **more: Any) -> Evaluation:
    return Evaluation("some", "Some", panels, **more)


def actions(name: str, **more: Any) -> Panel:
    columns = {
        column.name: Want(Fixed(), "top1") for column in table(name).columns if column.metric == "top1"
    }
    return Panel(table(name), columns, **more)


def test_shares_become_the_unit_of_their_column(shop: Workshop) -> None:
    (cell,) = evaluation(Panel(own_table("x", "X", (TOP,)), {"top-1": Want(Fixed(), "top1")})).run(
        shop, [raw()]
    )
    assert (cell.value, cell.chance, cell.values, cell.data, cell.note) == (50, 10, (50,), "counted", "told")


def test_a_subject_stands_where_the_paper_has_a_row_for_it(shop: Workshop) -> None:
    one = evaluation(actions("spact/T3"), actions("spact/T7"))
    cells = one.run(shop, [raw(), Subject("f_T R3D-50"), Subject("mine")])
    where = {(cell.table, cell.row) for cell in cells}
    assert where == {("spact/T3", "Raw"), ("spact/T7", "f_T R3D-50"), ("spact/T3", "mine")}


def test_an_encoder_that_the_paper_does_not_have_gets_rows_of_its_own(shop: Workshop) -> None:
    panel = Panel(
        table("splavu/T1"), {"UCF101 top-1": Want(Fixed(), "top1")}, blocks={"I3D": "i3d.inception"}
    )
    (cell,) = evaluation(panel).run(shop, [raw()])
    assert cell.row == "tiny / Raw"
    (cell,) = evaluation(panel).run(replace(shop, encoder_name="i3d.inception"), [raw()])
    assert cell.row == "I3D / Raw"


def test_what_a_measure_does_not_give_is_an_error(shop: Workshop) -> None:
    panel = Panel(own_table("x", "X", (TOP,)), {"top-1": Want(Fixed(), "cmap")})
    with pytest.raises(UsageError, match="gives no 'cmap', only top1"):
        evaluation(panel).run(shop, [raw()])
    with pytest.raises(UsageError, match="no column"):
        Panel(own_table("x", "X", (TOP,)), {"top-2": None})


def test_what_is_not_measurable_stays_so(shop: Workshop) -> None:
    panel = Panel(own_table("x", "X", (TOP,)), {"top-1": Want(Fixed(None), "top1")})
    cells = evaluation(panel).run(shop, [raw()])
    assert (cells[0].value, cells[0].values) == (None, ())
    assert pooled([cells, cells])[0].value is None
    assert comparison(panel, cells).figures[0].value is None


def test_seeds_become_a_mean_with_all_values() -> None:
    first = Cell("x/T", "Raw", "a", 40.0, 10.0, "twin", ("hmdb51",), (40.0,))
    (made,) = pooled([[first], [replace(first, value=50.0, chance=12.0, values=(50.0,))]])
    assert (made.value, made.chance, made.values, made.data) == (45.0, 11.0, (40.0, 50.0), "twin")
    with pytest.raises(UsageError, match="different cells"):
        pooled([[first], [replace(first, row="other")]])
    (lost,) = pooled([[first], [replace(first, value=None, values=())]])
    assert (lost.value, lost.values) == (None, ())


def test_cells_survive_json() -> None:
    cell = Cell("x/T", "Raw", "a", 40.0, None, "real", ("hmdb51", "vispr"), (40.0,), "note")
    assert Cell.from_json(cell.to_json()) == cell
