"""People who are found by a detector that nobody here trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.anonymizers.obfuscate import tiny_onnx
from tests.media.make import encode
from videoveil.attacks.off_the_shelf import DetectorConfig
from videoveil.audit import people, registry
from videoveil.audit.participant import Trial
from videoveil.audit.people import PeopleConfig
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.scoring import question
from videoveil.audit.settings import Settings
from videoveil.audit.subject import BlackFrames, Stores, Subject
from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import MP4, shoot
from videoveil.errors import CheckpointError, MissingFile, UsageError
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
    rules = Rules(seeds=1, resamples=100, least_items=2)
    shown = question(name, "attack", sides, rules, judged=judged)
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
        encode(path, images=[np.full((36, 48, 3), 10 * number, np.uint8)] * 4, size=(48, 36))
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
    assert registry.SEEN not in {one.name for one in found.questions}
    assert not any(one.possible or one.attempts for one in found.questions)  # attackers who could ask nothing


# --- detectors that the user brings ---


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Grey pictures with a red square, which the networks of `tiny_onnx` find."""
    root = tmp_path_factory.mktemp("squares")
    items = []
    for number in range(8):
        image = np.full((64, 64, 3), 60 + number, np.uint8)
        row, column = 16 * (number % 4), 16 * (number // 2)
        image[row : row + 16, column : column + 16] = (255, 0, 0)
        path = encode(root / f"s{number}.mp4", images=[image] * 4, size=(64, 64), options={"crf": "4"})
        items.append(Item(path.stem, path, "train" if number < 4 else "test", subject=str(number)))
    return Dataset("squares", root, tuple(items))


def asked_for(*detectors: str) -> Settings:
    return Settings(
        rules=Rules(seeds=2, resamples=100, least_items=2),
        participants=registry.with_detectors(registry.named(("detectors",), {"detectors": QUICK}), detectors),
        device="cpu",
    )


def test_detectors_of_the_user_look_as_well_and_are_named(squares: Dataset, tmp_path: Path) -> None:
    file = tiny_onnx.yolo(tmp_path / "mine.onnx", "yolov8")
    settings = asked_for(f"yolo:{file}")
    out = tmp_path / "out"
    found = audit(Subject.of(squares, BlackFrames()), out, settings)
    (shown,) = (one for one in found.questions if one.name == registry.SEEN)
    attempt = {one.name: one for one in shown.attempts}["detectors/found_yolo-mine"]
    assert (attempt.raw.score.value, attempt.anonymized.score.value) == (1.0, 0.0)
    assert not shown.judged
    assert "yolo-mine" in (out / "report.html").read_text("utf-8")
    (one,) = settings.participants
    (brought,) = one.settings(False)["brought"]
    assert brought["name"] == "yolo-mine"
    config = (out / "config.yaml").read_text("utf-8")
    assert "yolo-mine" in config
    assert brought["identity"] in config
    assert str(tmp_path) not in config


def test_results_of_one_file_are_not_those_of_another(squares: Dataset, tmp_path: Path) -> None:
    subject, out = Subject.of(squares, BlackFrames()), tmp_path / "out"
    file = tiny_onnx.yolo(tmp_path / "mine.onnx", "yolov8")
    audit(subject, out, asked_for(f"yolo:{file}"))
    before = {path.name for path in (out / "results").glob("*.npz")}
    (tmp_path / "elsewhere").mkdir()
    same = tiny_onnx.yolo(tmp_path / "elsewhere" / "mine.onnx", "yolov8")
    audit(subject, out, asked_for(f"yolo:{same}"))
    assert {path.name for path in (out / "results").glob("*.npz")} == before
    tiny_onnx.yolo(file, "yolov8", cell=8)
    audit(subject, out, asked_for(f"yolo:{file}"))
    assert len({path.name for path in (out / "results").glob("*.npz")} - before) == 2


def test_two_files_of_one_kind_and_name_are_told_apart_and_one_is_not_asked_twice(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one = tiny_onnx.yolo(tmp_path / "mine.onnx", "yolov8")
    other = tiny_onnx.yolo(tmp_path / "b" / "mine.onnx", "yolov5")
    first, second = people.bring((f"yolo:{one}", f"yolo:{other}"))
    assert first.name == "yolo-mine"
    assert second.name == f"yolo-mine-{second.identity()[:8]}"
    with pytest.raises(UsageError, match="looks already"):
        people.bring((f"yolo:{one}", f"yolo:{one}"))
    with pytest.raises(UsageError, match="looks already"):
        people.bring(("hog",))


def test_a_bad_file_gives_the_error_of_the_loader(tmp_path: Path) -> None:
    named = registry.named(("detectors",))
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(CheckpointError, match=r"text\.onnx: is not an ONNX file"):
        registry.with_detectors(named, (f"yolo:{tmp_path / 'text.onnx'}",))
    with pytest.raises(MissingFile, match=r"none\.onnx"):
        registry.with_detectors(named, (f"yolo:{tmp_path / 'none.onnx'}",))
    with pytest.raises(UsageError, match="must be one of hog"):
        registry.with_detectors(named, ("mine.onnx",))
    with pytest.raises(UsageError, match="--only detectors"):
        registry.with_detectors(registry.named(("grid",)), ("hog",))
    assert registry.with_detectors(named, ()) == named


def test_where_opencv_has_no_detector_those_of_the_user_look_alone(
    squares: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise UsageError("OpenCV here has no HOGDescriptor")

    monkeypatch.setattr(people, "Hog", none)
    brought = people.bring((f"yolo:{tiny_onnx.yolo(tmp_path / 'mine.onnx', 'yolov8')}",))
    raw = Clips(squares, "test")
    assert set(people.found(raw, raw, QUICK, brought, seed=0, device="cpu")) == {"found_yolo-mine"}
    with pytest.raises(UsageError, match="no HOGDescriptor"):
        people.found(raw, raw, QUICK, seed=0, device="cpu")
