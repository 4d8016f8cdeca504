"""Downsample-2x and -4x: a picture with fewer pixels, or the same size again with the detail gone.

The papers feed the small picture to the networks (112 → 56 or 28, 224 → 112 or 56). An anonymizer keeps the shape, so
by default the small picture is enlarged again, bilinearly; nothing comes back by that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from videoveil.errors import UsageError

Mode = Literal["area", "bilinear"]
MODES: tuple[Mode, ...] = ("area", "bilinear")


def check_factor(factor: float, mode: str) -> None:
    if not 1 <= factor < math.inf:
        raise UsageError(f"downsample: factor={factor} must be at least 1")
    if mode not in MODES:
        raise UsageError(f"downsample: mode={mode!r} must be one of {', '.join(MODES)}")


def small_size(height: int, width: int, factor: float) -> tuple[int, int]:
    """Size after dividing by `factor`, rounded, at least one pixel."""
    return max(1, round(height / factor)), max(1, round(width / factor))


def downsample(x: Tensor, factor: float, mode: Mode = "area") -> Tensor:
    """(N, 3, H, W) → (N, 3, H/factor, W/factor); uint8 is rounded.

    area: the mean of the pixels that a new pixel lies on. bilinear: a triangle as wide as two new pixels (antialiased).
    """
    height, width = small_size(x.shape[-2], x.shape[-1], factor)
    return _in_float(x, lambda wide: _smaller(wide, height, width, mode))


def coarse(x: Tensor, factor: float, mode: Mode = "area") -> Tensor:
    """(N, 3, H, W) → the same shape, with the detail of H/factor × W/factor; uint8 is rounded once, at the end."""
    height, width = x.shape[-2:]
    small = small_size(height, width, factor)

    def there_and_back(wide: Tensor) -> Tensor:
        return F.interpolate(
            _smaller(wide, *small, mode), size=(height, width), mode="bilinear", align_corners=False
        )

    return _in_float(x, there_and_back)


def _smaller(x: Tensor, height: int, width: int, mode: Mode) -> Tensor:
    if mode == "area":
        return F.adaptive_avg_pool2d(x, (height, width))
    return F.interpolate(x, size=(height, width), mode="bilinear", align_corners=False, antialias=True)


def _in_float(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    if x.dtype == torch.uint8:
        return change(x.float()).round().clamp(0, 255).to(torch.uint8)
    if x.dtype in (torch.float16, torch.bfloat16):
        return change(x.float()).to(x.dtype)
    return change(x)
