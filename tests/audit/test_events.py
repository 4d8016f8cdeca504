"""Videos of which only the time of something is known: audited for whether it can still be found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.audit import world
from tests.tasks.make_store import detection_store
from tests.tasks.tridet.make import CLASSES, some_videos
from tests.tasks.tridet.make import small as small_detector
from videoveil.audit import kept, registry, utilities
from videoveil.audit.case import Case
from videoveil.audit.conclusions import Result
from videoveil.audit.detections import DetectionOutcome
from videoveil.audit.participant import Trial
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.settings import Settings
from videoveil.audit.subject import DENSE, BlackFrames, Stores, Subject, Untouched
from videoveil.audit.trainings import Trainings
from videoveil.data.records import Dataset
from videoveil.tasks.anomaly import AnomalyDetection
from videoveil.tasks.detection import ActionDetection
from videoveil.tasks.mgfn import AnomalyVideo, small

MGFN = dataclasses.replace(small(epochs=20, batch=4), learning_rate=1e-3)
TRIDET = small_detector(warmup_epochs=1, cosine_epochs=4, learning_rate=4e-3)
CONFIGS: dict[str, Any] = {"anomaly": MGFN, "detection": TRIDET}


def asked(*names: str) -> Settings:
    return Settings(
        rules=Rules(seeds=1, resamples=100, least_items=4),
        participants=registry.named(names, CONFIGS),
        device="cpu",
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.events(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module")
def black(data: Dataset, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("out")
    return audit(Subject.of(data, BlackFrames()), out, asked("anomaly"), cache=cache)


def test_data_without_actions_are_audited_for_utility(black: Result) -> None:
    (one,) = [q for q in black.questions if q.attempts]
    assert (one.name, one.role, one.metric, one.chance) == (registry.ANOMALIES, "utility", "auc", 0.5)
    assert (one.raw.value or 0) > 0.8
    assert (one.kept.value or 1) < 0.9
    assert black.verdict.utility == "FAIL"  # nothing can be seen in black frames
    assert black.verdict.privacy == "NOT MEASURABLE"
    assert not any("action label" in reason for reason in black.not_measurable)


def test_the_area_over_frames_is_that_of_the_task(
    black: Result, data: Dataset, cache: Path, tmp_path: Path
) -> None:
    (folder,) = (cache / "features").iterdir()
    stores = Stores(Subject.of(data, Untouched()), folder, tmp_path / "own", "cpu")
    train, test = stores.features("raw", "train"), stores.features("raw", "test")
    config = dataclasses.replace(MGFN, epochs=2)
    outcome = utilities.anomalies(train, test, config, seed=3, device="cpu")
    expected = AnomalyDetection(config).fit(train, seed=3, device="cpu").score(test)["roc_auc"]
    assert outcome.measure().value == pytest.approx(expected.value)
    assert outcome.items == tuple(sorted(item.id for item in data.split("test")))


def test_where_there_are_too_many_frames_every_other_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 0], 16)
    videos = [AnomalyVideo(f"v{n}", np.zeros((3, 4)), 1, 16, truth=truth) for n in range(4)]
    scores = {video.id: rng.random(3) for video in videos}
    every = utilities.of_frames(scores, videos)
    assert len(every.rows) == 4 * 48
    monkeypatch.setattr(utilities, "MOST_FRAMES", 100)
    some = utilities.of_frames(scores, videos)
    assert len(some.rows) == 4 * 24
    assert some.measure() == every.measure()


def test_other_times_are_other_data(data: Dataset) -> None:
    moved = tuple(dataclasses.replace(item, segments=(), anomaly_spans=()) for item in data)
    one, other = (Subject.of(d, Untouched()) for d in (data, dataclasses.replace(data, items=moved)))
    assert one.identity() != other.identity()


# --- detection ----------------------------------------------------------------------------------------------


def test_detection_reads_features_of_a_dense_grid_beside_the_others(data: Dataset, tmp_path: Path) -> None:
    two = dataclasses.replace(data, items=tuple(item for item in data if item.id in ("e01", "e07")))
    stores = Stores(Subject.of(two, Untouched()), tmp_path / "raw", tmp_path / "own", "cpu")
    dense = stores.features("raw", "test", DENSE)
    assert dense.store.recipe.clips == "dense:4"
    assert dense.store.root == tmp_path / "raw-dense-4"
    assert not (tmp_path / "raw").exists()
    (entry,) = dense.items()
    assert dense.store.read(entry).starts.tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 32]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Features in which actions are plateaus, where the features of raw videos would be."""
    root = tmp_path_factory.mktemp("stores")
    store = detection_store(root / "raw-dense-4", some_videos(6, seed=0), some_videos(6, seed=1), CLASSES)
    subject = Subject.of(store.dataset(), Untouched())
    return Trial(subject, Stores(subject, root / "raw", root / "own", "cpu"), "raw", 0, "cpu")


@pytest.fixture(scope="module")
def detected(trial: Trial) -> DetectionOutcome:
    (one,) = registry.named(("detection",), CONFIGS)
    assert one.excuse(trial.subject, trial.stores) == ""
    found = one.run(trial, TRIDET)["tridet"]
    assert isinstance(found, DetectionOutcome)
    return found


def test_detected_actions_are_scored_as_the_task_does(trial: Trial, detected: DetectionOutcome) -> None:
    train, test = (trial.features(split, grid=DENSE) for split in ("train", "test"))
    expected = ActionDetection(TRIDET).fit(train, device="cpu").score(test).headline
    measured = detected.measure()
    assert measured.value == pytest.approx(expected.value)
    assert measured.chance == pytest.approx(expected.chance)
    assert (expected.value or 0) > (expected.chance or 0) > 0
    assert len(detected.items) == 6


def test_a_training_that_detected_actions_is_not_done_again(
    data: Dataset, detected: DetectionOutcome, tmp_path: Path
) -> None:
    (one,) = registry.named(("detection",), CONFIGS)
    case = Case.of(Subject.of(data, Untouched()), tmp_path / "out", asked("detection"))
    kept.keep(kept.file(case, one, "raw", 0), {"tridet": detected}, 1.0)
    again = Trainings(case).answer(one, "raw", 0, lambda *_: pytest.fail("it was trained again"))
    chosen = np.array([0, 0, 2, 5])
    assert again["tridet"].measure(chosen) == detected.measure(chosen)
