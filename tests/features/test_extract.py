"""Extraction: exact, bounded, resumable, one complete store whatever happens."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.features.conftest import as_dataset, film_folder, tree
from tests.features.kill_driver import start
from videoveil.data.records import Dataset, Item
from videoveil.encoders.registry import create
from videoveil.errors import BadItems, StoreError, UsageError
from videoveil.features.extract import extract, features_of, recipe_for, rows_are_independent
from videoveil.features.store import FeatureStore
from videoveil.media.reader import open_video
from videoveil.media.transforms import EvalTransform


@pytest.fixture(scope="module")
def tiny() -> torch.nn.Module:
    return create("tiny", weights="random", size=48)  # a fifth of the time of its own 112


def test_features_equal_the_encoder_on_the_frames_of_each_clip(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    """The slow, obvious twin: read every frame, cut clips, encode one by one."""
    dataset = as_dataset(films)
    extract(dataset, tmp_path / "s", tiny, recipe_for(tiny, static=2, tokens=True), batch=3, workers=2)
    store = FeatureStore.open(tmp_path / "s")
    transform = EvalTransform(tiny.input.resize, tiny.input.size, as_float=True)
    for stored in store.items():
        got = store.read(stored)
        with open_video(stored.item.path) as video:
            frames = list(video.frames())
        assert got.frames == len(frames)
        assert len(got.clip) == len(frames) // 16
        for n, first in enumerate(got.starts):
            pictures = transform(np.stack([f.image for f in frames[first : first + 16]]))
            with torch.inference_mode():
                np.testing.assert_allclose(tiny(pictures[None])[0], got.clip[n], atol=2e-4)
                np.testing.assert_allclose(tiny.temporal_tokens(pictures[None])[0], got.tokens[n], atol=2e-4)
            assert got.times()[n] == (frames[first].time, frames[first + 15].time)
        for n, where in enumerate(got.static_frames):
            still = transform(frames[where].image[None]).expand(-1, 16, -1, -1)
            with torch.inference_mode():
                np.testing.assert_allclose(tiny(still[None])[0], got.static[n], atol=2e-4)


@pytest.mark.parametrize("options", [{}, {"clips": "dense:4", "static": 2, "tokens": True}])
def test_features_of_one_item_are_exactly_those_an_extraction_stores(
    films: Path, tmp_path: Path, tiny: torch.nn.Module, options: dict
) -> None:
    recipe = recipe_for(tiny, **options)
    two = as_dataset(films).where(lambda item: item.id < "v02")
    extract(two, tmp_path / "s", tiny, recipe, workers=2, device="cpu")
    store = FeatureStore.open(tmp_path / "s")
    for stored in store.items():
        kept, made = store.read(stored), features_of(stored.item, tiny, recipe, device="cpu")
        for name in ("clip", "starts", "pts", "tokens", "static", "static_frames"):
            mine, theirs = getattr(made, name), getattr(kept, name)
            assert (mine is None) == (theirs is None), name
            assert mine is None or np.array_equal(mine, theirs), name
        assert (made.time_base, made.frames, made.rate) == (kept.time_base, kept.frames, kept.rate)
        assert made.times() == kept.times()


@pytest.mark.parametrize("clips", ["3", "dense:4"])
def test_equidistant_and_dense_clips_are_where_they_should_be(
    films: Path, tmp_path: Path, tiny: torch.nn.Module, clips: str
) -> None:
    dataset = as_dataset(films)
    extract(dataset, tmp_path / "s", tiny, recipe_for(tiny, clips=clips))
    store = FeatureStore.open(tmp_path / "s")
    for stored in store.items():
        got = store.read(stored)
        if clips == "3":
            last = got.frames - 16
            assert got.starts.tolist() == [0, round(last / 2), last]
        else:
            assert got.starts.tolist() == list(range(0, got.frames - 15, 4))


def test_ted_spads_extraction_is_every_second_frame_of_the_middle_up_to_the_last_one(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    """The slow twin: four fifths of each side, resized as a picture is; clips of 32 frames, the last one padded."""
    film_folder(tmp_path / "short", videos=3, frames=10, longer=10)  # 10, 20, 30 frames: with stride 1
    for folder in (films, tmp_path / "short"):
        store = tmp_path / f"{folder.name}-store"
        extract(as_dataset(folder), store, tiny, recipe_for(tiny, clips="ted-spad"), workers=2)
        made = FeatureStore.open(store)
        assert (made.recipe.clips, made.recipe.stride, made.recipe.crop) == ("ted-spad", 2, "ted-spad")
        for stored in made.items():
            with open_video(stored.item.path) as video:
                frames = [frame.image for frame in video.frames()]
            got, stride = made.read(stored), 2 if len(frames) >= 32 else 1
            assert got.starts.tolist() == list(range(0, len(frames), 16 * stride))
            for n, first in enumerate(got.starts):
                wanted = [min(first + k * stride, len(frames) - 1) for k in range(16)]
                pictures = torch.stack([_middle(frames[i], tiny.input.size) for i in wanted], 1)
                with torch.inference_mode():
                    expected = tiny(pictures[None].float() / 255)[0]
                np.testing.assert_allclose(expected, got.clip[n], atol=5e-3)


def _middle(image: np.ndarray, size: int) -> Tensor:
    """(3, size, size) uint8 of four fifths of each side."""
    height, width = image.shape[:2]
    tall, wide = int(height * 0.8 + 1e-6), int(width * 0.8 + 1e-6)
    top, left = (height - tall) // 2, (width - wide) // 2
    cut = torch.from_numpy(image[top : top + tall, left : left + wide].copy()).permute(2, 0, 1)[None]
    small = torch.nn.functional.interpolate(
        cut.float(), (size, size), mode="bilinear", antialias=True, align_corners=False
    )
    return small[0].round().clamp(0, 255)


def test_other_clips_are_cut_and_strided_as_the_encoder_asks(tiny: torch.nn.Module) -> None:
    for clips in ("all", "3", "dense:4"):
        recipe = recipe_for(tiny, clips=clips)
        assert (recipe.stride, recipe.crop) == (tiny.input.stride, "short-edge")


def test_batch_size_and_workers_do_not_change_where_features_go(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    dataset = as_dataset(films)
    for name, options in {"a": {"batch": 1}, "b": {"batch": 5, "workers": 3}}.items():
        extract(dataset, tmp_path / name, tiny, recipe_for(tiny, static=2), **options)
    a, b = FeatureStore.open(tmp_path / "a"), FeatureStore.open(tmp_path / "b")
    for one, two in zip(a.items(), b.items(), strict=True):
        assert one == two
        np.testing.assert_allclose(a.read(one).clip, b.read(two).clip, atol=2e-4)
        np.testing.assert_array_equal(a.read(one).static_frames, b.read(two).static_frames)


def test_the_number_of_workers_does_not_change_a_byte(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    for workers in (1, 3):
        extract(
            as_dataset(films),
            tmp_path / str(workers),
            tiny,
            recipe_for(tiny, static=2),
            batch=3,
            workers=workers,
        )
    assert tree(tmp_path / "1") == tree(tmp_path / "3")


def test_running_again_does_nothing_and_new_items_are_added(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    dataset = as_dataset(films)
    part = Dataset("films", films, dataset.items[:2], dataset.classes)
    assert extract(part, tmp_path, tiny).extracted == 2
    report = extract(dataset, tmp_path, tiny)
    assert (report.extracted, report.present) == (len(dataset) - 2, 2)
    before = tree(tmp_path)
    report = extract(dataset, tmp_path, tiny)
    assert (report.extracted, report.clips, report.bottleneck) == (0, 0, "nothing to do")
    assert tree(tmp_path) == before


def test_the_same_bytes_under_two_names_are_encoded_once(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    one = as_dataset(films).items[0]
    twice = Dataset("twice", films, (one, Item(id="again", path=one.path, split="test")))
    report = extract(twice, tmp_path, tiny)
    assert (report.extracted, report.present) == (1, 1)
    assert len({stored.key for stored in FeatureStore.open(tmp_path).items()}) == 1


def test_a_time_range_of_a_file_is_its_own_content(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    path = as_dataset(films).items[4].path
    part = (Fraction(1, 5), Fraction(2))
    items = (Item(id="whole", path=path, split="train"), Item(id="part", path=path, split="train", clip=part))
    extract(Dataset("parts", films, items), tmp_path, tiny)
    store = FeatureStore.open(tmp_path)
    whole, cut = (store.read(stored) for stored in store.items())
    assert cut.starts.tolist() == [5, 21]
    assert cut.times()[0][0] == Fraction(1, 5)
    assert len(whole.clip) == 3


def test_pictures_become_static_clips(tmp_path: Path, tiny: torch.nn.Module) -> None:
    from PIL import Image

    items = []
    for k, mode in enumerate(("RGB", "L", "RGBA", "CMYK")):
        path = tmp_path / f"{mode}.{'jpg' if mode != 'RGBA' else 'png'}"
        Image.new(mode, (60 + k, 80)).save(path)
        items.append(Item(id=mode, path=path, split="train", kind="image", attributes={"a4_gender": k % 2}))
    extract(
        Dataset("stills", tmp_path, tuple(items), attributes=("a4_gender",)),
        tmp_path / "s",
        tiny,
        recipe_for(tiny, static=2),
    )
    store = FeatureStore.open(tmp_path / "s")
    for stored in store.items():
        got = store.read(stored)
        assert got.clip.shape == (1, tiny.width)
        np.testing.assert_array_equal(got.static, got.clip)
        assert stored.item.attributes == {
            "a4_gender": items[[i.id for i in items].index(stored.item.id)].attributes["a4_gender"]
        }


@pytest.fixture
def broken(films: Path, tmp_path: Path) -> Dataset:
    """Five good videos, one cut short, one text file, one that is gone."""
    folder = tmp_path / "broken"
    shutil.copytree(films, folder)
    (folder / "v90.mp4").write_bytes((folder / "v00.mp4").read_bytes()[:6000])
    (folder / "v91.mp4").write_text("not a video")
    dataset = as_dataset(folder)
    gone = Item(id="v92", path=folder / "v92.mp4", split="train")
    return Dataset("films", folder, (*dataset.items, gone))


def test_broken_items_are_all_listed_and_the_others_stored(
    broken: Dataset, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    with pytest.raises(BadItems, match="--skip-bad") as caught:
        extract(broken, tmp_path / "s", tiny, workers=2)
    assert [o.split(":")[0] for o in caught.value.offenders] == ["v90", "v91", "v92"]
    assert len(list((tmp_path / "s" / "features").rglob("*.safetensors"))) == 5
    assert not (tmp_path / "s" / "index").exists()  # an incomplete store does not pretend to be complete


def test_with_skip_bad_they_are_counted_and_written_down(
    broken: Dataset, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    report = extract(broken, tmp_path / "s", tiny, skip_bad=True)
    assert (report.items, len(report.skipped)) == (5, 3)
    listed = (tmp_path / "s" / "skipped" / "films.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in listed] == ["v90", "v91", "v92"]
    assert len(FeatureStore.open(tmp_path / "s").items()) == 5


def test_an_encoder_that_mixes_rows_is_found_out() -> None:
    def sound(x: Tensor) -> tuple[Tensor, None]:
        return x.float().flatten(1).mean(1, keepdim=True), None

    def mixing(x: Tensor) -> tuple[Tensor, None]:
        return x.float().flatten(1).mean(1, keepdim=True) - x.float().mean(), None

    batch = torch.randint(0, 256, (4, 3, 2, 4, 4), dtype=torch.uint8)
    assert rows_are_independent(sound, batch)
    assert not rows_are_independent(mixing, batch)


def test_wrong_numbers_are_usage_errors(films: Path, tmp_path: Path, tiny: torch.nn.Module) -> None:
    for options in ({"batch": 0}, {"workers": 0}, {"device": "abacus"}):
        with pytest.raises(UsageError):
            extract(as_dataset(films), tmp_path, tiny, **options)  # type: ignore[arg-type]


# --- processes that die, processes that meet ---------------------------------------------------------------


def wait_for(condition: Callable[[], bool], seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def many_films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_folder(tmp_path_factory.mktemp("many"), videos=24, frames=20, longer=2)


@pytest.fixture(scope="module")
def whole_store(many_films: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    store = tmp_path_factory.mktemp("whole") / "store"
    assert start(many_films, store).finish() == 24
    return tree(store)


@pytest.mark.slow
def test_killed_at_ten_random_moments_and_run_again_the_store_is_byte_identical(
    many_films: Path, whole_store: dict[str, bytes], tmp_path: Path
) -> None:
    store, luck, partial = tmp_path / "store", random.Random(5), set()

    def stored() -> int:
        return len(list(store.rglob("features/*/*.safetensors")))

    for _ in range(10):
        aim = stored() + luck.randint(0, 3)
        child = start(many_films, store, halt=aim + 4)
        child.wait_until_ready()  # the kill falls into the work, not into the start
        wait_for(lambda aim=aim, child=child: stored() >= aim or not child.running())
        time.sleep(luck.uniform(0.0, 0.05))
        child.kill()
        partial.add(stored())
    start(many_films, store).finish()
    assert tree(store) == whole_store
    assert any(0 < n < 24 for n in partial), f"every kill fell outside the work: {partial}"


@pytest.mark.slow
def test_two_processes_at_once_give_one_complete_store(
    many_films: Path, whole_store: dict[str, bytes], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    pair = [start(many_films, store) for _ in range(2)]
    counts = [child.finish() for child in pair]
    assert sum(counts) == 24, counts  # nothing was done twice
    assert tree(store) == whole_store


@pytest.mark.slow
def test_a_survivor_takes_over_what_a_killed_process_owned(
    many_films: Path, whole_store: dict[str, bytes], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    victim = start(many_films, store, halt=6)
    wait_for(lambda: any(store.rglob("*.safetensors")))
    victim.freeze()  # it goes on owning what it is at
    survivor = start(many_films, store)
    survivor.wait_until_ready()
    time.sleep(0.3)
    assert victim.running()
    victim.kill()
    survivor.finish()
    assert tree(store) == whole_store


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length_of_a_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.extract import lengthen, peak

    # what is freed goes back at once: how much the C library keeps depends on which thread was faster
    for name, value in {"ARENA_MAX": "1", "MMAP_THRESHOLD_": "65536", "TRIM_THRESHOLD_": "65536"}.items():
        monkeypatch.setenv(f"MALLOC_{name}", value)
    film_folder(tmp_path, videos=1, frames=400)
    long = tmp_path / "long" / "v.mp4"
    long.parent.mkdir()
    lengthen(tmp_path / "v00.mp4", long, times=12)
    few, small = peak(tmp_path / "v00.mp4", tmp_path / "s1")
    many, large = peak(long, tmp_path / "s2")
    assert many > 11 * (few - 10)  # twelve times the clips (ten static ones in either)
    assert large <= 1.2 * small


def test_batches_over_several_videos_give_the_same_features(
    films: Path, tmp_path: Path, tiny: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accelerator's way of batching, here on the CPU."""
    from videoveil.features.extract import _Extraction

    dataset = as_dataset(films)
    one = extract(dataset, tmp_path / "a", tiny, recipe_for(tiny, static=2))
    monkeypatch.setattr(
        _Extraction, "_may_cross", lambda self: rows_are_independent(self._features, self._noise())
    )
    two = extract(dataset, tmp_path / "b", tiny, recipe_for(tiny, static=2), batch=4, workers=3)
    assert (one.batches_cross_videos, two.batches_cross_videos) == (False, True)
    a, b = FeatureStore.open(tmp_path / "a"), FeatureStore.open(tmp_path / "b")
    for stored in a.items():
        np.testing.assert_allclose(a.read(stored).clip, b.read(stored).clip, atol=2e-4)
        np.testing.assert_allclose(a.read(stored).static, b.read(stored).static, atol=2e-4)


def test_locks_of_a_killed_process_are_cleared_away(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    extract(as_dataset(films), tmp_path / "a", tiny)
    (tmp_path / "a" / ".locks" / "left-behind").touch()
    (tmp_path / "a" / ".veil-tmp-odd").touch()
    extract(as_dataset(films), tmp_path / "a", tiny)
    assert list((tmp_path / "a" / ".locks").iterdir()) == []


def test_another_dataset_of_the_same_name_is_refused(
    films: Path, tmp_path: Path, tiny: torch.nn.Module
) -> None:
    extract(as_dataset(films), tmp_path / "s", tiny)
    other = film_folder(tmp_path / "other", videos=1, frames=20)
    (other / "v00.mp4").rename(other / "different.mp4")
    with pytest.raises(StoreError, match="already holds another 'films'"):
        extract(as_dataset(other), tmp_path / "s", tiny)


def test_a_video_that_gives_nan_or_cannot_be_read_is_a_bad_item_like_any_other(
    films: Path, tmp_path: Path, tiny: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    from videoveil.features import extract as module

    opened = module.open_clips

    def unreadable(item: Item, recipe: object) -> object:
        if item.id == "v01":
            raise OSError(5, "Input/output error")
        return opened(item, recipe)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "open_clips", unreadable)
    report = extract(as_dataset(films), tmp_path / "s", tiny, skip_bad=True)
    assert (report.items, len(report.skipped)) == (4, 1)
    assert "Input/output error" in report.skipped[0]


def test_a_file_that_changes_under_the_reader_is_not_stored_as_what_it_was(
    films: Path, tmp_path: Path, tiny: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    from videoveil.features import extract as module

    folder = tmp_path / "films"
    shutil.copytree(films, folder)
    hashed = module._content

    def swapped(item: Item) -> str:
        content = hashed(item)
        if item.id == "v02":
            shutil.copy(folder / "v00.mp4", item.path)
        return content

    monkeypatch.setattr(module, "_content", swapped)
    with pytest.raises(BadItems, match="changed while"):
        extract(as_dataset(folder), tmp_path / "s", tiny)
