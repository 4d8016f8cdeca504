"""README.md repeats figures of docs: those with intervals must be the ones that stand there, in one row of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.docs.pages import ROOT

_FIGURE = re.compile(r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]")


def figures(line: str) -> frozenset[str]:
    """Figures with intervals, each number with a digit before its point: `.28 [.2, .3]` is `0.28 [0.2, 0.3]`."""
    return frozenset(re.sub(r"(?<!\d)\.", "0.", found) for found in _FIGURE.findall(line))


def rows(text: str) -> Iterator[frozenset[str]]:
    for line in text.splitlines():
        if line.startswith("|") and (found := figures(line)):
            yield found


def of_docs() -> list[frozenset[str]]:
    return [row for page in sorted((ROOT / "docs").glob("*.md")) for row in rows(page.read_text("utf-8"))]


def test_every_row_with_intervals_in_the_readme_is_a_row_of_the_docs() -> None:
    known = of_docs()
    told = list(rows((ROOT / "README.md").read_text("utf-8")))
    assert sum(map(len, told)) > 20
    assert [sorted(row) for row in told if not any(row <= other for other in known)] == []


def test_every_interval_in_the_words_of_the_readme_is_told_in_the_docs() -> None:
    known = frozenset().union(
        *(figures(plain(page.read_text("utf-8"))) for page in (ROOT / "docs").glob("*.md"))
    )
    told = figures(plain((ROOT / "README.md").read_text("utf-8")))
    assert len(told) > 25
    assert told - known == set()


def plain(text: str) -> str:
    """As one line: sentences are broken anywhere."""
    return text.replace("\n", " ")
