"""From a device's name to a device, and to the Fabric that runs a loop on it."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from videoveil.errors import UsageError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

MOST_WRONG = 0.05  # of a gradient in bfloat16, as a share of it


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


def require_right_gradients(network: nn.Module, precision: str, device: torch.device) -> None:
    """Refuse to train 3-D convolutions in bfloat16 on a processor whose library gets their gradients wrong.

    PyTorch 2.13 with oneDNN 3.12 does, on processors with AVX-512 in bfloat16: where a 3×3×3 kernel goes over two steps
    in time, as in the last stage of R3D-18, the gradient of the weights is whatever lay in that memory. Nothing says
    so; the loss falls a while and then is not a number, or stays where it is.
    """
    if device.type != "cpu" or "bf16" not in precision:
        return
    if (
        any(isinstance(module, nn.Conv3d) for module in network.modules())
        and _wrong_in_volumes() > MOST_WRONG
    ):
        raise UsageError(
            f"precision={precision!r}: on this processor PyTorch {torch.__version__} computes wrong gradients of 3-D "
            "convolutions in bfloat16; use precision='32-true', or a GPU"
        )


@functools.cache
def _wrong_in_volumes() -> float:
    """How far the gradient of a small 3-D convolution in bfloat16 is from that in float32; .002 is rounding."""
    exact, rough = volume_gradient(torch.float32), volume_gradient(torch.bfloat16)
    away = float((exact - rough).norm() / exact.norm())
    return away if math.isfinite(away) else math.inf


def volume_gradient(kind: torch.dtype) -> Tensor:
    """(16, 16, 3, 3, 3) float32: of the sum of what a 3-D convolution of two steps in time gives, by its weights."""
    weight = torch.ones(16, 16, 3, 3, 3, dtype=kind, requires_grad=True)
    nn.functional.conv3d(volume().to(kind), weight, padding=1).sum().backward()
    assert weight.grad is not None
    return weight.grad.float()


def volume() -> Tensor:
    """(2, 16, 2, 4, 4) of numbers that are whole in bfloat16."""
    return torch.randn(2, 16, 2, 4, 4, generator=torch.Generator().manual_seed(0)).bfloat16().float()


def fast_layout(network: nn.Module) -> None:
    """Put convolution weights into the memory layout that a GPU's convolutions are fastest in; values do not change."""
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    for parameter in network.parameters():
        if parameter.dim() in layouts:
            parameter.data = parameter.data.contiguous(memory_format=layouts[parameter.dim()])
