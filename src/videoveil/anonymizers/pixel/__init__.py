"""Pixel anonymizers: frames in, frames of the same size out; one frame at a time, whatever the batch or the clip.

anonymizer = pixel(UNet(width=16), Grey(), LowResolution(28), Levels(2))
safe = anonymizer(frames)                                              # (N, 3, H, W) or (N, 3, T, H, W), RGB
fast = engine(anonymizer, 224, "cuda")                                 # the same, compiled, in bfloat16
"""

from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer, build_stage, pixel
from videoveil.anonymizers.pixel.capacity import capacity_bits
from videoveil.anonymizers.pixel.config import (
    Grey,
    Levels,
    LowResolution,
    NoiseFloor,
    Outline,
    PixelConfig,
    StageConfig,
    UNet,
    UNetPP,
)
from videoveil.anonymizers.pixel.engine import Accuracy, Engine, engine
from videoveil.anonymizers.pixel.frames import to_clips, to_frames

__all__ = [
    "Accuracy",
    "Engine",
    "Grey",
    "Levels",
    "LowResolution",
    "NoiseFloor",
    "Outline",
    "PixelAnonymizer",
    "PixelConfig",
    "StageConfig",
    "UNet",
    "UNetPP",
    "build_stage",
    "capacity_bits",
    "engine",
    "pixel",
    "to_clips",
    "to_frames",
]
