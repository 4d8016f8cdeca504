from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import on_gpu, real_pixels

from scripts import results
from videoveil.protocols import papers

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", results.pages())
def test_every_table_of_a_page_is_what_the_stored_figures_say(name: str) -> None:
    assert results.page(name) == (results.DOCS / name).read_text("utf-8"), "run python scripts/results.py"


def test_no_table_of_the_results_is_typed_by_hand() -> None:
    kept: list[str] = []
    inside = False
    for line in (results.DOCS / "results.md").read_text("utf-8").splitlines():
        inside = line.startswith("<!-- table ") or (inside and not line.startswith("<!-- end "))
        if line.startswith("|") and not inside:
            kept.append(line)
    assert kept == []


def smaller(value: Any) -> Any:
    """Every number that is not whole a little smaller, and not all by the same share, which ratios would not show."""
    if isinstance(value, dict):
        return {key: smaller(one) for key, one in value.items()}
    if isinstance(value, list):
        return [smaller(one) for one in value]
    return value - 0.05 * value * value if isinstance(value, float) else value


@pytest.mark.parametrize("name", results.TABLES)
def test_every_table_follows_its_figures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = results.TABLES[name]
    before = results.written(table)
    if before == results.NOT_YET:
        pytest.skip("there are no figures yet")
    found = json.loads(table.source.read_text("utf-8"))
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(results, "DOCS", tmp_path)
    monkeypatch.setattr(results, "PAPERS", tmp_path)
    table.source.write_text(json.dumps(smaller(found)), "utf-8")
    after = results.written(table)
    assert after != before
    assert [line.split("|")[1] for line in after.splitlines()] == [
        line.split("|")[1] for line in before.splitlines()
    ]


PRINTED = {name: table for name, table in results.TABLES.items() if isinstance(table, results.Printed)}


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_paper_reports_is_shown_as_it_is_stored_with_every_row(name: str) -> None:
    table = PRINTED[name]
    head, _, *rows = (line.strip("|").split("|") for line in results.written(table).splitlines())
    assert [cell.strip() for cell in head[1:]] == [
        f"{table.called}, {where}: {figure}" for _, _, where, figure in table.columns
    ]
    shown = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
    for place, (number, column, _, _) in enumerate(table.columns):
        stored = papers.table(f"{table.data}/{number}")
        assert list(shown) == list(stored.rows)
        for row, cells in shown.items():
            value = stored.value(row, column)
            assert cells[place] == "–" if value is None else float(cells[place]) == value, (row, column)


def test_no_figure_of_ours_stands_in_a_table_of_a_paper() -> None:
    for name, table in PRINTED.items():
        ours = {row for row in results.written(table).splitlines() if "veil-" in row or "`" in row}
        assert ours == set(), name


def test_figures_of_a_paper_are_not_stored_over(tmp_path: Path) -> None:
    for table in PRINTED.values():
        with pytest.raises(SystemExit, match="neither a table nor a card"):
            results.store(table.data, tmp_path / "results.json")


def test_a_changed_figure_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    (docs / "data").mkdir(parents=True)
    for path in [*(results.DOCS / "data").glob("*.json"), *results.DOCS.glob("*.md")]:
        (docs / path.relative_to(results.DOCS)).write_text(path.read_text("utf-8"), "utf-8")
    monkeypatch.setattr(results, "DOCS", docs)
    assert results.page("latent.md") == (docs / "latent.md").read_text("utf-8")
    data = docs / "data" / "latent-twins.json"
    found = json.loads(data.read_text("utf-8"))
    found["rows"]["erase static"]["static"][0]["value"] += 0.1
    data.write_text(json.dumps(found), "utf-8")
    assert results.page("latent.md") != (docs / "latent.md").read_text("utf-8")


def test_a_row_without_a_name_for_people_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    found = json.loads((results.DOCS / "data" / "gait-twins.json").read_text("utf-8"))
    found["rows"]["something new"] = found["rows"]["veil-erase"]
    (tmp_path / "data" / "gait-twins.json").write_text(json.dumps(found), "utf-8")
    monkeypatch.setattr(results, "DOCS", tmp_path)
    with pytest.raises(SystemExit, match="something new"):
        results.written(results.TABLES["gait"])


def real_pixels_found(folder: Path, rows: Sequence[str], seeds: Sequence[int] = (0,)) -> Path:
    """Results of `real_pixels.py` with these rows."""
    one = {"value": 0.375, "low": 0.31, "high": 0.44}
    cells = {"action": one, "kept": one, "faces": one, "leakage": one}
    path = folder / "results.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"seeds": seeds, "limit": None, "rows": dict.fromkeys(rows, cells)}))
    return path


@pytest.mark.parametrize("add", [False, True])
def test_rows_without_names_are_refused_before_anything_is_written(
    add: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "docs" / "data" / "pixels-real.json"
    kept.parent.mkdir(parents=True)
    monkeypatch.setattr(results, "DOCS", tmp_path / "docs")
    results.store("pixels-real", real_pixels_found(tmp_path / "first", ["raw", "SPAct"]))
    before = kept.read_bytes()
    found = real_pixels_found(tmp_path / "second", ["raw", "something new"])
    with pytest.raises(SystemExit, match="no names for the rows something new"):
        results.store("pixels-real", found, add=add)
    assert kept.read_bytes() == before
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize("name", ["pixels-real", "pixels-real-cpu", "pixels-real-seeds"])
def test_whatever_is_run_on_real_clips_by_name_can_be_stored_and_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs" / "data").mkdir(parents=True)
    monkeypatch.setattr(results, "DOCS", tmp_path / "docs")
    rows = {"raw", *on_gpu.LACKING, *on_gpu.LEARNT, *on_gpu.HELD, *real_pixels.FACES}
    rows |= {"=veil-unet", "=penalty-unet"}
    results.store(name, real_pixels_found(tmp_path / "out", sorted(rows)))
    assert len(results.written(results.TABLES[name]).splitlines()) == 2 + len(rows)


def test_rows_on_more_seeds_have_a_table_once_they_were_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs" / "data").mkdir(parents=True)
    monkeypatch.setattr(results, "DOCS", tmp_path / "docs")
    table = results.TABLES["pixels-real-seeds"]
    assert results.written(table) == results.NOT_YET
    found = real_pixels_found(tmp_path / "real-seeds", ["raw", *on_gpu.HELD], [0, 1, 2])
    results.store("pixels-real-seeds", found)
    assert len(results.written(table).splitlines()) == 3 + len(on_gpu.HELD)
    assert "results.py --store pixels-real-seeds OUT/real-seeds/results.json" in str(on_gpu.__doc__)


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


def test_a_run_on_real_pixels_is_stored_with_its_intervals_and_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"value": 0.375, "low": 0.31, "high": 0.44}
    share = {"value": 0.5, "low": 0.25, "high": 0.75}
    cells = {"action": one, "kept": share, "faces": one, "leakage": share}
    cells |= {"drawn": {"value": 13.5, "low": 13.0, "high": 14.0}, "drawn_faces": None, "drawn_leakage": None}
    out, docs = tmp_path / "out", tmp_path / "docs"
    (docs / "data").mkdir(parents=True)
    for seed, published in ((0, 6.0), (1, 8.0)):
        place = out / f"seed{seed}" / "downsample-4x"
        place.mkdir(parents=True)
        measures = {"psnr_published": {"value": published}, "ssim_unet": {"value": 0.25}}
        (place / "drawn.json").write_text(json.dumps({"value": 13.5, "measures": measures}))
    found = {"seeds": [0, 1], "limit": None, "rows": {"raw": cells, "downsample 4×": cells}}
    (out / "results.json").write_text(json.dumps(found))
    monkeypatch.setattr(results, "DOCS", docs)
    results.store("pixels-real", out / "results.json")
    seen, drawn = (results.written(results.TABLES[name]) for name in ("pixels-real", "pixels-real-drawn"))
    assert seen.splitlines()[-1] == (
        "| downsample 4× | 37.5 [31.0, 44.0] | 0.50 [0.25, 0.75] | 37.5 [31.0, 44.0] | 0.50 [0.25, 0.75] |"
    )
    assert drawn.splitlines()[2:] == [
        "| downsample 4× | 7.0 | 13.5 [13.0, 14.0] | 0.25 | not run | not run | not run |"
    ]


def test_cells_found_later_join_those_that_are_stored_if_raw_videos_gave_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(name: str, raw: float, rows: dict[str, Any], seeds: list[int]) -> Path:
        path = tmp_path / name / "results.json"
        path.parent.mkdir()
        cells = {"action": {"value": raw, "low": 0.3, "high": 0.5}, "faces": None}
        told = {
            "seeds": seeds,
            "limit": None,
            "clock": [{"minutes": len(rows)}],
            "rows": {"raw": cells, **rows},
        }
        path.write_text(json.dumps(told))
        return path

    docs = tmp_path / "docs"
    (docs / "data").mkdir(parents=True)
    monkeypatch.setattr(results, "DOCS", docs)
    action, faces = ({"value": value, "low": 0.1, "high": 0.9} for value in (0.4, 0.6))
    results.store(
        "pixels-real", found("first", 0.375, {"downsample 2×": {"action": action, "faces": None}}, [0])
    )
    later = {"downsample 2×": {"action": None, "faces": faces}, "blacken": {"action": action, "faces": None}}
    unreached = {"weak blur": {"action": None, "faces": None}}
    results.store("pixels-real", found("later", 0.375, later | unreached, [0]), add=True)
    told = json.loads((docs / "data" / "pixels-real.json").read_text("utf-8"))
    kept = told["rows"]
    assert "weak blur" not in kept
    assert told["clock"] == [{"minutes": 1}, {"minutes": 3}]
    assert kept["downsample 2×"] == {"action": action, "faces": faces}
    assert kept["blacken"] == {"action": action, "faces": None}
    for name, raw, seeds in (("another-day", 0.38, [0]), ("another-seed", 0.375, [1])):
        with pytest.raises(SystemExit, match=r"raw action is not what is stored|has seeds"):
            results.store("pixels-real", found(name, raw, later, seeds), add=True)
    assert json.loads((docs / "data" / "pixels-real.json").read_text("utf-8"))["rows"] == kept


def test_figures_of_a_card_are_stored_by_the_name_of_the_model_and_not_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, docs = tmp_path / "out", tmp_path / "docs"
    (docs / "data").mkdir(parents=True)
    one = {"value": 0.375, "low": 0.31, "high": 0.44, "chance": 0.0833}
    place = out / "seed0" / "=runs-veil-unet"
    place.mkdir(parents=True)
    measures = {"psnr_published": {"value": 6.0}, "ssim_unet": {"value": 0.25}}
    (place / "drawn.json").write_text(json.dumps({"value": 13.5, "measures": measures}))
    rows = {"raw": {"action": one}, "=runs/veil-unet": {"action": one}}
    (out / "results.json").write_text(json.dumps({"seeds": [0], "limit": None, "rows": rows}))
    monkeypatch.setattr(results, "DOCS", docs)
    results.store("shipped-pixels-real", out / "results.json")
    kept = json.loads((docs / "data" / "shipped-pixels-real.json").read_text("utf-8"))["rows"]
    assert list(kept) == ["raw", "=veil-unet"]
    assert kept["=veil-unet"] == {
        "action": one,
        "psnr_published": {"value": 6.0},
        "ssim_drawn": {"value": 0.25},
    }


def test_figures_that_nothing_is_made_from_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="neither a table nor a card"):
        results.store("nothing", tmp_path / "results.json")


@pytest.mark.parametrize("told", [{"quick": True}, {"limit": 24}, {"scale": "try"}])
def test_figures_of_a_script_that_was_only_tried_are_refused(told: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({**told, "seeds": [0], "rows": {}}))
    with pytest.raises(SystemExit, match="give no results"):
        results.store("shipped-pixels-twins", tmp_path / "results.json")
