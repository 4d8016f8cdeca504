"""Whether anything follows from a column: only if raw data clearly beat chance in it.

An attack that finds nothing in raw data finds nothing in anonymized data either, however little they hide. Its figures
stay, for the papers' tables have them, and are marked: `Cell.void` says why. As in audits, clearly is by their margin,
and a row in which the same attack does clearly beat chance is not void. What is meant to be kept is held to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from videoveil.audit.rules import Rules
from videoveil.protocols.base import RAW, SCALES, Cell

ON_RAW = "void: does not clearly beat chance on raw data"
FOLLOWS = "void: on raw data this does not clearly beat chance, so nothing follows from it here"


def raw_row(row: str) -> str:
    """The row of raw data with the same encoder."""
    block, slash, _ = row.rpartition(" / ")
    return f"{block}{slash}{RAW}"


def raw_cells(cells: Sequence[Cell]) -> dict[tuple[str, str, str], Cell]:
    """The cells of raw data, by table, row and column."""
    return {(one.table, one.row, one.column): one for one in cells if one.row == raw_row(one.row)}


def beats_chance(cell: Cell) -> bool | None:
    """Whether the lower end of the interval is above chance by the margin; None where no interval tells."""
    if cell.value is None or cell.chance is None:
        return None
    margin = Rules.margin * SCALES.get(cell.unit, 1.0)
    if cell.value - cell.chance <= margin:
        return False
    return None if cell.above is None else cell.above[0] > margin


def marked(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, with a word in those from which nothing follows."""
    raw = raw_cells(cells)
    return [
        replace(one, void=_void(one, raw.get((one.table, raw_row(one.row), one.column)))) for one in cells
    ]


def _void(cell: Cell, raw: Cell | None) -> str:
    if raw is None or cell.value is None or beats_chance(raw) is not False:
        return ""
    if cell is raw:
        return ON_RAW
    return "" if beats_chance(cell) else FOLLOWS
