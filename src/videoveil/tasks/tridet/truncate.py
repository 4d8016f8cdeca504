"""Training windows: a random part of a video with the actions that are still in it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.config import TriDetConfig


def window_length(steps: int, config: TriDetConfig, rng: np.random.Generator) -> int:
    """How many steps to keep: all that fit of a long video, a random 90 to 100 % of a short one."""
    if steps > config.max_seq_len:
        return config.max_seq_len
    low, high = config.crop_ratio
    return int(rng.integers(max(round(low * steps), 1), min(round(high * steps), steps), endpoint=True))


def inside(target: Target, start: int, length: int, keep: float) -> Target:
    """The actions of which at least `keep` is in the window, cut to it and counted from its start."""
    cut = target.segments.clamp(min=start, max=start + length)
    part = (cut[:, 1] - cut[:, 0]) / (target.segments[:, 1] - target.segments[:, 0])
    kept = part >= keep
    return Target(cut[kept] - start, target.labels[kept])


def truncate(
    features: Tensor, target: Target, config: TriDetConfig, rng: np.random.Generator
) -> tuple[Tensor, Target]:
    """A random window of features (D, T) in which at least one action remains, if that can be had in 200 tries.

    A window as long as the video is the video.
    """
    steps = features.shape[-1]
    length = window_length(steps, config, rng)
    if length == steps:
        return features, target
    for _ in range(config.truncate_tries):
        start = int(rng.integers(0, steps - length, endpoint=True))
        found = inside(target, start, length, config.truncate_keep)
        if len(found.labels):
            break
    return features[:, start : start + length], found


def draw_noise(width: int, config: TriDetConfig, generator: torch.Generator) -> Tensor:
    """Gaussian noise for one padded sequence, (D, max_seq_len), on the generator's device."""
    noise = torch.randn(width, config.max_seq_len, generator=generator, device=generator.device)
    return noise * config.input_noise
