"""Markdown pages as the tests read them: fenced blocks with their marks, headings, links.

A mark is an HTML comment on the line directly above a fence:

    <!-- not run: needs a camera -->     the block is not executed; its commands must still exist
    <!-- file: mosaic.py -->             the block is what the reader saves under that name
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNNABLE = ("bash", "console", "python")
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)[^`]*$")
_HIDDEN = re.compile(r"^\s{4,}(`{3,}|~{3,})")  # a fence in a list or quote, which these tests would not see
_MARK = re.compile(r"^\s*<!--\s*(?P<kind>not run|file):\s*(?P<value>.+?)\s*-->\s*$")
_HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*\s*$")
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+)(?:\s+\"[^\"]*\")?\)")
_CODE = re.compile(r"`+[^`]*`+")


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is that of its fence, counted from 1."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""
    file: str = ""

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def all_pages() -> list[Path]:
    """README.md, SECURITY.md and everything under docs."""
    return [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    found: list[Block] = []
    lines = page.read_text("utf-8").splitlines()
    place = 0
    while place < len(lines):
        opened = _FENCE.match(lines[place])
        if not opened:
            if _HIDDEN.match(lines[place]):
                raise ValueError(
                    f"{page}:{place + 1}: begin fences in the first column, so that they are tested"
                )
            place += 1
            continue
        body, end = [], place + 1
        while end < len(lines) and lines[end].strip() != opened["fence"]:
            body.append(lines[end])
            end += 1
        if end == len(lines):
            raise ValueError(f"{page}:{place + 1}: this fence is never closed")
        mark = _MARK.match(lines[place - 1]) if place else None
        marks = {} if mark is None else {mark["kind"]: mark["value"]}
        text = "\n".join(body) + "\n"
        found.append(
            Block(page, place + 1, opened["language"], text, marks.get("not run", ""), marks.get("file", ""))
        )
        place = end + 1
    return found


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    lines = page.read_text("utf-8").splitlines()
    for block in blocks(page):
        for number in range(block.line - 1, block.line + 1 + block.text.count("\n")):
            lines[number] = ""
    return "\n".join(lines)


def links(page: Path) -> list[str]:
    """Targets of all links and pictures; what stands in code is none."""
    return [found["target"] for found in _LINK.finditer(_CODE.sub("", prose(page)))]


def anchors(page: Path) -> set[str]:
    """What `#…` can name on a page, as code hosts make it of headings: a second one of a name gets `-1`."""
    found: set[str] = set()
    for line in prose(page).splitlines():
        if heading := _HEADING.match(line):
            slug = _slug(heading["text"])
            base, number = slug, 0
            while slug in found:
                number += 1
                slug = f"{base}-{number}"
            found.add(slug)
    return found


def _slug(heading: str) -> str:
    text = _LINK.sub(lambda link: link[0][1 : link[0].index("]")], heading)
    kept = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return kept.replace(" ", "-")
