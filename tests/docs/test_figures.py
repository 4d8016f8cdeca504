"""README.md repeats figures of docs: they must be the ones that stand there or are stored beside them."""

from __future__ import annotations

import json
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


def test_speeds_in_the_readme_are_those_that_are_stored() -> None:
    stored = json.loads((ROOT / "docs" / "data" / "benchmarks-h200.json").read_text("utf-8"))["rows"]
    told = {
        line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1]
        for line in (ROOT / "README.md").read_text("utf-8").splitlines()
        if line.startswith("| ") and "`benchmarks/" in line
    }

    def seen(beginning: str) -> str:
        (found,) = (value for name, value in told.items() if name.startswith(beginning))
        return found

    def ours(*names: str) -> str:
        return ", ".join(f"{stored[name]['ours']:,.0f}" for name in names)

    def ratio(name: str) -> float:
        return float(stored[name]["ours"] / stored[name]["peer"])

    extraction = "feature extraction, network", "feature extraction, end to end"
    assert seen("UNet-64 with the fast engine") == ours("UNet-64 at 112²", "UNet-64 at 224²")
    assert seen("VideoMAE-B in bf16") == ours(*extraction)
    assert seen("the same ÷ the transformers loop") == ", ".join(f"{ratio(name):.2f}" for name in extraction)
    assert seen("minimax training") == f"{ratio('minimax training'):.1f}"
    training = stored["SPLAVU training"]["ours"]
    assert seen("SPLAVU, 100 epochs") == f"{training:.1f} s; {ratio('SPLAVU training'):.2f} of a plain loop"
    assert seen("SPLAVU adapter") == f"{stored['SPLAVU adapter, exact mode']['ours'] / 1e6:.1f} million"
