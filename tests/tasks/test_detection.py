"""Detection behind the contract of all tasks: the library's own figures, with the level of uniform segments."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from tests.tasks.make_store import detection_store, seen, unseen
from tests.tasks.tridet.make import CLASSES, SMALL, WIDTH, small, some_videos
from videoveil.data.records import Dataset, Segment
from videoveil.errors import BadItems, CheckpointError, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks.base import Clips, Features
from videoveil.tasks.detection import MODEL, ActionDetection, FittedDetection, detection_videos
from videoveil.tasks.tridet import evaluate, fit, truth_of, uniform_detections

SHORT = small(warmup_epochs=0, cosine_epochs=1, learning_rate=4e-3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("detection") / "store"
    return detection_store(root, some_videos(6, seed=0), some_videos(4, seed=1), CLASSES)


@pytest.fixture(scope="module")
def fitted(store: FeatureStore) -> FittedDetection:
    config = small(warmup_epochs=1, cosine_epochs=4, learning_rate=4e-3)
    return ActionDetection(config).fit(seen(store), device="cpu")


def test_the_score_is_the_librarys_with_uniform_segments_as_chance(
    store: FeatureStore, fitted: FittedDetection
) -> None:
    train, test = detection_videos(seen(store)), detection_videos(unseen(store))
    plain = evaluate(fitted.detector.detect(test), truth_of(test))
    blind = evaluate(uniform_detections(train, test, CLASSES), truth_of(test))
    score = fitted.score(unseen(store))
    assert (score.task, score.items, score.headline.name) == ("detection", 4, "mAP")
    assert (score.headline.value, score.headline.chance) == (plain.mean, blind.mean)
    assert plain.mean > 0
    for threshold in (0.3, 0.4, 0.5, 0.6, 0.7):
        metric = score[f"mAP@{threshold:g}"]
        assert (metric.value, metric.chance) == (plain.at[threshold], blind.at[threshold])
    assert len(score.metrics) == 6
    assert {name: row["ap"] for name, row in score.per_class.items()} == plain.per_class()
    assert {name: row["chance"] for name, row in score.per_class.items()} == blind.per_class()


def test_the_contract_trains_what_the_library_trains(store: FeatureStore) -> None:
    videos = detection_videos(seen(store))
    plain = fit(videos, CLASSES, SHORT, seed=3, device="cpu")
    task = ActionDetection(SHORT).fit(seen(store), seed=3, device="cpu")
    mine, theirs = task.detector.network.state_dict(), plain.network.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert list(task.history) == list(plain.history)


def test_a_saved_detector_scores_the_same(
    store: FeatureStore, fitted: FittedDetection, tmp_path: Path
) -> None:
    fitted.save(tmp_path / MODEL)
    back = ActionDetection().load(tmp_path / MODEL)
    assert back.score(unseen(store)) == fitted.score(unseen(store))
    assert (back.names, back.blind, back.cut) == (CLASSES, fitted.blind, False)


def test_the_order_of_items_and_the_files_of_the_store_do_not_matter(
    store: FeatureStore, fitted: FittedDetection, tmp_path: Path
) -> None:
    other = detection_store(
        tmp_path / "s", some_videos(6, seed=0)[::-1], some_videos(4, seed=1)[::-1], CLASSES
    )
    again = ActionDetection(fitted.detector.config).fit(seen(other), device="cpu")
    assert again.score(unseen(other)) == fitted.score(unseen(store))


def outside(root: Path) -> FeatureStore:
    videos = some_videos(4)
    beyond = Segment(CLASSES[0], videos[0].duration + 5, videos[0].duration + 9)
    across = Segment(CLASSES[1], videos[1].duration - 1, videos[1].duration + Fraction(9))
    videos[0] = dataclasses.replace(videos[0], segments=(*videos[0].segments, beyond))
    videos[1] = dataclasses.replace(videos[1], segments=(*videos[1].segments, across))
    return detection_store(root, videos, [dataclasses.replace(v, id=f"t{v.id}") for v in videos], CLASSES)


def test_annotations_outside_their_video_are_refused_or_cut_as_asked(tmp_path: Path) -> None:
    store = outside(tmp_path / "s")
    with pytest.raises(BadItems) as caught:
        ActionDetection(SHORT).fit(seen(store), device="cpu")
    assert [line.partition(":")[0] for line in caught.value.offenders] == [
        "train_video_000",
        "train_video_001",
    ]
    fitted = ActionDetection(SHORT, cut=True).fit(seen(store), run=tmp_path / "run", device="cpu")
    kept = detection_videos(unseen(store), cut=True)
    assert max(s.end for s in kept[1].segments) <= kept[1].duration
    assert all(s.start < v.duration for v in kept for s in v.segments)
    # what was cut in training is cut in testing, also after the model was kept
    back = FittedDetection.load(tmp_path / "run" / MODEL)
    assert back.cut
    assert back.score(unseen(store)) == fitted.score(unseen(store)) == fitted.score_videos(kept)


def test_every_video_that_cannot_be_used_is_listed_before_training(tmp_path: Path) -> None:
    store = detection_store(tmp_path / "s", some_videos(5), [], CLASSES)
    gone, broken = store.items()[1], store.items()[3]
    store.path(gone.key).unlink()
    store.path(broken.key).write_bytes(b"half")

    def never(*_: object) -> None:
        raise AssertionError("training has started")

    with pytest.raises(BadItems) as caught:
        ActionDetection(SHORT).fit(seen(store), device="cpu", progress=never)
    assert [line.partition(":")[0] for line in caught.value.offenders] == [
        "train_video_001",
        "train_video_003",
    ]
    with pytest.raises(BadItems, match="the split is empty"):
        ActionDetection(SHORT).fit(Features(store, split="val"), device="cpu")


def test_features_of_another_width_are_refused(fitted: FittedDetection, tmp_path: Path) -> None:
    wide = detection_store(tmp_path / "s", [], some_videos(2, width=WIDTH + 3), CLASSES)
    with pytest.raises(BadItems, match=f"{WIDTH + 3} wide instead of {WIDTH}"):
        fitted.score(unseen(wide))


def test_clips_are_not_features() -> None:
    with pytest.raises(UsageError, match="detection learns from features"):
        ActionDetection(SMALL).fit(Clips(Dataset("d", Path(), ())))  # type: ignore[arg-type]


def test_a_model_of_another_format_is_refused(fitted: FittedDetection, tmp_path: Path) -> None:
    fitted.detector.save(tmp_path / "plain.safetensors")  # without what a blind guess needs
    with pytest.raises(CheckpointError, match="expected 'videoveil-detection-1'"):
        FittedDetection.load(tmp_path / "plain.safetensors")
