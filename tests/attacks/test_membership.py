"""Membership inference: an anonymizer that remembers is found out, one that cannot is not, and none is not measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.attacks.persons import person_store, person_videos
from tests.attacks.pictures import Changed
from videoveil.anonymizers.pixel import Grey, pixel
from videoveil.attacks.membership import MembershipAttack, MembershipConfig, folds, found_at
from videoveil.attacks.pictures import Lens
from videoveil.data.records import Dataset
from videoveil.errors import BadItems, UsageError
from videoveil.tasks.base import Clips, Features
from videoveil.training.clip_batches import Frames

QUICK = MembershipConfig(size=16, frames=2, folds=3, kinds=("linear",))


class Remembers(nn.Module):
    """Knows the frames it was trained on by heart: it leaves them nearly as they are, and darkens all others."""

    def __init__(self, known: Tensor):
        super().__init__()
        self.known = nn.Parameter(known)  # (k, 3, s, s)

    def transform(self, x: Tensor) -> Tensor:
        frames = x.transpose(1, 2).flatten(0, 1)
        distance = (frames[:, None] - self.known[None]).abs().flatten(2).mean(2).amin(1)
        factor = torch.where(distance < 1e-3, 0.95, 0.5).reshape(-1, 1, 1, 1)
        return (frames * factor).unflatten(0, (len(x), -1)).transpose(1, 2)

    def content_hash(self) -> str:
        return "remembers"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return person_videos(tmp_path_factory.mktemp("films"), people=10, frames=4)


def learn_by_heart(films: Dataset) -> Remembers:
    lens = Lens(1, 1, QUICK.size, QUICK.test, QUICK.frames)
    frames = Frames(side=2 * QUICK.size)
    seen = [lens.pictures(item, frames)[:, :, 0].float() / 255 for item in films.split("train")]
    return Remembers(torch.cat(seen))


def test_an_anonymizer_that_remembers_its_training_videos_gives_them_away(films: Dataset) -> None:
    source = Clips(films, anonymizer=learn_by_heart(films))
    fitted = MembershipAttack(QUICK).fit(source)
    score = fitted.score(source)
    assert score.items == 30
    assert score["auc_threshold_change"].value == pytest.approx(1.0)
    assert score["auc_learnt_linear"].value > 0.95  # type: ignore[operator]
    assert score["tpr10"].value == 1.0
    assert score["tpr01"].value is None  # fifteen others cannot show one in a hundred
    assert score["auc_control"].value < 0.8  # type: ignore[operator]
    outcomes = fitted.outcomes(source)
    for name, one in outcomes.items():
        assert one.measure().value == pytest.approx(score[name].value)


def test_an_anonymizer_that_answers_everybody_alike_gives_nobody_away(films: Dataset) -> None:
    """The same videos as members and as others: only what was remembered could tell them apart."""
    twins = tuple(
        dataclasses.replace(item, id=f"{item.id}-{split}", split=split)
        for item in films.split("train")
        for split in ("train", "test")
    )
    source = Clips(dataclasses.replace(films, items=twins), anonymizer=Changed("constant", 0.0))
    score = MembershipAttack(QUICK).fit(source).score(source)
    for metric in score.metrics:
        if metric.name.startswith("auc_threshold"):
            assert metric.value == pytest.approx(0.5), metric
    assert score["auc_learnt_linear"].value < 0.65  # type: ignore[operator]


def test_where_nothing_was_trained_nothing_is_measured(films: Dataset) -> None:
    for anonymizer in (None, pixel(Grey())):
        source = Clips(films, anonymizer=anonymizer)
        fitted = MembershipAttack(QUICK).fit(source)
        score = fitted.score(source)
        assert [metric.value for metric in score.metrics] == [None, None, None]
        assert [metric.chance for metric in score.metrics] == [0.5, 0.01, 0.1]
        assert score.baseline.startswith("not measurable")
        assert fitted.outcomes(source) == {}


def test_the_loss_of_a_network_that_was_trained_with_it_is_a_signal(films: Dataset) -> None:
    shown: list[tuple[int, ...]] = []

    def loss(item: Any, frames: Tensor) -> float:
        shown.append(tuple(frames.shape))
        return 0.0 if item.split == "train" else 1.0

    task = MembershipAttack(QUICK, losses={"actions": loss})
    source = Clips(films, anonymizer=Changed("scale", 0.5))
    assert task.fit(source).score(source)["auc_threshold_loss actions"].value == pytest.approx(1.0)
    assert set(shown) == {(2, 3, 16, 16)}


def test_features_that_were_changed_less_are_members(tmp_path: Path) -> None:
    raw = person_store(tmp_path / "raw", people=12)
    rng = np.random.default_rng(4)
    counter = iter(range(1000))

    def change(rows: np.ndarray) -> np.ndarray:
        return rows + (0.05 if next(counter) < 24 else 0.5) * rng.normal(size=rows.shape)

    published = person_store(tmp_path / "published", people=12, change=change)
    task = MembershipAttack(QUICK, raw=Features(raw))
    score = task.fit(Features(published)).score(Features(published))
    assert score["auc_threshold_change"].value == pytest.approx(1.0)
    same = MembershipAttack(QUICK, raw=Features(raw), anonymizer=pixel(Grey()))
    assert same.fit(Features(raw)).score(Features(raw)).baseline.startswith("not measurable")
    with pytest.raises(UsageError, match="give raw="):
        MembershipAttack(QUICK).fit(Features(raw)).score(Features(raw))
    fewer = person_store(tmp_path / "fewer", people=4)
    with pytest.raises(BadItems, match="have no raw features"):
        MembershipAttack(QUICK, raw=Features(fewer)).fit(Features(raw)).score(Features(raw))


def test_the_share_found_counts_those_above_all_but_a_share_of_the_others() -> None:
    truth = np.array([1.0] * 4 + [0.0] * 10)
    scores = np.array([9.5, 8.5, 0.5, -1.0, *range(10)])
    assert (
        found_at(truth, scores, 0.1) == 0.5
    )  # one of ten others (9) may be accused: above 8 are two of four
    assert found_at(truth, scores, 0.01) is None
    assert found_at(truth, np.zeros(14), 0.1) == 0.0


def test_nobody_is_in_two_folds_and_both_groups_are_in_each() -> None:
    truth = np.repeat([0.0, 1.0], 30)
    groups = np.array([f"p{n // 3}" for n in range(60)])
    found = folds(truth, groups, 5, 0)
    for name in np.unique(groups):
        assert len(set(found[groups == name])) == 1
    for fold in range(5):
        assert 0 < truth[found == fold].mean() < 1


def test_the_same_seed_finds_the_same(films: Dataset) -> None:
    source = Clips(films, anonymizer=Changed("noise", 0.1))
    task = MembershipAttack(dataclasses.replace(QUICK, most=6))
    first = task.fit(source, seed=2).score(source)
    assert first == task.fit(source, seed=2).score(source)
    assert first.items == 12


def test_bad_input_is_named(films: Dataset) -> None:
    with pytest.raises(UsageError, match="folds=1"):
        MembershipConfig(folds=1)
    few = Clips(films.where(lambda item: item.split == "train"), anonymizer=Changed("scale"))
    with pytest.raises(UsageError, match="0 videos are known as other"):
        MembershipAttack(QUICK).fit(few).score(few)
