"""Cells of a protocol beside the paper's: from panels to what the report draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videoveil.protocols.base import RAW, Cell, Evaluation, Panel
from videoveil.report.comparison import UNDEFINED, Comparison, Head, Number, Origin


def comparisons(
    protocol: Evaluation, cells: Sequence[Cell], origins: Sequence[Origin] = ()
) -> list[Comparison]:
    """One for every panel, in order; `origins` of ours that have a column even where nothing was run."""
    return [comparison(panel, cells, origins) for panel in protocol.panels]


def comparison(panel: Panel, cells: Sequence[Cell], origins: Sequence[Origin] = ()) -> Comparison:
    """A panel with every row the paper has."""
    table, shown = panel.table, panel.shown()
    printed = [
        Number(one.row, one.column.name, one.value, "paper", note=one.note)
        for one in table.cells()
        if one.column in shown
    ]
    names = {column.name for column in shown}
    ours = [
        Number(one.row, one.column, one.value, one.data, one.chance, one.interval, one.note)
        for one in cells
        if one.table == table.id and one.column in names
    ]
    heads = tuple(
        Head(column.name, column.unit, column.better, column.name in panel.printed_only) for column in shown
    )
    return Comparison(
        table.id,
        table.title,
        table.paper,
        heads,
        tuple(table.rows),
        (*printed, *ours),
        table.note,
        tuple(origins),
    )


@dataclass(frozen=True, slots=True)
class Reduction:
    """How much of the raw figure an anonymizer takes away, in per cent.

    `relative` is what papers print, 100·(raw − x) / raw; part of a score is chance, which nobody can take away.
    `above_chance` is 100·(raw − x) / (raw − chance): of what raw data give beyond chance. None: not defined.
    """

    table: str
    row: str
    column: str
    data: str
    relative: float | None
    above_chance: float | None


def reductions(cells: Sequence[Cell]) -> list[Reduction]:
    """Of every cell whose table has the same column for raw data with the same encoder."""
    raw = {(one.table, one.row, one.column): one for one in cells}
    made = []
    for one in cells:
        block, slash, _ = one.row.rpartition(" / ")
        base = raw.get((one.table, f"{block}{slash}{RAW}", one.column))
        if base is None or base is one or one.value is None or base.value is None or one.chance is None:
            continue
        made.append(
            Reduction(
                one.table,
                one.row,
                one.column,
                one.data,
                _part(base.value - one.value, base.value),
                None if base.chance is None else _part(base.value - one.value, base.value - base.chance),
            )
        )
    return made


def _part(lost: float, whole: float) -> float | None:
    """In per cent; None where there was nothing to lose."""
    return 100 * lost / whole if whole > 0 else None


def reductions_text(found: Sequence[Reduction]) -> str:
    """As a table of their own: what is lost of utility, and what is hidden."""
    if not found:
        return ""
    lines = [
        "## Reductions against raw data",
        "",
        "Relative: how much lower the figure itself is, as papers print it. Above chance: how much is gone of what raw",
        "data give beyond knowing nothing; 100 % is all of it.",
        "",
        "| table | row | column | measured on | relative % | above chance % |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        shares = " | ".join(
            UNDEFINED if value is None else f"{value:.1f}" for value in (one.relative, one.above_chance)
        )
        lines.append(f"| {one.table} | {one.row} | {one.column} | {one.data} | {shares} |")
    return "\n".join(lines) + "\n"
