"""VideoMAE, VideoMAEv2, V-JEPA 2 and TimeSformer from the transformers library.

transformers is imported when a network is built: listing the registry must not pay for it. Own options of every
family are the numbers of its configuration (`width`, `depth`, `heads`, …), so a hub configuration or a small copy for
tests goes through the same code as the published sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from videoveil.encoders.base import NORMS, InputSpec
from videoveil.encoders.fused_videomae import FusedVideoMAE
from videoveil.encoders.model import Adapted, Model, Request, rename
from videoveil.errors import UsageError

_MEAN, _STD = NORMS["imagenet"]
_SMALL = {"frames": 4, "size": 32, "width": 48, "depth": 2, "heads": 2}


def _check_grid(request: Request, tubelet: int) -> None:
    patch = request.own["patch"]
    if request.size % patch:
        raise UsageError(f"size={request.size} is no multiple of the patch, {patch}")
    if request.frames % tubelet:
        raise UsageError(f"frames={request.frames} is no multiple of the tubelet, {tubelet}")
    if request.own["width"] % request.own["heads"]:
        raise UsageError(f"width={request.own['width']} is no multiple of heads={request.own['heads']}")


def _time_last(tokens: Tensor, steps: int) -> Tensor:
    """Patch tokens in the order time, height, width: (N, S·P, C) → (N, S, C)."""
    return tokens.unflatten(1, (steps, -1)).mean(2)


# --- VideoMAE ----------------------------------------------------------------------------------------------
# Pools: "mean+fc_norm" is what fine-tuned classifiers see; "mean" the same without its LayerNorm (lengths of vectors
# survive); "layernorm+mean" belongs to self-supervised checkpoints, whose final norm acts on every token.

_TUBELET = 2


def position_table(positions: int, width: int) -> Tensor:
    """The fixed sine–cosine table of VideoMAE, (1, positions, width).

    Equal to the one transformers computes number by number, which takes seconds for the published sizes.
    """
    column = np.arange(width)
    angles = np.arange(positions)[:, None] / np.power(10000, 2 * (column // 2) / width)
    table = np.where(column % 2 == 0, np.sin(angles), np.cos(angles))
    return torch.tensor(table, dtype=torch.float32, device="cpu").unsqueeze(0)


def _videomae(request: Request) -> nn.Module:
    from videoveil import _torchvision  # noqa: F401
    from transformers import VideoMAEConfig, VideoMAEForVideoClassification  # isort: skip

    _check_grid(request, _TUBELET)
    own = request.own
    settings: dict[str, Any] = {
        "num_labels": request.classes
    }  # known to the base class, not to its subclasses
    config = VideoMAEConfig(
        image_size=own["patch"],  # one patch: the real grid is set below, with a fast position table
        num_frames=_TUBELET,
        patch_size=own["patch"],
        tubelet_size=_TUBELET,
        hidden_size=own["width"],
        num_hidden_layers=own["depth"],
        num_attention_heads=own["heads"],
        intermediate_size=own["mlp"],
        layer_norm_eps=own["eps"],
        use_mean_pooling=request.pool != "layernorm+mean",
        **settings,
    )
    network: Any = VideoMAEForVideoClassification(config)
    _set_grid(network, request.frames, request.size)
    for layer in network.videomae.encoder.layer:
        # Some releases of transformers give the keys a bias. VideoMAE has none, and softmax would cancel it.
        layer.attention.attention.key.bias = None
    if request.pool == "mean":
        network.fc_norm = None
    return network  # type: ignore[no-any-return]


def _set_grid(network: Any, frames: int, size: int) -> None:
    config, embeddings = network.config, network.videomae.embeddings
    config.num_frames, config.image_size = frames, size
    positions = (frames // _TUBELET) * (size // config.patch_size) ** 2
    embeddings.num_patches = embeddings.patch_embeddings.num_patches = positions
    embeddings.patch_embeddings.image_size = (size, size)
    del (
        embeddings.position_embeddings
    )  # a plain attribute; as a buffer it moves to the device with the network
    table = position_table(positions, config.hidden_size)
    embeddings.register_buffer("position_embeddings", table, persistent=False)


def _videomae_tokens(network: Any, clips: Tensor) -> Tensor:
    hidden = network.videomae(clips.transpose(1, 2)).last_hidden_state  # (N, S·P, C)
    return _time_last(hidden, clips.shape[2] // _TUBELET)


def _videomae_mean(network: nn.Module, clips: Tensor) -> tuple[Tensor, Tensor]:
    tokens = _videomae_tokens(network, clips)
    return tokens.mean(1), tokens


def _videomae_fc_norm(network: Any, clips: Tensor) -> tuple[Tensor, Tensor]:
    vector, tokens = _videomae_mean(network, clips)
    return network.fc_norm(vector), tokens


# The authors' own names, used by their releases of VideoMAE and VideoMAEv2 …
_AUTHORS = [
    (r"^patch_embed\.proj\.", "videomae.embeddings.patch_embeddings.projection."),
    (r"^blocks\.(\d+)\.norm1\.", r"videomae.encoder.layer.\1.layernorm_before."),
    (r"^blocks\.(\d+)\.norm2\.", r"videomae.encoder.layer.\1.layernorm_after."),
    (r"^blocks\.(\d+)\.attn\.q_bias$", r"videomae.encoder.layer.\1.attention.attention.query.bias"),
    (r"^blocks\.(\d+)\.attn\.v_bias$", r"videomae.encoder.layer.\1.attention.attention.value.bias"),
    (r"^blocks\.(\d+)\.attn\.(query|key|value)\.", r"videomae.encoder.layer.\1.attention.attention.\2."),
    (r"^blocks\.(\d+)\.attn\.proj\.", r"videomae.encoder.layer.\1.attention.output.dense."),
    (r"^blocks\.(\d+)\.mlp\.fc1\.", r"videomae.encoder.layer.\1.intermediate.dense."),
    (r"^blocks\.(\d+)\.mlp\.fc2\.", r"videomae.encoder.layer.\1.output.dense."),
    (r"^norm\.", "videomae.layernorm."),
    (r"^head\.", "classifier."),
]
# … and the hub's, with the older spelling of the attention biases and with or without the classifier around.
_HUB = [
    (r"^(?:videomae\.)?(encoder\..*attention\.attention)\.q_bias$", r"videomae.\1.query.bias"),
    (r"^(?:videomae\.)?(encoder\..*attention\.attention)\.v_bias$", r"videomae.\1.value.bias"),
    (r"^(embeddings|encoder|layernorm)\.", r"videomae.\1."),
]
_PRETRAINING = (r"^decoder\.", r"^encoder_to_decoder\.", r"^mask_token$", r"^position_embeddings$")
_KEY_BIAS = r"attention\.attention\.key\.bias$"


def _split_qkv(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Split the authors' fused projections; a fused bias loses its key part, which softmax cancels."""
    result: dict[str, Tensor] = {}
    for key, tensor in state.items():
        fused = re.match(r"^(blocks\.\d+\.attn)\.qkv\.(weight|bias)$", key)
        if not fused or tensor.dim() == 0 or len(tensor) % 3:
            result[key] = tensor
            continue
        for part, piece in zip(("query", "key", "value"), tensor.chunk(3)):
            if not (part == "key" and fused[2] == "bias"):
                result[f"{fused[1]}.{part}.{fused[2]}"] = piece.clone()
    return result


def adapt_videomae(state: Mapping[str, Tensor]) -> Adapted:
    """Checkpoints of the hub or of the authors, fine-tuned or self-supervised."""
    authors = any(key.startswith("blocks.") for key in state)
    rules = _AUTHORS if authors else _HUB
    result = rename(_split_qkv(state), rules, (*_PRETRAINING, _KEY_BIAS))
    fused = [key for key in state if ".attn.qkv." in key]
    result.renamed += [(key, f"{key} → query, key, value") for key in fused]
    if authors:
        result.options["eps"] = 1e-6
    if "videomae.layernorm.weight" in result.tensors:
        result.options["pool"] = "layernorm+mean"
    elif "fc_norm.weight" not in result.tensors:
        result.options["pool"] = "mean"
    return result


def _videomae_config(config: Mapping[str, Any]) -> dict[str, Any]:
    if "hidden_size" not in config:
        return {}  # VideoMAEv2's own configuration: the registry's numbers hold
    if config.get("tubelet_size", _TUBELET) != _TUBELET:
        raise UsageError(f"tubelet_size={config['tubelet_size']} is not supported, only {_TUBELET}")
    names = {"frames": "num_frames", "size": "image_size", "patch": "patch_size", "width": "hidden_size"}
    names |= {"depth": "num_hidden_layers", "heads": "num_attention_heads", "mlp": "intermediate_size"}
    names |= {"eps": "layer_norm_eps"}
    return {ours: config[theirs] for ours, theirs in names.items() if theirs in config}


def _videomae_model(own: dict[str, Any], classes: int = 400) -> Model:
    return Model(
        network=_videomae,
        pools={
            "mean+fc_norm": _videomae_fc_norm,
            "mean": _videomae_mean,
            "layernorm+mean": _videomae_mean,
        },
        input=InputSpec(frames=16, size=224, resize=256, mean=_MEAN, std=_STD),
        width=lambda own: own["width"],
        tokens=lambda frames: frames // _TUBELET,
        head="classifier",
        classes=classes,
        own={"patch": 16, "eps": 1e-12, **own},
        head_pools=("mean+fc_norm",),
        mean_pools=("mean", "layernorm+mean"),
        fixed=True,
        adapt=adapt_videomae,
        spare=("fc_norm.",),
        from_config=_videomae_config,
        lower=FusedVideoMAE,
        small={**_SMALL, "mlp": 96, "patch": 16},
    )


# --- V-JEPA 2 ----------------------------------------------------------------------------------------------
# The predictor of the self-supervised training is left out. Pools: "mean" over the tokens, or "attentive", the pooler
# that the fine-tuned classifiers were trained with.


def _vjepa2(request: Request) -> nn.Module:
    from videoveil import _torchvision  # noqa: F401
    from transformers import VJEPA2Config, VJEPA2ForVideoClassification  # isort: skip

    _check_grid(request, _TUBELET)
    own = request.own
    settings: dict[str, Any] = {"num_labels": request.classes}
    config = VJEPA2Config(
        crop_size=request.size,
        frames_per_clip=request.frames,
        patch_size=own["patch"],
        tubelet_size=_TUBELET,
        hidden_size=own["width"],
        num_hidden_layers=own["depth"],
        num_attention_heads=own["heads"],
        mlp_ratio=own["mlp"] / own["width"],
        num_pooler_layers=own["pooler_depth"] if request.pool == "attentive" else 1,
        pred_hidden_size=12,  # the predictor is thrown away: keep its construction cheap
        pred_num_hidden_layers=1,
        pred_num_attention_heads=1,
        **settings,
    )
    network: Any = VJEPA2ForVideoClassification(config)
    network.vjepa2.predictor = nn.Identity()
    if request.pool != "attentive":
        network.pooler = nn.Identity()
    return network  # type: ignore[no-any-return]


def _vjepa2_hidden(network: Any, clips: Tensor) -> Tensor:
    hidden: Tensor = network.vjepa2(clips.transpose(1, 2), skip_predictor=True).last_hidden_state
    return hidden  # (N, S·P, C)


def _vjepa2_mean(network: nn.Module, clips: Tensor) -> tuple[Tensor, Tensor]:
    tokens = _time_last(_vjepa2_hidden(network, clips), clips.shape[2] // _TUBELET)
    return tokens.mean(1), tokens


def _vjepa2_attentive(network: Any, clips: Tensor) -> tuple[Tensor, Tensor]:
    hidden = _vjepa2_hidden(network, clips)
    return network.pooler(hidden), _time_last(hidden, clips.shape[2] // _TUBELET)


def adapt_vjepa2(state: Mapping[str, Tensor]) -> Adapted:
    """Hub checkpoints, self-supervised (`encoder.`, `predictor.`) or with pooler and classifier."""
    result = rename(state, [(r"^encoder\.", "vjepa2.encoder.")], (r"^(vjepa2\.)?predictor\.",))
    if "pooler.query_tokens" in result.tensors:
        result.options["pool"] = "attentive"
        blocks = {
            key.split(".")[2] for key in result.tensors if key.startswith("pooler.self_attention_layers.")
        }
        result.options["pooler_depth"] = len(blocks)
    return result


def _vjepa2_config(config: Mapping[str, Any]) -> dict[str, Any]:
    names = {"size": "crop_size", "patch": "patch_size", "width": "hidden_size", "depth": "num_hidden_layers"}
    names |= {"heads": "num_attention_heads", "pooler_depth": "num_pooler_layers"}
    options = {ours: config[theirs] for ours, theirs in names.items() if theirs in config}
    if "mlp_ratio" in config and "hidden_size" in config:
        options["mlp"] = round(config["mlp_ratio"] * config["hidden_size"])
    return options  # the released 64 frames are no requirement: positions are rotary


def _vjepa2_model(own: dict[str, Any]) -> Model:
    return Model(
        network=_vjepa2,
        pools={"mean": _vjepa2_mean, "attentive": _vjepa2_attentive},
        input=InputSpec(frames=16, size=256, resize=292, mean=_MEAN, std=_STD),
        width=lambda own: own["width"],
        tokens=lambda frames: frames // _TUBELET,
        head="classifier",
        classes=0,
        own={"patch": 16, "pooler_depth": 3, **own},
        head_pools=("attentive",),
        mean_pools=("mean",),
        fixed=True,
        adapt=adapt_vjepa2,
        spare=("pooler.",),
        from_config=_vjepa2_config,
        small={**_SMALL, "mlp": 96, "patch": 16, "pooler_depth": 1},
    )


# --- TimeSformer -------------------------------------------------------------------------------------------


def _timesformer(request: Request) -> nn.Module:
    from videoveil import _torchvision  # noqa: F401
    from transformers import TimesformerConfig, TimesformerForVideoClassification  # isort: skip

    _check_grid(request, 1)
    own = request.own
    settings: dict[str, Any] = {"num_labels": request.classes}
    config = TimesformerConfig(
        image_size=request.size,
        patch_size=own["patch"],
        num_frames=request.frames,
        hidden_size=own["width"],
        num_hidden_layers=own["depth"],
        num_attention_heads=own["heads"],
        intermediate_size=own["mlp"],
        **settings,
    )
    return TimesformerForVideoClassification(config)


def _timesformer_cls(network: Any, clips: Tensor) -> tuple[Tensor, Tensor]:
    hidden = network.timesformer(
        clips.transpose(1, 2)
    ).last_hidden_state  # (N, 1 + P·T, C): time runs fastest
    return hidden[:, 0], hidden[:, 1:].unflatten(1, (-1, clips.shape[2])).mean(1)


def _timesformer_mean(network: nn.Module, clips: Tensor) -> tuple[Tensor, Tensor]:
    _, tokens = _timesformer_cls(network, clips)
    return tokens.mean(1), tokens


def adapt_timesformer(state: Mapping[str, Tensor]) -> Adapted:
    """Hub checkpoints with or without the classifier around."""
    return rename(state, [(r"^(embeddings|encoder|layernorm)\.", r"timesformer.\1.")])


def _timesformer_config(config: Mapping[str, Any]) -> dict[str, Any]:
    kind = config.get("attention_type", "divided_space_time")
    if kind != "divided_space_time":
        raise UsageError(f"attention_type={kind!r} is not supported, only 'divided_space_time'")
    names = {"frames": "num_frames", "size": "image_size", "patch": "patch_size", "width": "hidden_size"}
    names |= {"depth": "num_hidden_layers", "heads": "num_attention_heads", "mlp": "intermediate_size"}
    return {ours: config[theirs] for ours, theirs in names.items() if theirs in config}


def _sizes(width: int, depth: int, heads: int, mlp: int) -> dict[str, Any]:
    return {"width": width, "depth": depth, "heads": heads, "mlp": mlp}


MODELS = {
    "videomae.s": _videomae_model(_sizes(384, 12, 6, 1536)),
    "videomae.b": _videomae_model(_sizes(768, 12, 12, 3072)),
    "videomae.l": _videomae_model(_sizes(1024, 24, 16, 4096)),
    "videomae.h": _videomae_model(_sizes(1280, 32, 16, 5120)),
    # 710 classes: the fine-tuned giant was trained on the union of three Kinetics sets.
    "videomaev2.g": _videomae_model({**_sizes(1408, 40, 16, 6144), "patch": 14, "eps": 1e-6}, classes=710),
    "vjepa2.l": _vjepa2_model(_sizes(1024, 24, 16, 4096)),
    "vjepa2.h": _vjepa2_model(_sizes(1280, 32, 16, 5120)),
    "vjepa2.g": _vjepa2_model(_sizes(1408, 40, 22, 6144)),
    "timesformer.b": Model(
        network=_timesformer,
        pools={"cls": _timesformer_cls, "mean": _timesformer_mean},
        input=InputSpec(frames=8, size=224, resize=256, mean=(0.45,) * 3, std=(0.225,) * 3),
        width=lambda own: own["width"],
        tokens=lambda frames: frames,
        head="classifier",
        classes=400,
        own={"patch": 16, **_sizes(768, 12, 12, 3072)},
        head_pools=("cls",),
        mean_pools=("mean",),
        fixed=True,
        adapt=adapt_timesformer,
        from_config=_timesformer_config,
        small={**_SMALL, "mlp": 96, "patch": 16},
    ),
}
