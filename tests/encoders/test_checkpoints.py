from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from videoveil.encoders import checkpoints, create
from videoveil.encoders.base import COUNTER
from videoveil.errors import CheckpointError
from videoveil.files import TEMPORARY

from .helpers import moving, small

NAME = "mobilenet.v1-0.25"


def test_a_saved_encoder_comes_back_with_its_options_and_hash(tmp_path: Path) -> None:
    encoder = small("videomae.s", norm="minus1_1", classes=3, stride=2)
    path = tmp_path / "weights.safetensors"
    checkpoints.save(encoder, path, {"trained": "theatre"})
    again = create("videomae.s", weights=path)
    assert again.content_hash() == encoder.content_hash()
    assert (again.input, again.options) == (encoder.input, encoder.options)
    clips = moving(encoder)
    assert torch.equal(again.logits(clips), encoder.logits(clips))
    assert checkpoints.read(path).provenance == {"trained": "theatre"}


def test_options_asked_for_win_over_the_files(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    encoder = small("videomae.s", classes=3)
    checkpoints.save(encoder, path)
    fresh = create("videomae.s", weights=path, classes=7, seed=1)
    assert fresh.classes == 7
    assert fresh.content_hash() == encoder.content_hash()
    assert torch.equal(
        fresh.head_parameters()[0], create("videomae.s", weights=path, classes=7, seed=1).head_parameters()[0]
    )
    plain = create("videomae.s", weights=path, pool="mean")
    assert plain.classes == 0
    assert plain.content_hash() != encoder.content_hash()
    assert create("videomae.s", weights=path, norm="zero_one").input.std == (1.0, 1.0, 1.0)
    assert create("videomae.s", weights=path, size=64).input.resize == 73


def test_files_without_batch_norm_counters_load_with_the_same_hash(tmp_path: Path) -> None:
    encoder = create(NAME)
    state = {k: v for k, v in encoder.network.state_dict().items() if not k.endswith(COUNTER)}
    checkpoints.write(encoder, state, tmp_path / "w.safetensors", {})
    assert create(NAME, weights=tmp_path / "w.safetensors").content_hash() == encoder.content_hash()


def test_any_other_difference_is_refused_with_every_key(tmp_path: Path) -> None:
    encoder = create(NAME)
    state = encoder.network.state_dict()
    del state["model.3.0.weight"]
    state["extra.weight"] = torch.zeros(2)
    state["fc.bias"] = torch.zeros(5)
    with pytest.raises(CheckpointError) as caught:
        checkpoints.load(encoder, state, "file")
    text = str(caught.value)
    assert "missing (1):\n  model.3.0.weight" in text
    assert "unexpected (1):\n  extra.weight" in text
    assert "fc.bias: (5,) instead of (1000,)" in text


def test_a_file_of_another_encoder_is_refused_by_name(tmp_path: Path) -> None:
    checkpoints.save(create(NAME), tmp_path / "w.safetensors")
    with pytest.raises(CheckpointError, match=r"holds weights of mobilenet\.v1-0\.25, not of tiny"):
        create("tiny", weights=tmp_path / "w.safetensors")


def test_foreign_truncated_and_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match=r"not written by this program.*veil convert"):
        create(NAME, weights=path)
    checkpoints.save(create(NAME), path)
    whole = path.read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="not a whole safetensors file"):
            create(NAME, weights=path)
    save_file({"a": torch.zeros(2)}, path, metadata={"format": checkpoints.FORMAT, "options": "{"})
    with pytest.raises(CheckpointError, match="metadata is damaged"):
        create(NAME, weights=path)


def test_metadata_is_readable_without_the_program(tmp_path: Path) -> None:
    checkpoints.save(create(NAME), tmp_path / "w.safetensors")
    with safe_open(tmp_path / "w.safetensors", framework="pt") as handle:
        metadata = handle.metadata()
    assert metadata["encoder"] == NAME
    assert json.loads(metadata["options"])["multiplier"] == 0.25


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    encoder = create(NAME)
    with pytest.raises(AttributeError):
        checkpoints.write(encoder, {"a": "not a tensor"}, tmp_path / "w.safetensors", {})  # type: ignore[dict-item]
    assert not [entry for entry in tmp_path.iterdir() if TEMPORARY in entry.name or entry.suffix]


def test_long_listings_are_cut_and_counted() -> None:
    text = checkpoints.listing("missing", [f"k{i}" for i in range(25)])
    assert text.startswith("missing (25):\n  k0\n")
    assert text.endswith("  … and 5 more")
    assert checkpoints.listing("missing", []) == ""
