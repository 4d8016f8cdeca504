"""The words that all tasks share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.attacks.pictures import Changed
from tests.tasks.make_store import ACTIONS, action_store, seen
from videoveil.data.records import Dataset, Item
from videoveil.errors import UsageError
from videoveil.tasks.base import Clips, Metric, Score, as_clips, as_features


def test_a_source_of_features_gives_its_split_and_says_what_it_was_made_with(tmp_path: Path) -> None:
    source = seen(action_store(tmp_path / "s", train=4, test=2))
    assert [entry.item.split for entry in source.items()] == ["train"] * 4
    assert len(source.with_split("test").items()) == 2
    assert len(source.with_split(None).items()) == 6
    assert source.records().classes == ACTIONS
    described = json.loads(json.dumps(source.describe()))
    assert described["kind"] == "features"
    assert (described["dataset"], described["split"]) == ("made-up", "train")
    assert described["store"] == str((tmp_path / "s").resolve())
    assert described["encoder"]["hash"] == "0" * 64
    assert described["recipe"]["clips"] == "all"


def test_a_source_of_clips_gives_its_split(tmp_path: Path) -> None:
    items = tuple(Item(f"v{n}", tmp_path / f"{n}.mp4", ("train", "test")[n % 2]) for n in range(5))
    source = Clips(Dataset("films", tmp_path, items), "train")
    assert [item.id for item in source.items()] == ["v0", "v2", "v4"]
    assert len(source.with_split("test").items()) == 2
    assert len(source.with_split(None).items()) == 5
    assert source.describe() == {
        "kind": "clips",
        "root": str(tmp_path.resolve()),
        "dataset": "films",
        "split": "train",
    }


def test_a_source_of_clips_names_the_anonymizer_they_are_seen_through(tmp_path: Path) -> None:
    source = Clips(Dataset("films", tmp_path, ()), "train")
    assert source.veil() is None
    dim = Changed("dim", 0.5)
    seen_through = source.with_anonymizer(dim, eight_bit=True)
    assert seen_through.with_split("test").anonymizer is dim
    assert seen_through.with_split("test").eight_bit
    assert seen_through.describe()["anonymizer"] == {"hash": dim.content_hash(), "eight_bit": True}
    assert seen_through.with_anonymizer(None).describe() == source.describe()
    with pytest.raises(UsageError, match="eight_bit rounds"):
        Clips(source.dataset, eight_bit=True)


def test_what_learns_from_features_refuses_clips_and_the_other_way_round(tmp_path: Path) -> None:
    features, clips = seen(action_store(tmp_path / "s")), Clips(Dataset("films", tmp_path, ()))
    assert as_features(features, "a task") is features
    assert as_clips(clips, "a task") is clips
    with pytest.raises(UsageError, match="a task learns from features; extract them first"):
        as_features(clips, "a task")
    with pytest.raises(UsageError, match="a task learns from clips; train a probe"):
        as_clips(features, "a task", "train a probe")


def test_a_score_quotes_its_first_metric_and_finds_the_others_by_name() -> None:
    score = Score("t", 3, (Metric("a", 0.5, 0.1), Metric("b", None, None)), {"x": {"ap": None}}, "guessing")
    assert score.headline.name == "a"
    assert score["b"].value is None
    with pytest.raises(KeyError, match="no metric 'c'; there are a, b"):
        score["c"]
    assert json.loads(json.dumps(score.to_json())) == {
        "task": "t",
        "items": 3,
        "headline": "a",
        "metrics": {"a": {"value": 0.5, "chance": 0.1}, "b": {"value": None, "chance": None}},
        "per_class": {"x": {"ap": None}},
        "baseline": "guessing",
    }
