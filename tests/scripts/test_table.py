from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import growth, table
from PIL import Image

from scripts import results


def asked(**changes: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"device": "cpu", "quick": True, "deface": None, **changes})


@pytest.mark.parametrize("name", table.BENCHES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("quick", [True, False])
def test_every_script_has_the_options_that_it_is_given(name: str, device: str, quick: bool) -> None:
    bench = table.BENCHES[name]
    text = (table.HERE / bench.script).read_text("utf-8")
    words = bench.words(asked(device=device, quick=quick, deface="/bin/deface"))
    if isinstance(words, str):
        assert not quick or (name, device) == ("anonymize", "cuda")
        return
    given = [word for word in words if word.startswith("--")] + ["--json"] * bench.writes_json
    assert [word for word in given if f'"{word}"' not in text] == []


def test_a_ratio_above_one_is_in_our_favour_also_where_less_is_better() -> None:
    seconds = {"unit": "s", "ours": 2.0, "peer": 8.0, "limit": None}
    rate = {"unit": "clips/s", "ours": 2.0, "peer": 8.0, "limit": 4.0}
    assert table.ratio(seconds, "peer") == 4.0
    assert table.ratio(rate, "peer") == 0.25
    assert table.ratio(rate, "limit") == 0.5
    assert table.ratio(seconds, "limit") is None


def test_a_script_really_runs_and_its_figures_are_read() -> None:
    found = table.run("splavu", asked())
    training = found["SPLAVU training"]
    assert training["unit"] == "s"
    assert 0 < training["ours"] < 600
    assert 0 < training["peer"] < 600
    assert found["SPLAVU adapter, exact mode"]["ours"] > 0
    shown = table.table(found).splitlines()
    assert len(shown) == 4
    assert f"| {table.number(table.ratio(training, 'peer') or 0)} |" in shown[2]


def test_what_cannot_run_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table.run("anonymize", asked(device="cuda"))
    assert "measured on cores" in found["anonymize"]["not_run"]
    assert "not run: measured on cores" in table.table(found)
    lost = table.Bench("no_such_script.py", lambda _: [], lambda _, said: {})
    monkeypatch.setitem(table.BENCHES, "lost", lost)
    assert "no_such_script.py ended with 2" in table.run("lost", asked())["lost"]["not_run"]


def test_the_lines_of_scripts_are_understood() -> None:
    said = (
        "TriDet, 2304 steps      307 s of video:    401× (median 302×) real time, 250× per CPU second\n"
        "MGFN, 1 hour           3600 s of video:   1058× (median 926×) real time, 700× per CPU second\n"
    )
    lines = table.task_lines(None, said)
    assert {name: line.ours for name, line in lines.items()} == {
        "task inference: TriDet, 2304 steps": 401.0,
        "task inference: MGFN, 1 hour": 1058.0,
    }
    with pytest.raises(ValueError, match="nothing is told"):
        table.task_lines(None, "something else")
    first = "videomae.b, 16 frames of 224², 361.1 GFLOP per clip, batch 64, NVIDIA H200, torch 2.11"
    rates = {
        f"{part}: {row}": rate
        for part in ("network", "end to end")
        for row, rate in (
            ("transformers, float32 as it comes", 800.0),
            ("ours, fp32", 700.0),
            ("ours, bf16", 1300.0),
        )
    }
    rates["  [network: ours, an experiment]"] = 9999.0
    lines = table.loop_lines({"device": "NVIDIA H200", "clips_per_second": rates}, first)
    network = lines["feature extraction, network"]
    assert (network.ours, network.peer) == (1300.0, 800.0)
    assert network.limit == pytest.approx(2188, abs=1)
    assert network.how == "videomae.b, 16 frames of 224²; ours, bf16"
    row = {"name": "width 16", "fps": 10.0, "engine": "openvino"}
    deface = {"name": "deface", "fps": 4.0, "engine": ""}
    found = {"rows": [row, deface], "network_alone": {"width 16": {"fps": 12.5, "processor_per_frame": 0.1}}}
    (line,) = table.anonymize_lines(found, "").values()
    assert (line.ours, line.peer, line.limit) == (10.0, 4.0, 12.5)


# --- growth ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_found(power: float) -> None:
    points = [{"size": size, "cost": 3 * size**power, "clock": 0.0} for size in (2.0, 8.0, 64.0)]
    assert growth.exponent(points) == pytest.approx(power)


def test_cost_is_processor_time_and_the_smaller_of_the_rounds_counts() -> None:
    made: list[int] = []

    def make(size: int) -> Any:
        made.append(size)
        return lambda: sum(i * i for i in range(size))

    points = growth.measured([200_000, 2_000_000], make, 2)
    assert made == [200_000, 200_000, 200_000, 2_000_000, 2_000_000]  # once before anything counts
    assert points[1]["cost"] / max(points[0]["cost"], 0.005) > 2
    assert all(point["cost"] <= 1.5 * point["clock"] + 0.05 for point in points)


def test_making_an_anonymizer_from_clips_is_really_measured(tmp_path: Path) -> None:
    points = growth.clips(tmp_path, (512, 4096), 1)
    assert [point["size"] for point in points] == [512, 4096]
    assert np.isfinite(growth.exponent([{**point, "cost": point["cost"] + 1e-3} for point in points]))


def test_curves_become_a_table_and_a_picture_that_names_what_it_shows(tmp_path: Path) -> None:
    points = [{"size": size, "cost": 0.5 * size, "clock": 1.0} for size in (1, 2, 4)]
    curves = {"frames": {"points": points, "exponent": 1.0}, "workers": {"not_run": "av is not installed"}}
    lines = growth.table(curves).splitlines()
    assert lines[2] == "| frames | 1: 0.50 s, 2: 1.00 s, 4: 2.00 s | 1.00 |"
    assert lines[3] == "| workers | not run: av is not installed | – |"
    growth.plot(curves, tmp_path / "growth.png")
    with Image.open(tmp_path / "growth.png") as picture:
        assert picture.info["Description"] == growth.mark(curves)


def test_the_picture_in_the_docs_is_drawn_from_the_stored_curves() -> None:
    curves = json.loads((results.DOCS / "data" / "benchmarks-growth.json").read_text("utf-8"))["rows"]
    with Image.open(results.DOCS / "growth.png") as picture:
        assert picture.info["Description"] == growth.mark(curves), "run python benchmarks/growth.py --plot"


def test_figures_of_a_trial_are_not_taken_into_the_pages(tmp_path: Path) -> None:
    for changes in ({"quick": True}, {"limit": 40}):
        (tmp_path / "found.json").write_text(json.dumps({"rows": {}, **changes}))
        with pytest.raises(SystemExit, match="no results"):
            results.store("benchmarks-h200", tmp_path / "found.json")
