from __future__ import annotations

import itertools

import pytest
import torch

from videoveil.encoders import info
from videoveil.encoders.mobilenet_v1 import MobileNetV1, channels

from .helpers import close, moving, parameters, small


def counted(multiplier: float, classes: int) -> int:
    """Parameters by hand: stem, thirteen separable blocks, classifier; two batch-norm numbers per channel."""
    scale = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
    widths = [max(int(count * multiplier), 8) for count in scale]
    total = widths[0] * 27 + 2 * widths[0]
    for inputs, outputs in itertools.pairwise(widths):
        total += inputs * 9 + 2 * inputs + inputs * outputs + 2 * outputs
    return total + widths[-1] * classes + classes


@pytest.mark.parametrize("multiplier", [1.0, 0.75, 0.6, 0.5, 0.25])
def test_parameters_follow_the_width_multiplier(multiplier: float) -> None:
    with torch.device("meta"):
        assert parameters(MobileNetV1(1000, multiplier)) == counted(multiplier, 1000)
    assert counted(1.0, 1000) == 4_231_976


def test_channels_never_fall_below_eight() -> None:
    assert channels(32, 0.1) == 8


@pytest.mark.parametrize("multiplier", [1.0, 0.75, 0.6, 0.5, 0.25])
def test_widths_that_the_pixel_papers_name_are_registered(multiplier: float) -> None:
    found = info(f"mobilenet.v1-{multiplier}")
    assert (found.parameters, found.width) == (counted(multiplier, 1000), int(1024 * multiplier))


@torch.inference_mode()
def test_any_multiplier_can_be_asked_for_and_the_network_halves_five_times() -> None:
    encoder = small("mobilenet.v1-1.0", multiplier=0.6)
    assert encoder.width == 614
    frame = moving(encoder)[:, :, 0]
    assert encoder.network.feature_map(frame).shape == (1, 614, 2, 2)
    assert close(
        encoder.logits(frame), encoder.network((frame - encoder.mean[:, :, 0]) / encoder.std[:, :, 0])
    )
