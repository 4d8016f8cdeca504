"""Pictures become upright RGB in one fixed way."""

from __future__ import annotations

import itertools

import av
import numpy as np
import pytest

from videoveil.media.pixels import UPRIGHT, Orientation, RgbConverter

from .make import picture


def test_planar_conversion_gives_what_swscale_gives_for_packed_rgb() -> None:
    """By way of planes for speed only."""
    from av.video.reformatter import Interpolation as I

    exact = I.BILINEAR | I.ACCURATE_RND | I.BITEXACT | I.FULL_CHR_H_INT
    rng = np.random.default_rng(0)
    for pixels in ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "nv12", "gray"):
        image = rng.integers(0, 255, (48, 80, 3), dtype=np.uint8)
        frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pixels)
        packed = frame.reformat(format="rgb24", interpolation=exact, threads=1).to_ndarray()
        assert np.abs(RgbConverter()(frame, UPRIGHT).astype(int) - packed).max() <= (
            0 if pixels != "gray" else 1
        )


@pytest.mark.parametrize("grey", [0, 1, 16, 100, 128, 200, 254, 255])
def test_grey_comes_back_exact(grey: int) -> None:
    frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), grey, np.uint8), format="rgb24").reformat(
        format="yuv420p", src_color_range="JPEG", dst_color_range="MPEG", dst_colorspace="ITU601"
    )
    assert np.abs(RgbConverter()(frame, UPRIGHT).astype(int) - grey).max() <= 1


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 3), (17, 9), (33, 64), (130, 1)])
def test_any_size_is_converted_whole(width: int, height: int) -> None:
    frame = av.VideoFrame.from_ndarray(picture(5, width, height, texture=0), format="rgb24").reformat(
        format="yuv420p"
    )
    image = RgbConverter()(frame, UPRIGHT)
    assert image.shape == (height, width, 3)
    assert np.abs(image.astype(int) - 70).max() <= 2
    assert image.flags.c_contiguous
    assert image.flags.writeable


def test_the_eight_orientations_are_a_transpose_and_two_mirrors() -> None:
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    seen = set()
    for transpose, mirror_x, mirror_y in itertools.product((False, True), repeat=3):
        turned = Orientation(transpose, mirror_x, mirror_y).apply(image)
        assert turned.shape == ((3, 2, 3) if transpose else (2, 3, 3))
        seen.add((turned.shape, turned.tobytes()))
    assert len(seen) == 8
    assert (Orientation(True, True, False).apply(image) == np.rot90(image, -1)).all()
    assert (Orientation(True, False, True).apply(image) == np.rot90(image, 1)).all()
    assert (Orientation(False, True, True).apply(image) == np.rot90(image, 2)).all()
    assert [Orientation(*o).rotation for o in ((0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1))] == [
        0,
        90,
        180,
        270,
    ]  # type: ignore[arg-type]
