"""Figures for reports, and their text as SVG that fits into a page: the same bytes every time, legible by night.

    svg(tradeoff([Point("raw", "static", 1.0, 1.0), …], "leakage", "utility kept"), "frontier")

A figure is drawn in one ink and a palette that colour-blind people can tell apart. In SVG the ink becomes the colour of
the page's text and the palette the page's variables `--series-0`, `--series-1`…, so a page can be dark.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil import files
from videoveil.errors import UsageError
from videoveil.report import labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#22303f"
SERIES = (
    "#7a828c",
    "#d55e00",
    "#0072b2",
    "#009e73",
    "#cc79a7",
    "#e69f00",
)  # after Okabe and Ito; grey is first
MARKERS = ("o", "^", "s", "D", "v", "P")
MARKER, SMALLEST, LARGEST = 9.0, 5.0, 12.0  # points across a marker: of no size, and of sizes
WIDTH = 5.2  # inches: letters keep a readable size on a telephone
FONT = "DejaVu Sans"  # comes with the plotting library: the same layout everywhere
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
NO_METADATA = dict.fromkeys(
    ("Date", "Creator", "Format", "Type")
)  # a file that says when it was made never repeats
FORMATS: dict[str, Any] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}  # what a file of each format would say about when and by what it was made
DPI = 120
LEGEND_LETTERS = 75  # of a legend's row
DOTS = 24  # of every step of a line that names keep clear of
FEW = 25  # points of a line up to which each is marked
BARE_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: `series` gives its colour, `kind` its marker, `size` how large it is, `label` its name.

    `low` and `high` are a range of y, `left` and `right` one of x. A filled point is one that counts more.
    """

    series: str
    kind: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    left: float | None = None
    right: float | None = None
    size: float | None = None
    filled: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A named curve."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Level:
    """A value to compare with, such as chance."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one x to another something holds, such as the truth; stretches of one name are explained once."""

    first: float
    last: float
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves of one quantity, among panels over a common x."""

    y_label: str
    lines: Sequence[Line]
    levels: Sequence[Level] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that belong together, by series, None where there is no value; `mark` is what a blind guess gives."""

    name: str
    values: Mapping[str, float | None]
    mark: float | None = None


def tradeoff(
    points: Sequence[Point],
    x_label: str,
    y_label: str,
    levels: Sequence[Level] = (),
    *,
    size_label: str = "",
    filled_label: str = "",
    joins: Sequence[Line] = (),
) -> Figure:
    """Points in a plane, every series in its colour and every kind with its marker; levels are values of x.

    Sizes, where points have them, are told apart by their logarithm; `size_label` is their unit. Filled points are
    explained as `filled_label`; a kind without a name is not. `joins` lead through points of the series whose name they
    have.
    """
    if not points:
        raise UsageError("a trade-off needs at least one point")
    series = list(dict.fromkeys(point.series for point in points))
    kinds = list(dict.fromkeys(point.kind for point in points))
    if len(kinds) > len(MARKERS):
        raise UsageError(f"{len(kinds)} kinds of points: at most {len(MARKERS)} can be told apart")
    sizes = sorted({point.size for point in points if point.size is not None})
    diameter = _diameters(sizes)
    with _axes(3.7) as (figure, axes):
        _levels(axes, levels, vertical=True)
        for one in joins:
            axes.plot(one.x, one.y, color=_colour(series.index(one.name)), lw=1.5, alpha=0.6, zorder=2)
        for point in points:
            colour, marker = _colour(series.index(point.series)), MARKERS[kinds.index(point.kind)]
            for left, low, right, high in _ranges(point):
                if left == right:
                    axes.vlines(left, low, high, color=colour, lw=1.2, alpha=0.8)
                else:
                    axes.hlines(low, left, right, color=colour, lw=1.2, alpha=0.8)
            # empty markers: what lies behind another one is still seen
            axes.plot(point.x, point.y, marker, ms=diameter(point.size), mew=2, mec=colour, zorder=3,
                      mfc=colour if point.filled else "none")  # fmt: skip
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.margins(0.12)
        _point_legend(axes, series, kinds, filled_label, _size_handles(sizes, diameter, size_label))
        named = [labels.Named(point.label, point.x, point.y, diameter(point.size)) for point in points]
        taken = [box for point in points for box in _ranges(point)]
        taken += [(x, y, x, y) for one in joins for x, y in _dots(one)]
        labels.place(figure, axes, named, [(box, 1.2) for box in taken])
    return figure


def curves(
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    levels: Sequence[Level] = (),
    stretches: Sequence[Stretch] = (),
) -> Figure:
    """Curves over a common x, with levels across and stretches shaded."""
    _require_lines(lines)
    with _axes(2.8) as (figure, axes):
        _levels(axes, levels, vertical=False)
        # a line alone has a colour; grey is for what others are compared with
        first = 2 if len(lines) == 1 else 0
        handles: list[Any] = [_line(axes, line, number) for number, line in enumerate(lines, first)]
        named: dict[str, Any] = {}
        for one in stretches:
            named[one.name] = axes.axvspan(one.first, one.last, color=INK, alpha=0.15, lw=0, label=one.name)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        handles += named.values()
        if len(handles) > 1:
            _legend_above(axes, handles)
    return figure


def panels(parts: Sequence[Panel], x_label: str, names: Sequence[str] = ()) -> Figure:
    """Panels one above the other over a common x; a line's name has one colour in all of them, explained once.

    Colours go by the order of `names`, then by that of appearance.
    """
    from matplotlib.ticker import MaxNLocator

    if not parts:
        raise UsageError("panels need at least one panel")
    drawn = {line.name for part in parts for line in part.lines}
    seen = (line.name for part in parts for line in part.lines)
    names = [name for name in dict.fromkeys((*names, *seen)) if name in drawn]
    first = 2 if len(names) == 1 else 0
    with _many_axes(0.5 + 1.75 * len(parts), len(parts)) as (figure, column):
        explained: dict[str, Any] = {}
        for axes, part in zip(column, parts):
            _require_lines(part.lines)
            _levels(axes, part.levels, vertical=False, at_the_end=False)
            for line in part.lines:
                explained.setdefault(line.name, _line(axes, line, first + names.index(line.name)))
            axes.set_ylabel(part.y_label)
            axes.margins(y=0.1)
        column[-1].set_xlabel(x_label)
        if all(float(x).is_integer() for part in parts for line in part.lines for x in line.x):
            column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))  # there is no epoch 0.5
        figure.align_ylabels(column)
        if len(names) > 1:
            _legend_above(column[0], [explained[name] for name in names])
    return figure


def bars(groups: Sequence[Group], x_label: str, mark: str = "blind guess", limit: float = 1.0) -> Figure:
    """Horizontal bars, a group per row from the top, with the mark of every group as a line across its bars."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if not groups:
        raise UsageError("bars need at least one group")
    series = list(dict.fromkeys(name for group in groups for name in group.values))
    thick = 0.8 / max(len(series), 1)
    with _axes(0.9 + len(groups) * (0.12 + 0.1 * len(series))) as (figure, axes):
        for row, group in enumerate(groups):
            for place, name in enumerate(series):
                value = group.values.get(name)
                if value is not None:
                    axes.barh(row - 0.4 + (place + 0.5) * thick, value, 0.9 * thick, color=_colour(place))
            if group.mark is not None:
                axes.vlines(group.mark, row - 0.45, row + 0.45, color=INK, lw=2)
        axes.set_yticks(range(len(groups)), [group.name for group in groups])
        axes.set_ylim(len(groups) - 0.4, -0.6)
        axes.set_xlim(0, limit)
        axes.set_xlabel(x_label)
        axes.tick_params(axis="y", length=0)
        handles: list[Any] = [Patch(color=_colour(i), label=name) for i, name in enumerate(series)]
        if any(group.mark is not None for group in groups):
            handles.append(Line2D([], [], ls="", marker="|", color=INK, ms=10, mew=2, label=mark))
        _legend_above(axes, handles)
    return figure


def svg(figure: Figure, name: str) -> str:
    """A figure as an SVG element for a page; `name` keeps its ids apart from those of other figures there."""
    from matplotlib import rc_context

    if not BARE_NAME.fullmatch(name):
        raise UsageError(f"figure name {name!r}: small letters, digits and -, beginning with a letter")
    out = io.StringIO()
    with rc_context({"svg.hashsalt": "videoveil", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata=NO_METADATA, transparent=True)
    element = out.getvalue()
    element = element[element.index("<svg") :].strip()
    element = re.sub(r' xmlns(:\w+)?="[^"]*"', "", element, count=2)  # a page knows what svg is
    element = re.sub(r"<style.*?</style>", "", element, flags=re.DOTALL)  # would be the whole page's
    element = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', element)
    element = re.sub(r'(href="#|url\(#)', rf"\1{name}-", element)
    element = re.sub(r"font-family: [^;\"]*", "font-family: inherit", element)
    element = element.replace(INK, "currentColor")
    for number, colour in enumerate(SERIES):
        element = element.replace(colour, f"var(--series-{number}, {colour})")
    return element


def write(figure: Figure, destination: str | Path) -> None:
    """A figure as a file, whole or not at all; its suffix says how. Equal figures give equal bytes."""
    from matplotlib import rc_context

    destination = Path(destination)
    require_format(destination)
    with rc_context({"svg.hashsalt": "videoveil"}), files.atomic_path(destination) as temporary:
        figure.savefig(temporary, dpi=DPI, metadata=FORMATS[destination.suffix.lower()])


def require_format(destination: Path) -> None:
    """Refuse a picture that could not be written, before anything is computed for it."""
    if destination.suffix.lower() not in FORMATS:
        raise UsageError(f"{destination}: pictures are written as {', '.join(FORMATS)}")


# --- parts --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _axes(height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure with one set of axes in the house style."""
    with _many_axes(height, 1) as (figure, column):
        yield figure, column[0]


@contextlib.contextmanager
def _many_axes(height: float, rows: int) -> Iterator[tuple[Figure, list[Axes]]]:
    """A column of axes over one x in the house style; names are plain text, whatever signs are in them."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = dict.fromkeys(INKED, INK)
    style |= {"font.family": [FONT], "font.size": 10, "text.parse_math": False}
    with rc_context(style):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        column: list[Axes] = list(figure.subplots(rows, sharex=True, squeeze=False)[:, 0])
        for axes in column:
            axes.grid(color=INK, alpha=0.15, lw=0.6)
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        yield figure, column


def _require_lines(lines: Sequence[Line]) -> None:
    if not lines or any(len(line.x) != len(line.y) or not len(line.x) for line in lines):
        raise UsageError("curves need at least one line, and as many x as y")


def _line(axes: Axes, line: Line, number: int) -> Any:
    style = "o-" if len(line.x) <= FEW else "-"
    (drawn,) = axes.plot(line.x, line.y, style, color=_colour(number), lw=1.8, ms=4, label=line.name)
    return drawn


def _colour(number: int) -> str:
    if number >= len(SERIES):
        raise UsageError(f"more than {len(SERIES)} series: no colours are left that can be told apart")
    return SERIES[number]


def _levels(axes: Axes, levels: Sequence[Level], *, vertical: bool, at_the_end: bool = True) -> None:
    for level in levels:
        where: dict[str, Any] = {"color": INK, "lw": 1.2, "ls": (0, (4, 3)), "alpha": 0.7}
        if vertical:
            axes.axvline(level.value, **where)
            axes.annotate(level.name, (level.value, 0.02), (4, 0), xycoords=axes.get_xaxis_transform(),
                          textcoords="offset points", rotation=90, fontsize=9)  # fmt: skip
        else:
            axes.axhline(level.value, **where)
            x, y, ha, va = (0.99, -3, "right", "top") if at_the_end else (0.01, 2, "left", "bottom")
            axes.annotate(level.name, (x, level.value), (0, y), xycoords=axes.get_yaxis_transform(),
                          textcoords="offset points", ha=ha, va=va, fontsize=9)  # fmt: skip


def _point_legend(
    axes: Axes, series: Sequence[str], kinds: Sequence[str], filled: str, sizes: Sequence[Any]
) -> None:
    """Colours first, then markers, then what filled ones and sizes mean."""
    from matplotlib.lines import Line2D

    colours = [Line2D([], [], color=_colour(i), lw=4, label=name) for i, name in enumerate(series)]
    markers = [
        Line2D([], [], ls="", marker=marker, ms=8, mew=2, mfc="none", mec=INK, label=name)
        for marker, name in zip(MARKERS, kinds)
        if name
    ]
    if filled:
        markers.append(Line2D([], [], ls="", marker=MARKERS[0], ms=8, mew=2, mfc=INK, mec=INK, label=filled))
    _legend_above(axes, [*colours, *markers, *sizes])


def _ranges(point: Point) -> list[tuple[float, float, float, float]]:
    """The ranges of a point as lines: left, low, right, high."""
    found = []
    if point.low is not None and point.high is not None:
        found.append((point.x, point.low, point.x, point.high))
    if point.left is not None and point.right is not None and point.left != point.right:
        found.append((point.left, point.y, point.right, point.y))
    return found


def _dots(line: Line) -> list[tuple[float, float]]:
    """Places along a line, close enough for names to keep clear of it wherever it leads."""
    steps = pairwise(zip(line.x, line.y))
    shares = [place / DOTS for place in range(DOTS + 1)]
    return [(x + s * (x2 - x), y + s * (y2 - y)) for (x, y), (x2, y2) in steps for s in shares]


def _diameters(sizes: Sequence[float]) -> Callable[[float | None], float]:
    """From a size to points across: the logarithm between the least and the greatest one."""
    if sizes and not 0 < sizes[0] <= sizes[-1] < math.inf:
        raise UsageError(f"sizes of points must be numbers above 0, not {sizes[0]} to {sizes[-1]}")
    spread = math.log(sizes[-1] / sizes[0]) if sizes else 0.0

    def diameter(size: float | None) -> float:
        if size is None or not spread:
            return MARKER
        return SMALLEST + (LARGEST - SMALLEST) * math.log(size / sizes[0]) / spread

    return diameter


def _size_handles(
    sizes: Sequence[float], diameter: Callable[[float | None], float], name: str
) -> Sequence[Any]:
    """The least and the greatest size, which tell how to read those between."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], ls="", marker="o", ms=diameter(size), mew=2, mfc="none", mec=INK,
               label=f"{short(size)} {name}".strip())
        for size in dict.fromkeys((*sizes[:1], *sizes[-1:]))
    ]  # fmt: skip


def short(number: float) -> str:
    """25600000 → 25.6 M."""
    for unit, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= 0.9995 * unit:
            return f"{number / unit:.3g}{letter}"
    return f"{number:.3g}"


def _legend_above(axes: Axes, handles: Sequence[Any]) -> None:
    """Above the axes, where nothing that was drawn is hidden; in one row where the names are short enough."""
    letters = max(len(handle.get_label()) for handle in handles) + 6  # a handle takes the room of six
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=max(1, min(len(handles), LEGEND_LETTERS // letters)),
        frameon=False,
        fontsize=9,
        borderpad=0.1,
        handletextpad=0.6,
        columnspacing=1.2,
    )
