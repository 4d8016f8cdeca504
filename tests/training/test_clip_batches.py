"""Clips as batches: every draw belongs to seed, epoch and item, whatever the threads, the cache or the processes."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.tasks.make_store import grey_dataset, grey_video
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, MediaError, UsageError
from videoveil.media.reader import open_video
from videoveil.media.transforms import preset
from videoveil.training.clip_batches import ClipBatches, Frames, check, frames_memory

CPU = torch.device("cpu")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module")
def greys(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return grey_dataset(tmp_path_factory.mktemp("greys"), train=5, test=0, frames=18)


def batches(items: tuple[Item, ...], **options: Any) -> ClipBatches:
    values = torch.tensor([("above", "below").index(str(item.action)) for item in items])
    settings: dict[str, Any] = {"frames": Frames(), "workers": 2, "seed": 3, "batch": 2, **options}
    return ClipBatches(items, values, length=8, stride=2, preset=preset("weak", 24), **settings)


def epoch(source: ClipBatches, number: int = 0, rank: int = 0, ranks: int = 1) -> list[Any]:
    return list(source.epoch(number, rank, ranks, CPU))


def test_an_epoch_visits_every_item_once_with_its_own_label(greys: Dataset) -> None:
    found = epoch(batches(greys.items))
    assert [len(batch.inputs) for batch in found] == [2, 2, 1]
    assert [batch.total for batch in found] == [2, 2, 1]
    assert sorted(id_ for batch in found for id_ in batch.ids) == [item.id for item in greys]
    for batch in found:
        assert batch.inputs.shape[1:] == (3, 8, 24, 24)
        assert 0 <= float(batch.inputs.min()) < float(batch.inputs.max()) <= 1
        for clip, label in zip(batch.inputs, batch.targets.tolist()):
            brighter_below = clip[:, :, 16:].mean() > clip[:, :, :8].mean()
            assert bool(brighter_below) is bool(label)


def test_neither_threads_nor_cache_nor_the_order_of_items_change_a_clip(greys: Dataset) -> None:
    plain = {n: batches(greys.items).clip(n, 7) for n in range(5)}
    cached = batches(greys.items, frames=Frames(2**30), workers=4)
    half = batches(greys.items[::-1], frames=Frames(greys_bytes(greys) // 2), workers=1)
    for number, clip in plain.items():
        for _ in range(2):  # the second time from the cache
            assert torch.equal(cached.clip(number, 7), clip)
        assert torch.equal(half.clip(4 - number, 7), clip)
    one, two = epoch(batches(greys.items, workers=1), 2), epoch(cached, 2)
    assert all(torch.equal(a.inputs, b.inputs) and a.ids == b.ids for a, b in zip(one, two))


def greys_bytes(greys: Dataset) -> int:
    return sum(18 + 3 * n for n in range(len(greys))) * 36 * 48 * 3


def test_epochs_seeds_and_items_have_draws_of_their_own(greys: Dataset) -> None:
    source = batches(greys.items)
    clips = [source.clip(4, number) for number in range(4)]
    clips += [batches(greys.items, seed=4).clip(4, 0)]
    assert all(not torch.equal(a, b) for i, a in enumerate(clips) for b in clips[:i])
    orders = {tuple(id_ for batch in epoch(source, n) for id_ in batch.ids) for n in range(4)}
    assert len(orders) > 1


def test_processes_share_a_step_out_without_loss_or_doubling(greys: Dataset) -> None:
    whole = epoch(batches(greys.items), 1)
    shares = [epoch(batches(greys.items), 1, rank, 2) for rank in (0, 1)]
    for step, batch in enumerate(whole):
        mine = [share[step] for share in shares]
        counted = [part for part in mine if part.total < math.inf]
        assert all(part.total == batch.total for part in counted)
        assert sum(len(part.inputs) for part in counted) == len(batch.inputs)
        together = {id_: clip for part in counted for id_, clip in zip(part.ids, part.inputs)}
        assert set(together) == set(batch.ids)
        assert all(torch.equal(together[id_], clip) for id_, clip in zip(batch.ids, batch.inputs))
    spare = shares[1][
        -1
    ]  # one item cannot be shared: the second process looks at it too, and it counts for nothing
    assert spare.total == math.inf
    assert spare.ids == shares[0][-1].ids


def test_the_cache_keeps_what_fits_and_never_more(greys: Dataset) -> None:
    limit = greys_bytes(greys) // 2
    frames = Frames(limit)
    for item in greys:
        with open_video(item.path) as video:
            expected = video.read([0, 5, 5, 17])
        for _ in range(2):
            assert np.array_equal(frames.read(item, [0, 5, 5, 17]).numpy(), expected)
    assert 0 < frames.used <= limit


def test_a_picture_is_a_clip_that_stands_still(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    item = Item("a", tmp_path / "a.png", "train", kind="image", action="above")
    clip = batches((item,)).clip(0, 0)
    assert clip.shape == (3, 8, 24, 24)
    assert torch.equal(clip[:, 0], clip[:, 7])


def test_every_item_that_cannot_be_opened_is_listed_at_once(greys: Dataset, tmp_path: Path) -> None:
    good = grey_video(tmp_path / "good.mp4", 0, 0)
    (tmp_path / "cut.mp4").write_bytes(good.read_bytes()[:700])
    (tmp_path / "text.mp4").write_text("not a video")
    (tmp_path / "empty.mp4").write_bytes(b"")
    items = [
        Item(name, tmp_path / f"{name}.mp4", "train") for name in ("cut", "text", "empty", "gone", "good")
    ]
    part = dataclasses.replace(greys.items[0], id="part", clip=(Fraction(0), Fraction(1)))
    with pytest.raises(BadItems) as caught:
        check([*items, part], Frames(), 2, also=["x: no action label"])
    names = [line.partition(":")[0] for line in caught.value.offenders]
    assert names == ["x", "cut", "text", "empty", "gone", "part"]
    assert "a part of a longer file" in caught.value.offenders[-1]
    check([items[-1], *greys.items], Frames(), 1)
    with pytest.raises(BadItems, match="no videos"):
        check([], Frames(), 1)


def test_a_video_that_breaks_while_it_is_read_stops_the_epoch(greys: Dataset, tmp_path: Path) -> None:
    gone = dataclasses.replace(greys.items[1], path=tmp_path / "gone.mp4")
    source = batches((greys.items[0], gone), batch=1)
    with pytest.raises(MediaError, match=r"gone\.mp4"):
        epoch(source)


def test_there_is_at_least_one_thread(greys: Dataset) -> None:
    with pytest.raises(UsageError, match="workers=0"):
        batches(greys.items, workers=0)


def test_an_item_may_come_several_times_each_time_with_a_draw_of_its_own(greys: Dataset) -> None:
    once, thrice = batches(greys.items), batches(greys.items, repeat=3)
    found = epoch(thrice)
    assert sum(len(batch.inputs) for batch in found) == 15
    assert thrice.steps == len(found) == 8
    assert torch.equal(once.clip(2, 4), thrice.clip(2, 4))  # the first draw is what it would be alone
    assert not torch.equal(thrice.clip(2, 4), thrice.clip(7, 4))
    for batch in found:
        for clip, label in zip(batch.inputs, batch.targets.tolist()):
            assert bool(clip[:, :, 16:].mean() > clip[:, :, :8].mean()) is bool(label)
    with pytest.raises(UsageError, match="repeat=0"):
        batches(greys.items, repeat=0)


def test_clips_go_through_the_veil_after_augmentation(greys: Dataset) -> None:
    plain, dimmed = epoch(batches(greys.items)), epoch(batches(greys.items, veil=lambda clips: clips / 2))
    for one, other in zip(plain, dimmed, strict=True):
        assert torch.equal(one.inputs / 2, other.inputs)


def test_large_pictures_are_kept_smaller(greys: Dataset, tmp_path: Path) -> None:
    item = greys.items[0]
    small, whole = Frames(2**30, side=18), Frames(2**30)
    assert whole.read(item, [0, 3]).shape[1:] == (36, 48, 3)
    assert small.read(item, [0, 3]).shape[1:] == (18, 24, 3)
    assert Frames(side=18).read(item, [5]).equal(small.read(item, [5]))
    assert Frames(side=40).read(item, [5]).equal(whole.read(item, [5]))
    difference = small.read(item, [5]).float().mean() - whole.read(item, [5]).float().mean()
    assert abs(float(difference)) < 1


class Covered:
    """Blackens the upper half of whole frames."""

    def __call__(self, item: Item, indices: Any, images: np.ndarray) -> np.ndarray:
        assert len(indices) == len(images)
        assert images.shape[1:] == (36, 48, 3)
        painted = images.copy()
        painted[:, :18] = 0
        return painted

    def content_hash(self) -> str:
        return "upper half"


def test_painted_frames_are_the_only_ones_that_are_kept_or_given_out(greys: Dataset) -> None:
    for limit in (0, 2**30):
        frames = Frames(limit, side=18, paint=Covered())
        for wanted in ([2], [0, 3], [2]):
            found = frames.read(greys.items[0], wanted)
            assert found.shape == (len(wanted), 18, 24, 3)
            assert int(found[:, :8].max()) == 0
            assert int(found[:, 10:].min()) > 0
    with pytest.raises(UsageError, match="painted frames are"):
        Frames(paint=lambda item, indices, images: images[:, ::2]).read(greys.items[0], [0])  # type: ignore[arg-type]


# --- whole batches at once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_whole_batches_at_once_show_what_clip_by_clip_shows(greys: Dataset, device: str) -> None:
    one_by_one = epoch(batches(greys.items, repeat=2), 4)
    for kept in (Frames(), Frames(2**30), Frames(2**30, device=torch.device(device))):
        source = batches(greys.items, repeat=2, frames=kept, at_once=True)
        found = list(source.epoch(4, 0, 1, torch.device(device)))
        for one, other in zip(one_by_one, found, strict=True):
            assert (one.ids, one.total) == (other.ids, other.total)
            assert torch.equal(one.targets, other.targets.cpu())
            assert other.inputs.device.type == device
            assert (
                one.inputs - other.inputs.cpu()
            ).abs().max() <= 3 / 255  # a level, and what colour makes of it


def test_whole_batches_depend_neither_on_threads_nor_on_the_cache_nor_on_processes(greys: Dataset) -> None:
    plain = epoch(batches(greys.items, workers=1, at_once=True), 2)
    cached = batches(greys.items, frames=Frames(2**30), workers=4, at_once=True)
    for _ in range(2):
        for one, other in zip(plain, epoch(cached, 2), strict=True):
            assert torch.equal(one.inputs, other.inputs)
            assert one.ids == other.ids
    shares = [epoch(batches(greys.items, at_once=True), 2, rank, 2) for rank in (0, 1)]
    for step, whole in enumerate(plain):
        mine = {id_: clip for share in shares for id_, clip in zip(share[step].ids, share[step].inputs)}
        assert all((mine[id_] - clip).abs().max() <= 1e-6 for id_, clip in zip(whole.ids, whole.inputs))


def test_items_of_different_sizes_make_whole_batches(greys: Dataset, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    items = list(greys.items[:2])
    for number, size in enumerate([(40, 50), (90, 30), (24, 24)]):
        picture = random.integers(0, 255, (*size, 3), dtype=np.uint8)
        Image.fromarray(picture).save(tmp_path / f"p{number}.png")
        items.append(Item(f"p{number}", tmp_path / f"p{number}.png", "train", kind="image", action="above"))
    for one, other in zip(
        epoch(batches(tuple(items), batch=5)),
        epoch(batches(tuple(items), batch=5, at_once=True)),
        strict=True,
    ):
        assert one.ids == other.ids
        assert (one.inputs - other.inputs).abs().max() <= 3 / 255


def test_whole_batches_go_through_the_veil(greys: Dataset) -> None:
    plain = epoch(batches(greys.items, at_once=True))
    dimmed = epoch(batches(greys.items, at_once=True, veil=lambda clips: clips / 2))
    assert all(torch.equal(one.inputs / 2, other.inputs) for one, other in zip(plain, dimmed, strict=True))


@pytest.mark.parametrize(
    "wanted", [[3], [0, 1, 2], [1, 5, 9, 13], [2, 2, 2], [4, 2, 0], [0, 5, 5, 17], [1, 2, 4], [17]]
)
def test_frames_that_are_kept_are_those_of_the_video(greys: Dataset, wanted: list[int]) -> None:
    item, frames = greys.items[0], Frames(2**30)
    assert torch.equal(frames.read(item, wanted), Frames().read(item, wanted))
    assert frames.used > 0


def test_evenly_spaced_frames_are_not_copied(greys: Dataset) -> None:
    frames = Frames(2**30)
    first = frames.read(greys.items[0], [0]).data_ptr()
    assert frames.read(greys.items[0], [0, 2, 4]).data_ptr() == first
    assert frames.read(greys.items[0], [0, 1, 3]).data_ptr() != first


def test_memory_for_frames_is_what_was_asked_for() -> None:
    assert frames_memory(0.5, CPU) == 2**29
    assert frames_memory(0.0, CPU) == 0
