"""From a device's name to a device, and to the Fabric that runs a loop on it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from videoveil.errors import UsageError

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def choose(name: str = "auto") -> torch.device:
    """'auto', 'cpu', 'cuda', 'cuda:1', … as a device that works here."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device {name!r} cannot be used here ({reason}); try 'cpu'") from error
    return device


def make_fabric(device: str = "auto", precision: Any = "32-true") -> Fabric:
    """One process on one device, or this process's part of what `torchrun` has started.

    Several processes can also come from a Fabric that the caller has launched.
    """
    from videoveil import _torchvision  # noqa: F401 - must come before lightning
    from lightning.fabric import Fabric  # isort: skip

    chosen = choose(device)
    devices = 1 if chosen.index is None else [chosen.index]
    together, here = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    try:
        if together > 1:
            several = {"strategy": "ddp", "devices": here, "num_nodes": together // here}
            fabric = Fabric(accelerator=chosen.type, precision=precision, **several)  # type: ignore[arg-type]
            fabric.launch()
            return fabric
        return Fabric(accelerator=chosen.type, devices=devices, precision=precision)
    except ValueError as error:
        raise UsageError(f"precision={precision!r} cannot be used on {chosen} ({error})") from error


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """On CUDA, convolutions that give the same result every time; nothing changes on a CPU."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before


def fast_layout(network: nn.Module) -> None:
    """Put convolution weights into the memory layout that a GPU's convolutions are fastest in; values do not change."""
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    for parameter in network.parameters():
        if parameter.dim() in layouts:
            parameter.data = parameter.data.contiguous(memory_format=layouts[parameter.dim()])
