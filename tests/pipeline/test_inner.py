from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.pixel import Outline, UNet, pixel
from videoveil.anonymizers.pixel.stage import LEAST
from videoveil.pipeline.inner import inner_size, reason, trained_size, unmeasured_scale
from videoveil.pipeline.options import ALL, ASKED, TRAINED

SIDES = st.integers(LEAST, 4000)


def test_unset_means_the_size_that_a_network_was_trained_at_and_0_every_pixel() -> None:
    assert inner_size((720, 1280), None, 112) == (112, 199)
    assert inner_size((1280, 720), None, 112) == (199, 112)
    assert inner_size((720, 1280), 0, 112) == (720, 1280)
    assert inner_size((720, 1280), 640, 112) == (360, 640)
    assert inner_size((720, 1280), None, 0) == (720, 1280)
    assert inner_size((720, 1280), 4000) == (720, 1280)
    assert inner_size((10, 400), 100) == (16, 100)


@given(height=SIDES, width=SIDES, inner=st.none() | st.integers(0, 5000), trained=st.integers(0, 5000))
def test_a_picture_is_never_enlarged_and_keeps_its_shape(
    height: int, width: int, inner: int | None, trained: int
) -> None:
    high, wide = inner_size((height, width), inner, trained)
    assert LEAST <= high <= height
    assert LEAST <= wide <= width
    if min(high, wide) > LEAST:
        assert abs(high * width - wide * height) <= 0.5 * (height + width) + 1e-6


@given(height=SIDES, width=SIDES, trained=st.integers(LEAST, 4000))
def test_the_short_side_is_exactly_that_of_training_where_the_picture_is_larger(
    height: int, width: int, trained: int
) -> None:
    assert min(inner_size((height, width), None, trained)) == min(trained, height, width)


def test_only_networks_have_a_size_of_training() -> None:
    assert trained_size(pixel(UNet(width=4), size=112)) == 112
    assert trained_size(pixel(UNet(width=4), Outline(), size=64)) == 64
    assert trained_size(pixel(UNet(width=4))) == 0
    assert trained_size(pixel(Outline(), size=112)) == 0
    assert trained_size(open_anonymizer("blur")) == trained_size(open_anonymizer("veil-pixel")) == 0


@pytest.mark.parametrize(
    ("inner", "trained", "why"),
    [
        (None, 112, TRAINED),
        (None, 0, ALL),
        (None, 2000, ALL),
        (0, 112, ALL),
        (300, 112, ASKED),
        (5000, 112, ALL),
    ],
)
def test_reports_say_why_a_network_looks_at_what_it_looks_at(
    inner: int | None, trained: int, why: str
) -> None:
    assert reason((720, 1280), inner, trained) == why


def test_the_default_needs_no_warning_and_every_pixel_of_a_large_picture_gets_one() -> None:
    network = pixel(UNet(width=4), size=112)
    assert unmeasured_scale(network, (720, 1280), None) == ""
    assert unmeasured_scale(network, (160, 284), 0) == ""
    assert "--inner 199" in unmeasured_scale(network, (720, 1280), 0)
    assert "short side of 112 and looked at 288" in unmeasured_scale(network, (720, 1280), 512)
    assert unmeasured_scale(pixel(UNet(width=4)), (720, 1280), 0) == ""
