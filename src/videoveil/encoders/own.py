"""An encoder of one's own: any network that takes clips, or pictures, and gives features.

    encoder = own_encoder(network, "mine", frames=16, size=112)

It then does everything that the registered ones do: extraction into a store, training, the audit. On the command line
it is a Python file that has an `encoder`: `veil extract SOURCE STORE --encoder mine.py`.

Shapes: N clips, T frames, H×W pixels, S steps in time, C feature width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from videoveil import own_file
from videoveil.encoders.base import Encoder, InputSpec
from videoveil.errors import UsageError

DEFAULT = "encoder"


class OwnNetwork(nn.Module):
    """The network under a name of its own, beside an empty place for a classification layer."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body
        self.head = nn.Identity()


def own_encoder(
    network: nn.Module,
    name: str,
    *,
    frames: int,
    size: int,
    resize: int | None = None,
    stride: int = 1,
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
    images: bool = False,
    time_first: bool = False,
) -> Encoder:
    """Any network as an encoder, in eval mode; its feature width is found by showing it one black clip.

    It is given clips (N, 3, T, H, W) of `frames` frames and `size`² pixels, or with `time_first` (N, T, 3, H, W), or
    with `images` single pictures (N, 3, H, W), whose features are averaged over the frames of a clip. Pixels are in
    [0, 1], less `mean`, divided by `std`. It gives vectors (N, C), steps (N, S, C) or maps (N, C, S, h, w), and of
    pictures (N, C) or (N, C, h, w). `resize`: the short side before the centre crop; `stride`: every which frame.
    """
    if not isinstance(network, nn.Module):
        raise UsageError(f"{name}: the network must be a torch.nn.Module, not a {type(network).__name__}")
    if images and time_first:
        raise UsageError(f"{name}: pictures have no time; choose images or time_first")
    least = {"frames": frames, "size": size, "stride": stride}
    if bad := [f"{key}={value!r}" for key, value in least.items() if value < 1]:
        raise UsageError(f"{name}: {', '.join(bad)}: must be at least 1")
    short = size if resize is None else resize
    if short < size:
        raise UsageError(f"{name}: resize={resize} is smaller than the crop size={size}")
    spec = InputSpec(frames, size, short, stride, tuple(map(float, mean)), tuple(map(float, std)))
    holder = OwnNetwork(network).eval()
    pool = partial(_pool, name, images, time_first)
    vector, tokens = _first_look(name, holder, spec, pool)
    return Encoder(
        name,
        holder,
        spec,
        pool=pool,
        width=vector.shape[1],
        tokens=tokens.shape[1],
        kind="image" if images else "video",
        head="head",
        options={"norm": "native", "pool": "own", "classes": 0},
        fixed=True,
    ).eval()


def _pool(
    name: str, images: bool, time_first: bool, network: nn.Module, clips: Tensor
) -> tuple[Tensor, Tensor]:
    """(N, 3, T, H, W) normalised → vector (N, C), tokens (N, S, C)."""
    body = network.get_submodule("body")
    count, _, time = clips.shape[:3]
    if images:
        found = body(clips.transpose(1, 2).flatten(0, 1))  # (N·T, 3, H, W)
        tokens = _vectors(name, found, count * time, {2: (), 4: (2, 3)}).unflatten(0, (count, time))
    else:
        found = body(clips.transpose(1, 2) if time_first else clips)
        tokens = _vectors(name, found, count, {2: (), 3: (), 5: (3, 4)})
        if found.dim() == 5:
            tokens = tokens.transpose(1, 2)  # (N, C, S) → (N, S, C)
        elif found.dim() == 2:
            tokens = tokens.unsqueeze(1)
    return tokens.mean(1), tokens


def _vectors(name: str, found: Any, rows: int, averaged: Mapping[int, tuple[int, ...]]) -> Tensor:
    """The network's answer averaged over space; `averaged` says which axes, by how many the answer has."""
    fits = isinstance(found, Tensor) and found.dim() in averaged and found.shape[0] == rows
    if not fits or not found.is_floating_point():
        got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise UsageError(
            f"{name}: the network gave {got} for {rows} inputs; it must give one row of features for each, "
            f"with {' or '.join(map(str, averaged))} axes"
        )
    axes = averaged[found.dim()]
    return found.mean(axes) if axes else found


@torch.no_grad()
def _first_look(name: str, network: nn.Module, spec: InputSpec, pool: Any) -> tuple[Tensor, Tensor]:
    """One black clip through the network."""
    clip = torch.zeros(1, 3, spec.frames, spec.size, spec.size)
    first = next(network.parameters(), None)
    try:
        found: tuple[Tensor, Tensor] = pool(network, clip if first is None else clip.to(first))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"{name}: the network failed on a clip of {spec.frames} frames of {spec.size}×{spec.size} "
            f"({type(error).__name__}: {error})"
        ) from error
    return found


# --- from a file ----------------------------------------------------------------------------------------------


def open_own(source: str, *, weights: str | Path | None = None, options: Mapping[str, Any]) -> Encoder:
    """The encoder of `FILE.py` or `FILE.py:NAME`; NAME is an encoder, or a function that makes one.

    Its name is that of the file, and the file's hash is part of what it is, so that features of an earlier version are
    not taken for those of this one. `options` that a store remembers must be those it has.
    """
    found = own_file.load(source, DEFAULT)
    encoder = found.value
    if callable(encoder) and not isinstance(encoder, Encoder):
        encoder = encoder()
    if not isinstance(encoder, Encoder):
        raise UsageError(
            f"{source}: {found.name} is a {type(encoder).__name__}; make it with own_encoder(network, …)"
        )
    if weights is not None:
        raise UsageError(f"{source}: loads its own weights; leave --weights {weights} out")
    encoder.name = found.file if found.name == DEFAULT else f"{found.file}:{found.name}"
    encoder.options["source"] = found.hash
    have = encoder.recreation()
    if other := {key: value for key, value in options.items() if have.get(key) != value}:
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(other.items()))
        raise UsageError(f"{source}: is not the one that was used then, which had {wanted}")
    return encoder.eval()
