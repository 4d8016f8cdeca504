"""A trained detector on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from videoveil.errors import CheckpointError
from videoveil.tasks.tridet import FittedTriDet
from videoveil.tasks.tridet.fitted import FORMAT

from .make import CLASSES, awake, small, some_videos


def test_a_saved_detector_finds_the_same(tmp_path: Path) -> None:
    fitted = FittedTriDet(awake(small(bins=6, sgp_init="gates")), CLASSES, seed=3, history=({"loss": 1.5},))
    fitted.save(tmp_path / "model.safetensors")
    back = FittedTriDet.load(tmp_path / "model.safetensors")
    assert (back.config, back.classes, back.seed) == (fitted.config, CLASSES, 3)
    assert back.history == [{"loss": 1.5}]
    for one, two in zip(fitted.detect(some_videos(2)), back.detect(some_videos(2))):
        assert np.array_equal(one.segments, two.segments)
        assert np.array_equal(one.scores, two.scores)


def test_a_foreign_or_damaged_file_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match=FORMAT):
        FittedTriDet.load(tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"1234")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        FittedTriDet.load(tmp_path / "broken.safetensors")
    about = json.dumps({"format": FORMAT, "facts": {}})
    save_file({"x": torch.zeros(1)}, tmp_path / "bare.safetensors", metadata={"about": about})
    with pytest.raises(CheckpointError, match="description is damaged"):
        FittedTriDet.load(tmp_path / "bare.safetensors")


def test_classes_must_match_the_outputs() -> None:
    with pytest.raises(CheckpointError, match="2 class names for 3 outputs"):
        FittedTriDet(awake(), ("a", "b"))
