from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import intervals, real_pixels
from benchmarks.real_pixels import RAW, Job

SHIPPED = "=runs/veil-unet"


def test_a_model_is_a_row_by_its_folder_and_keeps_its_parts_in_one_folder(tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, SHIPPED, 0, "cpu", 1, None)
    assert job.place == tmp_path / "seed0" / "=runs-veil-unet"
    assert job.entry is None


def test_what_is_chosen_by_is_kept_apart_from_what_is_reported(tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None)
    choosing = replace(job, validate=True)
    assert job.place != choosing.place
    assert set(real_pixels.SPLITS[False]) == {"test"}
    assert "test" not in real_pixels.SPLITS[True]
    assert "train" not in real_pixels.SPLITS[True]


def test_rows_that_cover_people_need_somebody_to_look_for_them(tmp_path: Path) -> None:
    job = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None)
    covering = {name for name in real_pixels.known() if replace(job, row=name).covers}
    assert covering == {"blacken", "strong blur", "weak blur"}
    assert not job.covers
    assert not replace(job, row=SHIPPED).covers


def test_figures_stand_beside_their_chance_and_shares_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(places: Any, part: str) -> Any:
        if part == "drawn_faces":
            return None
        value = 0.4 if RAW in str(places[0]) else 0.3
        chance = float("nan") if part == "drawn" else 0.1
        return intervals.Drawn(value, chance, np.full(9, value), np.full(9, 0.1))

    monkeypatch.setattr(real_pixels, "read", read)
    job = Job(tmp_path, tmp_path, RAW, 0, "cpu", 1, None)
    found = real_pixels.table((RAW, SHIPPED), [0], job)[1][SHIPPED]
    assert found["action"] == {"value": 0.3, "low": 0.3, "high": 0.3, "chance": 0.1}
    assert set(found["kept"]) == {"value", "low", "high"}
    assert "chance" not in found["drawn"]  # decibels of which nothing is known
    assert found["drawn_faces"] is None


def test_only_what_stored_results_lack_is_done_and_of_raw_videos_what_it_is_held_against() -> None:
    stored = {"blacken": {"action": {"value": 0.4}, "faces": None}, "SPAct": {"action": {"value": 0.3}}}
    found = real_pixels.lacking((RAW, "blacken", "SPAct", "VITA, told"), ("faces", "action"), stored)
    assert found == {
        RAW: ("faces", "action"),
        "blacken": ("faces",),
        "SPAct": ("faces",),
        "VITA, told": ("faces", "action"),
    }
    assert real_pixels.lacking((RAW, "SPAct"), ("action",), stored) == {RAW: (), "SPAct": ()}
