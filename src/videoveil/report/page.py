"""A report as one HTML file that asks nobody for anything: no scripts, no links out, readable on a telephone, by night.

    write(Page("Title", "What it says in one sentence.", [Section("Figures", [table, picture])]), "report.html")

All text is escaped. What is not text (plots, pictures) is looked at before it goes in, and the finished page once more.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import videoveil
from videoveil import files
from videoveil.errors import UsageError
from videoveil.report.plots import SERIES

AT_NIGHT = ("#a3abb5", "#ff8a3d", "#5ab4f0", "#3fcf9f", "#e79cc4", "#f2bf4a")  # the palette on a dark page
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # browsers keep the promise too
PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}
ADDRESSES = ("src", "href", "xlink:href", "srcset", "action", "formaction", "data", "poster", "background")
ACTIVE = ("script", "iframe", "object", "embed", "link", "base", "form", "foreignobject")


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs."""

    paragraphs: tuple[str, ...]

    def html(self) -> str:
        return "\n".join(f"<p>{escape(one)}</p>" for one in self.paragraphs)


@dataclass(frozen=True, slots=True)
class Points:
    """A list."""

    items: tuple[str, ...]

    def html(self) -> str:
        return "<ul>\n" + "\n".join(f"<li>{escape(one)}</li>" for one in self.items) + "\n</ul>"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first cell of a row names it, the others stand to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise UsageError(f"table row {row} has {len(row)} cells, its header {len(self.header)}")

    def html(self) -> str:
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.header)
        body = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
            for name, *cells in self.rows
        )
        # not a <caption>: that would scroll sideways with a wide table
        above = f'<p class="caption">{escape(self.caption)}</p>\n' if self.caption else ""
        table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
        return f'{above}<div class="wide">{table}</div>'


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, such as a seed and hashes."""

    pairs: tuple[tuple[str, str], ...]

    def html(self) -> str:
        rows = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in self.pairs)
        return f"<dl>\n{rows}\n</dl>"


@dataclass(frozen=True, slots=True)
class Plot:
    """An SVG element, as `plots.svg` makes it; `alt` says what it shows to those who cannot see it."""

    svg: str
    alt: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.svg.startswith("<svg") or not self.svg.endswith("</svg>"):
            raise UsageError(
                f"plot {self.alt!r}: not an SVG element; make it with videoveil.report.plots.svg"
            )
        check(self.svg, f"plot {self.alt!r}")

    def html(self) -> str:
        named = self.svg.replace("<svg", f'<svg role="img" aria-label="{escape(self.alt)}"', 1)
        return _figure(named, self.caption)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture file, taken into the page as it is now."""

    path: Path
    alt: str
    caption: str = ""

    def html(self) -> str:
        kind = PICTURES.get(self.path.suffix.lower())
        if kind is None or not self.path.is_file():
            raise UsageError(f"{self.path}: a page takes existing pictures in {', '.join(PICTURES)}")
        data = base64.b64encode(self.path.read_bytes()).decode()
        return _figure(f'<img src="data:{kind};base64,{data}" alt="{escape(self.alt)}">', self.caption)


Block = Text | Points | Table | Facts | Plot | Picture


@dataclass(frozen=True, slots=True)
class Beside:
    """Blocks next to each other where there is room."""

    blocks: tuple[Block, ...]

    def html(self) -> str:
        return '<div class="beside">\n' + "\n".join(block.html() for block in self.blocks) + "\n</div>"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is under it."""

    title: str
    blocks: Sequence[Block | Beside]

    def html(self) -> str:
        inner = "\n".join(block.html() for block in self.blocks)
        return f"<section>\n<h2>{escape(self.title)}</h2>\n{inner}\n</section>"


@dataclass(frozen=True, slots=True)
class Page:
    """A report: what it is, what it says in a sentence, and the rest."""

    title: str
    summary: str
    sections: Sequence[Section]


def render(page: Page) -> str:
    """The page as text: equal pages give equal text."""
    body = "\n".join(section.html() for section in page.sections)
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<style>
{_style()}
</style>
</head>
<body>
<main>
<h1>{escape(page.title)}</h1>
<p class="summary">{escape(page.summary)}</p>
{body}
</main>
<footer>Videoveil {escape(videoveil.__version__)}</footer>
</body>
</html>
"""
    check(text, page.title)
    return text


def write(page: Page, destination: str | Path) -> None:
    """Render into a file, whole or not at all."""
    files.write_text(Path(destination), render(page))


def check(markup: str, name: str) -> None:
    """Refuse markup that would run something or ask another place for something."""
    looker = _Looker()
    looker.feed(markup)
    looker.close()
    if looker.found:
        raise UsageError(
            f"{name}: a page must not run or fetch anything, and this has {', '.join(looker.found)}"
        )


class _Looker(HTMLParser):
    """Finds elements that act, handlers, and addresses that are neither in the page nor data."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ACTIVE:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            address = (value or "").strip().lower()
            if name.startswith("on") or (name in ADDRESSES and not address.startswith(("#", "data:image/"))):
                self.found.append(f"{name}={value!r} in <{tag}>")
            if name == "style" and ("url(" in address.replace("url(#", "") or "@import" in address):
                self.found.append(f"{name}={value!r} in <{tag}>")


def _figure(inner: str, caption: str) -> str:
    below = f"\n<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>\n{inner}{below}\n</figure>"


def _style() -> str:
    day = " ".join(f"--series-{i}: {colour};" for i, colour in enumerate(SERIES))
    night = " ".join(f"--series-{i}: {colour};" for i, colour in enumerate(AT_NIGHT))
    return f"""\
:root {{ color-scheme: light dark; --page: #ffffff; --text: #1d2733; --soft: #5b6673; --edge: #d5dbe1; {day} }}
@media (prefers-color-scheme: dark) {{
  :root {{ --page: #12161b; --text: #e4e8ec; --soft: #a2acb7; --edge: #333c46; {night} }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }}
main, footer {{ max-width: 70rem; margin: 0 auto; padding: 0 1rem; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin: 1.6rem 0 .6rem; }}
h2 {{ font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--edge); }}
p, li {{ max-width: 46rem; }}
.summary {{ font-size: 1.12rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
.caption {{ color: var(--soft); font-size: .9rem; margin-bottom: .4rem; }}
th, td {{ padding: .35rem .7rem; border-bottom: 1px solid var(--edge); text-align: right; }}
td, th[scope=row] {{ white-space: nowrap; }}
th[scope=row], th[scope=col]:first-child {{ text-align: left; }}
th[scope=col] {{ color: var(--soft); font-weight: 600; vertical-align: bottom; }}
figure {{ margin: 1rem 0; max-width: 36rem; }}
figure svg, figure img {{ display: block; width: 100%; height: auto; }}
figure img {{ background: #fff; border-radius: 6px; }}
figcaption {{ color: var(--soft); font-size: .9rem; margin-top: .3rem; }}
.beside {{ display: grid; gap: 0 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }}
dl {{ display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; }}
dt {{ color: var(--soft); }}
dd {{ margin: 0; overflow-wrap: anywhere; }}
@media (max-width: 40rem) {{ table {{ font-size: .85rem; }} th, td {{ padding: .3rem .45rem; }} }}
footer {{ color: var(--soft); font-size: .85rem; padding-top: 2rem; padding-bottom: 2rem; }}"""
