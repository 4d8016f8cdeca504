from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.audit import world
from videoveil.attacks import features
from videoveil.attacks.attributes import own_attributes
from videoveil.audit import grid
from videoveil.audit.grid import GridConfig, attack, cells, pieces, see
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject, Untouched
from videoveil.data.records import Dataset, Item
from videoveil.errors import CorruptVideo
from videoveil.media.reader import open_video
from videoveil.tasks.base import Clips
from videoveil.tasks.outcomes import AttributeOutcome

CONFIG = GridConfig(rows=2, columns=3, kinds=("linear",), frames=2, workers=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"), train=16, test=8)


def test_cells_are_mean_brightest_and_darkest_by_hand() -> None:
    pictures = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))
    found = cells(pictures, CONFIG)
    slow = []
    for change in (np.mean, np.max, np.min):
        for colour in range(3):
            for i in range(2):
                for j in range(3):
                    slow.append(change(pictures[1, colour, 4 * i : 4 * i + 4, 3 * j : 3 * j + 3].numpy()))
    assert found.shape == (2, 54)
    assert found[1].numpy() == pytest.approx(np.array(slow), abs=1e-6)


def test_a_single_bright_pixel_in_a_corner_changes_its_cell() -> None:
    pictures = torch.zeros(1, 3, 120, 160)
    before = cells(pictures, CONFIG)
    pictures[:, :, -1, -1] = 1.0
    assert (cells(pictures, CONFIG) - before).max() == 1.0


def test_the_canary_is_found_and_nothing_in_black_frames(data: Dataset) -> None:
    sides = [Clips(data, split, Untouched()) for split in ("train", "test")]
    found = attack(*sides, own_attributes, GridConfig(kinds=("linear",), workers=1))
    assert list(found) == ["linear", "linear_whole", "linear_video", "linear_peak"]
    for one in found.values():
        assert isinstance(one, AttributeOutcome)
        assert one.attributes()["canary"].value == pytest.approx(1.0)
    dark = [Clips(data, split, BlackFrames()) for split in ("train", "test")]
    for blind in attack(*dark, own_attributes, CONFIG).values():
        assert blind.measure().value == pytest.approx(blind.measure().chance)


def test_only_what_the_anonymizer_gives_out_is_seen(data: Dataset) -> None:
    items = data.split("test")
    seen = see(Clips(data, "test"), items, CONFIG, 0)
    raw, numbers = seen.rows, seen.videos
    same = see(Clips(data, "test", Untouched()), items, CONFIG, 0).rows
    assert np.array_equal(raw, same)
    black = see(Clips(data, "test", BlackFrames()), items, CONFIG, 0).rows
    assert not black.any()
    assert numbers.tolist() == [n for n in range(8) for _ in range(2)]


def test_the_same_seed_gives_the_same_answers(data: Dataset, tmp_path: Path) -> None:
    sides = [Clips(data, split) for split in ("train", "test")]
    once, again = (attack(*sides, own_attributes, CONFIG, seed=3)["linear"] for _ in range(2))
    assert isinstance(once, AttributeOutcome)
    assert isinstance(again, AttributeOutcome)
    assert np.array_equal(once.scores, again.scores)


def test_nobody_who_is_learnt_from_helps_to_choose(
    nameless: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is named, but it is known which films the videos were cut from."""
    items = tuple(replace(item, extra={"source": f"film {n % 4}"}) for n, item in enumerate(nameless))
    cut, parts = replace(nameless, items=items), []

    def split(*asked: Any) -> tuple[np.ndarray, np.ndarray]:
        parts.append(features.split(*asked))
        return parts[-1]

    monkeypatch.setattr(grid, "split", split)
    attack(Clips(cut, "train"), Clips(cut, "test"), own_attributes, CONFIG)
    assert len(parts) == 2  # of frames, and of whole videos
    for learn, choose in parts:
        each = (len(learn) + len(choose)) // 16
        films = [{rows // each % 4 for rows in part.tolist()} for part in (learn, choose)]
        assert all(films)
        assert not films[0] & films[1]


# --- every frame --------------------------------------------------------------------------------------------

LENGTH, RAW = 40, (32, 33, 34, 36, 37, 38)  # beside the frames that are looked at one by one


class Forgetful:
    """Black but for a few frames, which it lets through."""

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        return images * np.isin(indices, RAW).astype(np.uint8)[:, None, None, None]

    def content_hash(self) -> str:
        return "forgetful"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """As `data`, with as many frames as there are places between those that are looked at one by one."""
    root = tmp_path_factory.mktemp("long")
    items = []
    for n in range(28):
        action, tinted, canary = n % 2, n // 2 % 2, n // 4 % 2
        path = world.film(root / f"l{n:02d}.mp4", action, tinted, canary, n, LENGTH)
        known = {"tinted": tinted, "canary": canary}
        split = "train" if n < 16 else "test"
        items.append(Item(path.stem, path, split, action=world.ACTIONS[action], attributes=known))
    return Dataset("made-up", root, tuple(items), classes=world.ACTIONS, attributes=("canary", "tinted"))


def few(data: Dataset, count: int = 3) -> tuple[Item, ...]:
    return data.items[:count]


def test_what_is_left_in_a_few_frames_between_the_places_is_found(long: Dataset) -> None:
    config = GridConfig(kinds=("linear",), workers=2)
    assert not set(config.singles(LENGTH)) & set(RAW)
    sides = [Clips(long, split, paint=Forgetful()) for split in ("train", "test")]
    found = attack(*sides, own_attributes, config)
    whole = found.pop("linear_whole")
    assert isinstance(whole, AttributeOutcome)
    assert all(one.value == pytest.approx(1.0) for one in whole.attributes().values())
    for single in found.values():
        assert single.measure().value == pytest.approx(single.measure().chance)


def test_an_audit_fails_whoever_lets_a_few_frames_through(long: Dataset, tmp_path: Path) -> None:
    made = audit(
        Subject.of(long, paint=Forgetful(), name="forgetful"),
        tmp_path / "out",
        world.settings(),
        cache=tmp_path / "cache",
    )
    question = next(one for one in made.questions if one.role == "attack" and one.attempts)
    assert question.strongest == "grid/linear_whole"
    assert made.verdict.privacy == "FAIL"


def test_the_row_of_a_whole_video_is_mean_brightest_and_darkest_over_all_frames(long: Dataset) -> None:
    items = few(long)
    found = see(Clips(long, "train"), items, CONFIG, 0)
    assert found.whole.shape == (3, 54)
    for item, row in zip(items, found.whole):
        with open_video(item.path) as video:
            images = torch.from_numpy(video.read(range(LENGTH)))
        each = cells(images.permute(0, 3, 1, 2).float() / 255, CONFIG).double().numpy()  # (frames, d)
        mean, bright, dark = each[:, :18].mean(0), each[:, 18:36].max(0), each[:, 36:].min(0)
        assert row == pytest.approx(np.concatenate((mean, bright, dark)))
        assert np.array_equal(each[[0, LENGTH - 1]], found.rows[found.videos == items.index(item)])


@pytest.mark.parametrize("anonymizer", [None, Untouched()])
def test_neither_pieces_nor_threads_nor_other_items_change_a_bit(
    long: Dataset, anonymizer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Clips(long, "train", anonymizer)  # type: ignore[arg-type]
    once = see(source, few(long), CONFIG, 0)
    monkeypatch.setattr(grid, "CLIP", 7)
    again = see(source, few(long)[::-1], replace(CONFIG, workers=3), 0)
    assert np.array_equal(once.whole, again.whole[::-1])
    assert np.array_equal(once.rows.reshape(3, 2, -1), again.rows.reshape(3, 2, -1)[::-1])
    monkeypatch.setattr(grid, "PIXELS", 3 * world.WIDTH * world.HEIGHT)
    assert np.array_equal(once.whole, see(source, few(long), CONFIG, 0).whole)


def test_of_a_very_long_video_so_many_frames_are_seen_all_over_it(long: Dataset) -> None:
    config = replace(CONFIG, frames=3, most=10)
    (item,) = few(long, 1)
    numbers = [index for piece in pieces(item, None, config) for index in piece.numbers]
    assert numbers == sorted({*numbers})
    assert 10 <= len(numbers) <= 13
    assert {0, LENGTH - 1, *config.singles(LENGTH)} <= set(numbers)
    assert max(np.diff(numbers)) <= 5
    found = see(Clips(long, "train"), [item], config, 0)
    assert np.array_equal(found.rows, see(Clips(long, "train"), [item], replace(config, most=40), 0).rows)


def test_every_frame_is_decoded_once(long: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    class Counting(grid.RgbConverter):
        def __call__(self, frame: object, turn: object) -> np.ndarray:
            seen.append(1)
            return super().__call__(frame, turn)  # type: ignore[arg-type]

    monkeypatch.setattr(grid, "RgbConverter", Counting)
    see(Clips(long, "train"), few(long), CONFIG, 0)
    assert len(seen) == 3 * LENGTH


def test_pictures_are_videos_of_one_frame(long: Dataset, tmp_path: Path) -> None:
    from PIL import Image

    image = np.random.default_rng(0).integers(0, 255, (36, 48, 3), dtype=np.uint8)
    Image.fromarray(image).save(tmp_path / "p.png")
    item = Item("p", tmp_path / "p.png", "train", kind="image")
    found = see(Clips(long, "train", BlackFrames()), [item], CONFIG, 0)
    assert not found.whole.any()
    found = see(Clips(long, "train"), [item], CONFIG, 0)
    assert np.array_equal(found.rows, np.repeat(found.whole, 2, 0))


def test_who_has_seen_enough_can_stop_it_and_no_thread_is_left(long: Dataset) -> None:
    class Stop(Exception):
        pass

    told: list[tuple[int, int]] = []

    def progress(done: int, total: int, value: float) -> None:
        told.append((done, total))
        if done == 5:
            raise Stop

    before = threading.active_count()
    sides = [Clips(long, split) for split in ("train", "test")]
    with pytest.raises(Stop):
        attack(*sides, own_attributes, CONFIG, progress=progress)
    assert told == [(n, 28 + 2) for n in range(1, 6)]
    assert threading.active_count() == before
    told.clear()
    attack(*sides, own_attributes, replace(CONFIG, frames=1), progress=lambda *step: told.append(step[:2]))
    assert told == [(n, 30) for n in range(1, 31)]


def test_a_video_that_breaks_off_is_an_error(long: Dataset, tmp_path: Path) -> None:
    whole = few(long, 1)[0].path.read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    broken = Item("cut", tmp_path / "cut.mp4", "train")
    with pytest.raises(CorruptVideo):
        see(Clips(long, "train"), [*few(long), broken], CONFIG, 0)
