"""The promises of a pixel anonymizer: one frame at a time, the same every time, whole or nothing."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from videoveil.anonymizers import (
    MissingKey,
    NotExportable,
    PixelAnonymizer,
    ShapeMismatch,
    Withheld,
    pixel,
    require_exportable,
)
from videoveil.anonymizers.pixel import Grey, Levels, LowResolution, NoiseFloor, UNet
from videoveil.errors import UsageError

from .pipelines import ALL, KEY, SIDE, TOGETHER, clips, frames, names, settled

PIPELINES = {name: settled(stages) for name, stages in ALL.items()}
every = pytest.mark.parametrize("name", ALL)


def apart(first: Tensor, second: Tensor) -> float:
    return float((first.double() - second.double()).abs().max())


# --- batch, clip, layout -------------------------------------------------------------------------------------


@every
def test_a_frame_does_not_depend_on_its_batch_or_place_in_it(name: str) -> None:
    anonymizer, x, video = PIPELINES[name], frames(9), names(9)
    whole = anonymizer(x, content=video)
    for i in (0, 4, 8):
        assert apart(anonymizer(x[i : i + 1], content=video[i : i + 1]), whole[i : i + 1]) == 0
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = anonymizer(x[order], content=[video[i] for i in order])
    assert apart(shuffled, whole[order]) == 0


@every
def test_a_frame_of_a_clip_is_the_frame_alone(name: str) -> None:
    anonymizer, x = PIPELINES[name], clips(2, 3)
    whole = anonymizer(x, content=names(2))
    assert whole.shape == x.shape
    for b, t in ((0, 0), (1, 2)):
        alone = anonymizer(x[b : b + 1, :, t], content=names(2)[b : b + 1])
        assert apart(alone, whole[b : b + 1, :, t]) == 0


@every
def test_bytes_do_not_depend_on_their_batch_at_all(name: str) -> None:
    anonymizer, x = PIPELINES[name], (frames(5) * 255).round().to(torch.uint8)
    whole = anonymizer(x, content=names(5))
    alone = torch.cat([anonymizer(x[i : i + 1], content=[f"video {i}"]) for i in range(5)])
    assert torch.equal(alone, whole)


@given(
    name=st.sampled_from(sorted(set(ALL) - {"unet++"})),
    picks=st.lists(st.integers(0, 19), min_size=1, max_size=8),
    height=st.integers(16, 40),
    width=st.integers(16, 40),
)
@settings(max_examples=25, deadline=None)
def test_any_selection_of_frames_of_any_size_gives_what_each_gives_alone(
    name: str, picks: list[int], height: int, width: int
) -> None:
    anonymizer, x = PIPELINES[name], frames(20, height, width, seed=3)
    video = [f"video {i}" for i in picks]
    together = anonymizer(x[picks], content=video)
    assert apart(anonymizer(x[picks[-1:]], content=video[-1:]), together[-1:]) == 0


def test_a_long_clip_goes_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the clip, and nobody can see where it was cut."""
    from videoveil.anonymizers.pixel import anonymizer as module

    monkeypatch.setattr(module, "AT_ONCE", 4 * SIDE * SIDE)
    x = clips(1, 11)
    for name, expected in (("unet", [1] * 11), ("noise", [4, 4, 3])):
        anonymizer, sizes = copy.deepcopy(PIPELINES[name]), []
        whole = anonymizer.export(x, anonymizer.parts(), 11)
        anonymizer.stages[0].register_forward_pre_hook(
            lambda _m, inputs, sizes=sizes: sizes.append(len(inputs[0]))
        )
        assert apart(anonymizer(x), whole) <= 1e-4
        assert sizes == expected


@pytest.mark.parametrize("name", [*TOGETHER, "low resolution", "grey"])
def test_the_memory_layout_does_not_matter(name: str) -> None:
    anonymizer, x = PIPELINES[name], frames(3)
    last = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(anonymizer(last, content=names(3)), anonymizer(x, content=names(3)))


# --- determinism ---------------------------------------------------------------------------------------------


@every
def test_export_is_deterministic_and_leaves_the_random_state_alone(name: str) -> None:
    anonymizer, x = PIPELINES[name], frames(2)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = anonymizer(x, content=names(2))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(anonymizer(x, content=names(2)), first)
    assert torch.equal(copy.deepcopy(anonymizer)(x, content=names(2)), first)


def test_autocast_around_it_does_not_change_what_is_exported() -> None:
    anonymizer, x = PIPELINES["unet"], frames(2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = anonymizer(x)
    assert torch.equal(inside, anonymizer(x))


def test_seeds_decide_the_first_weights() -> None:
    assert pixel(UNet(4), seed=3).content_hash() == pixel(UNet(4), seed=3).content_hash()
    assert pixel(UNet(4), seed=3).content_hash() != pixel(UNet(4), seed=4).content_hash()


def test_changed_weights_change_the_noise_at_once() -> None:
    """Noise is bound to the weights, and what is kept of them follows them."""
    anonymizer, x = pixel(UNet(4), NoiseFloor(0.1), key=KEY), frames(1)
    first = anonymizer(x)
    with torch.no_grad():
        anonymizer.stages[0].outc.conv.bias.add_(1e-4)
    assert apart(anonymizer(x), first) > 0.05


# --- whole or nothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_one_plane_that_stands_for_three_colours_is_checked_and_given_out_as_three(
    dtype: torch.dtype,
) -> None:
    anonymizer, x = pixel(Grey()), torch.zeros(3, 3, 16, 16, dtype=dtype)
    plane = torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 1.5 - 0.25
    shared = [lambda frames, context: plane.expand(-1, 3, -1, -1)]
    apart = [lambda frames, context: plane.repeat(1, 3, 1, 1)]
    assert torch.equal(anonymizer.export(x, shared, 3), anonymizer.export(x, apart, 3))
    for bad in (float("nan"), float("inf"), -float("inf")):
        plane[1, 0, 5, 7] = bad
        with pytest.raises(Withheld, match="frame 1 came out as NaN or infinite"):
            anonymizer.export(x, shared, 3)


@pytest.mark.parametrize("name", ["unet", "grey", "network, then code"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.01, 1.01, 255.0])
def test_what_is_no_picture_is_withheld(name: str, bad: float) -> None:
    x = frames(3)
    x[1, 2, 3, 4] = bad
    with pytest.raises(Withheld, match=r"NaN before|must lie in \[0, 1\]"):
        PIPELINES[name](x)


@pytest.mark.parametrize("stages", [(UNet(4),), (UNet(4, out="none"),), (UNet(4), Grey(), LowResolution(8))])
def test_a_broken_network_gives_nothing_out(stages) -> None:  # type: ignore[no-untyped-def]
    anonymizer = pixel(*stages)
    with torch.no_grad():
        anonymizer.stages[0].outc.conv.bias[1] = float("nan")
    for x in (frames(2), (frames(2) * 255).to(torch.uint8), clips(1, 2)):
        with pytest.raises(Withheld, match="frame 0 came out as NaN"):
            anonymizer(x)


def test_a_broken_network_cannot_hide_behind_levels() -> None:
    """Rounding and clamping leave NaN a NaN."""
    anonymizer = pixel(UNet(4), Levels(2))
    with torch.no_grad():
        anonymizer.stages[0].inc.double_conv[0].weight[0, 0, 0, 0] = float("nan")
    with pytest.raises(Withheld):
        anonymizer(frames(1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool])
def test_other_types_of_numbers_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ShapeMismatch, match="floats in"):
        pixel(Grey())(torch.ones(1, 3, 8, 8, dtype=dtype))


def test_training_mode_exports_nothing() -> None:
    with pytest.raises(NotExportable, match="training mode"):
        pixel(UNet(4)).train()(frames(2))


def test_numbers_outside_the_range_are_clamped_for_export_only() -> None:
    anonymizer, x = settled((UNet(4, out="none"),)), frames(2)
    with torch.no_grad():
        assert torch.allclose(anonymizer(x), anonymizer.transform(x).clamp(0, 1), atol=1e-3)


# --- types ---------------------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize(
    "shape", [(2, 3, SIDE, SIDE), (1, 3, 2, SIDE, SIDE), (0, 3, SIDE, SIDE), (2, 3, 0, SIDE, SIDE)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8])
def test_shape_and_type_out_are_shape_and_type_in(
    name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.rand(shape)
    x = (x * 255).to(dtype) if dtype == torch.uint8 else x.to(dtype)
    out = PIPELINES[name](x, content=names(shape[0]))
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert out.is_contiguous()


@every
def test_bytes_come_out_as_floats_do_and_rounded(name: str) -> None:
    anonymizer, x = PIPELINES[name], (frames(2) * 255).round().to(torch.uint8)
    floats = anonymizer(x.float() / 255, content=names(2)) * 255
    assert apart(anonymizer(x, content=names(2)), floats) <= 0.5 + 1e-2


def test_the_input_is_left_as_it_was() -> None:
    for name, anonymizer in PIPELINES.items():
        x = frames(2)
        before = x.clone()
        anonymizer(x, content=names(2))
        with torch.no_grad():
            anonymizer.transform(x)
        assert torch.equal(x, before), name


# --- training path -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in ALL if "noise" not in n and n != "everything"])
@torch.no_grad()
def test_training_sees_what_is_exported(name: str) -> None:
    anonymizer, x = PIPELINES[name], clips(2, 2)
    seen, exported = anonymizer.transform(x).clamp(0, 1), anonymizer(x)
    same = (seen - exported).abs() < 1e-3
    assert float(same.float().mean()) > 0.999  # a level may flip between a batch and a single frame


def test_the_training_path_keeps_autocast_and_gradients() -> None:
    anonymizer, x = pixel(UNet(4), Grey()).train(), clips(2, 2).requires_grad_()
    kinds = []
    anonymizer.stages[0].outc.register_forward_hook(lambda _m, _i, out: kinds.append(out.dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        anonymizer.transform(x).float().mean().backward()
    assert kinds == [torch.bfloat16]
    assert x.grad is not None
    assert all(p.grad is not None for p in anonymizer.parameters())


def test_batch_norm_statistics_move_in_training_mode_only() -> None:
    anonymizer = pixel(UNet(4))
    before = anonymizer.content_hash()
    anonymizer.transform(frames(4))
    assert anonymizer.content_hash() == before
    anonymizer.train().transform(frames(4))
    assert anonymizer.content_hash() != before


def test_the_identity_can_be_learned_through_it() -> None:
    """A few hundred steps on held-out frames, small as it is."""
    anonymizer = pixel(UNet(8)).train()
    optimizer = torch.optim.Adam(anonymizer.parameters(), 5e-3)
    held_out = frames(8, 16, 16, seed=1000)
    start = anonymizer.identity_error(held_out)
    assert anonymizer.training  # as it was
    for step in range(150):
        x = frames(8, 16, 16, seed=step)
        optimizer.zero_grad()
        (anonymizer.transform(x) - x).abs().mean().backward()
        optimizer.step()
    assert anonymizer.identity_error(held_out) < min(0.06, start / 3)


def test_identity_error_is_the_mean_difference_for_frames_clips_and_bytes() -> None:
    x = clips(2, 3)
    anonymizer = pixel(Grey())
    expected = float((x - anonymizer(x)).abs().mean())
    assert anonymizer.identity_error(x) == pytest.approx(expected, rel=1e-4)
    assert anonymizer.identity_error(x.transpose(1, 2).flatten(0, 1)) == pytest.approx(expected, rel=1e-4)
    assert anonymizer.identity_error((x * 255).round().to(torch.uint8)) == pytest.approx(expected, rel=0.02)


# --- facts ---------------------------------------------------------------------------------------------------


def test_the_hash_is_of_what_decides_the_output() -> None:
    first = pixel(UNet(4), Levels(2))
    assert first.content_hash() == pixel(UNet(4), Levels(2), size=112, key=KEY).content_hash()
    assert first.content_hash() != pixel(UNet(4), Levels(3)).content_hash()
    assert first.content_hash() != pixel(UNet(4), Levels(2), legacy_reshape=True).content_hash()


def test_what_may_be_exported_says_so_and_what_may_not_says_why() -> None:
    require_exportable(pixel(UNet(4)))
    for anonymizer, reason in (
        (pixel(UNet(4)).train(), "training mode"),
        (pixel(NoiseFloor(0.1)), "no key"),
        (pixel(UNet(4), legacy_reshape=True), "legacy_reshape"),
    ):
        with pytest.raises(NotExportable, match=reason):
            require_exportable(anonymizer)
    assert pixel(NoiseFloor(0.1)).export_problems(need_key=False) == []


def test_it_knows_where_levels_are_cut_out_of_a_network() -> None:
    assert pixel(UNet(4), Levels(2)).quantises_a_network
    assert not pixel(Levels(2), UNet(4)).quantises_a_network
    assert not pixel(Grey(), Levels(2)).quantises_a_network


def test_a_pipeline_without_stages_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one stage"):
        pixel()
    assert isinstance(PixelAnonymizer().config.stages[0], UNet)
    with pytest.raises(MissingKey):
        pixel(Grey(), NoiseFloor(0.1))(frames(1))
