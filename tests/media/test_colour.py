"""Colour changes against torchvision's functional operations, picture by picture."""

from __future__ import annotations

import pytest
import torch

from videoveil import _torchvision  # noqa: F401
from videoveil.media import colour
from videoveil.media.colour import Adjust, adjust

from torchvision.transforms.v2 import functional as reference  # isort: skip  (needs the import above)


def clips(seed: int = 0) -> torch.Tensor:
    """`(2, 3, 4, 13, 17)`: noise, with patches of grey, black, white and pure colours, where hue is delicate."""
    made = torch.rand(2, 3, 4, 13, 17, generator=torch.Generator().manual_seed(seed))
    made[:, :, :, 0] = 0.0
    made[:, :, :, 1] = 1.0
    made[:, :, :, 2] = made[:, :1, :, 2]
    made[:, 0, :, 3], made[:, 1:, :, 3] = 1.0, 0.0
    made[:, 2, :, 4], made[:, :2, :, 4] = 0.7, 0.2
    made[:, :2, :, 5], made[:, 2, :, 5] = 0.9, 0.1  # two channels share the maximum
    made[:, 1:, :, 6], made[:, 0, :, 6] = 0.9, 0.1
    return made


def by_picture(function, batch: torch.Tensor, *factor: float) -> torch.Tensor:
    """The slow twin: hand torchvision one `(3, H, W)` picture after another."""
    out = torch.empty_like(batch)
    for n in range(batch.shape[0]):
        for t in range(batch.shape[2]):
            out[n, :, t] = function(batch[n, :, t], *factor)
    return out


FACTORS = [0.0, 0.2, 0.75, 0.9, 1.0, 1.1, 1.25, 1.8]
SHIFTS = [-0.5, -0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2, 0.5]
TWINS = {
    "brightness": (reference.adjust_brightness, FACTORS),
    "contrast": (reference.adjust_contrast, FACTORS),
    "saturation": (reference.adjust_saturation, FACTORS),
    "hue": (reference.adjust_hue, SHIFTS),
    "gamma": (reference.adjust_gamma, [0.75, 0.85, 1.0, 1.15, 1.25]),
}


@pytest.mark.parametrize(
    ("kind", "factor"), [(kind, f) for kind, (_, factors) in TWINS.items() for f in factors]
)
def test_a_colour_change_is_torchvisions_for_every_picture(kind, factor):
    batch = clips()
    expected = by_picture(TWINS[kind][0], batch, factor)
    for got in (
        adjust(batch, Adjust(kind, factor)),
        torch.stack([adjust(clip, Adjust(kind, factor)) for clip in batch]),
    ):
        assert got.shape == batch.shape
        assert (got - expected).abs().max() <= 1e-5


def test_grey_is_torchvisions_for_every_picture():
    batch = clips()
    expected = by_picture(lambda picture: reference.rgb_to_grayscale(picture, 3), batch)
    got = adjust(batch, Adjust("grey"))
    assert (got - expected).abs().max() <= 1e-5


def test_every_kind_of_change_has_a_twin_here():
    assert set(colour._CHANGES) == {*TWINS, "grey"}


@pytest.mark.parametrize("kind", [*TWINS, "grey"])
def test_the_input_is_left_as_it_was(kind):
    batch = clips()
    adjust(batch, Adjust(kind, 0.4))
    assert torch.equal(batch, clips())


def test_contrast_uses_each_frames_own_mean():
    clip = torch.stack([torch.full((3, 5, 5), 0.2), torch.full((3, 5, 5), 0.8)], dim=1)
    flat = colour.contrast(clip, 0.0)
    assert torch.allclose(flat, clip, atol=1e-4)  # the luma weights add up to 0.9999


def test_a_full_turn_of_the_hue_changes_nothing():
    batch = clips()
    assert (colour.hue(batch, 1.0) - batch).abs().max() <= 1e-5
    assert (colour.hue(colour.hue(batch, 0.3), -0.3) - batch).abs().max() <= 1e-5
