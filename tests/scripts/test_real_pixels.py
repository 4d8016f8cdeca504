from __future__ import annotations

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
