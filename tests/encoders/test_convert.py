from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from videoveil import _torchvision  # noqa: F401
from videoveil.encoders import checkpoints, convert, create
from videoveil.encoders.base import COUNTER, Encoder
from videoveil.errors import CheckpointError

from .helpers import moving, small
from .test_i3d_resnet50 import caffe2_name

from transformers import (  # isort: skip
    VideoMAEConfig,
    VideoMAEForPreTraining,
    VideoMAEForVideoClassification,
    VJEPA2Config,
    VJEPA2Model,
)

NAME = "mobilenet.v1-0.25"


@pytest.fixture(scope="module")
def source() -> Encoder:
    return create(NAME, seed=7)


def state_of(encoder: Encoder) -> dict[str, torch.Tensor]:
    return dict(encoder.network.state_dict())


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    "prefix", ["", "module.", "backbone.", "encoder.", "module.encoder.", "model.module."]
)
def test_wrapped_checkpoints_come_in_and_give_the_same_features(
    tmp_path: Path, source: Encoder, prefix: str, new: bool
) -> None:
    content = {"state_dict": {f"{prefix}{key}": value for key, value in state_of(source).items()}, "epoch": 3}
    torch.save(content, tmp_path / "w.pth", _use_new_zipfile_serialization=new)
    report = convert(tmp_path / "w.pth", NAME, tmp_path / "w.safetensors")
    encoder = create(NAME, weights=report.destination)
    assert report.content_hash == encoder.content_hash() == source.content_hash()
    assert (report.wrapper, report.prefix) == ("state_dict", prefix)
    assert report.parameters == 470_072
    clips = moving(small(NAME))
    with torch.inference_mode():
        assert torch.equal(encoder.logits(clips), source.logits(clips))


def test_safetensors_come_in_too(tmp_path: Path, source: Encoder) -> None:
    save_file(state_of(source), tmp_path / "in.safetensors")
    report = convert(tmp_path / "in.safetensors", NAME, tmp_path / "out.safetensors")
    assert report.content_hash == source.content_hash()


def test_old_files_without_batch_norm_counters_have_the_same_hash(tmp_path: Path, source: Encoder) -> None:
    torch.save({k: v for k, v in state_of(source).items() if not k.endswith(COUNTER)}, tmp_path / "w.pt")
    assert convert(tmp_path / "w.pt", NAME, tmp_path / "o.safetensors").content_hash == source.content_hash()


def test_the_file_says_where_it_came_from_but_not_where_that_was_kept(
    tmp_path: Path, source: Encoder
) -> None:
    torch.save(state_of(source), tmp_path / "w.pt")
    report = convert(tmp_path / "w.pt", NAME, tmp_path / "o.safetensors", norm="zero_one")
    checkpoint = checkpoints.read(report.destination)
    assert checkpoint.provenance["source"] == report.source == "w.pt"
    assert checkpoint.provenance["source_sha256"] == report.source_hash
    assert checkpoint.options["norm"] == "zero_one"
    assert str(tmp_path).encode() not in report.destination.read_bytes()
    assert any(NAME in line for line in report.lines())


def test_the_classification_layer_is_kept_dropped_or_found_absent(tmp_path: Path, source: Encoder) -> None:
    state = state_of(source)
    state["fc.weight"], state["fc.bias"] = state["fc.weight"][:7], state["fc.bias"][:7]
    torch.save(state, tmp_path / "w.pt")
    out = tmp_path / "o.safetensors"
    assert convert(tmp_path / "w.pt", NAME, out).options["classes"] == 7
    assert create(NAME, weights=out).classes == 7
    report = convert(tmp_path / "w.pt", NAME, out, keep_head=False)
    assert report.options["classes"] == 0
    assert {"fc.weight", "fc.bias"} <= set(report.dropped)
    torch.save({k: v for k, v in state.items() if not k.startswith("fc.")}, tmp_path / "w.pt")
    assert convert(tmp_path / "w.pt", NAME, out).options["classes"] == 0
    assert create(NAME, weights=out).content_hash() == source.content_hash()
    del state["fc.bias"]
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"missing \(1\):\n  fc\.bias"):
        convert(tmp_path / "w.pt", NAME, out)


def test_unexpected_keys_are_refused_until_they_are_dropped_by_name(tmp_path: Path, source: Encoder) -> None:
    state = {f"module.{key}": value for key, value in state_of(source).items()}
    state["module.projector.weight"] = torch.zeros(3)
    torch.save(state, tmp_path / "w.pt")
    out = tmp_path / "o.safetensors"
    with pytest.raises(CheckpointError, match=r"unexpected \(1\):\n  projector\.weight"):
        convert(tmp_path / "w.pt", NAME, out)
    assert not out.exists()
    report = convert(tmp_path / "w.pt", NAME, out, drop=["module.projector."])
    assert report.dropped == ("module.projector.weight",)


def test_weights_of_another_network_or_shape_are_refused_with_the_list(
    tmp_path: Path, source: Encoder
) -> None:
    torch.save(state_of(source), tmp_path / "w.pt")
    out = tmp_path / "o.safetensors"
    with pytest.raises(CheckpointError, match=r"w\.pt: not the weights of tiny\nmissing"):
        convert(tmp_path / "w.pt", "tiny", out)
    with pytest.raises(
        CheckpointError, match=r"wrong shape.*\n  model\.0\.0\.weight: \(8, 3, 3, 3\) instead of"
    ):
        convert(tmp_path / "w.pt", "mobilenet.v1-0.5", out)
    assert list(tmp_path.iterdir()) == [tmp_path / "w.pt"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path: Path, source: Encoder, bad: float) -> None:
    state = {key: value.clone() for key, value in state_of(source).items()}
    state["model.2.1.running_var"][3] = bad
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match=r"NaN or infinite \(1\):\n  model\.2\.1\.running_var"):
        convert(tmp_path / "w.pt", NAME, tmp_path / "o.safetensors")


def test_half_precision_becomes_single_and_is_reported(tmp_path: Path, source: Encoder) -> None:
    state = {k: v.half() if v.is_floating_point() else v for k, v in state_of(source).items()}
    torch.save(state, tmp_path / "w.pt")
    report = convert(tmp_path / "w.pt", NAME, tmp_path / "o.safetensors")
    assert len(report.cast) == len([k for k in state if not k.endswith(COUNTER)])
    dtypes = {v.dtype for v in checkpoints.read(report.destination).tensors.values()}
    assert dtypes == {torch.float32, torch.int64}


# --- the published forms of each family --------------------------------------------------------------------


def test_inception_i3d_comes_in_without_counters_and_nothing_else_may_miss(tmp_path: Path) -> None:
    encoder = create("i3d.inception", seed=1)
    state = {k: v for k, v in state_of(encoder).items() if not k.endswith(COUNTER)}
    assert len(state) == 287
    torch.save(state, tmp_path / "rgb.pt", _use_new_zipfile_serialization=False)
    report = convert(tmp_path / "rgb.pt", "i3d.inception", tmp_path / "o.safetensors")
    assert report.content_hash == encoder.content_hash()
    del state["Mixed_4c.b2a.bn.running_mean"]
    torch.save(state, tmp_path / "rgb.pt")
    with pytest.raises(CheckpointError, match=r"missing \(1\):\n  Mixed_4c\.b2a\.bn\.running_mean"):
        convert(tmp_path / "rgb.pt", "i3d.inception", tmp_path / "o.safetensors")


def test_i3d_resnet50_comes_in_wrapped_with_frozen_norms_and_a_projection_head(tmp_path: Path) -> None:
    encoder = create("i3d.resnet50", seed=1)
    state: dict[str, torch.Tensor] = {}
    for key, value in state_of(encoder).items():
        if key.endswith(COUNTER):
            continue
        norm = ".bn" in key or key.startswith("bn1") or "downsample.1" in key
        renamed = key.replace(".weight", ".scale") if norm else key
        state[f"module.i3d.{renamed}"] = value
    state["module.mlp.0.weight"] = torch.zeros(4)
    torch.save({"state_dict": state}, tmp_path / "w.pth")
    report = convert(tmp_path / "w.pth", "i3d.resnet50", tmp_path / "o.safetensors")
    assert report.content_hash == encoder.content_hash()
    assert report.prefix == "module.i3d."
    assert report.dropped == ("mlp.0.weight",)
    assert ("bn1.scale", "bn1.weight") in report.renamed


def test_i3d_resnet50_comes_in_as_caffe2_blobs(tmp_path: Path) -> None:
    encoder = create("i3d.resnet50", seed=1)
    blobs: dict[str, Any] = {
        caffe2_name(key): value.numpy()
        for key, value in state_of(encoder).items()
        if not key.endswith(COUNTER)
    }
    blobs["conv1_w_momentum"] = blobs["conv1_w"] * 0
    (tmp_path / "w.pkl").write_bytes(pickle.dumps({"blobs": blobs}))
    report = convert(tmp_path / "w.pkl", "i3d.resnet50", tmp_path / "o.safetensors")
    assert report.content_hash == encoder.content_hash()
    assert report.dropped == ("conv1_w_momentum",)


SMALL: dict[str, Any] = {"width": 48, "depth": 2, "heads": 2, "mlp": 96, "frames": 4, "size": 32}
LIBRARY: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 96,
    "image_size": 32,
    "num_frames": 4,
}


def test_hub_videomae_comes_in_fine_tuned_and_self_supervised(tmp_path: Path) -> None:
    library: torch.nn.Module = VideoMAEForVideoClassification(VideoMAEConfig(**LIBRARY, num_labels=5))
    torch.save(library.state_dict(), tmp_path / "tuned.bin")
    report = convert(tmp_path / "tuned.bin", "videomae.b", tmp_path / "o.safetensors", **SMALL)
    assert (report.options["classes"], report.options["pool"]) == (5, "mean+fc_norm")
    assert create("videomae.b", weights=report.destination).content_hash() == report.content_hash
    config = VideoMAEConfig(**LIBRARY, use_mean_pooling=False, decoder_num_hidden_layers=1)
    torch.save(VideoMAEForPreTraining(config).state_dict(), tmp_path / "self.bin")
    report = convert(tmp_path / "self.bin", "videomae.b", tmp_path / "o.safetensors", **SMALL)
    assert (report.options["classes"], report.options["pool"]) == (0, "layernorm+mean")
    assert create("videomae.b", weights=report.destination).mean_pooled


def test_hub_vjepa2_comes_in_without_its_predictor(tmp_path: Path) -> None:
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads")
    config = VJEPA2Config(
        **{name: LIBRARY[name] for name in names},
        crop_size=32,
        mlp_ratio=2.0,
        pred_hidden_size=12,
        pred_num_hidden_layers=1,
        pred_num_attention_heads=1,
    )
    library = VJEPA2Model(config).eval()
    torch.save(library.state_dict(), tmp_path / "w.bin")
    report = convert(tmp_path / "w.bin", "vjepa2.l", tmp_path / "o.safetensors", **SMALL)
    assert all(key.startswith("predictor.") for key in report.dropped)
    encoder = create("vjepa2.l", weights=report.destination)
    clips = moving(encoder)
    with torch.inference_mode():
        pixels = ((clips - encoder.mean) / encoder.std).transpose(1, 2)
        expected = library(pixels, skip_predictor=True).last_hidden_state.mean(1)
        assert torch.allclose(encoder(clips), expected, atol=1e-5)
