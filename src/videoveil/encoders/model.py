"""What a registry line says about an architecture, and how it becomes an `Encoder`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from videoveil.encoders.base import NORMS, Encoder, InputSpec, Kind, Pool
from videoveil.errors import UsageError

State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Request:
    """What a network factory is asked for; `own` are the options that only its family knows."""

    classes: int  # at least 1: the layer of a network without classes is removed afterwards
    frames: int
    size: int
    pool: str
    own: Mapping[str, Any]


@dataclass(slots=True)
class Adapted:
    """A foreign state dictionary in our names, with what was done to it and the options it implies."""

    tensors: State
    renamed: list[tuple[str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


Rules = Sequence[tuple[str, str]]  # regular expression, replacement


def rename(state: Mapping[str, Tensor], rules: Rules = (), drop: Iterable[str] = ()) -> Adapted:
    """Apply the first matching rule to every name; names matching a `drop` expression are left out."""
    result = Adapted({})
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in rules]
    unwanted = [re.compile(pattern) for pattern in drop]
    for old, tensor in state.items():
        if any(pattern.search(old) for pattern in unwanted):
            result.dropped.append(old)
            continue
        new = next((p.sub(r, old) for p, r in compiled if p.search(old)), old)
        if new != old:
            result.renamed.append((old, new))
        result.tensors[new] = tensor
    return result


def keep_names(state: Mapping[str, Tensor]) -> Adapted:
    """For families whose public checkpoints already carry our names."""
    return rename(state)


@dataclass(frozen=True, kw_only=True)
class Model:
    """One architecture. `pools` maps pool names to functions, the default first."""

    network: Callable[[Request], nn.Module]
    pools: Mapping[str, Pool]
    input: InputSpec
    width: int | Callable[[Mapping[str, Any]], int]  # constant, or computed from the own options
    tokens: Callable[[int], int]  # frames → temporal tokens
    head: str  # path of the classification layer in the network
    classes: int
    kind: Kind = "video"
    own: Mapping[str, Any] = field(default_factory=dict)  # option → default
    head_pools: tuple[str, ...] | None = None  # pools that the classification layer was made for; None: all
    mean_pools: tuple[str, ...] | None = None  # pools whose vector is the mean of the tokens; None: all
    fixed: bool = False  # takes exactly the frames and size it was created with
    frozen_geometry: bool = False  # frames and size cannot be chosen at all
    min_frames: int = 1
    adapt: Callable[[Mapping[str, Tensor]], Adapted] = keep_names
    spare: tuple[
        str, ...
    ] = ()  # prefixes of tensors that only some pools need: left out where the pool has none
    from_config: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None  # hub config.json → options
    lower: Callable[[Encoder], nn.Module] | None = None  # the same function written for bfloat16
    torchvision: str = ""  # name of the builder in torchvision's own registry
    small: Mapping[str, Any] = field(
        default_factory=dict
    )  # cheapest options that still run every kind of layer

    @property
    def default_pool(self) -> str:
        return next(iter(self.pools))


COMMON = ("norm", "pool", "classes", "frames", "size", "resize", "stride")


def build(name: str, model: Model, options: Mapping[str, Any]) -> Encoder:
    """The encoder with freshly initialised weights, drawn from torch's current random state."""
    _check_options(name, model, options)
    pool = options.get("pool", model.default_pool)
    head_fits = model.head_pools is None or pool in model.head_pools
    classes = int(options.get("classes", model.classes if head_fits else 0))
    spec = _input(model, options)
    own = {key: options.get(key, default) for key, default in model.own.items()}
    request = Request(max(classes, 1), spec.frames, spec.size, pool, own)
    return Encoder(
        name,
        model.network(request),
        spec,
        pool=model.pools[pool],
        width=model.width if isinstance(model.width, int) else model.width(own),
        tokens=model.tokens(spec.frames),
        kind=model.kind,
        head=model.head,
        options={"norm": options.get("norm", "native"), "pool": pool, "classes": classes, **own},
        mean_pooled=model.mean_pools is None or pool in model.mean_pools,
        head_fits=head_fits,
        fixed=model.fixed,
        min_frames=model.min_frames,
        lower=model.lower,
    )


def _check_options(name: str, model: Model, options: Mapping[str, Any]) -> None:
    known = {*COMMON, *model.own}
    if unknown := sorted(set(options) - known):
        raise UsageError(f"{name}: no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    pool, norm = options.get("pool", model.default_pool), options.get("norm", "native")
    if pool not in model.pools:
        raise UsageError(f"{name}: no pool {pool!r}; there are {', '.join(model.pools)}")
    if norm != "native" and norm not in NORMS:
        raise UsageError(f"{name}: no norm {norm!r}; there are native, {', '.join(NORMS)}")
    for key in ("frames", "size", "resize", "stride"):
        if key in options and (not isinstance(options[key], int) or options[key] < 1):
            raise UsageError(f"{name}: {key} must be a whole number of at least 1, not {options[key]!r}")
    classes = options.get("classes", 0)
    if not isinstance(classes, int) or classes < 0:
        raise UsageError(f"{name}: classes must be a whole number of at least 0, not {classes!r}")
    if options.get("frames", model.min_frames) < model.min_frames:
        raise UsageError(f"{name}: needs at least {model.min_frames} frames, not {options['frames']}")
    if model.frozen_geometry:
        for key in ("frames", "size"):
            native = getattr(model.input, key)
            if options.get(key, native) != native:
                raise UsageError(f"{name}: {key} is fixed at {native}, {options[key]} is not possible")


def _input(model: Model, options: Mapping[str, Any]) -> InputSpec:
    """The native input with the asked changes; the margin around the centre crop scales with the crop."""
    native = model.input
    size = options.get("size", native.size)
    resize = options.get("resize", round(native.resize * size / native.size))
    if resize < size:
        raise UsageError(f"resize={resize} is smaller than the crop size={size}")
    frames, stride = options.get("frames", native.frames), options.get("stride", native.stride)
    spec = replace(native, frames=frames, size=size, resize=resize, stride=stride)
    norm = options.get("norm", "native")
    if norm == "native":
        return spec
    mean, std = NORMS[norm]
    return replace(spec, mean=mean, std=std)


# --- pools shared by several families ----------------------------------------------------------------------
# Partial applications of module-level functions, so that encoders can be pickled to worker processes.


def map_pool(features: Callable[[Any, Tensor], Tensor]) -> Pool:
    """Mean over space, then over time, of the feature map (N, C, S, h, w) that `features` computes."""
    return partial(_pool_map, features)


def frame_pool(features: Callable[[Any, Tensor], Tensor]) -> Pool:
    """Every frame through an image network whose map is (N·T, C, h, w); one token per frame."""
    return partial(_pool_frames, features)


def _pool_map(
    features: Callable[[Any, Tensor], Tensor], network: nn.Module, clips: Tensor
) -> tuple[Tensor, Tensor]:
    tokens = features(network, clips).mean((3, 4)).transpose(1, 2)  # (N, S, C)
    return tokens.mean(1), tokens


def _pool_frames(
    features: Callable[[Any, Tensor], Tensor], network: nn.Module, clips: Tensor
) -> tuple[Tensor, Tensor]:
    count, _, time, height, width = clips.shape
    frames = clips.transpose(1, 2).reshape(count * time, 3, height, width)
    tokens = features(network, frames).mean((2, 3)).unflatten(0, (count, time))  # (N, T, C)
    return tokens.mean(1), tokens
