from __future__ import annotations

import math
from pathlib import Path

import pytest

from videoveil.errors import UsageError
from videoveil.report import plots
from videoveil.report.comparison import (
    NOT_RUN,
    UNDEFINED,
    VOID,
    Column,
    Comparison,
    Head,
    Number,
    markdown,
    picture,
)

TOP, CMAP = Head("top-1"), Head("cMAP", "%", "lower")


def comparison(*ours: Number, heads: tuple[Head, ...] = (TOP, CMAP), **more: object) -> Comparison:
    printed = (
        Number("Raw", "top-1", 62.3, "paper"),
        Number("Raw", "cMAP", 64.4, "paper"),
        Number("SPAct", "top-1", 62.03, "paper", note="as | printed"),
        Number("SPAct", "cMAP", None, "paper"),
    )
    return Comparison(
        "spact/T3", "Actions", "SPAct (2022)", heads, ("Raw", "SPAct"), (*printed, *ours), **more
    )  # type: ignore[arg-type]


def table_of(text: str) -> list[list[str]]:
    """The cells of the first Markdown table."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")] for line in lines]


def test_a_twin_has_a_column_of_its_own() -> None:
    made = comparison(Number("Raw", "top-1", 50.0, "twin", 6.25), Number("Raw", "top-1", 61.0, "real", 1.0))
    head, raw, _ = table_of(markdown([made]))
    assert head[1:4] == ["top-1 % ↑: paper", "top-1 % ↑: ours, real data", "top-1 % ↑: ours, twin"]
    assert raw[1:4] == ["62.30", "61.00 (1.00)", "50.00 (6.25)"]
    for column in made.columns():
        assert {one.origin for one in column.figures.values()} <= {column.origin}


@pytest.mark.parametrize("column", ["paper", "real", "counted"])
def test_a_twin_result_in_any_other_column_is_refused(column: str) -> None:
    twin = Number("Raw", "top-1", 50.0, "twin")
    with pytest.raises(UsageError, match="kept apart"):
        Column(TOP, column, {"Raw": twin})  # type: ignore[arg-type]


@pytest.mark.parametrize("origin", ["paper", "real", "counted"])
def test_nothing_else_stands_in_the_column_of_twins(origin: str) -> None:
    with pytest.raises(UsageError, match="kept apart"):
        Column(TOP, "twin", {"Raw": Number("Raw", "top-1", 50.0, origin)})  # type: ignore[arg-type]


def test_a_row_that_was_not_run_stays_and_says_so() -> None:
    made = comparison(Number("Raw", "top-1", 50.0, "twin"))
    _, raw, spact = table_of(markdown([made]))
    assert spact == ["SPAct", "62.03 [1]", NOT_RUN, "–", NOT_RUN]
    assert raw[4] == NOT_RUN


def test_a_table_of_which_nothing_was_run_shows_that_too() -> None:
    head, raw, _ = table_of(markdown([comparison(origins=("twin",))]))
    assert head[2] == "top-1 % ↑: ours, twin"
    assert raw[2] == NOT_RUN
    assert table_of(markdown([comparison()]))[0][2] == "top-1 % ↑: ours, real data"


def test_a_figure_that_the_data_do_not_define_is_no_number() -> None:
    _, raw, _ = table_of(markdown([comparison(Number("Raw", "cMAP", None, "real"))]))
    assert raw[4] == UNDEFINED


def test_a_row_of_ours_comes_after_the_papers_and_has_no_printed_number() -> None:
    rows = table_of(markdown([comparison(Number("veil", "cMAP", 30.5, "twin", 24.8, (29.0, 32.0)))]))
    assert [row[0] for row in rows[1:]] == ["Raw", "SPAct", "veil"]
    assert rows[3] == ["veil", "–", NOT_RUN, "–", "30.50 [29.00, 32.00] (24.80)"]


def test_notes_are_numbered_once() -> None:
    text = markdown(
        [
            comparison(
                Number("Raw", "cMAP", 1.0, "real", note="n"), Number("SPAct", "cMAP", 1.0, "real", note="n")
            )
        ]
    )
    assert text.count("] n") == 1
    assert "[2] as \\| printed" in text


def test_beside_a_quantity_that_is_another_nothing_of_ours_stands() -> None:
    other = Head("top-1", printed_only=True)
    with pytest.raises(UsageError, match="nothing of ours"):
        comparison(Number("Raw", "top-1", 1.0, "twin"), heads=(other, CMAP))
    made = comparison(Number("Raw", "cMAP", 1.0, "twin"), heads=(other, CMAP))
    assert [(c.head.name, c.origin) for c in made.columns()] == [
        ("top-1", "paper"),
        ("cMAP", "paper"),
        ("cMAP", "twin"),
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match="not a number to report"):
        Number("Raw", "top-1", value, "real")


def test_a_figure_twice_or_of_no_column_is_refused() -> None:
    one = Number("Raw", "top-1", 1.0, "real")
    with pytest.raises(UsageError, match="there twice"):
        comparison(one, one)
    with pytest.raises(UsageError, match="no column"):
        comparison(Number("Raw", "F1", 1.0, "real"))
    with pytest.raises(UsageError, match="in the column"):
        Column(CMAP, "real", {"Raw": one})


def test_the_picture_has_axes_of_its_own_for_every_origin(tmp_path: Path) -> None:
    made = comparison(
        Number("Raw", "top-1", 50.0, "twin", 6.25, (48.0, 52.0)), Number("Raw", "top-1", 61.0, "real")
    )
    figure = picture(made)
    assert len(figure.axes) == 2 * 3  # quantities × paper, real, twin
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:3] == ["top-1 % ↑, paper", "top-1 % ↑, ours, real data", "top-1 % ↑, ours, twin"]
    points = [[float(line.get_xdata()[0]) for line in axes.lines] for axes in figure.axes[:3]]  # type: ignore[index]
    assert points == [[62.3, 62.03], [61.0], [50.0]]
    for name in ("a.png", "b.png"):
        plots.write(picture(made), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_void_figure_is_hollow_and_says_so() -> None:
    made = comparison(
        Number("Raw", "top-1", 50.0, "twin", 49.0, (48.0, 52.0), void=True),
        Number("SPAct", "top-1", 61.0, "twin"),
    )
    axes = picture(made).axes[1]
    hollow, sound = axes.lines
    assert hollow.get_markerfacecolor() == "white" != sound.get_markerfacecolor()
    assert [(text.get_text(), text.xy) for text in axes.texts] == [(VOID, (52.0, 0))]  # type: ignore[attr-defined]


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        markdown([])
    with pytest.raises(UsageError, match="no rows"):
        picture(Comparison("x", "", "", (TOP,), (), ()))
