"""How near a picture is to another: PSNR and SSIM, one number per picture.

Shapes: m pictures (m, 3, H, W) in [0, 1].
"""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.errors import UsageError

FINEST = (1 / 255) ** 2 / 12  # mean square error of rounding to bytes: nothing nearer is told apart
MOST = -10.0 * float(torch.tensor(FINEST, dtype=torch.float64).log10())  # decibels, about 58.9
WINDOW, SIGMA = 11, 1.5  # of SSIM, pixels
C1, C2 = 0.01**2, 0.03**2  # its constants, for values up to 1


def psnr(made: Tensor, truth: Tensor) -> Tensor:
    """(m,) float64: −10·log₁₀ of the mean square error, at most that of a picture that was rounded to bytes."""
    _check(made, truth)
    error = (made.double() - truth.double()).square().flatten(1).mean(1)
    return -10.0 * error.clamp_min(FINEST).log10()


def ssim(made: Tensor, truth: Tensor) -> Tensor:
    """(m,) float64: structural similarity over the windows inside the picture; 1 is the same picture."""
    _check(made, truth)
    if min(made.shape[-2:]) < WINDOW:
        raise UsageError(f"ssim: pictures of {tuple(made.shape[-2:])} are smaller than its {WINDOW} pixels")
    x, y = made.double(), truth.double()
    mx, my, xx, yy, xy = _smooth(torch.stack((x, y, x * x, y * y, x * y)))
    structure = (2 * (xy - mx * my) + C2) / (xx - mx * mx + yy - my * my + C2)
    found = structure * (2 * mx * my + C1) / (mx * mx + my * my + C1)
    return found.flatten(1).mean(1)


def _smooth(x: Tensor) -> Tensor:
    """(…, H, W) → (…, H − 10, W − 10): the Gaussian mean of every whole window, first across, then down.

    Shifted sums, added in place: a convolution of doubles is a hundred times as slow.
    """
    line = torch.exp(
        -torch.arange(-(WINDOW // 2), WINDOW // 2 + 1, dtype=torch.float64).square() / (2 * SIGMA**2)
    )
    weights = (line / line.sum()).tolist()
    for dim in (-1, -2):
        length = x.shape[dim] - WINDOW + 1
        made = weights[0] * x.narrow(dim, 0, length)
        for place, weight in enumerate(weights[1:], 1):
            made.add_(x.narrow(dim, place, length), alpha=weight)
        x = made
    return x


def _check(made: Tensor, truth: Tensor) -> None:
    if made.shape != truth.shape or made.dim() != 4 or not len(made):
        raise UsageError(
            f"pictures {tuple(made.shape)} and {tuple(truth.shape)} must be of one shape (m, 3, H, W)"
        )
