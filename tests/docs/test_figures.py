"""README.md repeats figures of docs: those with intervals must be the ones that stand there."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

_FIGURE = re.compile(r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]")


def figures(text: str) -> set[str]:
    """Figures with intervals in the tables of a page."""
    return {found for line in text.splitlines() if line.startswith("|") for found in _FIGURE.findall(line)}


def test_every_interval_in_the_readme_stands_in_a_table_of_the_docs() -> None:
    known: set[str] = set()
    for page in (ROOT / "docs").glob("*.md"):
        known |= figures(page.read_text("utf-8"))
    told = figures((ROOT / "README.md").read_text("utf-8"))
    assert len(told) > 20
    assert told - known == set()
