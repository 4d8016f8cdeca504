"""Figures for reports, and their text as SVG that fits into a page: the same bytes every time, legible by night.

    svg(tradeoff([Point("raw", "static", 1.0, 1.0), …], "leakage", "utility kept"), "frontier")

A figure is drawn in one ink and a palette that colour-blind people can tell apart. In SVG the ink becomes the colour of
the page's text and the palette the page's variables `--series-0`, `--series-1`…, so a page can be dark.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from videoveil.errors import UsageError

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
WIDTH = 5.2  # inches: letters keep a readable size on a telephone
FONT = "DejaVu Sans"  # comes with the plotting library: the same layout everywhere
INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
NO_METADATA = dict.fromkeys(
    ("Date", "Creator", "Format", "Type")
)  # a file that says when it was made never repeats
LEGEND_LETTERS = 75  # of a legend's row
FEW = 25  # points of a line up to which each is marked
BARE_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: `series` gives its colour, `kind` its marker; `low` and `high` a range of y."""

    series: str
    kind: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None


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
class Group:
    """Bars that belong together, by series, None where there is no value; `mark` is what a blind guess gives."""

    name: str
    values: Mapping[str, float | None]
    mark: float | None = None


def tradeoff(points: Sequence[Point], x_label: str, y_label: str, levels: Sequence[Level] = ()) -> Figure:
    """Points in a plane, every series in its colour and every kind with its marker; levels are values of x."""
    if not points:
        raise UsageError("a trade-off needs at least one point")
    series = list(dict.fromkeys(point.series for point in points))
    kinds = list(dict.fromkeys(point.kind for point in points))
    if len(kinds) > len(MARKERS):
        raise UsageError(f"{len(kinds)} kinds of points: at most {len(MARKERS)} can be told apart")
    with _axes(3.7) as (figure, axes):
        _levels(axes, levels, vertical=True)
        for point in points:
            colour, marker = _colour(series.index(point.series)), MARKERS[kinds.index(point.kind)]
            if point.low is not None and point.high is not None:
                axes.vlines(point.x, point.low, point.high, color=colour, lw=1.2, alpha=0.8)
            # empty markers: what lies behind another one is still seen
            axes.plot(point.x, point.y, marker, ms=9, mew=2, mfc="none", mec=colour, zorder=3)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.margins(0.12)
        _point_legend(axes, series, kinds)
    return figure


def curves(
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    levels: Sequence[Level] = (),
    stretches: Sequence[Stretch] = (),
) -> Figure:
    """Curves over a common x, with levels across and stretches shaded."""
    if not lines or any(len(line.x) != len(line.y) or not len(line.x) for line in lines):
        raise UsageError("curves need at least one line, and as many x as y")
    with _axes(2.8) as (figure, axes):
        _levels(axes, levels, vertical=False)
        handles: list[Any] = []
        # a line alone has a colour; grey is for what others are compared with
        for number, line in enumerate(lines, 2 if len(lines) == 1 else 0):
            style = "o-" if len(line.x) <= FEW else "-"
            handles += axes.plot(line.x, line.y, style, color=_colour(number), lw=1.8, ms=4, label=line.name)
        named: dict[str, Any] = {}
        for one in stretches:
            named[one.name] = axes.axvspan(one.first, one.last, color=INK, alpha=0.15, lw=0, label=one.name)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        handles += named.values()
        if len(handles) > 1:
            _legend_above(axes, handles)
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


# --- parts --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _axes(height: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure with one set of axes in the house style; names are plain text, whatever signs are in them."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = dict.fromkeys(INKED, INK)
    style |= {"font.family": [FONT], "font.size": 10, "text.parse_math": False}
    with rc_context(style):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.grid(color=INK, alpha=0.15, lw=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        yield figure, axes


def _colour(number: int) -> str:
    if number >= len(SERIES):
        raise UsageError(f"more than {len(SERIES)} series: no colours are left that can be told apart")
    return SERIES[number]


def _levels(axes: Axes, levels: Sequence[Level], *, vertical: bool) -> None:
    for level in levels:
        where: dict[str, Any] = {"color": INK, "lw": 1.2, "ls": (0, (4, 3)), "alpha": 0.7}
        if vertical:
            axes.axvline(level.value, **where)
            axes.annotate(level.name, (level.value, 0.02), (4, 0), xycoords=axes.get_xaxis_transform(),
                          textcoords="offset points", rotation=90, fontsize=9)  # fmt: skip
        else:
            axes.axhline(level.value, **where)
            axes.annotate(level.name, (0.99, level.value), (0, -3), xycoords=axes.get_yaxis_transform(),
                          textcoords="offset points", ha="right", va="top", fontsize=9)  # fmt: skip


def _point_legend(axes: Axes, series: Sequence[str], kinds: Sequence[str]) -> None:
    """Colours first, then markers."""
    from matplotlib.lines import Line2D

    colours = [Line2D([], [], color=_colour(i), lw=4, label=name) for i, name in enumerate(series)]
    markers = [
        Line2D([], [], ls="", marker=marker, ms=8, mew=2, mfc="none", mec=INK, label=name)
        for marker, name in zip(MARKERS, kinds)
    ]
    _legend_above(axes, colours + markers)


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
