from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tasks.tridet.make import CLASSES, some_videos
from videoveil.audit.detections import DetectionOutcome, load, of_detections, save
from videoveil.errors import AnnotationError, StoreError
from videoveil.tasks.outcomes import Outcome
from videoveil.tasks.tridet import Detections, DetectionVideo, evaluate, truth_of, uniform_detections

VIDEOS = some_videos(5, seed=1)
BLIND = uniform_detections(some_videos(6, seed=0), VIDEOS, CLASSES)


def guesses(videos: list[DetectionVideo], seed: int = 0, levels: int = 6) -> list[Detections]:
    """Segments near true ones and elsewhere; few levels of certainty, so that many are equal."""
    rng = np.random.default_rng(seed)
    found = []
    for video in videos:
        rows, labels = [], []
        for one in video.segments:
            for _ in range(3):
                start = float(one.start) + rng.normal(0, 0.2)
                rows.append((start, start + float(one.end - one.start) * rng.uniform(0.6, 1.4)))
                labels.append(CLASSES.index(one.label) if rng.random() < 0.7 else int(rng.integers(3)))
        scores = rng.integers(1, levels, len(rows)) / levels
        found.append(Detections(video.id, CLASSES, np.array(rows), np.array(labels), scores))
    return found


FOUND = guesses(VIDEOS)


def outcome() -> DetectionOutcome:
    return of_detections(FOUND, BLIND, VIDEOS)


def slowly(detections: list[Detections], chosen: list[int]) -> float:
    """Every choice of a video is a video of its own, scored by the library."""
    ordered = sorted(VIDEOS, key=lambda video: video.id)
    by_id = {one.video: one for one in detections}
    videos, found = [], []
    for copy, place in enumerate(chosen):
        name = f"{ordered[place].id}#{copy:03d}"
        videos.append(dataclasses.replace(ordered[place], id=name))
        found.append(dataclasses.replace(by_id[ordered[place].id], video=name))
    return evaluate(found, truth_of(videos)).mean


def test_over_all_videos_it_is_the_figure_of_the_library_with_that_of_tiles_as_chance() -> None:
    measured = outcome().measure()
    assert measured.value == pytest.approx(evaluate(FOUND, truth_of(VIDEOS)).mean)
    assert measured.chance == pytest.approx(evaluate(BLIND, truth_of(VIDEOS)).mean)
    assert 0 < (measured.chance or 0) < (measured.value or 0) < 1
    assert isinstance(outcome(), Outcome)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, len(VIDEOS) - 1), min_size=1, max_size=7))
def test_over_any_choice_it_is_that_of_the_videos_written_out(chosen: list[int]) -> None:
    measured = outcome().measure(np.array(chosen))
    assert measured.value == pytest.approx(slowly(FOUND, chosen))
    assert measured.chance == pytest.approx(slowly(BLIND, chosen))


def test_many_draws_at_once_are_the_single_ones() -> None:
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(VIDEOS), (20, len(VIDEOS)))
    counts = np.stack([np.bincount(row, minlength=len(VIDEOS)) for row in chosen]).astype(float)
    values, chances = outcome().draws(counts)
    single = [outcome().measure(row) for row in chosen]
    assert values == pytest.approx([one.value for one in single])
    assert chances == pytest.approx([one.chance for one in single])


def test_a_perfect_detector_gets_everything_and_a_silent_one_nothing() -> None:
    right = [
        Detections(
            video.id,
            CLASSES,
            np.array([(float(s.start), float(s.end)) for s in video.segments]),
            np.array([CLASSES.index(s.label) for s in video.segments]),
            np.ones(len(video.segments)),
        )
        for video in VIDEOS
    ]
    assert of_detections(right, BLIND, VIDEOS).measure().value == 1
    assert of_detections([], BLIND, VIDEOS).measure().value == 0


def test_videos_without_an_action_define_nothing() -> None:
    idle = dataclasses.replace(VIDEOS[0], id="a", segments=())
    nobody = Detections("a", CLASSES, np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0))
    made = of_detections([*FOUND, nobody], BLIND, [*VIDEOS, idle])
    assert made.items[0] == "a"
    assert made.measure(np.zeros(3, dtype=int)).value is None
    with pytest.raises(AnnotationError, match="nothing to score"):
        of_detections([nobody], [], [idle])


def test_it_comes_back_from_disk_bit_for_bit(tmp_path: Path) -> None:
    save(tmp_path / "d.npz", {"one": outcome()})
    again = load(tmp_path / "d.npz")["one"]
    chosen = np.array([0, 0, 3, 4])
    assert again.items == outcome().items
    assert again.measure(chosen) == outcome().measure(chosen)
    (tmp_path / "bad.npz").write_text("none")
    with pytest.raises(StoreError, match="delete it"):
        load(tmp_path / "bad.npz")
