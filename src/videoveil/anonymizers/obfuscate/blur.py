"""Obf-StrongBlur and Obf-WeakBlur: a Gaussian inside the boxes, or over the whole picture.

The kernel is that of torchvision: n taps of a Gaussian, normalised, along rows and along columns, the picture mirrored
at its edges (the edge pixel not repeated). With σ = 10 and 21 or 13 taps it is cut off early, close to a box filter.
What is blurred is always the whole picture, of which only the pixels inside the boxes are used: a box narrower than
the kernel takes in its surroundings instead of failing.

The kernel is counted in pixels of the picture it is applied to. The papers apply it to frames of 240×320; in larger
pictures the same kernel hides less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from videoveil.anonymizers.obfuscate.boxes import Rectangle
from videoveil.errors import UsageError


@dataclass(frozen=True)
class Blur:
    """A Gaussian of `taps`×`taps` pixels."""

    taps: int = 21
    sigma: float = 10.0
    kind: ClassVar[str] = "blur"

    def __post_init__(self) -> None:
        if self.taps < 3 or self.taps % 2 == 0:
            raise UsageError(f"blur: taps={self.taps} must be an odd number of at least 3")
        if not 0 < self.sigma < math.inf:
            raise UsageError(f"blur: sigma={self.sigma} must be above 0")

    def cover(self, frame: Tensor, rectangles: Sequence[Rectangle]) -> Tensor:
        """(3, H, W), uint8 or float → a new tensor, blurred inside the rectangles."""
        out = frame.clone()
        for top, bottom, left, right in rectangles:
            out[:, top:bottom, left:right] = blur(frame, self, (top, bottom, left, right))
        return out


STRONG = Blur(21, 10.0)
WEAK = Blur(13, 10.0)


def weights(taps: int, sigma: float) -> list[float]:
    """The kernel along one axis; sums to 1."""
    half = (taps - 1) / 2
    bell = [math.exp(-0.5 * ((i - half) / sigma) ** 2) for i in range(taps)]
    return [value / sum(bell) for value in bell]


def blur(x: Tensor, kernel: Blur, region: Rectangle | None = None) -> Tensor:
    """(..., H, W) → the blurred picture, or that rectangle of it; uint8 is rounded, float keeps its type.

    Taps are added one after the other by plain multiplications and additions: unlike a convolution this gives the same
    bits for a frame alone, in a batch, and for a part of it.
    """
    height, width = x.shape[-2:]
    top, bottom, left, right = region or (0, height, 0, width)
    half = kernel.taps // 2
    rows = _mirrored(top - half, bottom + half, height, x.device)
    columns = _mirrored(left - half, right + half, width, x.device)
    window = x.index_select(-2, rows).index_select(-1, columns)
    wide = window.float() if x.dtype in (torch.uint8, torch.float16, torch.bfloat16) else window
    wide = _weighted(wide, kernel, -2)
    wide = _weighted(wide, kernel, -1)
    if x.dtype == torch.uint8:
        return wide.round().clamp(0, 255).to(torch.uint8)
    return wide.to(x.dtype)


def _weighted(x: Tensor, kernel: Blur, axis: int) -> Tensor:
    """Weighted sum of neighbours along an axis, which becomes shorter by taps − 1."""
    length = x.shape[axis] - kernel.taps + 1
    first, *others = weights(kernel.taps, kernel.sigma)
    total = x.narrow(axis, 0, length) * first
    for place, weight in enumerate(others, 1):
        total += (
            x.narrow(axis, place, length) * weight
        )  # a new picture for every tap would take thrice the time
    return total


def _mirrored(start: int, stop: int, size: int, device: torch.device) -> Tensor:
    """Places `start` … `stop`−1 of an axis that is mirrored at both ends, again and again if it is short."""
    period = max(1, 2 * (size - 1))
    place = torch.arange(start, stop, device=device).remainder(period)
    return torch.minimum(place, period - place) if size > 1 else torch.zeros_like(place)
