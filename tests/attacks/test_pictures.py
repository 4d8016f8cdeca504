"""Views of items, and what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks.pictures import Changed, people
from videoveil.attacks.pictures import Answers, HeldOut, Lens, ahead, item_truth, veiled
from videoveil.features.pixels import PixelVeil
from videoveil.media.reader import open_video
from videoveil.media.transforms import looks
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 8), st.integers(1, 3), st.integers(0, 20))
def test_views_lie_inside_the_video_and_are_as_many_as_asked_for(
    total: int, count: int, length: int, stride: int, step: int
) -> None:
    lens = Lens(length, stride, 8, "ted-spad-test", count, step)
    places = lens.places(total)
    assert all(0 <= index < total and len(clip) == length for clip in places for index in clip.indices)
    if total == 1 and length == 1:
        assert len(places) == 1
    elif not step:
        assert len(places) == count
    elif length == stride == 1:
        assert [clip.start for clip in places] == list(range(0, total, step))
    assert all(middle in clip.indices for middle, clip in zip(lens.middles(total), places, strict=True))


@pytest.mark.parametrize(
    "lens",
    [Lens(1, 1, 12, "ted-spad-test", 3), Lens(4, 2, 12, "spact-test", 2), Lens(2, 1, 12, "around", 7)],
)
def test_pictures_are_the_test_transform_of_the_frames(
    tmp_path_factory: pytest.TempPathFactory, lens: Lens
) -> None:
    item = people(tmp_path_factory.mktemp("one"), train=1, test=0).items[0]
    found = lens.pictures(item, Frames())
    with open_video(item.path) as video:
        frames = np.stack([frame.image for frame in video.frames()])
    ways = looks(lens.test, 12)
    for n, (view, clip) in enumerate(zip(found, lens.places(len(frames)), strict=True)):
        assert torch.equal(view, ways[n % len(ways)].evaluate(frames[list(clip.indices)]))


def test_looking_around_takes_five_views_at_least_also_of_a_still_picture() -> None:
    assert len(Lens(1, 1, 8, "around", 2).places(30)) == 5
    assert len(Lens(1, 1, 8, "around", 2).places(1)) == 5
    assert len(Lens(1, 1, 8, "around", 9).places(30)) == 9


def test_held_out_views_are_veiled_once_where_there_is_room_and_otherwise_every_time() -> None:
    pictures = torch.randint(0, 256, (9, 3, 16, 6, 6), dtype=torch.uint8)
    slow, cpu = [], torch.device("cpu")
    for number, part in enumerate(pictures.split(4)):  # four clips of 16 frames are 64 pictures
        with torch.random.fork_rng():
            torch.manual_seed(seeds.number(seeds.number(7, "validation"), "noise", number))
            slow.append((part / 255 + 0.3 * torch.randn(part.shape)).clamp(0, 1))
    for room, times in ((4 * pictures.nbytes, 1), (4 * pictures.nbytes - 1, 3)):
        noise = Changed("noise", 0.3)
        views = HeldOut(pictures, PixelVeil(noise), 7, room)
        for _ in range(3):
            assert torch.equal(torch.cat(list(views.pieces(cpu))), torch.cat(slow))
        assert len(noise.shapes) == 3 * times
        assert not any(gradients for _, gradients in noise.modes)
    raw = torch.cat(list(veiled(pictures, None, 0, cpu)))
    assert torch.equal(raw, pictures / 255)


def test_a_video_is_the_mean_of_its_views_and_true_in_half_of_the_known_ones() -> None:
    logits = np.array([[1.0, 0.0], [3.0, 2.0], [-1.0, 5.0]])
    truth = np.array([[1.0, np.nan], [0.0, np.nan], [0.0, 1.0]])
    whole = Answers(logits, truth, np.array([4, 4, 7])).by_video()
    assert whole.logits.tolist() == [[2.0, 1.0], [-1.0, 5.0]]
    np.testing.assert_array_equal(whole.truth, [[1.0, np.nan], [0.0, 1.0]])
    assert whole.videos.tolist() == [4, 7]


def test_unknown_attributes_are_nan(tmp_path_factory: pytest.TempPathFactory) -> None:
    items = people(tmp_path_factory.mktemp("two"), train=2, test=0).items
    np.testing.assert_array_equal(
        item_truth(items, ("above", "tall"), lambda item: item.attributes), [[1, np.nan], [0, np.nan]]
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_work_ahead_comes_back_in_order(workers: int) -> None:
    numbers = list(range(10))
    assert list(ahead(numbers, lambda n: torch.tensor(n), workers)) == numbers  # type: ignore[arg-type]
