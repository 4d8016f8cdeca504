"""Crop rules: they stay inside the picture, follow their published ranges, and resize like torchvision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil import _torchvision  # noqa: F401
from videoveil.errors import UsageError
from videoveil.media.crops import (
    Box,
    CentreCrop,
    Dice,
    Geometry,
    ResizedCrop,
    ScaledCrop,
    ShortEdge,
    clip_size,
    resize_clip,
)

from torchvision.transforms.v2 import functional as reference  # isort: skip  (needs the import above)

RULES = {
    "square": ScaledCrop(square=True),
    "aspect": ScaledCrop(square=False),
    "resized": ResizedCrop(),
    "centre square": CentreCrop(square=True, fraction=0.8),
    "centre aspect": CentreCrop(square=False, fraction=0.8),
    "short edge": ShortEdge(16),
}
unit = st.floats(0.0, 1.0, exclude_max=True)


def frames(height: int, width: int, count: int = 2, seed: int = 0) -> torch.Tensor:
    """Decoded noise, uint8 `(T, H, W, 3)`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, height, width, 3), dtype=torch.uint8, generator=generator)


def as_float(decoded: torch.Tensor) -> torch.Tensor:
    """uint8 `(T, H, W, 3)` → float `(3, T, H, W)`."""
    return decoded.permute(3, 0, 1, 2).float() / 255


@pytest.mark.parametrize("name", RULES)
@given(
    height=st.integers(1, 1200),
    width=st.integers(1, 1200),
    size=st.integers(1, 16),
    uniforms=st.lists(unit, min_size=40, max_size=40),
)
def test_every_geometry_stays_inside_its_picture(name, height, width, size, uniforms):
    geometry = RULES[name](height, width, size, Dice(uniforms))
    source, window, (tall, wide) = geometry.source, geometry.window, geometry.scaled
    assert min(source.top, source.left, window.top, window.left) >= 0
    assert min(source.size) >= 1
    assert source.top + source.height <= height
    assert source.left + source.width <= width
    assert window.size == (size, size)
    assert window.top + size <= tall
    assert window.left + size <= wide


@given(st.lists(unit, min_size=3, max_size=3))
def test_the_published_crop_of_a_240_by_320_clip(uniforms):
    factor = 0.6 + 0.4 * uniforms[0]
    square = RULES["square"](240, 320, 112, Dice(uniforms)).source
    aspect = RULES["aspect"](240, 320, 224, Dice(uniforms)).source
    assert square.height == square.width == int(240 * factor + 1e-6)
    assert aspect.size == (int(240 * factor + 1e-6), int(320 * factor + 1e-6))
    for box in (square, aspect):
        assert 0 <= box.top <= 240 * (1 - factor)
        assert 0 <= box.left <= 320 * (1 - factor)


def test_a_tall_picture_is_cropped_by_its_short_side():
    assert RULES["square"](320, 240, 112, Dice([0.5, 0.0, 0.0])).source.size == (192, 192)
    assert RULES["centre square"](320, 240, 112, Dice([])).source == Box(64, 24, 192, 192)


def test_the_published_test_crops_of_a_240_by_320_clip():
    assert RULES["centre square"](240, 320, 112, Dice([])).source == Box(24, 64, 192, 192)
    assert RULES["centre aspect"](240, 320, 224, Dice([])).source == Box(24, 32, 192, 256)
    assert CentreCrop(square=True, fraction=1.0)(240, 320, 112, Dice([])).source == Box(0, 40, 240, 240)
    assert ShortEdge(256)(240, 320, 224, Dice([])) == Geometry(
        Box(0, 0, 240, 320), (256, 341), Box(16, 58, 224, 224)
    )


def test_the_random_resized_crop_has_the_areas_and_aspects_asked_for():
    rule = ResizedCrop(scale=(0.3, 0.6))
    rows = torch.rand(500, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    boxes = [rule(240, 320, 112, Dice(row)).source for row in rows]
    areas = [box.height * box.width / (240 * 320) for box in boxes]
    aspects = [box.width / box.height for box in boxes]
    assert 0.29 < min(areas) < 0.32
    assert 0.58 < max(areas) < 0.61
    assert 0.74 < min(aspects) < 0.78
    assert 1.29 < max(aspects) < 1.35


def test_a_picture_too_long_for_the_allowed_aspects_gets_the_largest_centred_crop():
    rule = ResizedCrop(scale=(1.0, 1.0))
    uniforms = [0.5] * 40
    assert rule(100, 1000, 10, Dice(uniforms)).source == Box(0, 433, 100, 133)
    assert rule(1000, 100, 10, Dice(uniforms)).source == Box(433, 0, 133, 100)


@settings(max_examples=25, deadline=None)
@given(st.integers(20, 60), st.integers(20, 60), st.integers(8, 30), st.integers(0, 12))
def test_short_edge_then_centre_crop_is_torchvisions(height, width, size, extra):
    decoded = frames(height, width)
    geometry = ShortEdge(size + extra)(height, width, size, Dice([]))
    pictures = decoded.permute(0, 3, 1, 2)
    scaled = reference.resize(pictures, [size + extra], antialias=True)
    assert tuple(scaled.shape[-2:]) == geometry.scaled
    # torchvision rounds the corner, here it is cut: read the same window
    expected = geometry.window.of(scaled).transpose(0, 1)
    assert torch.equal(resize_clip(decoded, geometry), expected)


@settings(max_examples=25, deadline=None)
@given(st.lists(unit, min_size=40, max_size=40), st.sampled_from(["square", "aspect", "resized"]))
def test_crop_and_resize_are_torchvisions_in_float_and_within_two_levels_in_uint8(uniforms, name):
    decoded = frames(48, 64)
    geometry = RULES[name](48, 64, 20, Dice(uniforms))
    box = geometry.source
    clip = as_float(decoded)
    expected = reference.resized_crop(
        clip, box.top, box.left, box.height, box.width, [20, 20], antialias=True
    )
    assert (resize_clip(clip, geometry) - expected).abs().max() <= 1e-6
    assert (resize_clip(decoded, geometry).float() / 255 - expected).abs().max() <= 2 / 255


def test_a_clip_that_already_has_the_size_is_cut_without_change():
    decoded = frames(30, 40)
    geometry = Geometry(Box(2, 3, 20, 20), (20, 20), Box(0, 0, 20, 20))
    expected = decoded[:, 2:22, 3:23].permute(3, 0, 1, 2)
    assert torch.equal(resize_clip(decoded, geometry), expected)
    assert torch.equal(resize_clip(as_float(decoded), geometry), expected.float() / 255)


def test_every_frame_is_resized_on_its_own():
    decoded = frames(48, 64, count=5)
    geometry = ShortEdge(24)(48, 64, 20, Dice([]))
    whole = resize_clip(decoded, geometry)
    for t in range(5):
        assert torch.equal(whole[:, t : t + 1], resize_clip(decoded[t : t + 1], geometry))


def test_a_geometry_drawn_for_another_picture_is_refused():
    geometry = RULES["aspect"](240, 320, 20, Dice([0.9, 0.0, 0.0]))
    with pytest.raises(UsageError, match="drawn for another picture: this one is 120 high, 160 wide"):
        resize_clip(frames(120, 160), geometry)


def test_a_centre_crop_larger_than_the_short_edge_is_refused():
    with pytest.raises(UsageError, match="crop of 224 does not fit a short edge of 200"):
        ShortEdge(200)(240, 320, 224, Dice([]))


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(3, 4, 4),
        torch.zeros(4, 8, 8, 3),
        torch.zeros(3, 2, 8, 8, dtype=torch.uint8),
        torch.zeros(3, 2, 8, 8).int(),
    ],
    ids=["axes", "float layout", "uint8 layout", "dtype"],
)
def test_a_clip_in_neither_layout_is_refused(wrong):
    with pytest.raises(UsageError, match=r"uint8 \(T, H, W, 3\) or float \(3, T, H, W\)"):
        clip_size(wrong)
