"""The page: one file that asks nobody for anything, with everything on it and nothing that runs."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from videoveil.errors import UsageError
from videoveil.report.page import (
    AT_NIGHT,
    Beside,
    Block,
    Facts,
    Page,
    Picture,
    Plot,
    Points,
    Section,
    Table,
    Text,
    check,
    render,
    write,
)
from videoveil.report.plots import SERIES, Line, curves, svg

HOSTILE = '"><script src="http://evil.example/x.js">alert(1)</script><img src=x onerror=alert(1)>'
VOID = {"meta", "img", "br", "link", "input", "hr"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


class Reader(HTMLParser):
    """Tags, attributes and text of a page; complains where a tag is closed that was not opened."""

    def __init__(self, markup: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def plot(name: str = "loss") -> Plot:
    figure = curves([Line("a", [0, 1], [0.25, 0.5])], "epoch", "loss")
    return Plot(svg(figure, name), "loss by epoch", "It falls.")


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    Image.new("RGB", (8, 6), (200, 30, 30)).save(tmp_path / "p.png")
    return Picture(tmp_path / "p.png", "a red field", "Red.")


def full(picture: Picture) -> Page:
    blocks: list[Block | Beside] = [
        Text(("First words.", "Second words.")),
        Points(("one", "two")),
        Table(("features", "score"), (("raw", "91.7"), ("ours", "90.1")), "Per cent."),
        Facts((("seed", "0"), ("hash", "abcdef"))),
        Beside((plot("one"), plot("two"))),
        picture,
    ]
    return Page("Title & more", "What it says.", [Section("All", blocks), Section("Empty", [])])


def only(block: Block) -> str:
    return render(Page("t", "s", [Section("h", [block])]))


def test_everything_given_is_on_the_page(picture: Picture) -> None:
    read = Reader(render(full(picture)))
    words = [
        "Title & more",
        "What it says.",
        "First words.",
        "Second words.",
        "one",
        "two",
        "features",
        "score",
    ]
    words += [
        "raw",
        "91.7",
        "ours",
        "90.1",
        "Per cent.",
        "seed",
        "abcdef",
        "It falls.",
        "Red.",
        "All",
        "Empty",
    ]
    for word in words:
        assert word in read.text
    assert read.tags.count("svg") == 2
    assert ("svg", "aria-label", "loss by epoch") in read.attributes
    assert ("img", "alt", "a red field") in read.attributes


def test_page_asks_for_nothing_and_runs_nothing(picture: Picture) -> None:
    markup = render(full(picture))
    read = Reader(markup)
    assert not re.search(r"https?://|@import|<script|javascript:", markup)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(read.tags)
    for _, name, value in read.attributes:
        assert not name.startswith("on")
        if name in ("src", "href", "xlink:href"):
            assert (value or "").startswith(("data:image/", "#"))
    (policy,) = [
        v for tag, name, v in read.attributes if tag == "meta" and name == "content" and "src" in (v or "")
    ]
    assert "default-src 'none'" in (policy or "")


def test_picture_is_in_the_page_as_it_was(picture: Picture) -> None:
    (address,) = re.findall(r'src="data:image/png;base64,([^"]*)"', only(picture))
    assert base64.b64decode(address) == picture.path.read_bytes()


def test_no_two_elements_share_an_id(picture: Picture) -> None:
    ids = [value for _, name, value in Reader(render(full(picture))).attributes if name == "id"]
    assert ids
    assert len(ids) == len(set(ids))


def test_equal_pages_give_equal_bytes(picture: Picture, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write(full(picture), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_page_has_colours_for_night_and_a_width_for_telephones() -> None:
    markup = only(Text(("x",)))
    assert "prefers-color-scheme: dark" in markup
    assert 'name="viewport" content="width=device-width' in markup
    assert len(AT_NIGHT) == len(SERIES)
    for number, (day, night) in enumerate(zip(SERIES, AT_NIGHT)):
        assert f"--series-{number}: {day};" in markup
        assert f"--series-{number}: {night};" in markup


@pytest.mark.parametrize(("colours", "page"), [(SERIES, "#ffffff"), (AT_NIGHT, "#12161b")])
def test_every_colour_stands_out_from_its_page(colours: tuple[str, ...], page: str) -> None:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in colours:
        high, low = sorted((light(colour), light(page)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= (3 if colour in colours[:4] else 2.2), colour


# --- hostile input ------------------------------------------------------------------------------------------


def everywhere(text: str) -> Page:
    """The same text in every place that takes text."""
    figure = Plot(plot().svg, text, text)
    table = Table((text, text), ((text, text),), text)
    blocks: list[Block | Beside] = [Text((text,)), Points((text,)), table, Facts(((text, text),)), figure]
    return Page(text, text, [Section(text, blocks)])


def test_hostile_text_stays_text() -> None:
    read = Reader(render(everywhere(HOSTILE)))
    assert "script" not in read.tags
    assert "img" not in read.tags
    assert read.text.count(HOSTILE) == 14
    assert ("svg", "aria-label", HOSTILE) in read.attributes


@given(
    st.text(st.characters(exclude_characters="\r\x00", exclude_categories=["Cs"]), min_size=1, max_size=40)
)
def test_any_text_comes_through_unchanged(text: str) -> None:
    read = Reader(only(Text((text,))))
    assert text in read.text
    assert read.tags.count("p") == 2


@pytest.mark.parametrize(
    "inner",
    [
        "<script>1</script>",
        '<image href="http://evil.example/a.png"/>',
        '<use xlink:href="other.svg#a"/>',
        '<a href="javascript:alert(1)">x</a>',
        '<rect onclick="alert(1)"/>',
        "<foreignObject></foreignObject>",
        '<rect style="fill: url(http://evil.example/a)"/>',
        '<image src="data:text/html,x"/>',
    ],
)
def test_plot_that_would_run_or_fetch_something_is_refused(inner: str) -> None:
    with pytest.raises(UsageError, match="must not run or fetch"):
        Plot(f"<svg>{inner}</svg>", "bad")


def test_harmless_markup_passes() -> None:
    check('<svg><use xlink:href="#a"/><rect style="clip-path: url(#b)"/></svg>', "fine")


def test_plot_that_is_no_svg_is_refused() -> None:
    for bad in ("<p>x</p>", "<svg>", "<svg></svg><p>"):
        with pytest.raises(UsageError, match="not an SVG element"):
            Plot(bad, "bad")


def test_picture_that_is_missing_or_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("x")
    for name in ("none.png", "a.html"):
        with pytest.raises(UsageError, match=name):
            only(Picture(tmp_path / name, "x"))


def test_row_that_does_not_fit_its_header_is_refused() -> None:
    with pytest.raises(UsageError, match="3 cells, its header 2"):
        Table(("a", "b"), (("1", "2", "3"),))


# --- a real browser -----------------------------------------------------------------------------------------

browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.mark.skipif(browser is None, reason="no browser on this machine")
def test_browser_shows_the_page(picture: Picture, tmp_path: Path) -> None:
    write(full(picture), tmp_path / "page.html")
    command = [
        str(browser),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command += [
        f"--screenshot={tmp_path / 'page.png'}",
        "--window-size=390,1600",
        (tmp_path / "page.html").as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    with Image.open(tmp_path / "page.png") as shown:
        colours = {colour for _, colour in shown.convert("RGB").getcolors(1 << 24) or []}
    assert (200, 30, 30) in colours  # the picture
    assert len(colours) > 50  # text and plots
