"""What is thrown away is gone: inputs with one code have one output, to the bit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from videoveil.anonymizers import MissingKey, ShapeMismatch, pixel
from videoveil.anonymizers.pixel import Grey, Levels, LowResolution, NoiseFloor, UNet
from videoveil.errors import UsageError

from .pipelines import KEY, clips, frames, names, settled

# --- slow, obvious twins -------------------------------------------------------------------------------------


def area_and_levels(frame: Tensor, high: int, wide: int, levels: int) -> list[list[list[float]]]:
    """One frame, pixel by pixel: the mean of every area, rounded, painted over the area."""
    colours, height, width = frame.shape
    out = [[[math.nan] * width for _ in range(height)] for _ in range(colours)]
    for c in range(colours):
        for y in range(height):
            for x in range(width):
                row, column = y * high // height, x * wide // width
                top, bottom = row * height // high, -(-(row + 1) * height // high)
                left, right = column * width // wide, -(-(column + 1) * width // wide)
                area = [float(frame[c, i, j]) for i in range(top, bottom) for j in range(left, right)]
                out[c][y][x] = round(sum(area) / len(area) * (levels - 1)) / (levels - 1)
    return out


@given(
    height=st.integers(4, 12),
    width=st.integers(4, 12),
    size=st.integers(1, 3),
    levels=st.integers(2, 9),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_area_and_levels_are_what_a_loop_over_pixels_gives(
    height: int, width: int, size: int, levels: int, seed: int
) -> None:
    x = frames(1, height, width, seed)
    high, wide = LowResolution(size).code(height, width)
    found = pixel(LowResolution(size), Levels(levels))(x)[0]
    expected = torch.tensor(area_and_levels(x[0], high, wide, levels))
    code = torch.nn.functional.interpolate(x, size=(high, wide), mode="area")[0] * (levels - 1)
    near = (code - code.floor() - 0.5).abs() < 1e-5  # a tie may fall either way in float32
    assume(not bool(near.any()))
    assert torch.allclose(found, expected, atol=1e-6)


def test_grey_is_luma_in_three_equal_channels() -> None:
    x = frames(2)
    out = pixel(Grey())(x)
    assert torch.equal(out[:, 0], out[:, 1])
    assert torch.equal(out[:, 0], out[:, 2])
    expected = torch.einsum("nchw,c->nhw", x.double(), torch.tensor([0.299, 0.587, 0.114]).double())
    assert torch.allclose(out[:, 0].double(), expected, atol=1e-6)
    assert float(pixel(Grey())(torch.ones(1, 3, 4, 4)).min()) == pytest.approx(1)


# --- gone is gone --------------------------------------------------------------------------------------------


def shuffled_within(x: Tensor, block: int, seed: int = 0) -> Tensor:
    """The pixels of every block in another order: other frames, the same means."""
    generator = torch.Generator().manual_seed(seed)
    count, colours, height, width = x.shape
    cells = x.view(count, colours, height // block, block, width // block, block).transpose(3, 4)
    order = torch.randperm(block * block, generator=generator)
    mixed = cells.reshape(*cells.shape[:4], -1)[..., order].view(cells.shape)
    return mixed.transpose(3, 4).reshape(x.shape)


@pytest.mark.parametrize("up", ["nearest", "bilinear"])
def test_frames_with_one_low_resolution_code_have_one_output(up: str) -> None:
    x = (frames(2, 32, 32) * 256).floor() / 256  # sums of these are exact in any order
    y = shuffled_within(x, 4)
    assert float((x - y).abs().mean()) > 0.01
    anonymizer = settled((LowResolution(8, up=up), UNet(4)))  # type: ignore[arg-type]
    assert torch.equal(anonymizer(x), anonymizer(y))
    assert not torch.equal(anonymizer(x), anonymizer(x.flip(-1)))


def test_frames_with_one_set_of_levels_have_one_output() -> None:
    x = frames(2)
    y = ((x * 4).round() / 4 + 0.12 * (2 * torch.rand(x.shape) - 1)).clamp(0, 1)  # stays within its step
    assert float((x - y).abs().mean()) > 0.01
    anonymizer = settled((Levels(5), UNet(4)))
    assert torch.equal(anonymizer(x), anonymizer(y))
    assert not torch.equal(anonymizer(x), anonymizer(1 - x))


def test_frames_with_one_luma_have_one_output() -> None:
    x = 0.1 + 0.8 * frames(1, 16, 16)
    y = x + torch.tensor([0.0587, -0.0299, 0.0])[:, None, None]  # 0.299·0.0587 = 0.587·0.0299
    anonymizer = pixel(Grey(), Levels(16))
    assert torch.equal(anonymizer(x), anonymizer(y))
    assert not torch.equal(pixel(Levels(16))(x), pixel(Levels(16))(y))


@given(levels=st.integers(2, 256), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_no_more_values_come_out_than_there_are_levels(levels: int, seed: int) -> None:
    out = pixel(Levels(levels))(frames(1, 16, 16, seed))
    steps = out.double() * (levels - 1)
    assert float((steps - steps.round()).abs().max()) < 1e-4
    assert len(out.unique()) <= levels


def test_a_code_as_large_as_the_frame_is_refused_everywhere() -> None:
    anonymizer = pixel(LowResolution(28))
    for run in (anonymizer, anonymizer.transform):
        with pytest.raises(ShapeMismatch, match="throws nothing"):
            run(torch.rand(1, 3, 28, 28))


# --- gradients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stages",
    [
        (UNet(4), Levels(2)),
        (UNet(4), Levels(2, soft=0.2)),
        (UNet(4), Grey(), LowResolution(6), Levels(2)),
        (UNet(4), NoiseFloor(0.2, learned=True), LowResolution(6, mode="nearest"), Levels(4)),
    ],
)
def test_gradients_reach_the_network_through_everything_behind_it(stages) -> None:  # type: ignore[no-untyped-def]
    anonymizer, x = pixel(*stages).train(), frames(4)
    (anonymizer.transform(x) - x).square().mean().backward()
    first = anonymizer.stages[0].inc.double_conv[0].weight.grad
    assert first is not None
    assert float(first.abs().max()) > 0
    for name, parameter in anonymizer.named_parameters():
        assert parameter.grad is not None, name


def test_the_gradient_of_levels_is_that_of_the_identity() -> None:
    x = frames(1).requires_grad_()
    weights = torch.rand(x.shape)
    (pixel(Levels(3)).transform(x) * weights).sum().backward()
    inside = (x > 0) & (x < 1)
    assert x.grad is not None
    assert torch.allclose(x.grad[inside], weights[inside])


def test_soft_levels_are_a_staircase_in_training_and_steps_outside() -> None:
    anonymizer = pixel(Levels(3, soft=0.1))
    x = torch.linspace(0, 1, 3 * 64).view(1, 3, 8, 8)
    assert len(anonymizer.transform(x).unique()) == 3
    anonymizer.train()
    soft = anonymizer.transform(x).flatten()
    assert bool((soft.diff() >= 0).all())
    assert float(soft[0]) == pytest.approx(0, abs=1e-6)
    assert float(soft[-1]) == pytest.approx(1, abs=1e-6)
    steps = pixel(Levels(3)).transform(x).flatten()
    steep = pixel(Levels(3, soft=0.02)).train().transform(x).flatten()
    assert float((steep - steps).abs().mean()) < 0.02 < float((soft - steps).abs().mean()) < 0.1
    # in the limit of a wide step it is nearly straight
    straight = pixel(Levels(3, soft=10)).train().transform(x).flatten()
    assert torch.allclose(straight, x.flatten(), atol=1e-3)


# --- noise ---------------------------------------------------------------------------------------------------


def test_noise_has_its_floor_and_never_less() -> None:
    grey = torch.full((4, 3, 32, 32), 0.5)
    for stage in (NoiseFloor(0.1), NoiseFloor(0.1, learned=True)):
        noise = pixel(stage, key=KEY)(grey) - 0.5
        assert float(noise.std()) == pytest.approx(0.1, rel=0.05)
    learned = pixel(NoiseFloor(0.1, learned=True))
    with torch.no_grad():
        learned.stages[0].rho.fill_(-50.0)
        assert float(learned.stages[0].scale().min()) >= 0.1


def test_noise_per_frame_differs_in_every_frame_and_noise_per_video_does_not() -> None:
    x = (torch.full((2, 3, 4, 16, 16), 0.5) + torch.arange(4).view(1, 1, 4, 1, 1) / 100).clamp(0, 1)
    for run in ("export", "train"):

        def noise(stage: NoiseFloor, run: str = run) -> Tensor:
            anonymizer = pixel(stage, key=KEY)
            if run == "export":
                return anonymizer(x, content=names(2)) - x
            return anonymizer.transform(x) - x

        frame, video = noise(NoiseFloor(0.05)), noise(NoiseFloor(0.05, per="video"))
        for b in range(2):
            assert float((frame[b, :, 0] - frame[b, :, 1]).std()) > 0.05
            assert float((video[b, :, 0] - video[b, :, 1]).abs().max()) < 1e-5
        assert float((video[0] - video[1]).std()) > 0.05


def test_exported_noise_needs_a_key_and_training_does_not() -> None:
    x = frames(2)
    anonymizer = pixel(NoiseFloor(0.1))
    with pytest.raises(MissingKey, match=r"NoiseKey\.generate"):
        anonymizer(x)
    assert not torch.equal(anonymizer.transform(x), anonymizer.transform(x))


def test_noise_per_video_is_refused_without_the_names_of_videos() -> None:
    anonymizer = pixel(NoiseFloor(0.1, per="video"), key=KEY)
    with pytest.raises(UsageError, match="content"):
        anonymizer(clips(2, 3))
    with pytest.raises(ShapeMismatch, match="3 rows of 2"):
        anonymizer(clips(2, 3), content=names(3))
    x = frames(4)
    assert torch.equal(anonymizer(x, content=names(4))[2:3], anonymizer(x[2:3], content=["video 2"]))


def test_noise_depends_on_key_weights_stage_and_size() -> None:
    from videoveil.anonymizers import NoiseKey

    x = torch.full((1, 3, 16, 24), 0.5)
    first = pixel(NoiseFloor(0.1), key=KEY)(x)
    other_key = pixel(NoiseFloor(0.1), key=NoiseKey(b"another key, also for tests only"))(x)
    other_weights = pixel(NoiseFloor(0.1), LowResolution(8), key=KEY).export(
        x, pixel(NoiseFloor(0.1)).parts(), 1
    )
    turned = pixel(NoiseFloor(0.1), key=KEY)(x.transpose(2, 3))
    twice = pixel(NoiseFloor(0.1), NoiseFloor(0.1), key=KEY)(x)
    assert torch.equal(pixel(NoiseFloor(0.1), key=KEY)(x), first)
    for other in (other_key, other_weights, turned.reshape(x.shape)):
        assert abs(float(torch.corrcoef(torch.stack((first.flatten(), other.flatten())))[0, 1])) < 0.2
    assert float((twice - 0.5).std()) == pytest.approx(0.1 * math.sqrt(2), rel=0.1)
