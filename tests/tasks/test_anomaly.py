"""Anomaly detection behind the contract of all tasks: the library's own figures beside a constant score's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.make_store import anomaly_store, damage, seen, unseen
from tests.tasks.mgfn.synthetic import make_videos
from videoveil.data.records import Dataset
from videoveil.errors import AnnotationError, BadItems, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks.anomaly import MODEL, AnomalyDetection, FittedAnomaly
from videoveil.tasks.base import Clips, Features
from videoveil.tasks.mgfn import evaluate, fit, from_store, small

QUICK = small(epochs=3, batch=4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("anomaly") / "store"
    return anomaly_store(root, make_videos(10), make_videos(8, seed=1))


@pytest.fixture(scope="module")
def fitted(store: FeatureStore) -> FittedAnomaly:
    return AnomalyDetection(QUICK).fit(seen(store), device="cpu")


def test_the_score_is_the_librarys_beside_that_of_a_constant_score(
    store: FeatureStore, fitted: FittedAnomaly
) -> None:
    videos = from_store(store, split="test", with_truth=True)
    plain = evaluate(fitted.model.scores(videos), videos)
    score = fitted.score(unseen(store))
    assert (score.task, score.items, score.headline.name) == ("anomaly", 8, "roc_auc")
    assert score["roc_auc"].value == plain.overall.roc_auc
    assert score["ap"].value == plain.overall.ap
    assert score["pr_auc"].value == plain.overall.pr_auc
    assert score["roc_auc_abnormal_videos"].value == plain.abnormal_only.roc_auc
    truth = np.concatenate([v.truth for v in videos if v.truth is not None])
    assert score["roc_auc"].chance == score["roc_auc_abnormal_videos"].chance == 0.5
    assert score["ap"].chance == score["pr_auc"].chance == pytest.approx(truth.mean())
    assert set(score.per_class) == {"Abuse", "Fighting"} == set(plain.classes)
    for name, row in score.per_class.items():
        areas = plain.classes[name]
        assert row == {
            "roc_auc": areas.against_normal.roc_auc,
            "ap": areas.against_normal.ap,
            "roc_auc_within": areas.within.roc_auc,
            "videos": 2.0,
        }


def test_the_stated_chance_is_what_the_same_score_for_every_frame_gets(
    store: FeatureStore, fitted: FittedAnomaly
) -> None:
    videos = from_store(store, split="test", with_truth=True)
    constant = evaluate({v.id: np.full(v.snippets, 0.3, np.float32) for v in videos}, videos)
    score = fitted.score(unseen(store))
    assert constant.overall.roc_auc == score["roc_auc"].chance
    assert constant.overall.ap == pytest.approx(score["ap"].chance)


def test_the_contract_trains_what_the_library_trains(store: FeatureStore, fitted: FittedAnomaly) -> None:
    plain = fit(from_store(store, split="train"), QUICK, device="cpu")
    mine, theirs = fitted.model.network.state_dict(), plain.network.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_a_saved_model_scores_the_same(store: FeatureStore, fitted: FittedAnomaly, tmp_path: Path) -> None:
    fitted.save(tmp_path / MODEL)
    back = AnomalyDetection().load(tmp_path / MODEL)
    assert back.score(unseen(store)) == fitted.score(unseen(store))


def test_the_order_of_test_videos_does_not_matter(
    fitted: FittedAnomaly, store: FeatureStore, tmp_path: Path
) -> None:
    turned = anomaly_store(tmp_path / "s", [], make_videos(8, seed=1)[::-1])
    assert fitted.score(unseen(turned)) == fitted.score(unseen(store))


def test_every_video_that_cannot_be_used_is_listed_before_training(tmp_path: Path) -> None:
    store = anomaly_store(tmp_path / "s", make_videos(10), [])
    nan = make_videos(1)[0].features.copy()
    nan[3] = np.nan
    damage(store, "train_v000", nan)
    damage(store, "train_v001", np.zeros((0, 16), np.float32))
    damage(store, "train_v002", np.zeros((5, 9), np.float32))
    store.path(store.items()[3].key).unlink()

    def never(*_: object) -> None:
        raise AssertionError("training has started")

    with pytest.raises(BadItems) as caught:
        AnomalyDetection(QUICK).fit(seen(store), device="cpu", progress=never)
    assert sorted({line.partition(":")[0] for line in caught.value.offenders}) == [
        f"train_v00{n}" for n in range(4)
    ]


def test_an_empty_split_and_videos_without_truth_are_refused(
    store: FeatureStore, fitted: FittedAnomaly
) -> None:
    with pytest.raises(BadItems, match="0 normal video"):
        AnomalyDetection(QUICK).fit(Features(store, split="val"), device="cpu")
    with pytest.raises(BadItems):
        fitted.score(Features(store, split="val"))
    with pytest.raises(AnnotationError, match="nothing says which frames"):
        fitted.score(seen(store))


def test_features_of_another_width_are_refused(fitted: FittedAnomaly, tmp_path: Path) -> None:
    other = anomaly_store(tmp_path / "s", [], make_videos(4, width=20))
    with pytest.raises(BadItems, match="20 channels wide, the model expects 16"):
        fitted.score(unseen(other))


def test_clips_are_not_features() -> None:
    with pytest.raises(UsageError, match="anomaly detection learns from features"):
        AnomalyDetection(QUICK).fit(Clips(Dataset("d", Path(), ())))  # type: ignore[arg-type]
