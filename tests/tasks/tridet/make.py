"""Small networks and videos whose actions can be found, for the tests of the detector."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from videoveil.data.records import Segment
from videoveil.tasks.tridet import DetectionVideo, TriDetConfig
from videoveil.tasks.tridet.network import SGP_CONVS, TriDet, build

CLASSES = ("jump", "throw", "wave")
WIDTH = 12
SMALL = TriDetConfig(
    width=32,
    mlp_width=48,
    branch_blocks=3,
    max_seq_len=64,
    bins=8,
    batch_size=2,
    warmup_epochs=1,
    cosine_epochs=2,
    learning_rate=1e-3,
    ema_decay=0.5,
)


def small(**changes: Any) -> TriDetConfig:
    return dataclasses.replace(SMALL, **changes)


def awake(config: TriDetConfig = SMALL, width: int = WIDTH, classes: int = 3, seed: int = 0) -> TriDet:
    """A network in which every part does something: no zero convolution, no tiny path, no equal heads."""
    network = build(width, classes, config, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if any(f".{conv}." in name for conv in SGP_CONVS) or name.endswith("scale"):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3 + 0.2)
            elif name.endswith("bias"):
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return network.eval()


def some_video(
    number: int, steps: int = 50, actions: int = 2, seed: int = 0, width: int = WIDTH, noise: float = 0.2
) -> DetectionVideo:
    """Noise in which each action is a plateau in the channel of its class; 25 fps, a 16-frame window every 4."""
    rng = np.random.default_rng([seed, number])
    features = rng.normal(0, noise, (steps, width)).astype(np.float32)
    segments, at = [], 3
    for _ in range(actions):
        label, length = int(rng.integers(len(CLASSES))), int(rng.integers(5, 14))
        if at + length >= steps - 2:
            break
        features[at : at + length, label] += 2
        start, end = (Fraction(4 * t + 8, 25) for t in (at, at + length))
        segments.append(Segment(CLASSES[label], start, end))
        at += length + int(rng.integers(4, 12))
    duration = Fraction(4 * (steps - 1) + 16, 25)
    return DetectionVideo(f"video_{number:03d}", features, Fraction(25), 4, 16, duration, tuple(segments))


def some_videos(count: int, seed: int = 0, **changes: Any) -> list[DetectionVideo]:
    return [some_video(number, seed=seed, **changes) for number in range(count)]
