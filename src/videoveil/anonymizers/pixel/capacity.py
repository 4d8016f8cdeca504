"""How much one exported frame can tell at most, whoever looks at it: counted, not measured."""

from __future__ import annotations

import math

from videoveil.anonymizers.pixel.config import (
    Grey,
    Levels,
    LowResolution,
    NoiseFloor,
    Outline,
    PixelConfig,
    UNet,
    UNetPP,
)

POWER = 0.25  # of a signal in [0, 1] around ½, at most


def capacity_bits(config: PixelConfig, height: int, width: int) -> float:
    """Upper bound, in bits, on what one exported frame tells about its 8-bit original.

    What one stage lets through, all behind it can only lose, so the narrowest stage counts. Noise that is learned
    counts with its floor. Frames of one video tell at most this much each, except where they share their noise
    (`per="video"`): then two of them together can tell more than twice as much.
    """
    channels, high, wide = 3, height, width  # independent numbers of a frame: channels × high × wide
    bound = 8.0 * channels * high * wide
    for stage in config.stages:
        match stage:
            case UNet() | UNetPP():
                channels, high, wide = 3, height, width
            case Grey():
                channels = 1
            case LowResolution():
                code = stage.code(height, width)
                high, wide = code if stage.up == "nearest" else (height, width)
            case Levels():
                bound = min(bound, channels * high * wide * math.log2(stage.levels))
            case Outline():
                channels, (high, wide) = 1, stage.code(height, width)
                bound = min(bound, high * wide)  # a bit each
            case NoiseFloor():
                bound = min(bound, _through_noise(stage, channels * high * wide, 3 * height * width))
                channels, high, wide = 3, height, width
    return bound


def capacity_limit(config: PixelConfig, height: int, width: int) -> float | None:
    """The same bound for every frame of that shape, however large; None where larger frames can tell more.

    `height` and `width` are those of the shape alone: 9 and 16.
    """
    codes = [
        stage.size for stage in config.stages if isinstance(stage, LowResolution | Outline) and stage.size
    ]
    if not codes:
        return None
    once, twice = (
        capacity_bits(config, times * max(codes) * height, times * max(codes) * width) for times in (2, 4)
    )
    return once if once == twice else None


def _through_noise(stage: NoiseFloor, values: int, pixels: int) -> float:
    """Gaussian channels: each value is seen `pixels / values` times, each time with other noise."""
    looks = pixels / values
    return values * 0.5 * math.log2(1 + looks * POWER / stage.sigma**2)
