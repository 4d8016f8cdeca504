"""Many draws at once: the pictures that one by one gives, whatever else is in the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from videoveil.errors import UsageError
from videoveil.media import batched
from videoveil.media.batched import Plan, apply_batch, colour_order, filters
from videoveil.media.colour import Adjust
from videoveil.media.crops import Box, Geometry
from videoveil.media.transforms import Draw, apply, apply_one, preset, preset_names, to_float

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
LEVEL = 1 / 255


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(count: int, frames: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """Decoded clips uint8 (N, T, H, W, 3); noise shows every wrong weight."""
    return torch.randint(0, 256, (count, frames, height, width, 3), dtype=torch.uint8, generator=seeded(seed))


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    assert one.shape == other.shape
    return float((one - other).abs().max())


sides = st.integers(2, 70)


@settings(deadline=None, max_examples=120)
@given(
    st.sampled_from(preset_names()),
    st.tuples(sides, sides),
    st.integers(
        2, 40
    ),  # torch 2.13 itself is wrong on a CPU where a resized picture is one pixel wide, and higher
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(0, 10**6),
)
def test_a_batch_is_what_one_by_one_gives(
    name: str, size: tuple[int, int], side: int, count: int, frames: int, seed: int
) -> None:
    clips = noise(count, frames, *size, seed)
    draws = preset(name, side).draw(count, *size, seeded(seed))
    got = apply_batch(clips, draws)
    assert got.shape == (count, 3, frames, side, side)
    assert got.dtype == torch.float32
    assert got.is_contiguous()
    assert got.min() >= 0
    assert got.max() <= 1
    assert apart(got, apply(to_float(clips), draws)) <= 1e-5


@pytest.mark.parametrize("name", preset_names())
def test_decoded_clips_one_by_one_are_rounded_to_levels_and_so_a_level_away(name: str) -> None:
    clips = noise(24, 2, 48, 64)
    for side in (24, 72):
        draws = [replace(draw, colour=()) for draw in preset(name, side).draw(24, 48, 64, seeded(1))]
        assert apart(apply_batch(clips, draws), apply(clips, draws)) <= 2 * LEVEL
        whole = preset(name, side).draw(24, 48, 64, seeded(1))
        assert (apply_batch(clips, whole) - apply(clips, whole)).abs().mean() <= LEVEL


@pytest.mark.parametrize("name", preset_names())
def test_a_clip_does_not_depend_on_the_batch(name: str) -> None:
    clips = noise(7, 3, 48, 64)
    draws = preset(name, 24).draw(7, 48, 64, seeded(2))
    whole = apply_batch(clips, draws)
    for n in range(7):
        assert apart(apply_batch(clips[n : n + 1], draws[n : n + 1])[0], whole[n]) <= 1e-6
    order = [3, 0, 6, 4, 1, 5, 2]
    assert apart(apply_batch(clips[order], [draws[n] for n in order]), whole[order]) <= 1e-6


@pytest.mark.parametrize("name", preset_names())
def test_the_frames_of_a_static_clip_stay_alike(name: str) -> None:
    clips = noise(6, 1, 48, 64).expand(-1, 4, -1, -1, -1)
    got = apply_batch(clips, preset(name, 24).draw(6, 48, 64, seeded()))
    assert apart(got, got[:, :, :1].expand_as(got)) <= 1e-6


def test_the_same_batch_gives_the_same_bits_whatever_the_threads() -> None:
    clips = noise(9, 4, 60, 80)
    draws = preset("tclr", 32).draw(9, 60, 80, seeded(5))
    expected, before = apply_batch(clips, draws), torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert torch.equal(apply_batch(clips, draws), expected)
    finally:
        torch.set_num_threads(before)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=9), st.integers(0, 10**6))
def test_clips_of_different_sizes_make_one_batch(sizes: list[tuple[int, int]], seed: int) -> None:
    made = preset("ted-spad", 16)
    clips = [noise(1, 2, *size, seed + n)[0] for n, size in enumerate(sizes)]
    draws = [made.draw(1, *size, seeded(seed + n))[0] for n, size in enumerate(sizes)]
    got = apply_batch(clips, draws)
    for clip, draw, one in zip(clips, draws, got):
        assert apart(apply_one(to_float(clip[None])[0], draw), one) <= 1e-5


def test_large_batches_go_through_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(40, 50), (48, 64), (30, 31), (48, 64), (200, 20), (40, 50), (40, 50)]
    clips = [noise(1, 2, *size, n)[0] for n, size in enumerate(sizes)]
    draws = [preset("simclr", 24).draw(1, *size, seeded(n))[0] for n, size in enumerate(sizes)]
    whole = apply_batch(clips, draws)
    monkeypatch.setattr(batched, "AT_ONCE", 2 * 2 * 3 * 40 * 50)
    parts = batched._parts(sizes, 2, 24)
    assert sorted(n for part in parts for n in part) == [*range(7)]
    assert all(len(part) == 1 or 2 * 3 * len(part) * 40 * 50 <= batched.AT_ONCE for part in parts)
    assert len(parts) >= 5
    assert apart(apply_batch(clips, draws), whole) <= 1e-6


def test_a_canvas_is_not_shared_where_most_of_it_would_be_empty() -> None:
    assert batched._parts([(48, 64)] * 5, 8, 32) == [[0, 1, 2, 3, 4]]
    assert batched._parts([(50, 64), (48, 64), (49, 60)], 8, 32) == [[0, 1, 2]]
    apart_ = batched._parts([(10, 200), (200, 10), (10, 200)], 8, 32)
    assert apart_ == [[0, 2], [1]]


def test_pieces_of_kept_frames_need_no_copy_of_their_own() -> None:
    kept = noise(1, 30, 48, 64)[0]
    views = [kept[2:18:2], kept[4:12], kept[7:8].expand(8, -1, -1, -1)]
    draws = preset("weak", 24).draw(3, 48, 64, seeded())
    assert torch.equal(apply_batch(views, draws), apply_batch(torch.stack(views), draws))


def test_the_input_is_left_alone() -> None:
    clips = noise(8, 2, 48, 64)
    kept = clips.clone()
    for name in preset_names():
        for side in (24, 48):
            apply_batch(clips, preset(name, side).draw(8, 48, 64, seeded(4)))
    assert torch.equal(clips, kept)


def test_a_picture_that_already_fits_is_only_divided() -> None:
    clips = noise(3, 2, 24, 24)
    whole = Geometry(Box(0, 0, 24, 24), (24, 24), Box(0, 0, 24, 24))
    got = apply_batch(clips, [Draw(whole), Draw(whole, flip=True), Draw(whole, erase=(Box(2, 3, 4, 5),))])
    expected = to_float(clips)
    expected[1] = expected[1].flip(-1)
    expected[2, :, :, 2:6, 3:8] = 0
    assert apart(got, expected) <= 1e-7


def test_mixed_precision_around_it_changes_nothing() -> None:
    clips = noise(3, 2, 48, 64)
    draws = preset("weak", 24).draw(3, 48, 64, seeded())
    with torch.autocast("cpu", torch.bfloat16):
        inside = apply_batch(clips, draws)
    assert torch.equal(inside, apply_batch(clips, draws))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", preset_names())
def test_every_device_gives_the_same_pictures_from_frames_that_lie_anywhere(name: str, device: str) -> None:
    clips = noise(5, 2, 48, 64)
    draws = preset(name, 24).draw(5, 48, 64, seeded(6))
    here, there = apply_batch(clips, draws), torch.device(device)
    mixed = [clip.to(there) if n % 2 else clip for n, clip in enumerate(clips)]
    for given_ in (clips, clips.to(there), list(clips), mixed):
        got = apply_batch(given_, draws, there)
        assert got.device.type == device
        assert apart(got.cpu(), here) <= 1e-5


# --- its parts -----------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_a_filter_is_what_interpolation_makes_of_single_pixels(
    length: int, scaled: int, before: int, after: int, flip: bool
) -> None:
    """The slow, obvious twin: a picture with one white pixel for every place of the crop."""
    extent = before + length + after
    axis = [before, length, scaled, scaled - 1, -1] if flip else [before, length, scaled, 0, 1]
    got = filters(torch.tensor([axis], dtype=torch.float32), scaled, extent)[0]
    single = torch.eye(length)[:, None, None]  # (pixel, 1, 1, length)
    slow = F.interpolate(single, size=(1, scaled), mode="bilinear", antialias=True)[:, 0, 0].T
    assert apart(got[:, before : before + length], slow.flip(0) if flip else slow) <= 1e-6
    assert not got[:, :before].any()
    assert not got[:, before + length :].any()


kinds = st.sampled_from(["brightness", "contrast", "saturation", "hue", "gamma", "grey"])
changes = st.builds(Adjust, kinds, st.floats(0.5, 1.5))


@given(st.lists(st.lists(changes, max_size=5).map(tuple), max_size=12))
def test_every_clip_gets_its_changes_in_its_own_order(colours: list[tuple[Adjust, ...]]) -> None:
    found: dict[int, list[Adjust]] = {n: [] for n in range(len(colours))}
    for kind, some in colour_order(colours):
        assert some
        for clip, factor in some:
            found[clip].append(Adjust(kind, factor))
    assert [tuple(found[n]) for n in range(len(colours))] == colours


@pytest.mark.parametrize(("name", "most"), [("weak", 9), ("tclr", 9), ("simclr", 5), ("ted-spad", 9)])
def test_a_batch_takes_hardly_more_rounds_than_one_clip_has_changes(name: str, most: int) -> None:
    for seed in range(20):
        draws = preset(name, 24).draw(72, 48, 64, seeded(seed))
        assert len(colour_order([draw.colour for draw in draws])) <= most


@pytest.mark.parametrize("kind", ["brightness", "contrast", "saturation", "hue", "gamma", "grey"])
def test_every_clip_is_changed_by_its_own_factor(kind: Any) -> None:
    clips = noise(4, 2, 24, 24)
    whole = Geometry(Box(0, 0, 24, 24), (24, 24), Box(0, 0, 24, 24))
    factors = [0.3, -0.2, None, 0.45] if kind == "hue" else [0.3, 1.7, None, 1.2]
    draws = [Draw(whole, () if factor is None else (Adjust(kind, factor),)) for factor in factors]
    got = apply_batch(clips, draws)
    assert apart(got, apply(clips, draws)) <= 1e-5
    assert apart(got[2], to_float(clips)[2]) <= 1e-7


def test_all_that_was_drawn_is_sent_as_one_tensor() -> None:
    draws = preset("ted-spad", 24).draw(30, 48, 64, seeded(3))
    plan = Plan.of(draws, [(48, 64)] * 30)
    storage = plan.numbers.untyped_storage().data_ptr()
    views = [*plan.axes(), plan.erased(), *(factors for _, _, factors in plan.changes())]
    assert all(view.untyped_storage().data_ptr() == storage for view in views)
    assert sum(len(chosen) for _, chosen, _ in plan.changes()) == sum(len(draw.colour) for draw in draws)


# --- what is refused -----------------------------------------------------------------------------------------


def test_what_does_not_fit_together_is_refused() -> None:
    made = preset("weak", 24)
    draws = made.draw(2, 48, 64, seeded())
    with pytest.raises(UsageError, match="3 clips and 2 draws"):
        apply_batch(noise(3, 1, 48, 64), draws)
    with pytest.raises(UsageError, match="0 clips and 0 draws"):
        apply_batch([], [])
    with pytest.raises(UsageError, match=r"uint8 \(T, H, W, 3\), got torch\.float32"):
        apply_batch(to_float(noise(2, 1, 48, 64)), draws)
    with pytest.raises(UsageError, match=r"frames do not make one batch"):
        apply_batch([noise(1, 1, 48, 64)[0], noise(1, 2, 48, 64)[0]], draws)
    with pytest.raises(UsageError, match="drawn for another picture"):
        apply_batch(noise(2, 1, 20, 20), draws)
    with pytest.raises(UsageError, match="one output size"):
        apply_batch(noise(2, 1, 48, 64), [draws[0], *preset("weak", 20).draw(1, 48, 64, seeded())])
