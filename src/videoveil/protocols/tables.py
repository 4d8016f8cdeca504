"""Cells of a protocol beside the paper's: from panels to what the report draws."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

from videoveil.protocols.base import Cell, Evaluation, Panel
from videoveil.report.comparison import Comparison, Head, Number, Origin


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
        Number(one.row, one.column, one.value, one.data, one.chance, interval(one.values), one.note)
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


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % of the mean over seeds, by Student's t; none for a single seed."""
    if len(values) < 2:
        return None
    from scipy.stats import t

    centre = mean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return centre - half, centre + half
