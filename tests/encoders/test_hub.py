from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from videoveil import _torchvision  # noqa: F401
from videoveil.encoders import create
from videoveil.errors import CheckpointError, UsageError

from .helpers import close, moving

from transformers import (  # isort: skip
    TimesformerConfig,
    TimesformerForVideoClassification,
    VideoMAEConfig,
    VideoMAEForVideoClassification,
)

LIBRARY: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 96,
    "image_size": 32,
    "num_frames": 4,
    "num_labels": 5,
}


def expected_logits(library: torch.nn.Module, encoder: Any, clips: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = library(((clips - encoder.mean) / encoder.std).transpose(1, 2)).logits
    return logits


@torch.inference_mode()
@pytest.mark.parametrize("shard", ["1GB", "50KB"])
@pytest.mark.parametrize("name", ["videomae.b", "timesformer.b"])
def test_a_snapshot_folder_gives_the_librarys_logits(tmp_path: Path, name: str, shard: str) -> None:
    library: Any
    if name == "videomae.b":
        library = VideoMAEForVideoClassification(VideoMAEConfig(**LIBRARY)).eval()
        for layer in library.videomae.encoder.layer:
            layer.attention.attention.key.bias = None  # as in the published checkpoints
    else:
        library = TimesformerForVideoClassification(TimesformerConfig(**LIBRARY)).eval()
    library.save_pretrained(tmp_path, max_shard_size=shard)
    assert (tmp_path / "model.safetensors").exists() == (shard == "1GB")
    encoder = create(name, weights=tmp_path)
    assert (encoder.input.frames, encoder.input.size, encoder.width, encoder.classes) == (4, 32, 48, 5)
    clips = moving(encoder, 2)
    assert close(expected_logits(library, encoder, clips), encoder.logits(clips))
    assert create(name, weights=tmp_path, classes=3).classes == 3


def test_pickled_snapshots_pass_the_same_guard(tmp_path: Path) -> None:
    library = VideoMAEForVideoClassification(VideoMAEConfig(**LIBRARY))
    library.config.save_pretrained(tmp_path)
    torch.save(library.state_dict(), tmp_path / "pytorch_model.bin")
    assert create("videomae.b", weights=tmp_path).classes == 5
    torch.save(library, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="pickled code"):
        create("videomae.b", weights=tmp_path)


def test_incomplete_snapshots_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        create("videomae.b", weights=tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"none of model\.safetensors, .* is there"):
        create("videomae.b", weights=tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    with pytest.raises(CheckpointError, match=r"model-1\.safetensors is missing"):
        create("videomae.b", weights=tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(CheckpointError, match="outside the snapshot"):
        create("videomae.b", weights=tmp_path)
    index.write_text("{")
    with pytest.raises(CheckpointError, match="not JSON"):
        create("videomae.b", weights=tmp_path)


def test_configurations_that_the_family_cannot_build_are_refused(tmp_path: Path) -> None:
    config = TimesformerConfig(**LIBRARY, attention_type="joint_space_time")
    TimesformerForVideoClassification(config).save_pretrained(tmp_path)
    with pytest.raises(UsageError, match="attention_type='joint_space_time' is not supported"):
        create("timesformer.b", weights=tmp_path)


@pytest.mark.parametrize("weights", ["hub:MCG-NJU/videomae-base", "MCG-NJU/videomae-base"])
def test_without_a_network_the_error_says_how_to_bring_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        CheckpointError, match=r"could not be fetched[\s\S]*hf download MCG-NJU/videomae-base"
    ):
        create("videomae.b", weights=weights)
