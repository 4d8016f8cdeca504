"""The order in which the pixel study does its parts, and what it can still show."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from benchmarks import pixel_study
from benchmarks.pixel_rows import RAW, SCALES, known, rows
from benchmarks.pixel_study import Job, Study

from tests.docs.pages import ROOT
from videoveil import files

ROWS = ("downsample 4×", "SPAct", "blacken")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path, [5], "try", chosen=ROWS)


def done(*jobs: Job) -> None:
    for job in jobs:
        files.write_json(job.result, {"value": 1.0, "chance": 0.5})


def parts(jobs: Iterable[Job]) -> set[str]:
    return {job.what for job in jobs}


def test_attackers_wait_for_what_those_on_raw_videos_have_learnt(study: Study) -> None:
    assert parts(study.missing(5, "blacken")) == {"action", "reconstruction"}
    done(study.job(5, "frames"))
    assert parts(study.missing(5, "blacken")) == {"action", "reconstruction", "frames"}


def test_a_row_that_learns_is_trained_first(study: Study) -> None:
    assert parts(study.missing(5, "SPAct")) == {"fit"}


def test_anomalies_wait_for_their_videos_and_for_the_action_network_and_nothing_else_does(
    study: Study,
) -> None:
    assert "anomaly" not in parts(study.missing(5, RAW))
    assert "surveillance" in parts(study.missing(5, RAW))
    done(study.job(5, "action"))
    assert "anomaly" not in parts(study.missing(5, RAW))
    done(study.job(5, "surveillance"))
    assert "anomaly" in parts(study.missing(5, RAW))
    assert "surveillance" not in parts(study.missing(5, RAW))


def test_without_anomalies_their_videos_are_not_rendered(tmp_path: Path) -> None:
    study = Study(tmp_path, [5], "try", chosen=ROWS, without=frozenset({"anomaly"}))
    assert parts(study.missing(5, RAW)) == {"action", "frames", "clips", "reconstruction"}


def test_what_others_wait_for_is_done_first_then_what_takes_long(study: Study) -> None:
    asked = [
        (RAW, "action"),
        ("SPAct", "clips"),
        ("SPAct", "fit"),
        (RAW, "surveillance"),
        ("SPAct", "anomaly"),
    ]
    ordered = sorted((study.job(5, what, row) for row, what in asked), key=pixel_study.urgency)
    assert [(job.row, job.what) for job in ordered] == [
        (RAW, "surveillance"),
        (RAW, "action"),
        ("SPAct", "anomaly"),
        ("SPAct", "fit"),
        ("SPAct", "clips"),
    ]


def test_a_training_that_ended_makes_its_scores_possible(study: Study) -> None:
    made = study.after(study.job(5, "fit", "SPAct"))
    assert parts(made) == {"action", "reconstruction"}
    assert {job.row for job in made} == {"SPAct"}
    assert study.done == 1


def test_what_all_seeds_have_is_written_also_of_a_study_that_is_not_over(tmp_path: Path) -> None:
    study = Study(tmp_path, [5, 6], "try", chosen=ROWS)
    done(study.job(5, "action"), study.job(6, "action"), study.job(5, "frames"))
    study.write()
    stored = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert {row: list(parts) for row, parts in stored["rows"].items() if parts} == {RAW: ["action"]}
    assert stored["clock"] == []  # nothing was done, so nothing took any time


def test_the_clock_of_earlier_calls_on_the_same_seeds_stays(tmp_path: Path) -> None:
    first = Study(tmp_path, [5], "try", chosen=ROWS)
    first.after(first.job(5, "fit", "SPAct"))
    again = Study(tmp_path, [5], "try", chosen=ROWS[:1])
    for what in ("action", "frames"):
        again.after(again.job(5, what, ROWS[0]))
    clock = json.loads((tmp_path / "results.json").read_text("utf-8"))["clock"]
    assert [(call["parts"], call["rows"]) for call in clock] == [(1, len(ROWS)), (2, 1)]
    assert all(call["minutes"] > 0 for call in clock)
    assert Study(tmp_path, [5, 6], "try", chosen=ROWS).calls == []


def test_what_a_call_goes_without_stays_in_the_results(tmp_path: Path) -> None:
    study = Study(tmp_path, [5], "try", chosen=ROWS, without=frozenset({"reconstruction"}))
    done(study.job(5, "reconstruction", "blacken"))
    assert list(study.write()["blacken"]) == ["reconstruction"]


def test_a_row_whose_second_layer_is_not_made_yet_is_not_ready(study: Study) -> None:
    both, alone = (study.job(5, "", row) for row in ("blacken, then veil-pixel", "blacken"))
    assert not both.ready
    assert alone.ready
    files.write_text(both.place / "ready", "")
    assert both.ready


def test_every_stored_row_can_still_be_drawn() -> None:
    for name in ("pixels-twins", "shipped-pixels-twins"):
        stored = json.loads((ROOT / "docs" / "data" / f"{name}.json").read_text("utf-8"))
        scale = SCALES[stored["scale"]]
        assert all(pixel_study.entry_of(row, scale) for row in stored["rows"] if row != RAW)


def test_bounds_that_are_never_felt_run_only_by_name() -> None:
    scale = SCALES["gpu"]
    assert "penalty, B=0.9" not in rows(scale)
    assert "penalty, B=0.9" in known(scale)


def test_on_two_cores_no_row_is_there_twice() -> None:
    """The UNet++ is too large there, and a row that differs from another by it alone would be that other one."""
    assert "SPAct, UNet++" in rows(SCALES["gpu"])
    assert "SPAct, UNet++" not in rows(SCALES["cpu"])
    learnt = [one for one in rows(SCALES["cpu"]).values() if one.recipe]
    described = [(one.method, one.recipe.stages, one.recipe.settings) for one in learnt if one.recipe]
    assert all(one not in described[:place] for place, one in enumerate(described))


def test_the_blind_guess_is_the_mean_over_seeds() -> None:
    found = {RAW: {"frames": [{"value": 0.8, "chance": 0.3}, {"value": 0.8, "chance": 0.4}]}}
    assert "frames 35.0" in pixel_study.table(found)
