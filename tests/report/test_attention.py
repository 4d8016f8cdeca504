"""Attention maps against a slow twin, hooks that are gone afterwards, and overlays with the frame below them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from PIL import Image
from torch import Tensor, nn

from videoveil.encoders import Classifier, create
from videoveil.errors import UsageError
from videoveil.report.attention import (
    COLOURS,
    attention_map,
    attention_sheet,
    displayed,
    layer_maps,
    overlay,
    unit_maps,
)


class Small(nn.Module):
    """A network with the layer names of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.layer2 = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.layer3 = nn.Sequential(nn.Conv2d(4, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU(inplace=True))
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(6, 2)

    def forward(self, frames: Tensor) -> Tensor:
        features: Tensor = self.layer3(self.layer2(frames))
        logits: Tensor = self.head(self.drop(features.mean((2, 3))))
        return logits


def seeded(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def slow_map(features: list) -> list:  # type: ignore[type-arg]
    """(C, h, w) → (h, w), position by position."""
    channels, height, width = len(features), len(features[0]), len(features[0][0])
    return [
        [sum(features[c][y][x] ** 2 for c in range(channels)) / channels for x in range(width)]
        for y in range(height)
    ]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 5), (8, 7, 7)])
def test_map_equals_the_slow_twin_alone_and_in_a_batch(shape: tuple[int, int, int]) -> None:
    features = seeded(2, *shape).double()
    expected = torch.tensor([slow_map(one.tolist()) for one in features], dtype=torch.float64)
    assert torch.allclose(attention_map(features), expected)
    assert torch.allclose(attention_map(features[1]), expected[1])
    clips = features[:, :, None].repeat(1, 1, 3, 1, 1)  # (N, C, t, h, w)
    assert torch.allclose(attention_map(clips), expected[:, None].repeat(1, 3, 1, 1))


def test_golden_map() -> None:
    features = torch.tensor([[[1.0, -2.0]], [[3.0, 0.0]]])
    assert attention_map(features).tolist() == [[5.0, 2.0]]


def test_unit_maps_do_not_know_the_scale_of_a_network() -> None:
    maps = seeded(3, 4, 5).square()
    assert torch.allclose(unit_maps(maps), unit_maps(7 * maps))
    assert torch.allclose(unit_maps(maps).norm(dim=1), torch.ones(3))
    assert torch.equal(unit_maps(torch.zeros(1, 2, 2)), torch.zeros(1, 4))


def test_displayed_maps_go_from_0_to_1_keep_their_peak_and_are_bilinear() -> None:
    maps = torch.tensor([[[3.0, 7.0]], [[2.0, 2.0]]])
    shown = displayed(maps, (1, 4))
    assert shown[0, 0].tolist() == pytest.approx([0.0, 0.25, 0.75, 1.0])
    assert shown[1, 0].tolist() == [0.0] * 4  # says nothing
    peak = torch.zeros(1, 7, 7)
    peak[0, 2, 5] = 1
    large = displayed(peak, (112, 112))[0]
    y, x = divmod(int(large.argmax()), 112)
    assert (y // 16, x // 16) == (2, 5)


def test_layer_maps_are_the_attention_of_that_layer_in_eval_mode() -> None:
    torch.manual_seed(0)
    network = Small().train()
    frames = seeded(4, 3, 16, 16, seed=1)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    found = layer_maps(network, frames, "layer3")
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert network.training
    assert network.drop.training
    network.eval()
    with torch.no_grad():
        features = network.layer3(network.layer2(frames))
    assert found.shape == (4, 4, 4)
    assert torch.allclose(found, torch.tensor([slow_map(one.tolist()) for one in features]), atol=1e-6)
    assert layer_maps(network, frames, "layer2").shape == (4, 8, 8)
    assert torch.allclose(layer_maps(network, frames[2:3]), found[2:3], atol=1e-6)


def hooks(network: nn.Module) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules())


def test_no_hook_stays_even_when_the_pass_fails_and_frozen_parts_stay_frozen() -> None:
    network = Small().train()
    network.layer2.eval()  # as a frozen part of a network in training
    layer_maps(network, seeded(2, 3, 16, 16))
    assert hooks(network) == 0
    assert [network.layer2.training, network.layer3.training] == [False, True]
    with pytest.raises(RuntimeError):
        layer_maps(network, seeded(2, 5, 16, 16))  # five channels
    assert hooks(network) == 0
    assert network.training


@pytest.mark.parametrize(("layer", "size"), [("layer3", 2), ("layer2", 4)])
def test_a_layer_is_found_inside_a_classifier_of_this_package(layer: str, size: int) -> None:
    classifier = Classifier(create("resnet.18", weights="random"), 7)
    frames = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert layer_maps(classifier, frames, layer).shape == (2, size, size)


def test_overlay_is_the_frame_under_the_colours_of_its_map() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), np.uint8)
    maps = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(0))
    assert np.array_equal(overlay(frames, maps, 0.0), frames)
    colours = colormaps[COLOURS](displayed(maps, (8, 8)).numpy())[..., :3] * 255
    assert np.abs(overlay(frames, maps, 1.0) - colours).max() <= 0.5
    half = overlay(frames, maps)
    assert np.abs(half - (frames / 2 + colours / 2)).max() <= 0.5
    assert half.dtype == np.uint8


def test_more_attention_is_brighter() -> None:
    ramp = torch.linspace(0, 1, 16).expand(1, 16, 16)
    bright = overlay(np.zeros((1, 16, 16, 3), np.uint8), ramp).astype(int).sum(3)[0, 8]
    assert (np.diff(bright) > 0).all()


def test_sheet_has_three_rows_raw_then_one_network_then_the_other(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), np.uint8)
    one, other = seeded(4, 4, 4).square(), seeded(4, 8, 8, seed=1).square()
    made = attention_sheet(frames, one, other)
    made.write(tmp_path / "attention.png")
    with Image.open(tmp_path / "attention.png") as picture:
        shown = np.asarray(picture)
    assert np.array_equal(shown, made.pixels)
    for row, expected in enumerate((frames, overlay(frames, one), overlay(frames, other))):
        for column in range(4):
            assert np.array_equal(made.cell(row, column), expected[column])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_map(torch.zeros(2, 3)), r"\(C, h, w\)"),
        (lambda: displayed(torch.zeros(2, 3), (4, 4)), r"\(N, h, w\)"),
        (lambda: displayed(torch.full((1, 2, 2), torch.nan), (4, 4)), "no numbers"),
        (lambda: overlay(np.zeros((1, 8, 8, 3), np.uint8), torch.zeros(2, 2, 2)), "2 maps for 1 frames"),
        (lambda: overlay(np.zeros((1, 8, 8, 3), np.uint8), torch.zeros(1, 2, 2), 2.0), "alpha=2.0"),
        (lambda: layer_maps(Small(), torch.zeros(1, 3, 8, 8), "layer9"), "0 layers.*layer2, layer3"),
        (lambda: layer_maps(Small(), torch.zeros(1, 3, 8, 8), "0"), "2 layers.*layer2.0, layer3.0"),
        (lambda: layer_maps(Small(), torch.zeros(1, 3, 8, 8), "head"), r"\(1, 2\)|\(C, h, w\)"),
    ],
)
def test_misuse_is_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(UsageError, match=message):
        call()
