"""Plots: everything that was asked for is drawn, the same bytes every time, in colours that a page can change."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from videoveil.errors import UsageError
from videoveil.report.plots import (
    INK,
    MARKER,
    MARKERS,
    SERIES,
    Group,
    Level,
    Line,
    Panel,
    Point,
    Stretch,
    bars,
    curves,
    panels,
    short,
    svg,
    tradeoff,
    write,
)

POINTS = [
    Point("raw", "static", 1.0, 1.0),
    Point("raw", "moving", 1.0, 1.0),
    Point("ours", "static", 0.3, 0.97, 0.9, 1.02),
    Point("ours", "moving", 0.5, 0.97),
]
GROUPS = [
    Group("female", {"raw": 0.9, "ours": 0.6}, 0.5),
    Group("old", {"raw": 0.8, "ours": None}, 0.3),
    Group("tall", {"raw": 0.7, "ours": 0.4}),
]
HOSTILE = '</text><script>"$x_1$&'


def drawn(kind: str) -> Figure:
    if kind == "tradeoff":
        return tradeoff(POINTS, "leakage", "kept", [Level("blind", 0.0)])
    if kind == "curves":
        lines = [Line("a", [0, 1, 2], [3, 4, 5]), Line("b", [0, 1], [1, 0])]
        return curves(lines, "epoch", "loss", [Level("chance", 5.5)], [Stretch(0.5, 1, "truth")])
    if kind == "panels":
        first = Panel("loss", [Line("a", [0, 1], [3, 4]), Line("b", [0, 1], [1, 0])], [Level("chance", 2.5)])
        return panels([first, Panel("rate", [Line("b", [0, 1], [0.5, 1])])], "epoch")
    return bars(GROUPS, "AP", "prevalence")


KINDS = ("tradeoff", "curves", "bars", "panels")


def markers(figure: Figure) -> list[tuple[float, float, str, str]]:
    """x, y, marker and colour of every single point."""
    lines = [line for line in figure.axes[0].get_lines() if np.size(line.get_xdata()) == 1]
    return [
        (
            float(np.ravel(line.get_xdata())[0]),
            float(np.ravel(line.get_ydata())[0]),
            str(line.get_marker()),
            to_hex(line.get_markeredgecolor()),
        )
        for line in lines
    ]


def texts(markup: str) -> list[str]:
    return ["".join(node.itertext()) for node in parsed(markup).iter() if node.tag.endswith("text")]


def parsed(markup: str) -> ElementTree.Element:
    """As XML, which is stricter than what a browser asks for; a page needs no namespaces."""
    return ElementTree.fromstring(markup.replace("<svg", '<svg xmlns:xlink="x"', 1))


def test_every_point_is_at_its_place_with_colour_of_series_and_marker_of_kind() -> None:
    found = markers(drawn("tradeoff"))
    assert found == [
        (1.0, 1.0, MARKERS[0], SERIES[0]),
        (1.0, 1.0, MARKERS[1], SERIES[0]),
        (0.3, 0.97, MARKERS[0], SERIES[1]),
        (0.5, 0.97, MARKERS[1], SERIES[1]),
    ]


def test_range_of_a_point_is_drawn_where_there_is_one() -> None:
    axes = drawn("tradeoff").axes[0]
    (only,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert np.allclose(only.get_segments()[0], [[0.3, 0.9], [0.3, 1.02]])


def test_levels_are_lines_with_names() -> None:
    across = [
        line for line in drawn("tradeoff").axes[0].get_lines() if np.array_equal(line.get_xdata(), [0, 0])
    ]
    assert len(across) == 1
    assert "blind" in texts(svg(drawn("tradeoff"), "t"))
    level = [
        line for line in drawn("curves").axes[0].get_lines() if np.array_equal(line.get_ydata(), [5.5, 5.5])
    ]
    assert len(level) == 1


def test_curves_have_their_values_and_stretches_are_shaded() -> None:
    axes = drawn("curves").axes[0]
    values = [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]
    assert [3, 4, 5] in values
    assert [1, 0] in values
    (shade,) = [p for p in axes.patches if isinstance(p, Rectangle)]
    assert (shade.get_x(), shade.get_width()) == (0.5, 0.5)


def test_stretches_of_one_name_are_explained_once() -> None:
    twice = [Stretch(0, 1, "truth"), Stretch(2, 3, "truth")]
    markup = svg(curves([Line("a", [0, 3], [0, 1])], "x", "y", stretches=twice), "c")
    assert texts(markup).count("truth") == 1


def test_bars_have_their_lengths_rows_and_marks_and_nothing_where_there_is_no_value() -> None:
    axes = drawn("bars").axes[0]
    found = {
        (round(p.get_y() + p.get_height() / 2), to_hex(p.get_facecolor()), round(p.get_width(), 6))
        for p in axes.patches
        if isinstance(p, Rectangle) and p.get_width()
    }
    grey, orange = SERIES[:2]
    assert found == {(0, grey, 0.9), (0, orange, 0.6), (1, grey, 0.8), (2, grey, 0.7), (2, orange, 0.4)}
    marks = [c.get_segments()[0][0][0] for c in axes.collections if isinstance(c, LineCollection)]
    assert marks == [0.5, 0.3]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["female", "old", "tall"]
    assert axes.yaxis_inverted()  # the first group is on top


@pytest.mark.parametrize("kind", KINDS)
def test_equal_figures_give_equal_bytes(kind: str) -> None:
    assert svg(drawn(kind), "one") == svg(drawn(kind), "one")


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_labels_are_text_that_can_be_read_and_searched(kind: str) -> None:
    wanted = {
        "tradeoff": {"leakage", "kept", "raw", "ours", "static", "moving", "blind"},
        "curves": {"epoch", "loss", "a", "b", "chance", "truth"},
        "bars": {"AP", "prevalence", "raw", "ours", "female", "old", "tall"},
        "panels": {"epoch", "loss", "rate", "a", "b", "chance"},
    }
    assert wanted[kind] <= set(texts(svg(drawn(kind), kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_page_decides_the_colours(kind: str) -> None:
    markup = svg(drawn(kind), kind)
    assert INK not in markup
    assert "currentColor" in markup
    assert re.search(r"var\(--series-[01], #", markup)
    assert "#000000" not in markup  # would not be seen on a dark page
    assert not re.search(r"fill: #ffffff|fill: white", markup)


@pytest.mark.parametrize("kind", KINDS)
def test_svg_has_no_style_date_or_address_and_its_ids_are_its_own(kind: str) -> None:
    markup = svg(drawn(kind), "mine")
    assert markup.startswith("<svg")
    assert markup.endswith("</svg>")
    assert not re.search(r"https?:|<style|<metadata|xmlns|<\?xml|<!DOCTYPE", markup)
    ids = re.findall(r'\bid="([^"]*)"', markup)
    assert ids
    assert all(name.startswith("mine-") for name in ids)
    asked = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', markup)
    assert asked
    assert {a or b for a, b in asked} <= set(ids)


def test_hostile_names_stay_text() -> None:
    figures = (
        tradeoff([Point(HOSTILE, HOSTILE, 0, 0)], HOSTILE, HOSTILE, [Level(HOSTILE, 0)]),
        curves([Line(HOSTILE, [0, 1], [0, 1])] * 2, HOSTILE, HOSTILE, [Level(HOSTILE, 0)]),
        bars([Group(HOSTILE, {HOSTILE: 1.0}, 0.5)], HOSTILE, HOSTILE),
    )
    for figure in figures:
        markup = svg(figure, "bad")
        assert "<script" not in markup
        assert HOSTILE in texts(markup)  # dollars make no formula either


def test_a_name_has_one_colour_in_all_panels_and_is_explained_once() -> None:
    upper, lower = drawn("panels").axes
    colours = {
        (axes, str(line.get_label())): to_hex(line.get_color())
        for axes in (upper, lower)
        for line in axes.get_lines()
    }
    assert colours[upper, "a"] == SERIES[0]
    assert colours[upper, "b"] == colours[lower, "b"] == SERIES[1]
    assert texts(svg(drawn("panels"), "p")).count("b") == 1
    assert upper.get_xlim() == lower.get_xlim()
    assert all(tick == round(tick) for tick in lower.get_xticks())  # whole epochs


def test_sizes_are_told_apart_by_their_logarithm_and_explained() -> None:
    sized = [Point("s", "k", x, 0, size=size) for x, size in enumerate((1e6, 1e7, 1e8))]
    figure = tradeoff([*sized, Point("s", "k", 3, 0)], "x", "y", size_label="parameters")
    found = [line.get_markersize() for line in figure.axes[0].get_lines()]
    assert found[1] - found[0] == pytest.approx(found[2] - found[1])
    assert found[0] < found[1] < found[2]
    assert found[3] == MARKER
    assert {"1 M parameters", "100 M parameters"} <= set(texts(svg(figure, "s")))
    with pytest.raises(UsageError, match="above 0"):
        tradeoff([Point("s", "k", 0, 0, size=0.0)], "x", "y")


def test_filled_points_ranges_of_x_and_names_are_drawn() -> None:
    figure = tradeoff(
        [
            Point("s", "k", 0.5, 2, left=0.4, right=0.6, filled=True, label="this one"),
            Point("s", "k", 0.2, 1),
        ],
        "x",
        "y",
        filled_label="the best",
    )
    axes = figure.axes[0]
    (only,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert np.allclose(only.get_segments()[0], [[0.4, 2], [0.6, 2]])
    faces = [line.get_markerfacecolor() for line in axes.get_lines()]
    assert faces == [SERIES[0], "none"]
    assert {"this one", "the best"} <= set(texts(svg(figure, "f")))


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1"), (999.4, "999"), (1000, "1 k"), (25.6e6, "25.6 M"), (60192808, "60.2 M"), (1.3e9, "1.3 G")],
)
def test_large_numbers_are_short(number: float, text: str) -> None:
    assert short(number) == text


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_written_figures_are_whole_and_the_same_bytes_every_time(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        write(drawn("curves"), tmp_path / f"{name}{suffix}")
    first = (tmp_path / f"a{suffix}").read_bytes()
    assert first == (tmp_path / f"b{suffix}").read_bytes()
    assert first.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", f"b{suffix}"]
    with pytest.raises(UsageError, match=r"a\.gif: pictures are written as"):
        write(drawn("curves"), tmp_path / "a.gif")


def test_figure_can_also_be_saved_as_a_picture(tmp_path: Path) -> None:
    drawn("tradeoff").savefig(tmp_path / "a.png", dpi=80)
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_what_cannot_be_drawn_is_refused() -> None:
    for bad in (
        lambda: tradeoff([], "x", "y"),
        lambda: curves([], "x", "y"),
        lambda: bars([], "x"),
        lambda: panels([], "x"),
    ):
        with pytest.raises(UsageError, match="at least one"):
            bad()
    with pytest.raises(UsageError, match="as many x as y"):
        curves([Line("a", [1, 2], [1])], "x", "y")
    with pytest.raises(UsageError, match="series"):
        tradeoff([Point(str(i), "k", 0, 0) for i in range(len(SERIES) + 1)], "x", "y")
    with pytest.raises(UsageError, match="kinds"):
        tradeoff([Point("s", str(i), 0, 0) for i in range(len(MARKERS) + 1)], "x", "y")
    with pytest.raises(UsageError, match="figure name"):
        svg(drawn("bars"), 'a" onload="x')
