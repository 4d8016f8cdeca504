"""Every encoder by name: `create("r3d.18")`. A new one is a line in its family's `MODELS`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import URLError

from videoveil import own_file
from videoveil.encoders import (
    c3d,
    checkpoints,
    hub,
    i3d,
    i3d_resnet50,
    mobilenet_v1,
    own,
    tiny,
    torchvision_models,
    transformers_models,
)
from videoveil.encoders.base import Encoder, Kind, seeded
from videoveil.encoders.fitting import fit, on_meta
from videoveil.encoders.model import Model, State, build
from videoveil.errors import CheckpointError, UsageError

FAMILIES = (tiny, i3d, i3d_resnet50, c3d, torchvision_models, transformers_models, mobilenet_v1)
MODELS: dict[str, Model] = {name: model for family in FAMILIES for name, model in family.MODELS.items()}
EMBEDDED = Path(__file__).with_name("weights")  # `NAME.safetensors` here is the default of that encoder
RANDOM, OWN = "random", "own"  # weights that are drawn, weights that come with the package


@dataclass(frozen=True, slots=True)
class EncoderInfo:
    """One line of `describe`; parameters include the published classification layer."""

    name: str
    kind: Kind
    parameters: int
    width: int
    tokens: int
    frames: int
    size: int


def names() -> tuple[str, ...]:
    """All encoder names."""
    return tuple(MODELS)


def describe() -> list[EncoderInfo]:
    """Sizes of all encoders at their defaults, counted on the real networks."""
    return [info(name) for name in MODELS]


@cache
def info(name: str) -> EncoderInfo:
    """Sizes of one encoder at its defaults."""
    name = resolve(name)
    encoder = on_meta(name, MODELS[name], {})
    parameters = sum(parameter.numel() for parameter in encoder.network.parameters())
    spec = encoder.input
    return EncoderInfo(name, encoder.kind, parameters, encoder.width, encoder.tokens, spec.frames, spec.size)


def resolve(name: str) -> str:
    """The registered name; case and separators do not matter (`r3d18`, `R3D_18` and `r3d.18` are one)."""
    found = _spellings().get(_plain(name))
    if found is None:
        raise UsageError(f"no encoder {name!r}; there are {', '.join(MODELS)}")
    return found


@cache
def _spellings() -> dict[str, str]:
    return {_plain(name): name for name in MODELS}


def _plain(name: str) -> str:
    return re.sub(r"[._\- ]", "", name.lower())


def create(name: str, *, weights: str | Path | None = None, seed: int = 0, **options: Any) -> Encoder:
    """Build an encoder, in eval mode on the CPU.

    `weights`: None for the embedded weights where the package has some (`tiny`) and otherwise a random start drawn
    from `seed`; `"own"` or `"random"` to insist on the one or the other; a `.safetensors` file that `veil convert`
    wrote; a folder in the hub's layout; `"hub:ORG/NAME"` or `"ORG/NAME"`; `"torchvision:KINETICS400_V1"` for its own.
    `options`: norm, pool, classes, frames, size, resize, stride and those of the family. They win over what a file
    says; a number of classes that is not the file's gets a fresh classification layer from `seed`.
    """
    if own_file.is_own(name):
        return own.open_own(name, weights=weights, options=options)
    name = resolve(name)
    model = MODELS[name]
    embedded = EMBEDDED / f"{name}.safetensors"
    if weights == OWN and not embedded.is_file():
        raise UsageError(f"{name}: comes without weights of its own; give a file, or 'random'")
    if weights == OWN or (weights is None and embedded.is_file()):
        weights = embedded
    if weights is None or weights == RANDOM:
        with seeded(seed):
            return build(name, model, options).eval()
    tensors, implied = _weights(name, model, weights, options)
    return _assembled(name, model, tensors, implied, options, seed, str(weights))


def _weights(
    name: str, model: Model, weights: str | Path, options: Mapping[str, Any]
) -> tuple[State, Mapping[str, Any]]:
    """Tensors in our names and the options they were made for."""
    text, path = str(weights), Path(weights)
    implied: Mapping[str, Any] = {}
    if text.startswith("torchvision:"):
        state = _torchvision_state(name, model, text.partition(":")[2])
    elif path.is_file():
        return _own_file(name, path)
    elif path.is_dir():
        state, implied = _snapshot(model, *hub.read_folder(path))
    elif re.fullmatch(r"(hub:)?[\w.-]+/[\w.-]+", text) and path.suffix != ".safetensors":
        state, implied = _snapshot(model, *hub.read_hub(text.removeprefix("hub:")))
    else:
        raise CheckpointError(f"{weights}: no such file or folder, nor a name on the hub (ORG/NAME)")
    asked = {key: value for key, value in options.items() if key != "classes"}
    fitted = fit(name, model, state, {**implied, **asked}, source=text)
    return fitted.tensors, fitted.options


def _own_file(name: str, path: Path) -> tuple[State, Mapping[str, Any]]:
    if path.suffix != ".safetensors":
        raise CheckpointError(
            f"{path}: not a safetensors file; bring it in with `veil convert {path} --to {name}`"
        )
    checkpoint = checkpoints.read(path)
    if checkpoint.encoder != name:
        raise CheckpointError(
            f"{path}: holds weights of {checkpoint.encoder}, not of {name}; create {checkpoint.encoder}, or convert "
            f"the source with --to {name} if that network has the same layers"
        )
    return checkpoint.tensors, checkpoint.options


def _snapshot(model: Model, state: State, config: Mapping[str, Any]) -> tuple[State, Mapping[str, Any]]:
    return state, model.from_config(config) if model.from_config else {}


def _torchvision_state(name: str, model: Model, member: str) -> State:
    if not model.torchvision:
        raise UsageError(f"{name}: torchvision has no weights for it")
    from videoveil._torchvision import torchvision

    enum = torchvision.models.get_model_weights(model.torchvision)
    if member not in enum.__members__:
        raise UsageError(
            f"{name}: torchvision has no weights {member!r}; there are {', '.join(enum.__members__)}"
        )
    try:
        state: State = enum[member].get_state_dict(progress=False, check_hash=True, weights_only=True)
    except (URLError, OSError, RuntimeError) as error:
        raise CheckpointError(
            f"torchvision:{member}: could not be fetched from {enum[member].url} ({error}); download that file "
            f"elsewhere and bring it in with `veil convert FILE --to {name}`"
        ) from error
    return state


def _assembled(
    name: str,
    model: Model,
    tensors: Mapping[str, Any],
    implied: Mapping[str, Any],
    asked: Mapping[str, Any],
    seed: int,
    source: str,
) -> Encoder:
    """Build what the file implies with the asked changes, and fill it."""
    options = {**implied, **asked}
    if "size" in asked and "resize" not in asked:
        options.pop("resize", None)  # keep the native margin around the new crop
    pool = options.get("pool", model.default_pool)
    if "classes" not in asked and model.head_pools is not None and pool not in model.head_pools:
        options["classes"] = 0
    with seeded(seed):
        encoder = build(name, model, options)
    own = encoder.network.state_dict()
    spare = tuple(prefix for prefix in model.spare if not any(key.startswith(prefix) for key in own))
    weights = {key: value for key, value in tensors.items() if not (spare and key.startswith(spare))}
    if encoder.classes != implied.get("classes", 0):
        weights = {key: value for key, value in weights.items() if not encoder.is_head(key)}
        weights |= {key: value for key, value in own.items() if encoder.is_head(key)}
    checkpoints.load(encoder, weights, source)
    return encoder.eval()
