"""What a paper printed beside what was measured here: Markdown and a picture.

    text = markdown([comparison])
    plots.write(picture(comparison), "t3.png")

Every figure of ours says what it was measured on. Real data, synthetic twins and plain counting never share a column
with each other or with the paper, in the table and in the picture alike; mixing them is an error. A row that was not
run stays where it is and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from videoveil.errors import UsageError
from videoveil.report.plots import FONT, INK, INKED, MARKERS, SERIES, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Origin = Literal["paper", "real", "twin", "counted"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
OURS: dict[str, str] = {"real": "ours, real data", "twin": "ours, twin", "counted": "ours, counted"}
NOT_RUN, NOT_PRINTED, UNDEFINED, VOID = "not run", "–", "not measurable", "void"
ARROWS = {"lower": "↓", "higher": "↑"}
UNITS = {"%": " %", "1": "", "M": " M", "min": " min"}
DIGITS = {"%": 2, "1": 3, "M": 1, "min": 2}
COLOURS = {"paper": SERIES[0], "real": SERIES[2], "twin": SERIES[1], "counted": SERIES[3]}


@dataclass(frozen=True, slots=True)
class Head:
    """A quantity: its name, its unit, and which way is good."""

    name: str
    unit: str = "%"
    better: str = "higher"
    printed_only: bool = False  # another quantity than any of ours

    def title(self) -> str:
        return f"{self.name}{UNITS.get(self.unit, '')} {ARROWS[self.better]}"


@dataclass(frozen=True, slots=True)
class Number:
    """One number, with what is said of it. `value` None: it was tried and the data do not define it, or not printed.

    `void`: nothing follows from it, as `note` explains.
    """

    row: str
    head: str
    value: float | None
    origin: Origin
    chance: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""
    void: bool = False

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise UsageError(
                f"{self.row}, {self.head}: origin {self.origin!r} is none of {', '.join(ORIGINS)}"
            )
        if self.value is not None and not math.isfinite(self.value):
            raise UsageError(f"{self.row}, {self.head}: {self.value} is not a number to report")


@dataclass(frozen=True)
class Column:
    """Figures of one quantity and one origin, by row."""

    head: Head
    origin: Origin
    figures: Mapping[str, Number]

    def __post_init__(self) -> None:
        for figure in self.figures.values():
            if figure.origin != self.origin:
                raise UsageError(
                    f"{self.head.name}: a {figure.origin} figure of {figure.row} cannot stand in the {self.origin} "
                    "column; results of twins, of real data and of papers are kept apart"
                )
            if figure.head != self.head.name:
                raise UsageError(f"{figure.row}: a figure of {figure.head} in the column {self.head.name}")

    def title(self) -> str:
        return "paper" if self.origin == "paper" else OURS[self.origin]


@dataclass(frozen=True)
class Comparison:
    """One printed table and what was measured of it."""

    name: str  # "spact/T3"
    title: str
    source: str  # the paper
    heads: tuple[Head, ...]
    rows: tuple[str, ...]  # of the paper, in its order
    figures: tuple[Number, ...]
    note: str = ""
    origins: tuple[Origin, ...] = field(default=())  # of ours, shown even where nothing was run

    def __post_init__(self) -> None:
        names = {head.name for head in self.heads}
        seen = set()
        for one in self.figures:
            if one.head not in names:
                raise UsageError(f"{self.name}: a figure of {one.head!r}, which is no column")
            if (one.row, one.head, one.origin) in seen:
                raise UsageError(f"{self.name}: {one.row}, {one.head} ({one.origin}) is there twice")
            if one.origin != "paper" and next(h for h in self.heads if h.name == one.head).printed_only:
                raise UsageError(f"{self.name}: nothing of ours may stand beside {one.head}")
            seen.add((one.row, one.head, one.origin))

    def all_rows(self) -> tuple[str, ...]:
        """The paper's rows, then ours that it does not have."""
        return tuple(dict.fromkeys((*self.rows, *(one.row for one in self.figures))))

    def columns(self) -> tuple[Column, ...]:
        """For every quantity: the paper's, then ours by origin. Without a printed number there is no paper's column."""
        there = {one.origin for one in self.figures} | set(self.origins)
        shown = [origin for origin in ORIGINS if origin in there or (origin == "paper" and self.rows)]
        if shown in ([], ["paper"]):
            shown = [*shown, "real"]
        found = []
        for head in self.heads:
            for origin in shown[:1] if head.printed_only else shown:
                own = {f.row: f for f in self.figures if f.head == head.name and f.origin == origin}
                if origin == "paper" and not any(f.value is not None for f in own.values()):
                    continue
                found.append(Column(head, origin, own))
        return tuple(found)


# --- Markdown -------------------------------------------------------------------------------------------------


def markdown(parts: Sequence[Comparison], title: str = "", words: Sequence[str] = ()) -> str:
    """All comparisons as one text."""
    if not parts:
        raise UsageError("there is nothing to compare")
    lines = [f"# {title}", ""] if title else []
    for word in words:
        lines += [word, ""]
    for part in parts:
        lines += [*_section(part), ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(part: Comparison) -> list[str]:
    columns, notes = part.columns(), _Notes()
    lines = [f"## {part.title}", "", f"{part.name}: {part.source}.{_word(part.note)}", ""]
    lines.append("| row | " + " | ".join(f"{c.head.title()}: {c.title()}" for c in columns) + " |")
    lines.append("|---" * (len(columns) + 1) + "|")
    for row in part.all_rows():
        cells = [_text(column, row, part.rows, notes) for column in columns]
        lines.append(f"| {_plain(row)} | " + " | ".join(cells) + " |")
    if any(column.origin != "paper" for column in columns):
        lines += ["", "In brackets: what knowing nothing would give."]
    return [*lines, *notes.lines()]


def _word(note: str) -> str:
    return f" {note}" if note else ""


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


class _Notes:
    """Remarks, numbered as they are met; equal ones have one number."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def mark(self, note: str) -> str:
        return f" [{self.found.setdefault(note, len(self.found) + 1)}]" if note else ""

    def lines(self) -> list[str]:
        return (
            ["", *(f"[{number}] {_plain(note)}  " for note, number in self.found.items())]
            if self.found
            else []
        )


def _text(column: Column, row: str, printed: Sequence[str], notes: _Notes) -> str:
    figure = column.figures.get(row)
    if figure is None:
        return NOT_PRINTED if column.origin == "paper" else NOT_RUN
    if figure.value is None:
        return (NOT_PRINTED if column.origin == "paper" else UNDEFINED) + notes.mark(figure.note)
    digits = DIGITS.get(column.head.unit, 2)
    text = f"{figure.value:.{digits}f}"
    if figure.interval is not None:
        text += f" [{figure.interval[0]:.{digits}f}, {figure.interval[1]:.{digits}f}]"
    if figure.chance is not None:
        text += f" ({figure.chance:.{digits}f})"
    return text + notes.mark(figure.note)


# --- picture --------------------------------------------------------------------------------------------------


def picture(part: Comparison) -> Figure:
    """Every quantity as a line of axes, every origin as axes of its own: no point of a twin lies beside a real one.

    Figures from which nothing follows are hollow, and a word says so: who sees the picture alone must not miss it.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, rows = part.columns(), part.all_rows()
    origins = list(dict.fromkeys(column.origin for column in columns))
    if not rows:
        raise UsageError(f"{part.name}: has no rows to draw")
    style: dict[Any, Any] = dict.fromkeys(INKED, INK)
    style |= {"font.family": [FONT], "font.size": 9, "text.parse_math": False}
    height = len(part.heads) * (0.55 + 0.2 * len(rows)) + 0.3
    with rc_context(style):
        figure = Figure(figsize=(WIDTH + 1.6 * (len(origins) - 1), height), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(len(part.heads), len(origins), squeeze=False)
        by_place = {(column.head.name, column.origin): column for column in columns}
        for line, head in enumerate(part.heads):
            for place, origin in enumerate(origins):
                column = by_place.get((head.name, origin))
                _axes(grid[line][place], column, rows, head, origin, named=place == 0)
    return figure


def _axes(
    axes: Axes, column: Column | None, rows: Sequence[str], head: Head, origin: Origin, *, named: bool
) -> None:
    places = range(len(rows))
    axes.set_yticks(places, rows if named else [""] * len(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(color=INK, alpha=0.15, lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(
        f"{head.title()}, {'paper' if origin == 'paper' else OURS[origin]}", fontsize=9, loc="left"
    )
    figures = {} if column is None else column.figures
    drawn = False
    for place, row in zip(places, rows):
        one = figures.get(row)
        if one is None or one.value is None:
            if origin != "paper":
                words = NOT_RUN if one is None else UNDEFINED
                axes.annotate(words, (0.01, place), xycoords=axes.get_yaxis_transform(), va="center", fontsize=7,
                              alpha=0.6)  # fmt: skip
            continue
        drawn = True
        colour = COLOURS[origin]
        if one.interval is not None:
            axes.hlines(place, *one.interval, color=colour, lw=1.5, ls="dotted" if one.void else "solid")
        if one.chance is not None:
            axes.vlines(one.chance, place - 0.3, place + 0.3, color=INK, lw=1.2)
        axes.plot(one.value, place, MARKERS[ORIGINS.index(origin)], color=colour, ms=6,
                  mfc="white" if one.void else colour)  # fmt: skip
        if one.void:
            right = one.value if one.interval is None else max(one.value, one.interval[1])
            axes.annotate(VOID, (right, place), (6, 0), textcoords="offset points", va="center", fontsize=7,
                          alpha=0.6)  # fmt: skip
    if not drawn:
        axes.set_xticks([])
    axes.margins(x=0.12)
