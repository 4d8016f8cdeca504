"""Run folders: what they hold, that they go on, and what they refuse."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.features.conftest import tree
from tests.tasks.make_store import (
    ACTIONS,
    action_items,
    action_store,
    anomaly_store,
    detection_store,
    grey_dataset,
    grey_video,
    seen,
    unseen,
    write_store,
)
from tests.tasks.mgfn.synthetic import make_videos
from tests.tasks.tridet.make import CLASSES, small, some_videos
from videoveil.anonymizers.pixel import Grey, LowResolution, pixel
from videoveil.data.registry import open_source
from videoveil.errors import BadItems, CheckpointError, StoreError, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks import mgfn
from videoveil.tasks.action.network import ActionNetwork, NetworkConfig
from videoveil.tasks.action.probe import ActionProbe, ProbeConfig
from videoveil.tasks.anomaly import AnomalyDetection
from videoveil.tasks.base import Clips, Features
from videoveil.tasks.detection import ActionDetection
from videoveil.tasks.runs import HISTORY, METRICS, MODEL, RUN, Run, score, train

PROBE = ActionProbe(ProbeConfig(epochs=3, batch=8, checkpoint_every=1))


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    return action_store(tmp_path / "store")


def test_a_run_folder_holds_settings_weights_history_and_score(store: FeatureStore, tmp_path: Path) -> None:
    run = tmp_path / "run"
    fitted = train(PROBE, seen(store), run, seed=5, device="cpu")
    assert {path.name for path in run.iterdir()} == {RUN, MODEL, HISTORY, "checkpoint.safetensors"}
    about = json.loads((run / RUN).read_text())
    assert about["format"] == "videoveil-run-1"
    assert (about["task"], about["seed"]) == ("action", 5)
    assert about["settings"]["epochs"] == 3
    assert about["software"].startswith("videoveil ")
    assert about["source"] == json.loads(json.dumps(seen(store).describe()))
    history = json.loads((run / HISTORY).read_text())
    assert [row["epoch"] for row in history] == [0, 1, 2]
    assert set(history[0]) == {"epoch", "loss", "gradient_norm", "learning_rate"}

    found = score(Run.open(run))
    assert found == fitted.score(unseen(store))
    kept = json.loads((run / METRICS).read_text())
    assert kept["task"] == "action"
    assert kept["headline"] == "top1"
    assert kept["items"] == 15
    assert kept["metrics"]["top1"] == {"value": found["top1"].value, "chance": found["top1"].chance}
    assert kept["source"]["split"] == "test"
    assert kept["run"]["seed"] == 5
    assert set(kept["per_class"]) == set(ACTIONS)


@pytest.mark.parametrize("task", ["action", "action-network", "detection", "anomaly"])
def test_every_task_is_trained_found_done_loaded_and_scored_through_its_folder(
    task: str, tmp_path: Path
) -> None:
    made: dict[str, Any] = {
        "action": lambda: (PROBE, seen(action_store(tmp_path / "s"))),
        "action-network": lambda: (
            ActionNetwork(NetworkConfig(encoder="tiny", size=32, epochs=1, batch=4)),
            Clips(grey_dataset(tmp_path / "films", train=4, test=2), "train"),
        ),
        "detection": lambda: (
            ActionDetection(small(warmup_epochs=0, cosine_epochs=1)),
            seen(detection_store(tmp_path / "s", some_videos(4), some_videos(2, seed=1), CLASSES)),
        ),
        "anomaly": lambda: (
            AnomalyDetection(mgfn.small(epochs=1, batch=2)),
            seen(anomaly_store(tmp_path / "s", make_videos(6), make_videos(4, seed=1))),
        ),
    }
    chosen, source = made[task]()
    train(chosen, source, tmp_path / "run", device="cpu")
    weights = (tmp_path / "run" / MODEL).read_bytes()
    steps: list[int] = []
    train(chosen, source, tmp_path / "run", device="cpu", progress=lambda s, *_: steps.append(s))
    assert steps == []  # found done
    assert (tmp_path / "run" / MODEL).read_bytes() == weights
    run = Run.open(tmp_path / "run")
    assert run.task == task
    found = score(run, source.with_split("test"))
    assert found.task == task
    assert found.headline.value is not None
    assert found.headline.chance is not None
    assert found.baseline
    assert json.loads((tmp_path / "run" / METRICS).read_text())["headline"] == found.headline.name


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_folder_as_an_unbroken_one(
    store: FeatureStore, tmp_path: Path
) -> None:
    def kill(step: int, total: int, loss: float) -> None:
        if step == 5:
            raise Killed

    with pytest.raises(Killed):
        train(PROBE, seen(store), tmp_path / "cut", device="cpu", progress=kill)
    with pytest.raises(UsageError, match="not trained to the end"):
        score(Run.open(tmp_path / "cut"))
    train(PROBE, seen(store), tmp_path / "cut", device="cpu")
    train(PROBE, seen(store), tmp_path / "whole", device="cpu")
    assert tree(tmp_path / "cut") == tree(tmp_path / "whole")


def test_a_folder_of_another_run_is_refused_naming_what_differs(store: FeatureStore, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(PROBE, seen(store), run, device="cpu")
    before = tree(run)
    slower = ActionProbe(dataclasses.replace(PROBE.config, learning_rate=1e-9))
    for what, task, source, seed in (
        ("a run with other learning_rate;", slower, seen(store), 0),
        ("a run with other seed;", PROBE, seen(store), 1),
        ("a run with other data, labels;", PROBE, unseen(store), 0),
        ("holds a run of action, not of anomaly;", AnomalyDetection(mgfn.small()), seen(store), 0),
    ):
        with pytest.raises((UsageError, CheckpointError), match=what):
            train(task, source, run, seed=seed, device="cpu")
    assert tree(run) == before


def test_what_does_not_change_the_result_may_change_between_two_calls(tmp_path: Path) -> None:
    store = action_store(tmp_path / "store")
    first = train(PROBE, seen(store), tmp_path / "run", device="cpu")
    store.root.rename(tmp_path / "moved")
    often = ActionProbe(dataclasses.replace(PROBE.config, checkpoint_every=3))
    again = train(often, seen(FeatureStore.open(tmp_path / "moved")), tmp_path / "run", device="cpu")
    assert torch.equal(first.layer.weight, again.layer.weight)  # type: ignore[attr-defined]
    assert Run.open(tmp_path / "run").source["store"] == str(tmp_path / "moved")


def test_a_run_that_was_refused_before_it_learnt_anything_does_not_block_its_folder(
    store: FeatureStore, tmp_path: Path
) -> None:
    with pytest.raises(BadItems, match="no items in split 'trian'"):
        train(PROBE, Features(store, split="trian"), tmp_path / "run", device="cpu")
    train(PROBE, seen(store), tmp_path / "run", device="cpu")
    assert Run.open(tmp_path / "run").source["split"] == "train"


def test_a_folder_with_other_peoples_files_is_left_alone(store: FeatureStore, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("chapter 1")
    with pytest.raises(UsageError, match="exists and is not a run"):
        train(PROBE, seen(store), home, device="cpu")
    assert [path.name for path in home.iterdir()] == ["thesis.tex"]


def test_a_store_beside_the_run_may_be_there_first(tmp_path: Path) -> None:
    store = action_store(tmp_path / "run" / "features")
    train(PROBE, seen(store), tmp_path / "run", device="cpu")
    assert score(Run.open(tmp_path / "run")).items == 15


def test_a_run_is_scored_on_other_stores_that_fit_and_refused_those_that_do_not(
    store: FeatureStore, tmp_path: Path
) -> None:
    train(PROBE, seen(store), tmp_path / "run", device="cpu")
    run = Run.open(tmp_path / "run")
    other = action_store(tmp_path / "other", seed=9)
    score(run, unseen(other))
    kept = json.loads((tmp_path / "run" / METRICS).read_text())
    assert kept["source"]["store"] == str(other.root.resolve())
    narrow = write_store(tmp_path / "narrow", action_items(0, 3), [np.ones((2, 5))] * 3, classes=ACTIONS)
    before = tree(tmp_path / "run")
    with pytest.raises(BadItems, match="5 wide instead of 12"):
        score(run, unseen(narrow))
    assert tree(tmp_path / "run") == before


def test_a_detector_is_not_scored_on_clips_at_other_distances(tmp_path: Path) -> None:
    videos = some_videos(4, seed=0), some_videos(3, seed=1)
    dense = detection_store(tmp_path / "dense", *videos, CLASSES)
    short = small(warmup_epochs=0, cosine_epochs=1, learning_rate=4e-3)
    train(ActionDetection(short), seen(dense), tmp_path / "run", device="cpu")
    run = Run.open(tmp_path / "run")
    assert score(run, unseen(dense)).items == 3
    wider = detection_store(tmp_path / "wider", *videos, CLASSES, clips="all")
    with pytest.raises(StoreError, match="extract again with --clips dense:4"):
        score(run, unseen(wider))


def test_a_store_that_has_moved_is_named(store: FeatureStore, tmp_path: Path) -> None:
    train(PROBE, seen(store), tmp_path / "run", device="cpu")
    store.root.rename(tmp_path / "moved")
    with pytest.raises(StoreError, match="not a feature store"):
        score(Run.open(tmp_path / "run"))
    assert score(Run.open(tmp_path / "run"), unseen(FeatureStore.open(tmp_path / "moved"))).items == 15


def test_clips_are_found_again_by_their_origin(tmp_path: Path) -> None:
    for n in range(6):
        split = "train" if n < 4 else "test"
        folder = tmp_path / "films" / split / ("above", "below")[n % 2]
        folder.mkdir(parents=True, exist_ok=True)
        grey_video(folder / f"f{n}.mp4", n % 2, n)
    origin = {"origin": f"folder:{tmp_path / 'films'}", "options": {}}
    dataset = open_source(origin["origin"])  # type: ignore[arg-type]
    task = ActionNetwork(NetworkConfig(encoder="tiny", size=32, epochs=1, batch=4))
    train(task, Clips(dataset, "train"), tmp_path / "run", device="cpu", origin=origin)
    assert score(Run.open(tmp_path / "run")).items == len(dataset.split("test")) == 2
    train(task, Clips(dataset, "train"), tmp_path / "nameless", device="cpu")
    with pytest.raises(UsageError, match="does not say how its data was opened; give it with --data"):
        score(Run.open(tmp_path / "nameless"))


def test_a_run_on_anonymized_clips_is_never_scored_on_raw_ones_by_default(tmp_path: Path) -> None:
    dataset = grey_dataset(tmp_path / "films", train=4, test=2)
    hidden = Clips(dataset, "train", pixel(Grey(), LowResolution(8)))
    task = ActionNetwork(NetworkConfig(encoder="tiny", size=32, epochs=1, batch=4, clips=2))
    train(task, hidden, tmp_path / "run", device="cpu", origin={"origin": "folder:x", "options": {}})
    run = Run.open(tmp_path / "run")
    with pytest.raises(UsageError, match="trained on pictures that anonymizer"):
        score(run)
    assert score(run, hidden.with_split("test")).items == 2
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert kept["source"]["anonymizer"] == run.source["anonymizer"]


def test_what_is_no_run_or_a_damaged_one_is_refused(store: FeatureStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run"):
        Run.open(tmp_path / "nowhere")
    train(PROBE, seen(store), tmp_path / "run", device="cpu")
    file = tmp_path / "run" / RUN
    for text, says in (
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": "videoveil-run-1"}', "damaged"),
        ('{"format": "videoveil-run-9"}', "this version reads 'videoveil-run-1'"),
    ):
        file.write_text(text)
        with pytest.raises(CheckpointError, match=says):
            Run.open(tmp_path / "run")
