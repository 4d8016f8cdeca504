"""What all stages of a pixel anonymizer have in common.

Shapes everywhere in this package: M frames (of all clips of a batch), H×W pixels, values in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from videoveil.anonymizers.errors import ShapeMismatch
from videoveil.anonymizers.pixel.config import Out, Per

LEAST = 16  # pixels: a network halves a frame four times


class FrameNoise(Protocol):
    """Where noise comes from: fresh in training, keyed for export."""

    def draw(self, like: Tensor, per: Per, label: str) -> Tensor:
        """Standard normal numbers of the shape of `like` (M, 3, H, W)."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a stage may know beside the frames."""

    noise: FrameNoise | None = None


class PixelStage(nn.Module):
    """(M, 3, H, W) → (M, 3, H, W), every frame by itself."""

    network: bool = False
    quantises: bool = False
    wants_noise: bool = False

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        raise NotImplementedError


def check_size(x: Tensor, name: str) -> None:
    """Frames that a network of four halvings can look at."""
    if min(x.shape[-2:]) < LEAST:
        raise ShapeMismatch(
            f"{name}: frames of {x.shape[-2]}×{x.shape[-1]} are too small, both sides must be at least {LEAST}"
        )


def finished(logits: Tensor, out: Out) -> Tensor:
    """A network's last numbers as pixels, in at least float32: half precision has fewer greys than a frame."""
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    return logits.sigmoid() if out == "sigmoid" else logits
