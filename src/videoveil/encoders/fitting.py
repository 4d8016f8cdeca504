"""From a foreign state dictionary to our names and the options it implies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from videoveil.encoders.base import Encoder
from videoveil.encoders.checkpoints import differences, listing
from videoveil.encoders.model import Adapted, Model, State, build
from videoveil.errors import CheckpointError

# Names that training code puts in front of a network's own.
WRAPPING = {
    "module",
    "model",
    "backbone",
    "encoder",
    "network",
    "net",
    "i3d",
    "base",
    "_orig_mod",
    "state_dict",
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """Weights that are known to fit the encoder that `options` describe."""

    encoder: Encoder  # on the meta device: names, shapes and identity without memory
    options: Mapping[str, Any]
    tensors: State
    prefix: str
    renamed: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    cast: tuple[str, ...]


def on_meta(name: str, model: Model, options: Mapping[str, Any]) -> Encoder:
    """The encoder without memory or values."""
    with torch.device("meta"):
        return build(name, model, options)


def fit(
    name: str,
    model: Model,
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    *,
    source: str,
    drop: Iterable[str] = (),
    keep_head: bool = True,
) -> Fitted:
    """Strip wrappers, rename, infer options and check that every name and shape is as expected.

    `options` win over what the checkpoint implies; `drop` are prefixes of names to leave out, as found in the file.
    """
    unwanted = tuple(drop)
    wanted = {key: value for key, value in state.items() if not (unwanted and key.startswith(unwanted))}
    prefix, adapted = _unwrapped(name, model, wanted, options)
    adapted.dropped += [key for key in state if key not in wanted]
    final = {**adapted.options, **options}
    _settle_head(name, model, adapted, final, keep_head)
    encoder = on_meta(name, model, final)
    final["classes"] = encoder.classes
    _drop_spare(model, encoder, adapted)
    if problems := differences(encoder.network, adapted.tensors):
        raise CheckpointError("\n".join([f"{source}: not the weights of {name}", *problems]))
    tensors, cast = _clean(adapted.tensors, source)
    return Fitted(encoder, final, tensors, prefix, tuple(adapted.renamed), tuple(adapted.dropped), cast)


def _unwrapped(
    name: str, model: Model, state: Mapping[str, Tensor], options: Mapping[str, Any]
) -> tuple[str, Adapted]:
    """Try every wrapper that occurs; the one after which most names are expected ones is right."""
    expected = set(on_meta(name, model, options).network.state_dict())
    best: tuple[int, str, Adapted] | None = None
    for prefix in sorted(_prefixes(state), key=len):
        adapted = model.adapt(_strip(state, prefix))
        hits = len(expected & set(adapted.tensors))
        if best is None or hits > best[0]:
            best = (hits, prefix, adapted)
    assert best is not None  # the empty prefix is always tried
    return best[1], best[2]


def _prefixes(state: Iterable[str]) -> set[str]:
    found = {""}
    for key in state:
        prefix = ""
        for part in key.split(".")[:-1]:
            if part not in WRAPPING:
                break
            prefix += f"{part}."
            found.add(prefix)
    return found


def _strip(state: Mapping[str, Tensor], prefix: str) -> State:
    """Take `prefix` off, and off the neighbours of the wrapped network as much of it as they share."""
    parts = prefix.split(".")[:-1]
    steps = [".".join(parts[:count]) + "." for count in range(len(parts), 0, -1)]
    result: State = {}
    for key, tensor in state.items():
        shared = next((step for step in steps if key.startswith(step)), "")
        result[key[len(shared) :]] = tensor
    return result


def _settle_head(name: str, model: Model, adapted: Adapted, options: dict[str, Any], keep: bool) -> None:
    """Take the number of classes from the file's own layer; without one there are none."""
    head = f"{model.head}."
    found = [key for key in adapted.tensors if key.startswith(head)]
    pool = options.get("pool", model.default_pool)
    fits = model.head_pools is None or pool in model.head_pools
    if not found:
        options.setdefault("classes", 0)
    elif keep and fits:
        weight = next((key for key in found if key.endswith("weight")), found[0])
        options.setdefault("classes", len(adapted.tensors[weight]))
    else:
        options["classes"] = 0
    if not options["classes"]:
        _drop(adapted, (head,))


def _drop_spare(model: Model, encoder: Encoder, adapted: Adapted) -> None:
    expected = encoder.network.state_dict()
    absent = [prefix for prefix in model.spare if not any(key.startswith(prefix) for key in expected)]
    _drop(adapted, tuple(absent))


def _drop(adapted: Adapted, prefixes: tuple[str, ...]) -> None:
    for key in [key for key in adapted.tensors if prefixes and key.startswith(prefixes)]:
        del adapted.tensors[key]
        adapted.dropped.append(key)


def _clean(state: State, source: str) -> tuple[State, tuple[str, ...]]:
    """Single precision everywhere, and no value that is not a number."""
    bad = [key for key, tensor in state.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if bad:
        raise CheckpointError(f"{source}: weights that are not finite\n{listing('NaN or infinite', bad)}")
    cast = [
        key for key, tensor in state.items() if tensor.is_floating_point() and tensor.dtype != torch.float32
    ]
    tensors = {key: tensor.float() if key in set(cast) else tensor for key, tensor in state.items()}
    return tensors, tuple(cast)
