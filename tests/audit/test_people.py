"""People who are found by a detector that nobody here trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.media.make import encode
from videoveil.attacks.off_the_shelf import DetectorConfig
from videoveil.audit import people, registry
from videoveil.audit.people import PeopleConfig
from videoveil.audit.registry import Trial
from videoveil.audit.run import Settings, audit
from videoveil.audit.scoring import Rules, question
from videoveil.audit.subject import BlackFrames, Stores, Subject
from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot
from videoveil.tasks.base import Clips

QUICK = PeopleConfig(look=DetectorConfig(frames=1, workers=1))
needs_hog = pytest.mark.skipif(not hasattr(cv2, "HOGDescriptor"), reason="this OpenCV has no HOG")


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    root = tmp_path_factory.mktemp("actors")
    items = []
    for number in range(4):
        path = root / f"a{number}.mp4"
        play = trimmed("hog", number, action="stand", person=identity(0, number), frames=4, bystanders=0)
        shoot(play, path, MP4)
        items.append(Item(path.stem, path, "test", subject=str(number)))
    return Dataset("actors", root, tuple(items))


@needs_hog
def test_everybody_in_raw_videos_is_found_again_in_them_and_nobody_behind_black(
    actors: Dataset, tmp_path: Path
) -> None:
    subject = Subject.of(actors, BlackFrames())
    (one,) = registry.named(("detectors",))
    trial = Trial(subject, Stores(subject, tmp_path / "a", tmp_path / "b"), "raw", 0, "cpu")
    assert one.excuse(subject, trial.stores) == ""
    raw, black = (one.run(dataclasses.replace(trial, which=w), QUICK) for w in ("raw", "anonymized"))  # type: ignore[arg-type]
    assert raw["found_hog"].measure().value == 1.0
    assert black["found_hog"].measure().value == 0.0
    assert raw["found_hog"].items == black["found_hog"].items
    name, judged = registry.question_of(one, "found_hog", "found")
    sides = {"detectors/found_hog": ([raw["found_hog"]], [black["found_hog"]])}
    shown = question(name, "attack", sides, Rules(seeds=1, resamples=100), judged=judged)
    assert not judged
    assert (shown.attempts[0].raw.score.value, shown.attempts[0].anonymized.score.value) == (1.0, 0.0)


@needs_hog
def test_no_more_videos_are_looked_at_than_asked_for(actors: Dataset) -> None:
    raw = Clips(actors, "test")
    some = people.found(raw, raw, dataclasses.replace(QUICK, videos=2), seed=0, device="cpu")
    assert set(some["found_hog"].items) <= {"a0", "a3"}


@needs_hog
def test_where_nobody_is_found_in_raw_videos_either_the_report_says_so(tmp_path: Path) -> None:
    items = []
    for number in range(6):
        path = tmp_path / f"e{number}.mp4"
        encode(path, images=[np.zeros((36, 48, 3), np.uint8)] * 4, size=(48, 36))
        items.append(Item(path.stem, path, "train" if number < 3 else "test", subject=str(number)))
    data = Dataset("empty rooms", tmp_path, tuple(items))
    asked = Settings(
        rules=Rules(seeds=1, resamples=100),
        participants=registry.named(("detectors",), {"detectors": QUICK}),
        device="cpu",
    )
    found = audit(Subject.of(data, BlackFrames()), tmp_path / "out", asked)
    reasons = {one.name: one.reason for one in found.left_out}
    assert "no detector finds anybody" in reasons["detectors"]
    assert found.questions == ()
