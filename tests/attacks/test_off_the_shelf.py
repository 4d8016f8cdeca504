"""Detectors as attackers: what is still found, what is found anyway, and when nothing can be said."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.attacks.pictures import Changed
from tests.media.make import encode
from videoveil import files
from videoveil.anonymizers.obfuscate.boxes import nobody
from videoveil.anonymizers.obfuscate.detectors import Hog
from videoveil.attacks.off_the_shelf import DetectorAttack, DetectorConfig, frame_numbers, hits, share
from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot
from videoveil.errors import UsageError
from videoveil.tasks.base import Clips

HIGH, WIDE = 48, 64


class Bright:
    """A box around every bright spot."""

    name = "bright"
    covers = "people"

    def boxes(self, frame: np.ndarray) -> np.ndarray:
        mask = (frame.mean(2) > 150).astype(np.uint8)
        count, _, stats, _ = cv2.connectedComponentsWithStats(mask)
        found = [(x, y, x + w, y + h, 1.0) for x, y, w, h, area in stats[1:count] if area >= 30]
        return np.array(found, np.float32) if found else nobody()

    def identity(self) -> str:
        return files.value_hash("bright")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A bright square somewhere else in every video; the last has none."""
    root = tmp_path_factory.mktemp("squares")
    items = []
    for n in range(6):
        rng = np.random.default_rng(n)

        def picture(n: int = n, rng: np.random.Generator = rng) -> np.ndarray:
            image = rng.normal(60, 5, (HIGH, WIDE, 3))
            if n < 5:
                x, y = 2 + 10 * n, 2 + 7 * n
                image[y : y + 12, x : x + 12] = 230
            return np.clip(image, 0, 255).astype(np.uint8)

        path = encode(root / f"s{n}.mp4", images=(picture() for _ in range(5)), size=(WIDE, HIGH))
        items.append(Item(path.stem, path, "test"))
    return Dataset("squares", root, tuple(items))


def attack(films: Dataset, anonymizer: object = None, **options: object) -> DetectorAttack:
    return DetectorAttack((Bright(),), DetectorConfig(frames=3), **options)  # type: ignore[arg-type]


def test_whoever_is_found_in_raw_frames_is_found_in_frames_that_were_not_changed(films: Dataset) -> None:
    test = Clips(films, "test", Changed("scale"))
    fitted = attack(films).fit(test)
    score = fitted.score(test)
    assert score["found_bright"].value == 1.0
    assert score["found_bright"].chance < 0.2  # type: ignore[operator]
    (outcome,) = fitted.outcomes(test).values()
    assert outcome.items == ("s0", "s1", "s2", "s3", "s4")  # nobody was there to be found in the last


def test_nobody_is_found_in_black_frames(films: Dataset) -> None:
    test = Clips(films, "test", Changed("constant", 0.0))
    score = attack(films).fit(test).score(test)
    assert (score["found"].value, score["found"].chance) == (0.0, 0.0)


def test_boxes_that_hit_anybody_are_worth_no_more_than_chance(films: Dataset) -> None:
    """White frames are one large box each: it hits whoever fills the frame, in any video."""

    class Everywhere(Bright):
        name = "everywhere"

        def boxes(self, frame: np.ndarray) -> np.ndarray:
            return np.array([[0, 0, frame.shape[1], frame.shape[0], 1.0]], np.float32)

    test = Clips(films, "test", Changed("constant", 0.0))
    score = DetectorAttack((Everywhere(),)).fit(test).score(test)
    assert score["found"].value == score["found"].chance == 1.0


def test_what_is_turned_round_is_found_somewhere_else(films: Dataset) -> None:
    test = Clips(films, "test", Changed("upside down"))
    assert attack(films).fit(test).score(test)["found"].value < 0.5  # type: ignore[operator]


def test_frames_of_another_size_are_compared_at_the_size_of_the_raw_ones(
    films: Dataset, tmp_path: Path
) -> None:
    from videoveil.media.reader import open_video

    items = []
    for item in films:
        with open_video(item.path) as video:
            images = [cv2.resize(frame.image, (2 * WIDE, 2 * HIGH)) for frame in video.frames()]
        path = encode(tmp_path / item.path.name, images=images, size=(2 * WIDE, 2 * HIGH))
        items.append(dataclasses.replace(item, path=path))
    larger = Clips(Dataset("larger", tmp_path, tuple(items)), "test")
    score = attack(films, raw=Clips(films)).fit(larger).score(larger)
    assert score["found"].value == 1.0


def test_where_nobody_is_found_in_raw_frames_nothing_is_measured(films: Dataset) -> None:
    empty = Clips(films.where(lambda item: item.id == "s5"), "test", Changed("scale"))
    fitted = attack(films).fit(empty)
    assert fitted.outcomes(empty) == {}
    score = fitted.score(empty)
    assert score["found"].value is None
    assert score.baseline.startswith("not measurable")


@pytest.mark.skipif(not hasattr(cv2, "HOGDescriptor"), reason="this OpenCV has no HOG")
def test_hog_finds_the_actors_of_raw_videos_and_nobody_behind_black(tmp_path: Path) -> None:
    items = []
    for number in range(4):
        path = tmp_path / f"a{number}.mp4"
        play = trimmed("hog", number, action="stand", person=identity(0, number), frames=4, bystanders=0)
        shoot(play, path, MP4)
        items.append(Item(path.stem, path, "test"))
    raw = Clips(Dataset("actors", tmp_path, tuple(items)), "test")
    task = DetectorAttack((Hog(),), DetectorConfig(frames=1))
    same = task.fit(raw, run=tmp_path).score(raw)
    assert same["found_hog"].value == 1.0
    black = raw.with_anonymizer(Changed("constant", 0.0))
    assert task.fit(black).score(black)["found_hog"].value == 0.0
    assert json.loads((tmp_path / "attack.json").read_text()) == {"hog": Hog().identity()}


def test_a_box_is_hit_once_and_by_one() -> None:
    box = np.array([[0, 0, 10, 10, 1]], np.float32)
    twice = np.concatenate([box, box])
    assert hits(box, twice, 0.5) == 1
    assert hits(twice, box, 0.5) == 1
    assert hits(box, nobody(), 0.5) == 0
    assert hits(box, box + np.array([4, 0, 4, 0, 0], np.float32), 0.5) == 0  # 60 of 140
    assert hits(box, box + np.array([3, 0, 3, 0, 0], np.float32), 0.5) == 1  # 70 of 130
    assert share([twice, box], [box, box], 0.5) == pytest.approx(2 / 3)


def test_frames_are_evenly_spaced_and_never_more_than_there_are() -> None:
    assert frame_numbers(3, 8) == [0, 1, 2]
    assert len(frame_numbers(100, 4)) == 4


def test_bad_settings_are_named() -> None:
    with pytest.raises(UsageError, match="at least one detector"):
        DetectorAttack(())
    with pytest.raises(UsageError, match="each of another kind"):
        DetectorAttack((Bright(), Bright()))
    with pytest.raises(UsageError, match="iou=0"):
        DetectorConfig(iou=0.0)
