"""Every table of the papers as data: one JSON file a paper, and a small typed reader.

    table("splavu/T5").value("T+B", "THUMOS14 mAP")   # 3.81

Values are in the unit that the paper prints: per cent, 0 to 1 for F1 scores and areas, millions, minutes. A value that
a paper leaves out is None. Rows that papers name differently have one name here (`Raw`, `VITA`, `WeakBlur`…), and notes
say what is known to be wrong with a number. Numbers are facts to compare with, never results of this software.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from videoveil.errors import UsageError

Better = Literal["lower", "higher"]
Unit = Literal["%", "1", "M", "min"]
PAPERS = ("spact", "ted_spad", "penalty", "splavu")
ALL = "*"  # a note on a whole row


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """What is measured, on which data, by which network; `better` says which way is good for the anonymizer."""

    name: str
    metric: str
    unit: Unit
    better: Better
    datasets: tuple[str, ...]
    model: str = ""  # the network or attacker that measures, where the table names it

    def __post_init__(self) -> None:
        if self.better not in get_args(Better) or self.unit not in get_args(Unit):
            raise UsageError(
                f"column {self.name!r}: better={self.better!r}, unit={self.unit!r} are not known"
            )


@dataclass(frozen=True, slots=True)
class PaperCell:
    """One printed number."""

    table: str  # "splavu/T5"
    row: str
    column: PaperColumn
    value: float | None
    note: str = ""


@dataclass(frozen=True)
class PaperTable:
    """A printed table; `id` is PAPER/TABLE."""

    id: str
    paper: str  # its title and where it appeared
    title: str
    columns: tuple[PaperColumn, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    note: str = ""
    notes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise UsageError(f"{self.id}: a column is there twice: {', '.join(names)}")
        if wrong := [row for row, values in self.rows.items() if len(values) != len(names)]:
            raise UsageError(f"{self.id}: {', '.join(wrong)}: not as many values as columns ({len(names)})")
        for row, marked in self.notes.items():
            if row not in self.rows or (lost := set(marked) - {*names, ALL}):
                raise UsageError(f"{self.id}: a note on {row!r} {sorted(lost) if row in self.rows else ''}")

    def column(self, name: str) -> PaperColumn:
        for column in self.columns:
            if column.name == name:
                return column
        there = ", ".join(column.name for column in self.columns)
        raise UsageError(f"{self.id}: no column {name!r}; there are {there}")

    def cell(self, row: str, column: str) -> PaperCell:
        found = self.column(column)
        if row not in self.rows:
            raise UsageError(f"{self.id}: no row {row!r}; there are {', '.join(self.rows)}")
        marked = self.notes.get(row, {})
        note = "; ".join(marked[key] for key in (ALL, column) if key in marked)
        return PaperCell(self.id, row, found, self.rows[row][self.columns.index(found)], note)

    def value(self, row: str, column: str) -> float | None:
        return self.cell(row, column).value

    def cells(self) -> Iterator[PaperCell]:
        """Row by row, those that the paper leaves out included."""
        for row in self.rows:
            for column in self.columns:
                yield self.cell(row, column.name)


def tables() -> tuple[PaperTable, ...]:
    """All tables of all papers."""
    return tuple(found for paper in PAPERS for found in _paper(paper).values())


def table(name: str) -> PaperTable:
    """The table PAPER/TABLE."""
    paper, _, _ = name.partition("/")
    found = _paper(paper) if paper in PAPERS else {}
    if name not in found:
        there = ", ".join(one.id for one in tables())
        raise UsageError(f"no table {name!r}; there are {there}")
    return found[name]


@cache
def _paper(paper: str) -> dict[str, PaperTable]:
    text = files(__package__).joinpath(f"{paper}.json").read_text("utf-8")
    return parse(paper, json.loads(text))


def parse(paper: str, value: Mapping[str, Any]) -> dict[str, PaperTable]:
    """The tables of one file by id; a field that is missing or unknown is an error that names it."""
    found = {}
    origin = f"{value['title']} ({value['venue']})"
    for name, one in value["tables"].items():
        if unknown := sorted(set(one) - {"title", "columns", "rows", "note", "notes"}):
            raise UsageError(f"{paper}/{name}: unknown {', '.join(unknown)}")
        try:
            columns = tuple(PaperColumn(**{**c, "datasets": tuple(c["datasets"])}) for c in one["columns"])
            rows = {row: tuple(values) for row, values in one["rows"].items()}
            made = PaperTable(
                f"{paper}/{name}",
                origin,
                one["title"],
                columns,
                rows,
                one.get("note", ""),
                one.get("notes", {}),
            )
        except (KeyError, TypeError) as error:
            raise UsageError(f"{paper}/{name}: cannot be read ({error!r})") from error
        found[made.id] = made
    return found
