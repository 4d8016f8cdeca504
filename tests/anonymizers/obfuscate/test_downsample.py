"""Downsampling: means of areas, shapes kept, detail gone for good."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.anonymizers.obfuscate.downsample import check_factor, coarse, downsample, small_size
from videoveil.errors import UsageError


def slow_area(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Each new pixel is the mean of the old pixels that it lies on, be it only in part."""
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            rows = range(
                math.floor(y * image.shape[0] / height), math.ceil((y + 1) * image.shape[0] / height)
            )
            columns = range(
                math.floor(x * image.shape[1] / width), math.ceil((x + 1) * image.shape[1] / width)
            )
            out[y, x] = np.mean([[image[i, j] for j in columns] for i in rows])
    return out


def slow_bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Each new pixel lies somewhere between four old ones (their centres), nearer ones count more."""
    out = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            v = min(max((y + 0.5) * image.shape[0] / height - 0.5, 0), image.shape[0] - 1)
            u = min(max((x + 0.5) * image.shape[1] / width - 0.5, 0), image.shape[1] - 1)
            i, j = int(v), int(u)
            k, l = min(i + 1, image.shape[0] - 1), min(j + 1, image.shape[1] - 1)  # noqa: E741
            a, b = v - i, u - j
            upper = (1 - b) * image[i, j] + b * image[i, l]
            lower = (1 - b) * image[k, j] + b * image[k, l]
            out[y, x] = (1 - a) * upper + a * lower
    return out


@given(st.integers(1, 24), st.integers(1, 24), st.sampled_from([1, 2, 3, 4, 2.5, 100]))
@settings(max_examples=40, deadline=None)
def test_area_is_that_of_the_slow_twin_and_the_way_back_too(height: int, width: int, factor: float) -> None:
    image = np.random.default_rng(height * 100 + width).random((height, width))
    frames = torch.from_numpy(image).expand(1, 3, -1, -1)
    small = downsample(frames, factor)
    wanted = slow_area(image, *small_size(height, width, factor))
    np.testing.assert_allclose(small[0, 1].numpy(), wanted, atol=1e-12)
    again = coarse(frames, factor)
    assert again.shape == frames.shape
    np.testing.assert_allclose(again[0, 2].numpy(), slow_bilinear(wanted, height, width), atol=1e-6)


def test_sizes_are_those_of_the_papers() -> None:
    assert [small_size(112, 112, f) for f in (2, 4)] == [(56, 56), (28, 28)]
    assert [small_size(224, 224, f) for f in (2, 4)] == [(112, 112), (56, 56)]
    assert small_size(3, 100, 8) == (1, 12)


@pytest.mark.parametrize("mode", ["area", "bilinear"])
def test_uint8_is_the_rounded_float(mode: str) -> None:
    frames = torch.randint(0, 256, (2, 3, 13, 10), dtype=torch.uint8)
    for change in (downsample, coarse):
        exact = change(frames.double(), 2, mode)  # type: ignore[arg-type]
        found = change(frames, 2, mode)  # type: ignore[arg-type]
        assert found.dtype == torch.uint8
        assert float((found.double() - exact).abs().max()) <= 0.5 + 1e-4


def test_stripes_finer_than_a_new_pixel_are_gone() -> None:
    frames = torch.zeros(1, 3, 32, 32)
    frames[..., ::2] = 1
    for mode in ("area", "bilinear"):
        out = coarse(frames, 4, mode)  # type: ignore[arg-type]
        assert float(out[..., 4:-4].std()) < 0.02


def test_pictures_with_the_same_small_picture_become_the_same() -> None:
    a = torch.rand(1, 3, 16, 16, dtype=torch.float64)
    swapped = a.unflatten(-1, (4, 4)).flip(-1).flatten(-2)  # inside every cell the columns change places
    assert not torch.equal(a, swapped)
    torch.testing.assert_close(coarse(a, 4), coarse(swapped, 4), atol=1e-15, rtol=0)


@pytest.mark.parametrize(
    ("factor", "mode"), [(0.5, "area"), (float("nan"), "area"), (float("inf"), "area"), (2, "lanczos")]
)
def test_impossible_settings_are_refused(factor: float, mode: str) -> None:
    with pytest.raises(UsageError, match="downsample"):
        check_factor(factor, mode)
