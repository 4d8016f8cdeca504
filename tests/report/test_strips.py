"""Strips and grids: files opened again, and every pixel of every frame where it should be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from videoveil.data.theatre import stage
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.errors import UsageError
from videoveil.report.strips import (
    BETWEEN,
    LEGIBLE,
    PADDING,
    Row,
    Sheet,
    check_grid,
    pixels,
    progression,
    sheet,
    strip,
)


def noise(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), np.uint8)


def opened(made: Sheet, path: Path) -> np.ndarray:
    made.write(path)
    with Image.open(path) as picture:
        assert picture.mode == "RGB"
        assert picture.info == {}  # no metadata
        return np.asarray(picture)


def places(made: Sheet) -> dict[tuple[int, int], tuple[int, int]]:
    return {(r, c): corner for r, row in enumerate(made.corners) for c, corner in enumerate(row)}


def test_a_strip_of_the_theatre_shows_every_second_frame_raw_over_anonymized(tmp_path: Path) -> None:
    play = trimmed("strip", action="dance", person=identity(0, 1), width=80, height=64, frames=16)
    raw = stage.clip(play)
    hidden = 255 - raw
    made = strip(raw, hidden)
    shown = opened(made, tmp_path / "strip.png")
    assert len(made.corners) == 2
    assert [len(row) for row in made.corners] == [8, 8]
    assert made.size == (64, 80)
    for (row, column), (top, left) in places(made).items():
        expected = (raw, hidden)[row][2 * column]
        assert np.array_equal(shown[top : top + 64, left : left + 80], expected)


def test_frames_stand_in_a_grid_with_the_padding_between_them_and_paper_around() -> None:
    made = strip(noise(6, 70, 90), noise(6, 70, 90, 1), every=1)
    corners = made.corners
    for row in corners:
        assert {b[1] - a[1] for a, b in pairwise(row)} == {90 + PADDING}
        assert len({top for top, _ in row}) == 1
    assert corners[1][0][0] - corners[0][0][0] == 70 + PADDING
    last_top, last_left = corners[-1][-1]
    assert made.pixels.shape == (last_top + 70 + PADDING, last_left + 90 + PADDING, 3)
    top, left = corners[0][1]
    assert (made.pixels[top : top + 70, left - PADDING : left] == 255).all()


@given(count=st.integers(1, 20), every=st.integers(1, 5), columns=st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_columns_are_every_kth_frame_as_far_as_there_are_some(count: int, every: int, columns: int) -> None:
    raw = noise(count, LEGIBLE, 8)
    made = strip(raw, raw, every=every, columns=columns)
    expected = list(range(0, count, every))[:columns]
    assert len(made.corners[0]) == len(expected)
    for column, number in enumerate(expected):
        assert np.array_equal(made.cell(0, column), raw[number])


def test_labels_are_written_beside_their_rows_in_ink() -> None:
    raw = noise(2, LEGIBLE, LEGIBLE)
    made = sheet([Row("raw", raw), Row("", raw), Row("epoch 30", raw)])
    lefts = made.corners[0][0][1]
    inked = []
    for (top, _), *_ in made.corners:
        beside = made.pixels[top : top + made.size[0], :lefts].astype(int)
        inked.append(int((beside.sum(2) < 300).sum()))
    assert inked[0] > 30
    assert inked[1] == 0
    assert inked[2] > inked[0]
    ink = np.argwhere(made.pixels[:, :lefts].astype(int).sum(2) < 300)
    assert ink[:, 1].min() >= PADDING - 1  # no letter is cut off at the left
    assert ink[:, 1].max() < lefts - 1


def test_a_long_label_is_broken_and_still_fits() -> None:
    raw = noise(2, 16, 16)
    name = "downsampled by four, quantised to eight levels, blurred and turned grey"
    made = sheet([Row(name, raw), Row("raw", raw)])
    ink = np.argwhere(made.pixels[:, : made.corners[0][0][1]].astype(int).sum(2) < 300)
    assert ink[:, 1].min() >= PADDING - 1
    assert ink[:, 0].min() >= PADDING - 1
    step = made.corners[1][0][0] - made.corners[0][0][0]
    assert step > made.size[0] + PADDING  # the label is higher than a frame


def test_small_frames_are_shown_larger_by_a_whole_number() -> None:
    raw = noise(1, 24, 30)
    made = strip(raw, raw)
    assert made.size == (72, 90)
    assert np.array_equal(made.cell(1, 0)[::3, ::3], raw[0])
    assert np.array_equal(made.cell(1, 0)[2::3, 2::3], raw[0])


def test_progression_has_a_row_per_stage_below_the_raw_one(tmp_path: Path) -> None:
    raw = noise(16, LEGIBLE, LEGIBLE)
    stages = {f"epoch {epoch}": noise(16, LEGIBLE, LEGIBLE, epoch) for epoch in (1, 3, 6, 9, 30)}
    made = progression(raw, stages)
    shown = opened(made, tmp_path / "progression.png")
    assert len(made.corners) == 6
    for row, clip in enumerate((raw, *stages.values())):
        top, left = made.corners[row][7]
        assert np.array_equal(shown[top : top + LEGIBLE, left : left + LEGIBLE], clip[14])


@pytest.mark.parametrize(("count", "columns"), [(16, (8, 8)), (10, (5, 5)), (3, (3,)), (9, (5, 4))])
def test_check_grid_has_images_above_their_outputs(count: int, columns: tuple[int, ...]) -> None:
    images, outputs = noise(count, LEGIBLE, LEGIBLE), noise(count, LEGIBLE, LEGIBLE, 1)
    made = check_grid(images, outputs)
    assert [len(row) for row in made.corners] == [n for n in columns for _ in range(2)]
    number = 0
    for band, width in enumerate(columns):
        for column in range(width):
            assert np.array_equal(made.cell(2 * band, column), images[number])
            assert np.array_equal(made.cell(2 * band + 1, column), outputs[number])
            number += 1
    assert number == count
    tops = [row[0][0] for row in made.corners]
    gaps = [b - a - LEGIBLE for a, b in pairwise(tops)]
    assert gaps == [PADDING if i % 2 == 0 else BETWEEN for i in range(len(gaps))]


def test_check_grid_takes_as_many_columns_as_told() -> None:
    images = noise(5, LEGIBLE, LEGIBLE)
    assert [len(row) for row in check_grid(images, images, columns=2).corners] == [2, 2, 2, 2, 1, 1]


@pytest.mark.parametrize(
    "kind", [np.float64, np.float32, np.float16, torch.float32, torch.bfloat16, torch.uint8, np.uint8]
)
def test_bytes_and_numbers_of_numpy_and_torch_give_the_same_picture(kind: object) -> None:
    grid = np.array([0, 51, 102, 153, 204, 255], np.uint8)
    raw = np.broadcast_to(grid[None, :, None, None], (2, 6, 5, 3)).copy()
    if isinstance(kind, torch.dtype):
        whole = torch.tensor(raw)
        clip = whole if kind == torch.uint8 else (whole.double() / 255).to(kind).requires_grad_()
    else:
        clip = raw if kind == np.uint8 else (raw / 255).astype(kind)  # type: ignore[call-overload]
    assert np.array_equal(pixels(clip), raw)


def test_numbers_outside_0_to_1_are_clamped_and_not_stretched() -> None:
    clip = np.zeros((1, 1, 3, 3))
    clip[0, 0] = np.array([-4.0, 0.5, 7.0])[:, None]
    assert pixels(clip)[0, 0, :, 0].tolist() == [0, 128, 255]


def test_equal_sheets_give_equal_bytes_and_nothing_else_is_left(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        strip(noise(4, 32, 32), noise(4, 32, 32, 1)).write(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "b.png"]


def test_inputs_are_not_changed() -> None:
    raw, hidden = noise(4, 32, 32), noise(4, 32, 32, 1)
    before = raw.copy()
    strip(raw, hidden)
    check_grid(raw, hidden)
    assert np.array_equal(raw, before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: strip(noise(4, 8, 8), noise(3, 8, 8)),
            r"'anonymized' is \(3, 8, 8, 3\) and 'raw' \(4, 8, 8, 3\)",
        ),
        (lambda: strip(torch.zeros(3, 4, 8, 8), torch.zeros(3, 4, 8, 8)), r"permute\(1, 2, 3, 0\)"),
        (lambda: strip(noise(4, 8, 8), noise(4, 8, 8), every=0), "every=0"),
        (lambda: pixels(np.full((1, 2, 2, 3), np.nan)), "no numbers"),
        (lambda: pixels(np.zeros((1, 2, 2, 3), np.int64)), "int64"),
        (lambda: pixels(np.zeros((0, 2, 2, 3))), "not empty"),
        (lambda: progression(noise(1, 8, 8), {}), "at least one stage"),
        (lambda: check_grid(noise(2, 8, 8), noise(2, 8, 8), columns=0), "columns=0"),
        (lambda: sheet([]), "at least one row"),
        (lambda: sheet([Row("a", noise(1, 8, 8)), Row("b", noise(2, 8, 8))]), "no row longer"),
        (
            lambda: strip(noise(1, 8, 8), noise(1, 8, 8)).write("a.jpg"),
            r"a\.jpg: frames are written as \.png",
        ),
    ],
)
def test_misuse_is_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(UsageError, match=message):
        call()
