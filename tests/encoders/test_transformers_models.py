from __future__ import annotations

from typing import Any

import pytest
import torch

from videoveil import _torchvision  # noqa: F401
from videoveil.encoders.transformers_models import adapt_videomae, position_table

from .helpers import close, moving, small

from transformers import (  # isort: skip
    TimesformerConfig,
    TimesformerForVideoClassification,
    VideoMAEConfig,
    VideoMAEForPreTraining,
    VideoMAEForVideoClassification,
    VideoMAEModel,
    VJEPA2Config,
    VJEPA2ForVideoClassification,
)

GEOMETRY: dict[str, Any] = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
VIDEOMAE: dict[str, Any] = {**GEOMETRY, "image_size": 32, "num_frames": 4, "intermediate_size": 96}


def native(encoder: Any, clips: torch.Tensor) -> torch.Tensor:
    """Normalised, frames before channels, as the library wants it."""
    return ((clips - encoder.mean) / encoder.std).transpose(1, 2)


def without_key_bias(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: value for key, value in state.items() if not key.endswith("attention.key.bias")}


@pytest.mark.parametrize(("positions", "width"), [(1, 2), (7, 12), (50, 48)])
def test_the_position_table_is_the_librarys_bit_for_bit(positions: int, width: int) -> None:
    from transformers.models.videomae.modeling_videomae import get_sinusoid_encoding_table

    assert torch.equal(position_table(positions, width), get_sinusoid_encoding_table(positions, width))


@torch.inference_mode()
def test_videomae_is_the_library_network_with_its_own_grid() -> None:
    encoder = small("videomae.b", classes=5)
    library = VideoMAEForVideoClassification(VideoMAEConfig(**VIDEOMAE, num_labels=5)).eval()
    library.load_state_dict(encoder.network.state_dict(), strict=False)
    for layer in library.videomae.encoder.layer:
        if layer.attention.attention.key.bias is not None:
            layer.attention.attention.key.bias.zero_()
    clips = moving(encoder, 2)
    assert close(library(native(encoder, clips)).logits, encoder.logits(clips))
    hidden = library.videomae(native(encoder, clips)).last_hidden_state
    assert close(hidden.view(2, 2, 4, 48).mean(2), encoder.temporal_tokens(clips))


@torch.inference_mode()
def test_videomae_pools_are_what_they_are_called() -> None:
    clips = moving(small("videomae.b"))
    normed, plain = small("videomae.b"), small("videomae.b", pool="mean")
    plain.network.load_state_dict(normed.network.state_dict(), strict=False)
    assert close(torch.nn.functional.layer_norm(plain(clips), (48,)), normed(clips), 1e-4)
    layered = small("videomae.b", pool="layernorm+mean")
    assert layered.network.videomae.layernorm is not None
    assert layered.classes == plain.classes == 0
    assert layered.mean_pooled
    assert plain.mean_pooled


@torch.inference_mode()
def test_vjepa2_is_the_library_network_without_its_predictor() -> None:
    encoder = small("vjepa2.l", pool="attentive", classes=5)
    config = VJEPA2Config(
        **GEOMETRY,
        crop_size=32,
        frames_per_clip=4,
        mlp_ratio=2.0,
        num_pooler_layers=1,
        pred_hidden_size=12,
        pred_num_hidden_layers=1,
        pred_num_attention_heads=1,
        num_labels=5,
    )
    library = VJEPA2ForVideoClassification(config).eval()
    missing, unexpected = library.load_state_dict(encoder.network.state_dict(), strict=False)
    assert unexpected == []
    assert all(".predictor." in key for key in missing)
    clips = moving(encoder, 2)
    assert close(library(native(encoder, clips)).logits, encoder.logits(clips))
    hidden = library.vjepa2(native(encoder, clips), skip_predictor=True).last_hidden_state
    mean = small("vjepa2.l")
    mean.network.load_state_dict({k: v for k, v in encoder.network.state_dict().items() if "vjepa2." in k})
    assert close(hidden.mean(1), mean(clips))


@torch.inference_mode()
def test_timesformer_is_the_library_network() -> None:
    encoder = small("timesformer.b", classes=5)
    config = TimesformerConfig(**VIDEOMAE, num_labels=5)
    library = TimesformerForVideoClassification(config).eval()
    library.load_state_dict(encoder.network.state_dict())
    clips = moving(encoder, 2)
    assert close(library(native(encoder, clips)).logits, encoder.logits(clips))


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "frames_per_token"), [("videomae.b", 2), ("vjepa2.l", 2), ("timesformer.b", 1)]
)
def test_temporal_tokens_are_in_the_order_of_time(name: str, frames_per_token: int) -> None:
    """Without layers a token only knows its own frames: changing those changes that token alone."""
    encoder = small(name, depth=0, pool="mean")
    clips = moving(encoder)
    changed = clips.clone()
    changed[:, :, frames_per_token : 2 * frames_per_token] = 0
    moved = (encoder.temporal_tokens(changed) - encoder.temporal_tokens(clips)).abs().amax((0, 2)) > 0
    assert moved.tolist() == [index == 1 for index in range(encoder.tokens)]


def authors_names(network: torch.nn.Module, fused_bias: bool) -> dict[str, torch.Tensor]:
    """A library state dictionary in the names of the authors' own releases."""
    state = without_key_bias(dict(network.state_dict()))
    result: dict[str, torch.Tensor] = {}
    parts = {
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "attention.output.dense": "attn.proj",
        "intermediate.dense": "mlp.fc1",
        "output.dense": "mlp.fc2",
    }
    for key, value in state.items():
        if key.startswith("videomae.embeddings."):
            result[f"patch_embed.proj.{key.rpartition('.')[2]}"] = value
        elif key.startswith("classifier."):
            result[key.replace("classifier", "head")] = value
        elif ".attention.attention." not in key and ".layer." in key:
            index, _, rest = key.removeprefix("videomae.encoder.layer.").partition(".")
            module, _, leaf = rest.rpartition(".")
            result[f"blocks.{index}.{parts[module]}.{leaf}"] = value
        elif ".layer." not in key:
            result[key] = value
    for i in range(2):
        stem = f"videomae.encoder.layer.{i}.attention.attention."
        weights = [state[f"{stem}{part}.weight"] for part in ("query", "key", "value")]
        result[f"blocks.{i}.attn.qkv.weight"] = torch.cat(weights)
        query, value = state[f"{stem}query.bias"], state[f"{stem}value.bias"]
        if fused_bias:
            result[f"blocks.{i}.attn.qkv.bias"] = torch.cat((query, torch.ones_like(query), value))
        else:
            result |= {f"blocks.{i}.attn.q_bias": query, f"blocks.{i}.attn.v_bias": value}
    return result


@pytest.mark.parametrize("fused_bias", [False, True])
def test_the_authors_own_names_become_the_librarys(fused_bias: bool) -> None:
    network = VideoMAEForVideoClassification(VideoMAEConfig(**VIDEOMAE, num_labels=5))
    for value in network.state_dict().values():
        torch.nn.init.normal_(value)
    adapted = adapt_videomae(authors_names(network, fused_bias))
    expected = without_key_bias(dict(network.state_dict()))
    assert set(adapted.tensors) == set(expected)
    assert all(torch.equal(adapted.tensors[key], expected[key]) for key in expected)
    assert adapted.options == {"eps": 1e-6}


def test_self_supervised_and_bare_checkpoints_choose_their_pool() -> None:
    pretraining = VideoMAEForPreTraining(
        VideoMAEConfig(**VIDEOMAE, use_mean_pooling=False, decoder_num_hidden_layers=1)
    )
    adapted = adapt_videomae(pretraining.state_dict())
    assert adapted.options == {"pool": "layernorm+mean"}
    assert any(key.startswith("decoder.") for key in adapted.dropped)
    assert set(adapted.tensors) == set(small("videomae.b", pool="layernorm+mean").network.state_dict())
    bare = adapt_videomae(VideoMAEModel(VideoMAEConfig(**VIDEOMAE)).state_dict())
    assert bare.options == {"pool": "mean"}
    assert set(bare.tensors) == set(small("videomae.b", pool="mean").network.state_dict())


def test_the_older_spelling_of_attention_biases_is_understood() -> None:
    stem = "encoder.layer.0.attention.attention"
    state = {f"{p}{stem}.{b}": torch.zeros(1) for p in ("", "videomae.") for b in ("q_bias", "v_bias")}
    found = set(adapt_videomae(state).tensors)
    assert found == {f"videomae.{stem}.query.bias", f"videomae.{stem}.value.bias"}
