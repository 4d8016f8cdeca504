"""Links between pages lead somewhere: to a file of the repository, and to a heading that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, all_pages, anchors, links, prose


def problem(page: Path, target: str) -> str:
    """Why a link leads nowhere; empty if it does not, or if it leads away."""
    if target.startswith(("https://", "http://", "mailto:")):
        return ""
    file, _, anchor = target.partition("#")
    there = (page.parent / file).resolve() if file else page
    if not there.is_relative_to(ROOT) or not there.exists():
        return "no such file"
    if anchor and anchor not in anchors(there):
        return f"no heading {anchor!r} there"
    return ""


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [f"{t}: {why}" for t in links(page) if (why := problem(page, t))] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    seen, todo = {index}, [index]
    while todo:
        page = todo.pop()
        for target in links(page):
            there = (page.parent / target.partition("#")[0]).resolve()
            if there.suffix == ".md" and there.is_file() and there not in seen:
                seen.add(there)
                todo.append(there)
    assert sorted(set(all_pages()) - seen) == []


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("#one-two--3", ""),
        ("#one", "no heading"),
        ("page.md#again-1", ""),
        ("missing.md", "no such file"),
        ("../../../etc/passwd", "no such file"),
        ("https://example.org/x", ""),
    ],
)
def test_links_that_lead_nowhere_are_found(
    target: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.docs.test_links.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# One `two` + 3\n\n## Again\n\n## Again\n")
    assert why in problem(page, target)
    assert bool(problem(page, target)) == bool(why)


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_of_the_repository_that_is_named_is_there(page: Path) -> None:
    found = re.findall(r"`((?:tests|src|benchmarks|scripts|examples|docs)/[^`\s]+)`", prose(page))
    assert [name for name in found if not [*ROOT.glob(name)]] == []


def test_code_and_fences_hold_no_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](b.md) `[c](d.md)`\n\n```text\n[e](f.md)\n```\n![g](h.png)\n")
    assert links(page) == ["b.md", "h.png"]
