"""Frames and pipelines shared by the tests of pixel anonymizers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from videoveil.anonymizers import NoiseKey, PixelAnonymizer, pixel
from videoveil.anonymizers.pixel import (
    Grey,
    Levels,
    LowResolution,
    NoiseFloor,
    Outline,
    StageConfig,
    UNet,
    UNetPP,
)

KEY = NoiseKey(b"a key that is only for the tests")
SIDE = 24  # not a multiple of 16: networks have to pad

NETWORKS: dict[str, tuple[StageConfig, ...]] = {
    "unet": (UNet(4),),
    "unet, transposed, no bias": (UNet(4, bias=False, up="transposed"),),
    "unet, no activation": (UNet(4, out="none"),),
    "unet++": (UNetPP(),),
}
REMOVERS: dict[str, tuple[StageConfig, ...]] = {
    "grey": (Grey(),),
    "low resolution": (LowResolution(7),),
    "low resolution by factor, smooth": (LowResolution(factor=3, up="bilinear"),),
    "low resolution, picked": (LowResolution(5, mode="nearest"),),
    "levels": (Levels(3),),
    "levels, soft": (Levels(4, soft=0.2),),
    "outline": (Outline(threshold=0.05),),
    "outline of a smaller picture": (Outline(9, 0.05),),
    "noise": (NoiseFloor(0.2),),
    "noise, learned": (NoiseFloor(0.1, learned=True),),
    "noise per video": (NoiseFloor(0.2, per="video"),),
}
TOGETHER: dict[str, tuple[StageConfig, ...]] = {
    "network, then code": (UNet(4), Grey(), LowResolution(7), Levels(2)),
    "code, then network": (Grey(), LowResolution(7), Levels(4), UNet(4)),
    "network, then outline": (UNet(4), Outline(16, 0.05)),
    "outline, then network": (Outline(16, 0.05), UNet(4)),
    "network, fine levels": (UNet(6), Levels(256)),
    "everything": (
        UNet(4),
        Grey(),
        LowResolution(9),
        NoiseFloor(0.1),
        NoiseFloor(0.1, per="video"),
        Levels(5),
    ),
}
ALL = NETWORKS | REMOVERS | TOGETHER


def frames(count: int, height: int = SIDE, width: int = SIDE, seed: int = 0) -> Tensor:
    """(count, 3, height, width) in [0, 1]: shapes under grain."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 4, 4, generator=generator)
    shapes = nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")
    return (shapes + 0.1 * torch.rand(count, 3, height, width, generator=generator)).clamp(0, 1)


def clips(count: int, length: int, side: int = SIDE, seed: int = 0) -> Tensor:
    """(count, 3, length, side, side)."""
    return (
        frames(count * length, side, side, seed)
        .view(count, length, 3, side, side)
        .transpose(1, 2)
        .contiguous()
    )


@torch.no_grad()
def settled(stages: tuple[StageConfig, ...], **options: object) -> PixelAnonymizer:
    """As after training: batch norms have seen frames, and outputs reach from dark to bright."""
    anonymizer = pixel(*stages, **{"key": KEY, **options})
    for module in anonymizer.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
            module.weight.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(module.num_features))
    anonymizer.train()
    anonymizer.transform(frames(6, 32, 32, seed=99))
    for network in anonymizer.networks:
        last = [m for m in network.modules() if isinstance(m, nn.Conv2d)][-1]
        last.weight.mul_(4)
    return anonymizer.eval()


def names(count: int) -> list[str]:
    return [f"video {i}" for i in range(count)]
