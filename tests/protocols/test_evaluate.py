from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.protocols.conftest import SIDE, Twin
from videoveil.errors import UsageError
from videoveil.protocols import registry
from videoveil.protocols.base import RAW
from videoveil.protocols.evaluate import METRICS, TABLES, Request, Result, evaluate, gather
from videoveil.protocols.intervals import ITEMS
from videoveil.protocols.subjects import FACTORS, UTILITY

Runs = dict[str, Path]


@pytest.fixture(scope="session")
def runs(latent_run: Path, pixel_run: Path, trained_run: Path) -> Runs:
    return {"features": latent_run, "pixels": pixel_run, "speed": trained_run}


def request_for(name: str, out: Path, twin: Twin, cache: Path, made: Runs, **more: Any) -> Request:
    """A protocol at its smallest on twins, for raw data and one anonymizer."""
    one = registry.protocol(name)
    run = made["speed"] if name == "speed" else made[one.looks]
    given: dict[str, Any] = {
        "data": {dataset: twin(dataset) for dataset in one.needs},
        "runs": (str(run),) if one.needs else (),
        "size": "tiny",
        "encoder_size": SIDE,
        "device": "cpu",
        "cache": cache,
        "baselines": False,
    }
    return Request(name, out, **(given | more))


def check_tables(result: Result, out: Path) -> None:
    """Every cell the paper has is there, ours are marked as a twin's, and figures are figures."""
    text = (out / TABLES).read_text("utf-8")
    for panel, table in zip(result.protocol.panels, result.tables):
        assert set(panel.table.rows) <= set(table.all_rows())
        for row in panel.table.rows:
            assert f"| {row} |" in text
    for cell in result.cells:
        assert cell.data in ("twin", "counted")
        assert cell.value is None or math.isfinite(cell.value)
    kept = json.loads((out / METRICS).read_text("utf-8"))
    assert len(kept["cells"]) == len(result.cells)
    assert set(kept["data"].values()) <= {"twin"}


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.names())
def test_each_protocol_runs_end_to_end_on_its_twin(
    name: str, tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    out = tmp_path / "out"
    result = evaluate(request_for(name, out, twin, cache, runs))
    check_tables(result, out)
    one = registry.protocol(name)
    for panel in one.panels:
        measured = {cell.column for cell in result.cells if cell.table == panel.table.id}
        if panel.knows(RAW):  # a main table: all of its columns are measured for raw data
            assert measured >= set(panel.wants)
    drawn = [table for table in result.tables if any(n.origin != "paper" for n in table.figures)]
    assert drawn
    assert all((out / f"{table.name.replace('/', '-')}.png").is_file() for table in drawn)
    assert result.missing == {}


def test_finished_cells_are_not_done_again_and_a_killed_run_goes_on_to_the_same_bytes(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    evaluate(request_for("pa-hmdb51-features", whole, twin, cache, runs))

    class Killed(Exception):
        pass

    def die(what: str) -> None:
        if what.startswith("Raw: ActionProbe"):
            raise Killed

    with pytest.raises(Killed):
        evaluate(request_for("pa-hmdb51-features", cut, twin, cache, runs), die)
    assert not (cut / METRICS).exists()
    done = len(list((cut / "cells").glob("*.json")))
    assert done == 1
    said: list[str] = []
    evaluate(request_for("pa-hmdb51-features", cut, twin, cache, runs), said.append)
    assert not any(word.startswith("Raw: FrameAttributes") for word in said)
    assert (cut / METRICS).read_bytes() == (whole / METRICS).read_bytes()
    assert (cut / TABLES).read_bytes() == (whole / TABLES).read_bytes()
    again: list[str] = []
    evaluate(request_for("pa-hmdb51-features", cut, twin, cache, runs), again.append)
    assert again == []


def test_several_seeds_give_a_mean_and_an_interval(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    asked = request_for("smarthome", tmp_path / "out", twin, cache, runs, seeds=(0, 1))
    result = evaluate(asked)
    for cell in result.cells:
        assert len(cell.values) == 2
        assert cell.value == pytest.approx(sum(cell.values) / 2)
    assert "95 % interval" in (tmp_path / "out" / TABLES).read_text("utf-8")
    over = {cell.column: cell.interval_over for cell in result.cells if cell.row == RAW}
    assert over["gap"] == over["female top-1"] == ITEMS  # people and seeds
    assert all(cell.chance is not None for cell in result.cells if cell.column == "gap")
    with pytest.raises(UsageError, match="each once"):
        evaluate(request_for("smarthome", tmp_path / "x", twin, cache, runs, seeds=(1, 1)))


def test_a_row_measured_with_its_own_network_says_so_in_table_and_metrics(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    from videoveil.encoders import create
    from videoveil.encoders.checkpoints import save

    trained = tmp_path / "run"
    shutil.copytree(runs["pixels"], trained)
    save(create("tiny", size=SIDE // 2), trained / UTILITY)
    given = {"data": {"vispr": twin("vispr")}, "partial": True, "runs": (f"own={trained}",), "seeds": (0, 1)}
    result = evaluate(request_for("feature-leakage", tmp_path / "out", twin, cache, runs, **given))
    kept = json.loads((tmp_path / "out" / METRICS).read_text("utf-8"))
    used = {one["row"]: one["encoder"] for one in kept["subjects"]}
    assert used["own"]["trained_with"] == "own"
    assert used["own"]["hash"] != used[RAW]["hash"] == kept["encoder"]["hash"]
    marks = {cell["row"]: cell["encoder"] for cell in kept["cells"]}
    assert {row: mark.split("@")[1] for row, mark in marks.items()} == {
        row: one["hash"][:12] for row, one in used.items()
    }
    notes = {cell.row: cell.note for cell in result.cells}
    assert notes["own"].startswith("features of tiny, trained with own")
    assert "trained with" not in notes[RAW]
    assert kept["reductions"]
    for one in kept["reductions"]:
        assert marks[RAW] in one["note"]
        assert marks["own"] in one["note"]


def test_missing_data_is_named_with_how_to_make_a_twin(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        evaluate(Request("gait", tmp_path / "out", size="tiny"))
    assert "--data vispr:ROOT; `veil data make vispr ROOT` makes a twin of it" in str(caught.value)
    assert "--data casia-b:ROOT" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_without_some_data_the_rest_is_measured_and_the_gap_is_stated(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    asked = request_for(
        "gait", tmp_path / "out", twin, cache, runs, data={"vispr": twin("vispr")}, partial=True
    )
    result = evaluate(asked)
    assert {cell.column for cell in result.cells} == {"VISPR cMAP"}
    assert all("casia-b" in reason for reason in result.missing.values())
    text = (tmp_path / "out" / TABLES).read_text("utf-8")
    assert "Not run: no casia-b" in text
    assert "| 69.73 | not run |" in text


def test_data_that_a_protocol_does_not_look_at_is_refused(tmp_path: Path, twin: Twin) -> None:
    with pytest.raises(UsageError, match="does not look at hmdb51"):
        evaluate(Request("smarthome", tmp_path / "out", {"hmdb51": twin("hmdb51")}, size="tiny"))


def test_an_anonymizer_of_features_is_refused_where_pictures_are_looked_at(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    asked = request_for("vp-novel", tmp_path / "out", twin, cache, runs, runs=(str(runs["features"]),))
    with pytest.raises(UsageError, match="looks at pictures, and veil anonymizes features"):
        evaluate(asked)


def test_downsampled_videos_fill_their_rows_of_the_five_tasks(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    given = {"data": {"vispr": twin("vispr")}, "runs": (), "partial": True, "baselines": True}
    result = evaluate(request_for("five-tasks", tmp_path / "out", twin, cache, runs, **given))
    found = {cell.row: cell.value for cell in result.cells if cell.column == "VISPR cMAP"}
    assert list(found) == ["tiny / Raw", "tiny / Down-2x", "tiny / Down-4x"]
    assert len(set(found.values())) == 3  # each was measured on pictures of its own
    assert None not in found.values()


@pytest.mark.parametrize(
    ("encoder", "rows"),
    [("i3d.inception", ["Raw", "Down-2x", "Down-4x"]), ("videomae.b", ["Raw"]), ("tiny", ["Raw", *FACTORS])],
)
def test_baselines_are_measured_where_the_table_has_them(
    tmp_path: Path, encoder: str, rows: list[str]
) -> None:
    asked = Request("five-tasks", tmp_path, encoder=encoder)
    assert [one.row for one in gather(registry.protocol("five-tasks"), asked)] == rows


def test_two_rows_of_one_name_are_refused(tmp_path: Path, twin: Twin, cache: Path, runs: Runs) -> None:
    twice = (str(runs["features"]), str(runs["features"]))
    with pytest.raises(UsageError, match="two rows are called veil"):
        evaluate(request_for("smarthome", tmp_path / "out", twin, cache, runs, runs=twice))


def test_a_folder_of_another_protocol_or_of_something_else_is_left_alone(
    tmp_path: Path, twin: Twin, cache: Path, runs: Runs
) -> None:
    out = tmp_path / "out"
    evaluate(Request("parameters", out, size="tiny"))
    with pytest.raises(UsageError, match="holds an evaluation of parameters"):
        evaluate(request_for("smarthome", out, twin, cache, runs))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(UsageError, match="is not empty"):
        evaluate(Request("parameters", tmp_path / "mine", size="tiny"))
