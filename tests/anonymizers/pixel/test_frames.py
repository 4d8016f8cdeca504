"""Clips to frames and back: bit-exact, and every frame a true one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.anonymizers import NotExportable, ShapeMismatch, require_exportable
from videoveil.anonymizers.pixel import Grey, UNet, pixel, to_clips, to_frames

from .pipelines import clips


@pytest.mark.parametrize("length", [1, 16, 48])
@pytest.mark.parametrize("legacy", [False, True])
def test_the_round_trip_is_bit_exact(length: int, legacy: bool) -> None:
    x = torch.rand(2, 3, length, 5, 7)
    frames = to_frames(x, legacy_reshape=legacy)
    assert frames.shape == (2 * length, 3, 5, 7)
    assert torch.equal(to_clips(frames, x, legacy_reshape=legacy), x)


@given(shape=st.tuples(*(st.integers(0, 3) for _ in range(4))), last=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_round_trip_is_bit_exact_for_any_shape_and_layout(shape: tuple[int, ...], last: bool) -> None:
    count, length, height, width = shape
    x = torch.rand(count, 3, length, height, width)
    if last:
        x = x.contiguous(memory_format=torch.channels_last_3d)
    assert torch.equal(to_clips(to_frames(x), x), x)


@pytest.mark.parametrize("length", [16, 48])
def test_the_anonymizer_is_given_true_rgb_frames(length: int) -> None:
    x = clips(2, length)
    anonymizer, seen = pixel(Grey()), []
    anonymizer.stages[0].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].clone()))
    anonymizer(x)
    anonymizer.transform(x)
    exported, trained = torch.cat(seen[:-1]), seen[-1]
    for b in range(2):
        for t in range(length):
            assert torch.equal(exported[b * length + t], x[b, :, t])
            assert torch.equal(trained[b * length + t], x[b, :, t])


def test_the_released_reshape_mixes_times_and_colours() -> None:
    """What the option is, so that nobody takes it for harmless: R0 R1 R2, …, R15 G0 G1, …"""
    x = torch.arange(3 * 16).float().view(1, 3, 16, 1, 1)  # 16·colour + time
    found = to_frames(x, legacy_reshape=True).flatten(1)
    assert found[0].tolist() == [0, 1, 2]
    assert found[5].tolist() == [15, 16, 17]


def test_the_released_reshape_runs_and_is_refused_for_export() -> None:
    anonymizer, x = pixel(UNet(4), legacy_reshape=True), clips(2, 3)
    assert anonymizer(x).shape == x.shape
    assert not torch.allclose(anonymizer(x), pixel(UNet(4))(x), atol=1e-4)
    with pytest.raises(NotExportable, match="mix colours and times"):
        require_exportable(anonymizer)
    require_exportable(pixel(UNet(4)))


def test_channels_last_clips_become_channels_last_frames_without_a_copy() -> None:
    x = torch.rand(2, 3, 4, 8, 8).contiguous(memory_format=torch.channels_last_3d)
    frames = to_frames(x)
    assert frames.data_ptr() == x.data_ptr()
    assert frames.is_contiguous(memory_format=torch.channels_last)
    assert to_clips(frames, x).is_contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize(
    "shape", [(3, 8, 8), (2, 4, 8, 8), (2, 1, 5, 8, 8), (2, 5, 3, 8, 8), (1, 2, 3, 4, 5, 6)]
)
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeMismatch, match=r"\(N, 3, H, W\)"):
        to_frames(torch.rand(shape))
