"""Stages that throw information away: colour, resolution, levels of brightness, and certainty."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers.errors import MissingKey, ShapeMismatch
from videoveil.anonymizers.pixel import config
from videoveil.anonymizers.pixel.stage import Context, PixelStage
from videoveil.errors import UsageError

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601: how bright red, green and blue look
START = -5.0  # softplus(−5)·0.1 is next to nothing: learned noise starts at its floor


class Grey(PixelStage):
    """y = 0.299·R + 0.587·G + 0.114·B, three times."""

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        red, green, blue = (weight * x[:, i] for i, weight in enumerate(LUMA))
        return (red + green + blue)[:, None].expand(-1, 3, -1, -1)


class LowResolution(PixelStage):
    """Means over areas (or single pixels) of the frame, enlarged to the frame's size again."""

    def __init__(self, settings: config.LowResolution):
        super().__init__()
        self.settings = settings

    def code(self, x: Tensor) -> Tensor:
        """(M, 3, H, W) → (M, 3, h, w): all that is left."""
        try:
            size = self.settings.code(x.shape[-2], x.shape[-1])
        except UsageError as error:
            raise ShapeMismatch(str(error)) from None
        return F.interpolate(x, size=size, mode=self.settings.mode)

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        size, code = x.shape[-2:], self.code(x)
        if self.settings.up == "nearest":
            return F.interpolate(code, size=size, mode="nearest")
        return F.interpolate(code, size=size, mode="bilinear", align_corners=False)


class Levels(PixelStage):
    """y = round(clamp(x)·(k − 1)) / (k − 1); rounding passes the gradient on as if it were not there."""

    quantises = True

    def __init__(self, settings: config.Levels):
        super().__init__()
        self.steps, self.soft = settings.levels - 1, settings.soft

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        scaled = x.clamp(0, 1) * self.steps
        if self.training and self.soft:
            return self._staircase(scaled) / self.steps
        return (scaled + (scaled.round() - scaled).detach()) / self.steps

    def _staircase(self, scaled: Tensor) -> Tensor:
        """Between whole numbers a logistic curve, stretched to run from one to the next."""
        below = scaled.detach().floor()
        low = 1 / (1 + math.exp(0.5 / self.soft))  # the curve at −½; 1 − low at ½
        rise = ((scaled - below - 0.5) / self.soft).sigmoid()
        return below + (rise - low) / (1 - 2 * low)


class NoiseFloor(PixelStage):
    """y = clamp(clamp(x) + σ·ε), σ = floor + softplus(ρ) / 10 with ρ (3,) by colour where it is learned.

    A floor alone is no limit, since a network in front could make its signal louder: values are bounded first. They are
    bounded again behind the noise because frames are stored so, and training has to see what will be stored.
    """

    wants_noise = True

    def __init__(self, settings: config.NoiseFloor, label: str = "noise"):
        super().__init__()
        self.floor, self.per, self.label = settings.sigma, settings.per, label
        self.rho = nn.Parameter(torch.full((3,), START)) if settings.learned else None

    def scale(self) -> Tensor | float:
        """σ, of all colours or (3, 1, 1); never below the floor."""
        return self.floor if self.rho is None else self.floor + F.softplus(self.rho)[:, None, None] / 10

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        if context is None or context.noise is None:
            raise MissingKey(
                "exported noise needs a secret: set anonymizer.key = NoiseKey.generate() (and keep it), or call "
                "anonymizer.transform for fresh noise"
            )
        noise = context.noise.draw(x, self.per, self.label)  # (M, 3, H, W)
        return (x.clamp(0, 1) + self.scale() * noise).clamp(0, 1)
