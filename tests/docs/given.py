"""What the reader of a page is taken to have already, made small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 512  # of the features that README.md speaks of


class Mean(nn.Module):
    """Clips (N, 3, T, H, W) → (N, 512): somebody's own encoder."""

    def forward(self, clips: Tensor) -> Tensor:
        return clips.flatten(1)[:, :WIDTH]


def readme(folder: Path) -> dict[str, Any]:
    """Converted weights of an encoder; features of training videos, as tensors. Everything else the page makes."""
    from videoveil.encoders import create, save

    save(create("r3d.18", weights="random"), folder / "r3d18.safetensors")
    generator = torch.Generator().manual_seed(0)
    videos, clips = 24, 3
    return {
        "clips": torch.randn(videos * clips, WIDTH, generator=generator),
        "static": torch.randn(videos, 4, WIDTH, generator=generator),
        "owners": torch.arange(videos).repeat_interleave(clips),
        "actions": torch.arange(videos).repeat_interleave(clips) % 4,
        "my_encoder": Mean(),
        "batch": torch.rand(2, 3, 4, 16, 16, generator=generator),
        "frames": torch.randint(0, 256, (2, 3, 24, 32), dtype=torch.uint8, generator=generator),
    }


GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {"README.md": readme}
