from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import latent_study
from benchmarks.latent_study import RAW, SCORES, TWINS, Study

from videoveil.tasks.outcomes import AttributeOutcome


def found(value: float, videos: float, knowing: float | None = None) -> dict[str, Any]:
    one: dict[str, Any] = {"value": value, "chance": 0.3, "videos": {"value": videos, "chance": 0.3}}
    return one if knowing is None else one | {"raw_trained": {"value": knowing, "chance": 0.3}}


ROWS = {
    RAW: {"static": [found(0.8, 0.9)], "moving": [found(0.8, 0.8)]},
    "veil": {"static": [found(0.4, 0.6, 0.35)], "moving": [found(0.3, 0.3, 0.3)]},
    "older": {"static": [{"value": 0.4, "chance": 0.3}], "moving": [{"value": 0.4, "chance": 0.3}]},
}


def test_whole_videos_are_compared_with_whole_raw_videos() -> None:
    assert latent_study.of_kind(ROWS, "veil", "static", "") == pytest.approx([0.2])
    assert latent_study.of_kind(ROWS, "veil", "static", "videos") == pytest.approx([0.5])
    assert latent_study.of_kind(ROWS, "veil", "static", "raw_trained") == pytest.approx([0.1])
    assert latent_study.of_kind(ROWS, RAW, "static", "raw_trained") is None


def test_rows_of_which_whole_videos_were_not_asked_are_left_out() -> None:
    lines = latent_study.whole_videos(ROWS).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == [f"| {RAW}", "| veil"]
    assert "| 0.20 | 0.50 | 0.10 | 0.00 | 0.00 | 0.00 |" in lines[1]


def test_a_single_row_that_tells_is_found_by_the_peak() -> None:
    truth = np.repeat([[1.0], [0.0]] * 6, 4, 0)
    scores = np.random.default_rng(0).random(truth.shape) * 0.5
    scores[::8] = 1.0  # the first of four rows of every video with the attribute
    outcome = AttributeOutcome(
        ("a",), truth, scores, np.repeat(np.arange(12), 4), tuple(f"v{i}" for i in range(12))
    )
    best = latent_study.of_videos({"kernel": outcome})
    assert best["by"] == "kernel_peak"
    assert best["value"] == pytest.approx(1.0)
    assert best["value"] > (outcome.measure().value or 0)


def test_a_study_of_a_few_scores_renders_only_the_twins_that_they_and_its_recipes_need(
    tmp_path: Path,
) -> None:
    few = Study(tmp_path, [20], variants=["=veil-tiny"], only=("action", "static"))
    assert few.twins() == ("vphmdb",)
    assert few.parts("=veil-tiny") == ("action", "static")
    assert {job.twins for job in few.scores(20, "=veil-tiny")} == {("vphmdb",)}
    assert Study(tmp_path, [20], variants=(), only=("detection",)).twins() == ("thumos14",)
    three = "erase both 1/8, three tasks"
    assert Study(tmp_path, [20], variants=[three], only=("action",)).twins() == tuple(TWINS.values())
    whole = Study(tmp_path, [20])
    assert (whole.twins(), whole.parts("=veil-tiny")) == (tuple(TWINS.values()), tuple(SCORES))
