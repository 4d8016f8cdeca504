"""Lines instead of pictures: where something ends and something else begins, and nothing about what it is.

Skin, hair and clothes differ in colour and brightness, limbs that move differ in where their edges are. A line drawing
keeps the second and has no room for the first: one bit a pixel, which does not even tell which side of an edge was
the lighter one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.anonymizers.pixel import config
from videoveil.anonymizers.pixel.stage import Context, PixelStage

BYTES = 255
SLOPE = 2.0  # of the smooth line that gradients see


class Outline(PixelStage):
    """y = 1 where max over colours of (∂x² + ∂y²) > threshold², else 0, with central differences of area means.

    Pictures and means are whole bytes here, and so everything up to the comparison is a whole number that float32 holds
    exactly: a frame has one drawing, on every device and in every batch. In training a network in front gets the
    gradient of a smooth step, the drawing itself stays the real one.
    """

    quantises = True

    def __init__(self, settings: config.Outline):
        super().__init__()
        self.settings = settings
        self.least = (BYTES * settings.threshold) ** 2

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        size = x.shape[-2:]
        with torch.no_grad():
            # in place: a large picture in floats costs more to be put into fresh memory than to be computed
            whole = x.detach().float().clamp(0, 1).mul_(BYTES).round_()
            lines = (steepness(self._code(whole).round()) > self.least).float()  # (M, 1, h, w)
        if torch.is_grad_enabled() and x.requires_grad:
            pictures = x.float().clamp(0, 1) * BYTES
            smooth = (SLOPE * (steepness(self._code(pictures)) / self.least - 1)).sigmoid()
            lines = lines + (smooth - smooth.detach())
        return F.interpolate(lines, size=size, mode="nearest").to(x.dtype).expand(-1, 3, -1, -1)

    def _code(self, x: Tensor) -> Tensor:
        """(M, 3, H, W) → (M, 3, h, w)."""
        size = self.settings.code(x.shape[-2], x.shape[-1])
        return x if size == tuple(x.shape[-2:]) else F.interpolate(x, size=size, mode="area")


def steepness(x: Tensor) -> Tensor:
    """(M, C, h, w) → (M, 1, h, w): the squared length of the gradient, of the colour that changes most.

    Differences are those of the two neighbours; at the border the pixel itself stands for the one that is missing.
    """
    padded = F.pad(x, (1, 1, 1, 1), mode="replicate")
    across = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    return (across.square() + down.square()).amax(1, keepdim=True)
