"""PSNR and SSIM, each with its slow and obvious twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from videoveil.attacks.fidelity import MOST, psnr, ssim
from videoveil.errors import UsageError


def pictures(seed: int, count: int = 3, side: int = 16) -> torch.Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def slow_ssim(made: np.ndarray, truth: np.ndarray) -> float:
    """(3, H, W) twice: every whole window, one after the other."""
    window = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    weight = np.outer(window, window) / np.outer(window, window).sum()
    found = []
    for a, b in zip(made.astype(np.float64), truth.astype(np.float64)):
        for i in range(a.shape[0] - 10):
            for j in range(a.shape[1] - 10):
                x, y = a[i : i + 11, j : j + 11], b[i : i + 11, j : j + 11]
                mx, my = (weight * x).sum(), (weight * y).sum()
                vx, vy = (weight * x * x).sum() - mx * mx, (weight * y * y).sum() - my * my
                vxy = (weight * x * y).sum() - mx * my
                top = (2 * mx * my + 1e-4) * (2 * vxy + 9e-4)
                found.append(top / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))
    return float(np.mean(found))


def test_psnr_is_the_mean_square_error_in_decibels() -> None:
    made, truth = pictures(0), pictures(1)
    for n, value in enumerate(psnr(made, truth).tolist()):
        error = float(np.mean((made[n].numpy().astype(np.float64) - truth[n].numpy()) ** 2))
        assert value == pytest.approx(-10 * math.log10(error))


def test_the_same_picture_has_as_many_decibels_as_bytes_can_show() -> None:
    truth = pictures(1)
    assert psnr(truth, truth).tolist() == pytest.approx([MOST] * 3)
    assert pytest.approx(58.92, abs=0.01) == MOST
    assert ssim(truth, truth).tolist() == pytest.approx([1.0] * 3)


def test_ssim_is_that_of_the_windows_inside_the_picture() -> None:
    truth = pictures(1)
    made = (truth + 0.2 * pictures(2)).clamp(0, 1)
    for n, value in enumerate(ssim(made, truth).tolist()):
        assert value == pytest.approx(slow_ssim(made[n].numpy(), truth[n].numpy()), abs=1e-6)


def test_pictures_that_cannot_be_compared_are_named() -> None:
    with pytest.raises(UsageError, match="one shape"):
        psnr(pictures(0, 2), pictures(0, 3))
    with pytest.raises(UsageError, match="smaller than its 11 pixels"):
        ssim(pictures(0, side=8), pictures(0, side=8))
