"""A line drawing: where the picture changes and nothing else, the same on every device and in every batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from videoveil.anonymizers import pixel
from videoveil.anonymizers.pixel import LowResolution, Outline, UNet
from videoveil.anonymizers.pixel.outline import steepness

from .pipelines import frames


def area_bytes(frame: Tensor, high: int, wide: int) -> list[list[list[int]]]:
    """The mean of every area of a frame of bytes (3, H, W), rounded to the nearest byte (even at a tie)."""
    _, height, width = frame.shape
    out = []
    for colour in frame.tolist():
        rows = []
        for y in range(high):
            top, bottom = y * height // high, -(-(y + 1) * height // high)
            row = []
            for x in range(wide):
                left, right = x * width // wide, -(-(x + 1) * width // wide)
                area = [colour[i][j] for i in range(top, bottom) for j in range(left, right)]
                row.append(round(sum(area) / len(area)))
            rows.append(row)
        out.append(rows)
    return out


def drawn(frame: Tensor, high: int, wide: int, threshold: float) -> list[list[int]]:
    """One frame of bytes, pixel by pixel, in whole numbers."""
    code = area_bytes(frame, high, wide)
    lines = [[0] * wide for _ in range(high)]
    for y in range(high):
        for x in range(wide):
            for colour in code:
                across = colour[y][min(x + 1, wide - 1)] - colour[y][max(x - 1, 0)]
                down = colour[min(y + 1, high - 1)][x] - colour[max(y - 1, 0)][x]
                if across**2 + down**2 > (255 * threshold) ** 2:
                    lines[y][x] = 1
    return lines


@given(
    height=st.integers(4, 13),
    width=st.integers(4, 13),
    size=st.integers(2, 12),
    threshold=st.floats(0.02, 0.6),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_lines_are_those_that_a_loop_over_pixels_draws(
    height: int, width: int, size: int, threshold: float, seed: int
) -> None:
    bytes_ = (frames(1, height, width, seed) * 255).round().to(torch.uint8)
    high, wide = Outline(size).code(height, width)
    expected = torch.tensor(drawn(bytes_[0], high, wide, threshold))
    rows = torch.tensor([y * high // height for y in range(height)])
    columns = torch.tensor([x * wide // width for x in range(width)])
    found = pixel(Outline(size, threshold))(bytes_)[0]
    for colour in found:
        assert torch.equal(colour.int(), 255 * expected[rows][:, columns].int())


def test_only_black_and_white_come_out_and_all_colours_are_the_same() -> None:
    out = pixel(Outline(16, 0.1))(frames(3, 40, 30))
    assert sorted(out.unique().tolist()) == [0.0, 1.0]
    assert torch.equal(out[:, 0], out[:, 1])
    assert torch.equal(out[:, 0], out[:, 2])


def test_a_person_of_any_brightness_or_colour_has_one_drawing() -> None:
    """What is private in a flat patch is its colour: every colour that stands out gives the same lines."""

    def scene(person: tuple[float, float, float]) -> Tensor:
        x = torch.full((1, 3, 32, 32), 0.5)
        x[0, :, 8:24, 12:20] = torch.tensor(person)[:, None, None]
        return x

    anonymizer = pixel(Outline(threshold=0.15))
    colours = [(0.9, 0.7, 0.6), (0.3, 0.2, 0.1), (0.5, 0.5, 0.9), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)]
    drawings = [anonymizer(scene(colour)) for colour in colours]
    assert 0 < float(drawings[0].mean()) < 0.5
    for drawing in drawings[1:]:
        assert torch.equal(drawing, drawings[0])
    assert not anonymizer(scene((0.55, 0.5, 0.5))).any()  # too like its background


def test_a_negative_and_a_brighter_picture_have_the_same_drawing() -> None:
    x = (frames(2, 24, 24) * 200).round() / 255
    anonymizer = pixel(Outline(threshold=0.08))
    assert anonymizer(x).any()
    assert torch.equal(anonymizer(x), anonymizer(1 - x))
    assert torch.equal(anonymizer(x), anonymizer(x + 55 / 255))
    assert torch.equal(anonymizer(x), anonymizer(x.flip(1)))  # colours in another order


def test_what_is_smaller_than_a_pixel_of_the_drawing_is_gone() -> None:
    x = (frames(2, 32, 32) * 255).round() / 255
    cells = x.view(2, 3, 8, 4, 8, 4).transpose(3, 4).reshape(2, 3, 8, 8, 16)
    mixed = cells[..., torch.randperm(16, generator=torch.Generator().manual_seed(0))]
    y = mixed.view(2, 3, 8, 8, 4, 4).transpose(3, 4).reshape(x.shape)
    anonymizer = pixel(Outline(8, 0.05))
    assert float((x - y).abs().mean()) > 0.01
    assert torch.equal(anonymizer(x), anonymizer(y))


def test_the_code_is_never_larger_than_the_frame() -> None:
    assert Outline(64).code(240, 320) == (64, 85)
    assert Outline(64).code(320, 240) == (85, 64)
    assert Outline(64).code(48, 100) == (48, 100)
    assert Outline(64).code(64, 64) == (64, 64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_draw_the_same_lines(dtype: torch.dtype) -> None:
    x = (frames(2, 24, 24) * 8).round() / 8  # held exactly by all of them
    anonymizer = pixel(Outline(threshold=0.15))
    found = anonymizer.transform(x.to(dtype))
    assert found.dtype == dtype
    assert torch.equal(found.float(), anonymizer.transform(x))


def test_values_beyond_white_count_as_white() -> None:
    x = torch.zeros(1, 3, 8, 8)
    x[..., 4:] = 1
    assert torch.equal(pixel(Outline()).transform(3 * x - 1), pixel(Outline()).transform(x))


def test_the_card_says_that_shapes_are_still_seen() -> None:
    assert any("not shapes" in line for line in pixel(Outline()).account().limits)
    assert not any("not shapes" in line for line in pixel(LowResolution(8)).account().limits)


# --- gradients -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stages", [(UNet(4), Outline(16, 0.02)), (UNet(4), Outline(16, 0.02), LowResolution(8))]
)
def test_gradients_reach_a_network_in_front(stages) -> None:  # type: ignore[no-untyped-def]
    anonymizer, x = pixel(*stages).train(), frames(4)
    (anonymizer.transform(x) - x).square().mean().backward()
    for name, parameter in anonymizer.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
    assert float(anonymizer.stages[0].inc.double_conv[0].weight.grad.abs().max()) > 0


def test_training_sees_the_real_lines_and_more_contrast_means_more_of_them() -> None:
    x = torch.full((1, 3, 8, 8), 0.5)
    x[..., 4:] = 0.6
    x.requires_grad_()
    anonymizer = pixel(Outline(threshold=0.15)).train()
    shown = anonymizer.transform(x)
    assert torch.equal(shown, anonymizer.transform(x.detach()))
    assert not shown.any()  # 0.1 is less than the threshold
    shown.sum().backward()
    assert x.grad is not None
    # a step down the slope of −lines would make the bright side brighter and the dark side darker
    assert float(x.grad[..., 4:].sum()) > 0 > float(x.grad[..., :4].sum())


def test_the_gradient_is_that_of_the_smooth_step() -> None:
    x = (0.2 + 0.6 * torch.rand(1, 3, 6, 6, dtype=torch.float64)).requires_grad_()
    weights = torch.rand(1, 1, 6, 6)
    limit = (255 * 0.3) ** 2
    (pixel(Outline(threshold=0.3)).transform(x)[:, :1] * weights).sum().backward()
    assert x.grad is not None
    y = x.detach().clone().requires_grad_()
    smooth = (2 * (steepness(y * 255) / limit - 1)).sigmoid()
    (smooth * weights).sum().backward()
    assert y.grad is not None
    assert torch.allclose(x.grad, y.grad, atol=1e-4)
