"""Losses in float32 or better, whatever the networks around them run in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor


@contextlib.contextmanager
def precise(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors in one floating type of at least 32 bits, inside a block that autocast does not reach."""
    kind = torch.float32
    for tensor in tensors:
        kind = torch.promote_types(kind, tensor.dtype)
    with without_autocast(tensors[0].device):
        yield tuple(tensor.to(kind) for tensor in tensors)


def without_autocast(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """A block that autocast does not reach; devices that have none (meta, for counting) need none."""
    if not torch.amp.is_autocast_available(device.type):
        return contextlib.nullcontext()
    return torch.autocast(device.type, enabled=False)
