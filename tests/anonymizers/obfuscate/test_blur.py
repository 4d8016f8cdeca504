"""The blur is torchvision's, works on any size, and a part of it is the same as the whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil._torchvision import torchvision  # noqa: F401
from videoveil.anonymizers.obfuscate.blur import STRONG, WEAK, Blur, blur, weights
from videoveil.errors import UsageError


def slow_blur(image: np.ndarray, taps: int, sigma: float) -> np.ndarray:
    """Every output pixel as a sum over its neighbours, one index at a time; outside, the picture is mirrored."""
    height, width = image.shape

    def mirrored(place: int, size: int) -> int:
        while not 0 <= place < size:
            place = -place if place < 0 else 2 * (size - 1) - place
            if size == 1:
                return 0
        return place

    half = taps // 2
    bell = [math.exp(-((i - half) ** 2) / (2 * sigma**2)) for i in range(taps)]
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            for i in range(taps):
                for j in range(taps):
                    near = image[mirrored(y + i - half, height), mirrored(x + j - half, width)]
                    out[y, x] += bell[i] * bell[j] * near
    return out / sum(bell) ** 2


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 7), (2, 3), (5, 4), (9, 14)])
@pytest.mark.parametrize("kernel", [STRONG, WEAK, Blur(5, 1.5)])
def test_blur_is_that_of_the_slow_twin_even_where_the_picture_is_smaller_than_the_kernel(
    height: int, width: int, kernel: Blur
) -> None:
    image = np.random.default_rng(height * 31 + width).random((height, width))
    found = blur(torch.from_numpy(image), kernel).numpy()
    np.testing.assert_allclose(found, slow_blur(image, kernel.taps, kernel.sigma), atol=1e-12)


@pytest.mark.parametrize("kernel", [STRONG, WEAK])
def test_blur_is_torchvisions(kernel: Blur) -> None:
    from torchvision.transforms.v2.functional import gaussian_blur

    frames = torch.rand(2, 3, 40, 56, generator=torch.Generator().manual_seed(0))
    theirs = gaussian_blur(frames, [kernel.taps, kernel.taps], [kernel.sigma, kernel.sigma])
    torch.testing.assert_close(blur(frames, kernel), theirs, atol=1e-6, rtol=0)
    coarse = (frames * 255).to(torch.uint8)
    theirs = gaussian_blur(coarse, [kernel.taps, kernel.taps], [kernel.sigma, kernel.sigma])
    difference = (blur(coarse, kernel).int() - theirs.int()).abs()
    assert difference.max() <= 1  # a sum that ends in .5 may be rounded either way
    assert (difference > 0).float().mean() < 0.01


def test_strong_and_weak_are_the_kernels_of_the_papers() -> None:
    assert (STRONG.taps, STRONG.sigma, WEAK.taps, WEAK.sigma) == (21, 10.0, 13, 10.0)
    for kernel in (STRONG, WEAK):
        taps = weights(kernel.taps, kernel.sigma)
        assert len(taps) == kernel.taps
        assert sum(taps) == pytest.approx(1)
        assert min(taps) > 0.5 * max(taps)  # cut off early: almost a box


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_part_is_bit_for_bit_the_part_of_the_whole(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    bottom, right = data.draw(st.integers(top + 1, height)), data.draw(st.integers(left + 1, width))
    frame = torch.rand(3, height, width, generator=torch.Generator().manual_seed(height * width))
    for x in (frame, (frame * 255).to(torch.uint8)):
        part = blur(x, WEAK, (top, bottom, left, right))
        assert torch.equal(part, blur(x, WEAK)[:, top:bottom, left:right])


def test_even_black_and_white_stay_in_range() -> None:
    for value in (0, 255):
        frame = torch.full((3, 9, 9), value, dtype=torch.uint8)
        assert torch.equal(blur(frame, STRONG), frame)


def test_half_precision_keeps_its_type() -> None:
    frame = torch.rand(3, 16, 16)
    for kind in (torch.float16, torch.bfloat16):
        found = blur(frame.to(kind), WEAK)
        assert found.dtype == kind
        torch.testing.assert_close(found.float(), blur(frame, WEAK), atol=0.01, rtol=0)


def test_blur_lets_gradients_through() -> None:
    frame = torch.rand(1, 3, 8, 8, requires_grad=True)
    blur(frame, WEAK).sum().backward()
    assert frame.grad is not None
    assert float(frame.grad.sum()) == pytest.approx(3 * 64, rel=1e-4)


@pytest.mark.parametrize(
    ("taps", "sigma"), [(4, 1.0), (1, 1.0), (5, 0.0), (5, float("nan")), (5, float("inf"))]
)
def test_impossible_kernels_are_refused(taps: int, sigma: float) -> None:
    with pytest.raises(UsageError, match="blur"):
        Blur(taps, sigma)
