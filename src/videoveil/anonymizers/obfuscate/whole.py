"""Anonymizers of the whole picture: they need no detector, so nobody can be missed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.obfuscate.blur import Blur, blur
from videoveil.anonymizers.obfuscate.downsample import Mode, check_factor, coarse, downsample


class Downsampler(Classical):
    """Downsample-2x, -4x or any factor; enlarged again unless `restore=False`, for networks that take small ones."""

    kind: ClassVar[str] = "downsample"

    def __init__(self, factor: float, *, mode: Mode = "area", restore: bool = True):
        super().__init__()
        check_factor(factor, mode)
        self.factor, self.mode, self.restore = factor, mode, restore

    def transform_frames(self, frames: Tensor) -> Tensor:
        change = coarse if self.restore else downsample
        return change(frames, self.factor, self.mode)

    def settings(self) -> Mapping[str, Any]:
        return {"factor": float(self.factor), "mode": self.mode, "restore": self.restore}

    def export_problems(self) -> list[str]:
        if self.restore:
            return []
        return ["its pictures are smaller than the video's (restore=False); an anonymizer keeps the shape"]


class WholeBlur(Classical):
    """A Gaussian over the whole picture."""

    kind: ClassVar[str] = "whole-blur"

    def __init__(self, kernel: Blur | None = None):
        super().__init__()
        self.kernel = kernel or Blur()

    def transform_frames(self, frames: Tensor) -> Tensor:
        return blur(frames, self.kernel)

    def settings(self) -> Mapping[str, Any]:
        return {"taps": self.kernel.taps, "sigma": float(self.kernel.sigma)}
