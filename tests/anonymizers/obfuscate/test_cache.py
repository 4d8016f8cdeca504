"""Boxes on disk: found again for the same video and detector, and for nothing else."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from tests.anonymizers.obfuscate.people import Red, red_video
from videoveil import files
from videoveil.anonymizers.errors import Withheld
from videoveil.anonymizers.obfuscate.boxes import nobody
from videoveil.anonymizers.obfuscate.cache import BoxCache, VideoBoxes, _checksum, _claims, search_frames
from videoveil.anonymizers.obfuscate.detectors import Fixed
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot

VIDEO = "ab" * 32


def known(*counts: int) -> VideoBoxes:
    rng = np.random.default_rng(len(counts))
    parts = []
    for count in counts:
        low = rng.random((count, 2)) * 20
        parts.append(np.concatenate([low, low + 5, rng.random((count, 1))], 1).astype(np.float32))
    return VideoBoxes(32, 48, tuple(parts))


def same(a: VideoBoxes | None, b: VideoBoxes) -> bool:
    return (
        a is not None
        and (a.height, a.width, len(a)) == (b.height, b.width, len(b))
        and all(x.dtype == np.float32 and np.array_equal(x, y) for x, y in zip(a.frames, b.frames))
    )


@given(st.lists(st.integers(0, 4), max_size=12))
@settings(max_examples=25, deadline=None)
def test_what_was_stored_comes_back(tmp_path_factory: pytest.TempPathFactory, counts: list[int]) -> None:
    cache = BoxCache(tmp_path_factory.mktemp("cache"))
    cache.store(VIDEO, Red(), known(*counts))
    assert same(cache.load(VIDEO, Red()), known(*counts))


def test_other_videos_and_other_detectors_have_no_part_in_it(tmp_path: Path) -> None:
    cache = BoxCache(tmp_path)
    cache.store(VIDEO, Red(), known(1, 2))
    assert cache.load("cd" * 32, Red()) is None
    assert cache.load(VIDEO, Red(level=100)) is None
    assert cache.load(VIDEO, Fixed(nobody())) is None


def test_a_file_in_the_wrong_place_is_not_trusted(tmp_path: Path) -> None:
    cache = BoxCache(tmp_path)
    cache.store(VIDEO, Red(), known(1, 2))
    data = cache.path(VIDEO, Red()).read_bytes()
    for video, detector in (("cd" * 32, Red()), (VIDEO, Red(level=100))):
        files.write_bytes(cache.path(video, detector), data)
        with pytest.warns(UserWarning, match="computed again"):
            assert cache.load(video, detector) is None


def test_damage_anywhere_is_noticed(tmp_path: Path) -> None:
    cache = BoxCache(tmp_path)
    cache.store(VIDEO, Red(), known(1, 0, 2))
    path = cache.path(VIDEO, Red())
    data = path.read_bytes()
    step = max(1, len(data) // 90)
    for place in [*range(0, len(data), step), len(data) - 1]:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cache.load(VIDEO, Red())
        # a changed blank in the header changes nothing; everything else must be refused
        assert found is None or same(found, known(1, 0, 2)), f"byte {place}"
    for end in (0, 7, 20, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.warns(UserWarning, match=r"unusable boxes"):
            assert cache.load(VIDEO, Red()) is None


def test_boxes_that_cannot_be_are_refused_even_with_a_right_checksum(tmp_path: Path) -> None:
    cache = BoxCache(tmp_path)
    note = {**_claims(VIDEO, Red()), "height": "32", "width": "48"}
    for counts in (np.array([1, 3]), np.array([3, -1]), np.array([], np.int64), np.array([2.0])):
        tensors = {"counts": counts, "boxes": np.zeros((2, 5), np.float32)}
        text = note | {"checksum": _checksum(note, *tensors.values())}
        files.write_bytes(cache.path(VIDEO, Red()), save(tensors, metadata=text))
        with pytest.warns(UserWarning, match="counted|counts"):
            assert cache.load(VIDEO, Red()) is None
    bad = replace(known(1), frames=(np.array([[5, 5, 1, 1, 0.5]], np.float32),))
    cache.store(VIDEO, Red(), bad)
    with pytest.warns(UserWarning, match="inside out"):
        assert cache.load(VIDEO, Red()) is None


def test_a_video_is_searched_once_and_again_when_the_cache_is_broken(tmp_path: Path) -> None:
    play = trimmed("cache", 1, action="walk", person=identity(0, 1), width=48, height=32, frames=5)
    video = tmp_path / "a.mp4"
    shoot(replace(play, rate=Fraction(25)), video, MP4)
    cache, detector = BoxCache(tmp_path / "boxes"), Red()
    first = cache.of(video, detector)
    assert (first.height, first.width, len(first)) == (32, 48, 5)
    assert detector.asked == 5
    copy = tmp_path / "renamed.mp4"
    copy.write_bytes(video.read_bytes())
    assert same(cache.of(copy, detector), first)
    assert detector.asked == 5
    cache.path(files.file_hash(video), detector).write_bytes(b"broken")
    with pytest.warns(UserWarning, match="computed again"):
        assert same(cache.of(video, detector), first)
    assert detector.asked == 10
    assert same(cache.of(video, detector), first)
    assert detector.asked == 10


def test_frames_of_changing_size_and_videos_without_frames_have_no_boxes() -> None:
    frames = red_video(3)
    with pytest.raises(Withheld, match="frame 3"):
        search_frames([*frames, np.zeros((9, 9, 3), np.uint8)], Red())
    with pytest.raises(Withheld, match="without frames"):
        search_frames([], Red())
