"""Cells of a protocol beside the paper's: from panels to what the report draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from videoveil.protocols.base import Cell, Evaluation, Panel
from videoveil.protocols.strength import beats_chance, raw_cells, raw_row
from videoveil.report.comparison import UNDEFINED, Comparison, Head, Number, Origin

Ends = tuple[float, float]
WEAK = "raw data do not clearly beat chance: there is nothing to take away"
UNSURE = "no interval shows that raw data beat chance; give more seeds"
NO_ANSWERS = "no interval: what was said of single items was not kept, or is of other items with other seeds"


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
        Number(
            one.row, one.column, one.value, one.data, one.chance, one.interval, _remark(one), bool(one.void)
        )
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


def _remark(cell: Cell) -> str:
    return "; ".join(word for word in (cell.void, cell.note) if word)


@dataclass(frozen=True, slots=True)
class Reduction:
    """How much of the raw figure an anonymizer takes away, in per cent.

    `relative` is what papers print, 100·(raw − x) / raw; part of a score is chance, which nobody can take away.
    `above_chance` is 100·(raw − x) / (raw − chance): of what raw data give beyond chance. None: not defined, as the
    note says. Intervals draw seeds and test items, the same ones for both rows.
    """

    table: str
    row: str
    column: str
    data: str
    relative: float | None
    above_chance: float | None
    relative_interval: Ends | None = None
    above_chance_interval: Ends | None = None
    note: str = ""


def reductions(cells: Sequence[Cell]) -> list[Reduction]:
    """Of every cell whose table has the same column for raw data with the same encoder."""
    raw = raw_cells(cells)
    made = []
    for one in cells:
        base = raw.get((one.table, raw_row(one.row), one.column))
        if base is None or base is one or one.value is None or base.value is None or one.chance is None:
            continue
        made.append(_reduction(one, base))
    return made


def _reduction(one: Cell, base: Cell) -> Reduction:
    place = (one.table, one.row, one.column, one.data)
    other = _other_encoder(one, base)
    if not (strong := beats_chance(base)):
        return Reduction(*place, None, None, note=_joined(UNSURE if strong is None else WEAK, other))
    assert one.value is not None
    assert base.value is not None
    assert base.chance is not None
    lost = base.value - one.value
    relative, above = 100 * lost / base.value, 100 * lost / (base.value - base.chance)
    if len(base.values) < 2:  # as for figures: one seed says nothing about the next one
        return Reduction(*place, relative, above, note=other)
    ends = _ends(one, base, relative, above)
    return Reduction(
        *place, relative, above, *(ends or (None, None)), _joined("" if ends else NO_ANSWERS, other)
    )


def _ends(one: Cell, base: Cell, relative: float, above: float) -> tuple[Ends | None, Ends | None] | None:
    """Intervals of both, by draws of the same items for both rows; None where their answers are not at hand."""
    if one.sample is None or base.sample is None or not one.sample.pairs_with(base.sample):
        return None
    assert base.chance is not None
    raw, left = base.sample.drawn, one.sample.drawn
    # draws count chance as blind answers on so few items get it; the figure takes it as it is printed
    printed = base.chance / base.sample.factor
    chances = printed if np.isnan(raw.chance) else raw.chances - (raw.chance - printed)
    lost = raw.values - left.values
    drawn = (_parts(lost, raw.values), _parts(lost, raw.values - chances))
    return base.sample.interval(relative, drawn[0]), base.sample.interval(above, drawn[1])


def _parts(lost: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """In per cent (B,); NaN in draws where there was nothing to lose."""
    return 100 * lost / np.where(whole > 0, whole, np.nan)


def _other_encoder(one: Cell, base: Cell) -> str:
    if one.encoder == base.encoder:
        return ""
    return (
        f"raw data by features of {base.encoder}, this row of {one.encoder}: part of it may be the networks'"
    )


def _joined(*words: str) -> str:
    return "; ".join(word for word in words if word)


def reductions_text(found: Sequence[Reduction]) -> str:
    """As a table of their own: what is lost of utility, and what is hidden."""
    if not found:
        return ""
    lines = [
        "## Reductions against raw data",
        "",
        "Relative: how much lower the figure itself is, as papers print it. Above chance: how much is gone of what raw",
        "data give beyond knowing nothing; 100 % is all of it. Neither is defined where raw data do not clearly beat",
        "chance. Square brackets: 95 % interval, by drawing seeds and test items, the same ones for both rows.",
        "",
        "| table | row | column | measured on | relative % | above chance % | remark |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        relative = _shown(one.relative, one.relative_interval)
        above = _shown(one.above_chance, one.above_chance_interval)
        place = f"{one.table} | {one.row} | {one.column} | {one.data}"
        lines.append(f"| {place} | {relative} | {above} | {one.note} |")
    return "\n".join(lines) + "\n"


def _shown(value: float | None, ends: Ends | None) -> str:
    if value is None:
        return UNDEFINED
    return f"{value:.1f}" + ("" if ends is None else f" [{ends[0]:.1f}, {ends[1]:.1f}]")
