"""Colour changes of clips: brightness, contrast, saturation, hue, gamma, grey.

Shapes: `(…, 3, T, H, W)`, RGB float in [0, 1]; the factor is one number, the same for all frames, or one for every clip
as a tensor `(…, 1, 1, 1, 1)`. Every function gives, frame by frame, what `torchvision.transforms.v2.functional` gives
for the picture, without leaving the clip layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

CHANNELS = -4  # the axis of R, G, B
_LUMA = (0.2989, 0.587, 0.114)

Kind = Literal["brightness", "contrast", "saturation", "hue", "gamma", "grey"]
Factor = float | Tensor


@dataclass(frozen=True, slots=True)
class Adjust:
    """One colour change with its strength; `grey` has none."""

    kind: Kind
    factor: float = 1.0


def adjust(clips: Tensor, change: Adjust) -> Tensor:
    """Apply one change to all frames."""
    return recolour(clips, change.kind, change.factor)


def recolour(clips: Tensor, kind: Kind, factor: Factor) -> Tensor:
    """Change all frames, with one factor or with one for every clip."""
    return _CHANGES[kind](clips, factor)


def grey(clips: Tensor) -> Tensor:
    """Luma in all three channels."""
    return _luma(clips).expand_as(clips)


def brightness(clips: Tensor, factor: Factor) -> Tensor:
    """Blend with black: 0 is black, 1 changes nothing."""
    return (clips * factor).clamp_(0.0, 1.0)


def contrast(clips: Tensor, factor: Factor) -> Tensor:
    """Blend with the mean luma of each frame: 0 is a flat grey frame, 1 changes nothing."""
    return _blend(clips, _luma(clips).mean(dim=(-2, -1), keepdim=True), factor)


def saturation(clips: Tensor, factor: Factor) -> Tensor:
    """Blend with the grey picture: 0 is grey, 1 changes nothing."""
    return _blend(clips, _luma(clips), factor)


def gamma(clips: Tensor, exponent: Factor) -> Tensor:
    """x ↦ x^γ: above 1 darkens, below 1 brightens."""
    return clips.clamp(0.0, 1.0).pow(exponent)


def hue(clips: Tensor, shift: Factor) -> Tensor:
    """Turn the hue by `shift` of a full circle (−0.5 … 0.5) and keep value and saturation.

    With value V = max(R, G, B), chroma C = V − min(R, G, B) and the hue h counted in sixths of a circle, a channel is
    V − C·clip(min(k, 4 − k), 0, 1) where k = (n + h) mod 6 and n = 5, 3, 1 for R, G, B. So only h has to be found; grey
    pixels have C = 0 and stay as they are, whatever h is.
    """
    red, green, blue = clips.unbind(CHANNELS)
    value, lowest = clips.amax(CHANNELS), clips.amin(CHANNELS)
    chroma = value - lowest
    scale = torch.where(chroma == 0, 1.0, chroma).reciprocal_()
    sixth = torch.where(
        value == red,
        (green - blue) * scale,
        torch.where(value == green, (blue - red) * scale + 2.0, (red - green) * scale + 4.0),
    )
    # The hue has no axis of channels, and so must the shifts have none.
    sixth += 6.0 * (shift.squeeze(CHANNELS) if isinstance(shift, Tensor) else shift)
    turned = []
    for n in (5.0, 3.0, 1.0):
        k = torch.remainder(sixth + n, 6.0)
        turned.append(value - chroma * torch.minimum(k, 4.0 - k).clamp_(0.0, 1.0))
    return torch.stack(turned, CHANNELS)


def _luma(clips: Tensor) -> Tensor:
    """`(…, 3, T, H, W)` → `(…, 1, T, H, W)`."""
    red, green, blue = clips.split(1, CHANNELS)
    return red * _LUMA[0] + green * _LUMA[1] + blue * _LUMA[2]


def _blend(clips: Tensor, other: Tensor, factor: Factor) -> Tensor:
    return (clips * factor + other * (1.0 - factor)).clamp_(0.0, 1.0)


_CHANGES: dict[Kind, Callable[[Tensor, Factor], Tensor]] = {
    "brightness": brightness,
    "contrast": contrast,
    "saturation": saturation,
    "hue": hue,
    "gamma": gamma,
    "grey": lambda clips, _: grey(clips),
}
