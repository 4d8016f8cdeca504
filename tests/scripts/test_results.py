from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import results

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", results.pages())
def test_every_table_of_a_page_is_what_the_stored_figures_say(name: str) -> None:
    assert results.page(name) == (results.DOCS / name).read_text("utf-8"), "run python scripts/results.py"


def test_a_changed_figure_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    (docs / "data").mkdir(parents=True)
    for path in [*(results.DOCS / "data").glob("*.json"), *results.DOCS.glob("*.md")]:
        (docs / path.relative_to(results.DOCS)).write_text(path.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(results, "DOCS", docs)
    assert results.page("latent.md") == (docs / "latent.md").read_text("utf-8")
    data = docs / "data" / "latent-twins.json"
    found = json.loads(data.read_text("utf-8"))
    found["rows"]["erase both 1/8"]["static"][0]["value"] += 0.1
    data.write_text(json.dumps(found), "utf-8")
    assert results.page("latent.md") != (docs / "latent.md").read_text("utf-8")


def test_a_row_without_a_name_for_people_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    found = json.loads((results.DOCS / "data" / "gait-twins.json").read_text("utf-8"))
    found["rows"]["something new"] = found["rows"]["veil"]
    (tmp_path / "data" / "gait-twins.json").write_text(json.dumps(found), "utf-8")
    monkeypatch.setattr(results, "DOCS", tmp_path)
    with pytest.raises(SystemExit, match="something new"):
        results.written(results.TABLES["gait"])


def test_what_is_stored_is_what_tables_need_and_no_more() -> None:
    record = {"value": 0.123456789, "chance": 0.5, "per_class": {"a": 1}, "baseline": "words"}
    assert results.slim({"rows": {"raw": [record]}}) == {
        "rows": {"raw": [{"value": 0.123457, "chance": 0.5}]}
    }


def test_check_says_by_its_exit_code_whether_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/results.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
