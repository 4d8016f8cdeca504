"""The page of the papers' tables is current, complete, and names only what exists."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.commands import veil_problem
from videoveil.protocols import papers, registry
from videoveil.recipes import pixel_names, recipe_names

SCRIPT = Path(__file__).parents[2] / "scripts" / "paper_tables.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper_tables", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    assert script.PAGE.read_text("utf-8") == script.page(), "run python scripts/paper_tables.py"


def test_every_row_has_a_recipe_or_a_reason(script: ModuleType) -> None:
    known = {*recipe_names(), *pixel_names()}
    for table in papers.tables():
        for row in table.rows:
            recipe = script.recipe_of(table, row)
            assert recipe == "" or recipe in known, (table.id, row, recipe)


def test_rows_that_are_named_are_rows_of_their_tables(script: ModuleType) -> None:
    for name, rows in script.RECIPES.items():
        assert set(rows) <= set(papers.table(name).rows), name


def test_every_table_has_a_protocol_and_every_command_would_be_taken(script: ModuleType) -> None:
    text = script.page()
    for table in papers.tables():
        assert script.protocols_of(table), table.id
    for protocol in registry.EVALUATIONS.values():
        command = script.command(protocol)
        assert f"```bash\n{command}\n```\n" in text
        assert veil_problem(command.split()[1:]) == ""


def test_a_page_that_is_not_current_is_found(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(sys, "argv", ["paper_tables.py", "--check"])
    assert script.main() == 1
    monkeypatch.setattr(sys, "argv", ["paper_tables.py"])
    assert script.main() == 0
    monkeypatch.setattr(sys, "argv", ["paper_tables.py", "--check"])
    assert script.main() == 0
