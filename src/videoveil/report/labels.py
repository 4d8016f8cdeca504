"""Names beside points of a plot, where they cover little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDES = (
    (1.0, 0.0, "left", "center"),
    (-1.0, 0.0, "right", "center"),
    (0.0, 1.0, "center", "bottom"),
    (0.0, -1.0, "center", "top"),
    (0.7, 0.7, "left", "bottom"),
    (0.7, -0.7, "left", "top"),
    (-0.7, 0.7, "right", "bottom"),
    (-0.7, -0.7, "right", "top"),
)  # of a point, where its name may stand: direction, and which part of the name is there
AWAY = (
    3.0,
    16.0,
    30.0,
)  # typographic points between a marker and its name; from the second on a line joins them
FARTHER = 120.0  # how much worse a name farther away is, in covered pixels
OUTSIDE = 100.0  # how much worse a pixel beyond the axes is than a covered one

Box = Sequence[float]  # left, bottom, right, top in pixels


@dataclass(frozen=True, slots=True)
class Named:
    """A point of the plot with its marker's diameter in typographic points; one without a name is only kept free."""

    name: str
    x: float
    y: float
    across: float


def place(
    figure: Figure, axes: Axes, points: Sequence[Named], lines: Sequence[tuple[Box, float]] = ()
) -> None:
    """Write every name on the side of its point where it covers least of the markers, lines and earlier names.

    In a crowd it stands farther away, and a thin line says whose it is.
    """
    if not any(point.name for point in points):
        return
    figure.draw_without_rendering()  # now everything has its place
    taken = [_marker(figure, axes, point) for point in points]
    for box, width in lines:
        taken.append(_stroke(figure, axes, box, width))
    for point in points:
        if point.name:
            taken.append(_write(axes, point, taken))


def _write(axes: Axes, point: Named, taken: Sequence[Box]) -> Box:
    from matplotlib.text import Text

    tried: list[tuple[float, Any, Box]] = []
    for ring, gap in enumerate(AWAY):
        away = point.across / 2 + gap
        line = {
            "arrowstyle": "-",
            "linewidth": 0.6,
            "color": "#888888",
            "shrinkA": 0,
            "shrinkB": point.across / 2,
        }
        for sideways, upwards, ha, va in SIDES:
            text = axes.annotate(point.name, (point.x, point.y), (sideways * away, upwards * away),
                                 textcoords="offset points", ha=ha, va=va, fontsize=9, zorder=4,
                                 arrowprops=line if ring else None)  # fmt: skip
            text.get_window_extent()  # puts it there
            box = Text.get_window_extent(text).extents  # without its line
            covered = sum(overlap(box, other) for other in taken)
            tried.append((covered + OUTSIDE * _beyond(axes, box) + FARTHER * ring, text, box))
    best = min(tried, key=lambda one: one[0])
    for one in tried:
        if one is not best:
            one[1].remove()
    return best[2]


def overlap(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _beyond(axes: Axes, box: Box) -> float:
    left, bottom, right, top = axes.bbox.extents
    return sum(max(0.0, by) for by in (left - box[0], box[2] - right, bottom - box[1], box[3] - top))


def _marker(figure: Figure, axes: Axes, point: Named) -> Box:
    x, y = axes.transData.transform((point.x, point.y))
    reach = (point.across / 2 + 1) * figure.dpi / 72
    return (x - reach, y - reach, x + reach, y + reach)


def _stroke(figure: Figure, axes: Axes, box: Box, width: float) -> Box:
    """A horizontal or vertical line in data coordinates, as wide as it is drawn."""
    (left, bottom), (right, top) = axes.transData.transform(((box[0], box[1]), (box[2], box[3])))
    reach = width * figure.dpi / 72
    return (left - reach, bottom - reach, right + reach, top + reach)
