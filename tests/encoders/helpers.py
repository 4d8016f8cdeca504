"""Clips and shrunk encoders shared by the encoder tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from videoveil.encoders import registry
from videoveil.encoders.base import Encoder


def small(name: str, **options: Any) -> Encoder:
    """The encoder at the cheapest size its registry line offers, randomly initialised."""
    return registry.create(name, weights="random", **{**registry.MODELS[name].small, **options})


def moving(encoder: Encoder, count: int = 1, seed: int = 0) -> Tensor:
    """Clips of random frames that fit the encoder, (count, 3, T, H, W) in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    spec = encoder.input
    return torch.rand(count, 3, spec.frames, spec.size, spec.size, generator=generator)


def shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in module.state_dict().items()}


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def close(first: Tensor, second: Tensor, tolerance: float = 1e-5) -> bool:
    """Equal to `tolerance` of the larger magnitude: features of random networks can be of any size."""
    return float((first - second).abs().max()) <= tolerance * float(first.abs().max())
