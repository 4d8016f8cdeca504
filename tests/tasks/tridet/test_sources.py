"""Videos from a feature store and from .npy files."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from videoveil.data.records import Dataset, Item, Segment
from videoveil.errors import BadItems, MissingItems, UsageError
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures
from videoveil.tasks.tridet import from_files, from_store
from videoveil.tasks.tridet.activitynet import AnnotatedVideo
from videoveil.tasks.tridet.sources import window_of

ENCODER = {"name": "tiny", "hash": "0" * 64, "width": 4}
DENSE = FeatureRecipe(frames=16, stride=1, resize=128, size=112, clips="dense:4")
SEGMENTS = (Segment("jump", Fraction(1), Fraction(2)),)


def features(starts: list[int], rate: Fraction | None = Fraction(30_000, 1001)) -> VideoFeatures:
    return VideoFeatures(
        clip=np.random.default_rng(len(starts)).normal(size=(len(starts), 4)).astype(np.float32),
        starts=np.array(starts, dtype=np.int64),
        pts=np.zeros((len(starts), 2), dtype=np.int64),
        time_base=Fraction(1, 30_000),
        frames=100,
        rate=rate,
    )


def store(root: Path, videos: dict[str, VideoFeatures], recipe: FeatureRecipe = DENSE) -> FeatureStore:
    made = FeatureStore.create(root, ENCODER, recipe)
    items = tuple(Item(n, Path(f"{n}.mp4"), "train", segments=SEGMENTS) for n in videos)
    for name, value in videos.items():
        made.write(made.key(name), value, {"content": name})
    made.write_index(Dataset("set", root, items, classes=("jump",)), {n: made.key(n) for n in videos})
    return made


def test_a_store_gives_videos_on_its_own_clock(tmp_path: Path) -> None:
    made = store(tmp_path, {"a": features([0, 4, 8]), "b": features([0])})
    one, two = from_store(made, split="train")
    assert (one.fps, one.feat_stride, one.num_frames) == (Fraction(30_000, 1001), 4, 16)
    assert one.duration == Fraction(100 * 1001, 30_000)
    assert one.segments == SEGMENTS
    assert np.array_equal(one.array(), features([0, 4, 8]).clip)
    assert two.array().shape == (1, 4)
    assert from_store(made, split="test") == []


def test_videos_off_the_grid_or_without_a_clock_are_all_named(tmp_path: Path) -> None:
    made = store(
        tmp_path,
        {"a": features([0, 4, 9]), "b": features([8, 12]), "c": features([0], rate=None), "d": features([0])},
    )
    with pytest.raises(BadItems) as caught:
        from_store(made)
    assert [o.split(":")[0] for o in caught.value.offenders] == ["a", "b", "c"]


def test_window_and_stride_follow_the_recipe() -> None:
    assert window_of(DENSE) == (4, 16)
    assert window_of(dataclasses.replace(DENSE, clips="all")) == (16, 16)
    assert window_of(dataclasses.replace(DENSE, clips="all", stride=2)) == (32, 31)
    for clips in ("5", "ted-spad"):
        with pytest.raises(UsageError, match="dense:4"):
            window_of(dataclasses.replace(DENSE, clips=clips))


def annotated(name: str, fps: Fraction | None = Fraction(30)) -> AnnotatedVideo:
    return AnnotatedVideo(name, "validation", Fraction(10), fps, SEGMENTS)


def test_npy_files_are_read_when_they_are_needed(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
    np.save(tmp_path / "a.npy", array)
    (video,) = from_files([annotated("a")], tmp_path)
    assert (video.fps, video.feat_stride, video.num_frames) == (30, 4, 16)
    assert np.array_equal(video.array(), array)
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY broken")
    with pytest.raises(BadItems, match=r"a\.npy: not a whole"):
        video.array()


def test_a_pickle_inside_an_npy_is_not_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    (video,) = from_files([annotated("a")], tmp_path)
    with pytest.raises(BadItems, match="not a whole"):
        video.array()


def test_labels_without_features_are_all_named_unless_they_may_be_skipped(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.zeros((3, 5), np.float32))
    everything = [annotated(name) for name in "abc"]
    with pytest.raises(MissingItems) as caught:
        from_files(everything, tmp_path)
    assert caught.value.offenders == ("a", "c")
    assert [v.id for v in from_files(everything, tmp_path, skip_missing=True)] == ["b"]


def test_a_missing_clock_must_be_given(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 5), np.float32))
    with pytest.raises(BadItems, match="no fps"):
        from_files([annotated("a", fps=None)], tmp_path)
    assert from_files([annotated("a", fps=None)], tmp_path, fps=Fraction(24))[0].fps == 24
