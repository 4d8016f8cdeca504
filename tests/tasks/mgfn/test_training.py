"""Training: it learns, repeats, resumes exactly, stops when it diverges, and scores one video like many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ports import free_port
from videoveil.errors import BadItems, CheckpointError, Diverged, UsageError
from videoveil.tasks.mgfn.config import MGFNConfig, recommended, released, small, ted_spad
from videoveil.tasks.mgfn.fitted import FittedMGFN, summarise
from videoveil.tasks.mgfn.training import (
    CHECKPOINT,
    MODEL,
    SETTINGS,
    build,
    fit,
    make_optimizer,
)
from videoveil.tasks.mgfn.videos import AnomalyVideo

from .synthetic import make_videos

QUICK = small(epochs=4, batch=4)


@pytest.fixture(scope="module")
def train() -> list[AnomalyVideo]:
    return make_videos(16)


@pytest.fixture(scope="module")
def test_set() -> list[AnomalyVideo]:
    return make_videos(8, seed=1)


@pytest.fixture(scope="module")
def fitted(train: list[AnomalyVideo], test_set: list[AnomalyVideo]) -> FittedMGFN:
    return fit(train, QUICK, device="cpu", test=test_set)


def same(one: FittedMGFN, other: FittedMGFN) -> bool:
    mine, theirs = one.network.state_dict(), other.network.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in mine) and list(one.history) == list(
        other.history
    )


# --- learning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crops", [None, 2])
def test_video_labels_are_enough_to_find_the_anomalous_frames(crops: int | None) -> None:
    test = make_videos(12, seed=1, crops=crops)
    untrained = FittedMGFN(build(16, small(), 0), small(), 0).score(test).overall.roc_auc
    model = fit(make_videos(24, crops=crops), small(epochs=14, batch=4), device="cpu")
    report = model.score(test)
    assert report.overall.roc_auc is not None
    assert report.abnormal_only.roc_auc is not None
    assert untrained is not None
    assert report.overall.roc_auc > 0.9 > untrained
    assert report.abnormal_only.roc_auc > 0.85  # inside the anomalous videos, which no training label tells
    assert report.overall.ap is not None
    assert report.overall.ap > 2 * report.overall.ap_chance
    assert model.history[-1]["loss"]["total"] < model.history[0]["loss"]["total"]


@pytest.mark.parametrize("variant", [released(), ted_spad()])
def test_the_published_variants_train(variant: MGFNConfig, train: list[AnomalyVideo]) -> None:
    config = replace(variant, stages=small().stages, epochs=2, batch=4)
    model = fit(train, config, device="cpu")
    assert len(model.history) == 2
    assert all(np.isfinite(value) for value in model.history[-1]["loss"].values())


# --- repeatability and resuming --------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_whatever_the_global_generator_did(
    train: list[AnomalyVideo], test_set: list[AnomalyVideo], fitted: FittedMGFN
) -> None:
    torch.rand(17)
    before = torch.random.get_rng_state()
    again = fit(train, QUICK, device="cpu", test=test_set)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert same(again, fitted)
    assert not same(fit(train, QUICK, device="cpu", test=test_set, seed=1), fitted)


class Killed(Exception):
    pass


def test_a_killed_run_goes_on_to_the_same_weights_and_metrics(
    train: list[AnomalyVideo], test_set: list[AnomalyVideo], fitted: FittedMGFN, tmp_path: Path
) -> None:
    def kill(step: int, total: int, loss: float) -> None:
        if step == 5:  # in the third of four epochs of two steps
            raise Killed

    with pytest.raises(Killed):
        fit(train, QUICK, run=tmp_path, device="cpu", test=test_set, progress=kill)
    steps: list[tuple[int, int]] = []
    resumed = fit(
        train, QUICK, run=tmp_path, device="cpu", test=test_set, progress=lambda s, t, _: steps.append((s, t))
    )
    assert steps == [(5, 8), (6, 8), (7, 8), (8, 8)]  # the first two epochs were not done again
    assert same(resumed, fitted)
    assert resumed.summary() == fitted.summary()


def test_a_finished_run_is_not_done_again_but_may_be_made_longer(
    train: list[AnomalyVideo], fitted: FittedMGFN, tmp_path: Path
) -> None:
    short = fit(train, replace(QUICK, epochs=2), run=tmp_path, device="cpu")
    steps: list[int] = []
    again = fit(
        train, replace(QUICK, epochs=2), run=tmp_path, device="cpu", progress=lambda s, t, _: steps.append(s)
    )
    assert steps == []
    assert same(again, short)
    longer = fit(train, QUICK, run=tmp_path, device="cpu")
    weights = fitted.network.state_dict()
    assert all(torch.equal(weights[n], t) for n, t in longer.network.state_dict().items())
    with pytest.raises(CheckpointError, match="has 4 epochs, 2 were asked for"):
        fit(train, replace(QUICK, epochs=2), run=tmp_path, device="cpu")


def test_a_run_of_other_data_or_settings_is_refused(train: list[AnomalyVideo], tmp_path: Path) -> None:
    one = replace(QUICK, epochs=1)
    fit(train, one, run=tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match=r"other margin, seed"):
        fit(train, replace(one, margin=7.0), run=tmp_path, device="cpu", seed=1)
    with pytest.raises(CheckpointError, match=r"other data"):
        fit(train[::-1], one, run=tmp_path, device="cpu")


def test_the_run_folder_holds_safetensors_readable_settings_and_nothing_half_written(
    train: list[AnomalyVideo], tmp_path: Path
) -> None:
    fit(train, replace(QUICK, epochs=1), run=tmp_path, device="cpu")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([CHECKPOINT, MODEL, SETTINGS])


# --- several processes -----------------------------------------------------------------------------------------

TWO = """
import hashlib, json, sys
from pathlib import Path

import torch
from videoveil import _torchvision
from lightning.fabric import Fabric
from tests.tasks.mgfn.synthetic import make_videos
from videoveil.tasks.mgfn import fit, small


def work(fabric, run):
    torch.set_num_threads(1)
    model = fit(make_videos(16), small(epochs=2, batch=2), fabric=fabric, run=run)
    tensors = model.network.state_dict().values()
    digest = hashlib.sha256(b"".join(t.numpy().tobytes() for t in tensors)).hexdigest()
    (run / f"rank{fabric.global_rank}.json").write_text(json.dumps([fabric.world_size, digest]))


Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(work, Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_two_processes_end_with_one_set_of_weights(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(TWO)
    root = Path(__file__).parents[3]
    run = tmp_path / "run"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "MASTER_PORT": str(free_port()),  # else one is chosen that somebody else may be given meanwhile
    }
    done = subprocess.run(
        [sys.executable, str(script), str(run)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((run / f"rank{i}.json").read_text()) for i in range(2)]
    assert ranks[0] == ranks[1]
    assert ranks[0][0] == 2
    assert FittedMGFN.load(run / MODEL).history[-1]["epoch"] == 1


# --- scoring -----------------------------------------------------------------------------------------------------


def test_scores_do_not_depend_on_what_else_is_scored_or_in_which_order(
    fitted: FittedMGFN, test_set: list[AnomalyVideo]
) -> None:
    together = fitted.scores(test_set)
    backwards = fitted.scores(test_set[::-1])
    for video in test_set:
        alone = fitted.scores([video])[video.id]
        assert alone.shape == (video.snippets,)
        assert np.array_equal(alone, together[video.id])  # bit by bit
        assert np.array_equal(alone, backwards[video.id])
        assert ((alone >= 0) & (alone <= 1)).all()


def test_any_number_of_crops_and_snippets_is_scored(fitted: FittedMGFN) -> None:
    shapes = [(1, 16), (2, 3, 16), (5, 10, 16), (700, 1, 16)]
    videos = [AnomalyVideo(str(s), np.ones(s, np.float32), 0, 16) for s in shapes]
    assert [len(s) for s in fitted.scores(videos).values()] == [1, 2, 5, 700]


def test_unusable_videos_are_all_named_and_nothing_is_scored(fitted: FittedMGFN) -> None:
    good = make_videos(3)
    videos = [
        good[0],
        replace(good[1], features=good[1].features[:, :5]),
        replace(good[2], features=good[2].features * np.nan),
    ]
    with pytest.raises(BadItems) as caught:
        fitted.scores(videos)
    assert len(caught.value.offenders) == 2


def test_a_saved_model_scores_the_same(
    fitted: FittedMGFN, test_set: list[AnomalyVideo], tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    loaded = FittedMGFN.load(path)
    assert loaded.config == fitted.config
    assert same(loaded, fitted)
    mine, theirs = fitted.scores(test_set), loaded.scores(test_set)
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    fitted.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_files_that_are_not_models_are_refused(tmp_path: Path, train: list[AnomalyVideo]) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"no")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        FittedMGFN.load(tmp_path / "x.safetensors")
    fit(train, replace(QUICK, epochs=1), run=tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match="format"):
        FittedMGFN.load(tmp_path / CHECKPOINT)


# --- what goes wrong ---------------------------------------------------------------------------------------------


def test_divergence_stops_and_names_step_and_terms(train: list[AnomalyVideo]) -> None:
    with pytest.raises(Diverged) as caught:
        fit(train, replace(QUICK, learning_rate=1e30), device="cpu")
    for word in ("step", "epoch", "classification", "contrastive", "gradient norm", "learning rate"):
        assert word in str(caught.value)


def test_bad_videos_are_named_before_the_first_step(train: list[AnomalyVideo]) -> None:
    steps: list[int] = []
    videos = [replace(train[0], features=train[0].features[:0], truth=None), *train[1:]]
    with pytest.raises(BadItems, match="v000: features are empty"):
        fit(videos, QUICK, device="cpu", progress=lambda s, t, _: steps.append(s))
    narrow = make_videos(4, width=5)
    with pytest.raises(BadItems, match="5 channels wide, the model expects 16"):
        fit(train, QUICK, device="cpu", test=narrow, progress=lambda s, t, _: steps.append(s))
    assert steps == []


def test_a_device_that_is_not_there_is_named(train: list[AnomalyVideo]) -> None:
    with pytest.raises(UsageError, match="abacus"):
        fit(train, QUICK, device="abacus")


# --- records -----------------------------------------------------------------------------------------------------


def test_published_schedule_is_the_default() -> None:
    config = recommended()
    assert (config.learning_rate, config.weight_decay, config.batch, config.epochs) == (1e-3, 5e-4, 16, 1000)
    assert (config.segments, config.top, config.selection_dropout, config.margin) == (32, 3, 0.7, 200)
    assert (config.smoothness_on, config.sparsity_on, config.pairs, config.shuffle) == (
        "abnormal", "abnormal", "videos", True,
    )  # fmt: skip
    adam = make_optimizer(build(4, small(), 0), config)
    assert isinstance(adam, torch.optim.Adam)
    assert (adam.defaults["lr"], adam.defaults["weight_decay"]) == (1e-3, 5e-4)
    assert (adam.defaults["betas"], adam.defaults["decoupled_weight_decay"]) == ((0.9, 0.999), False)


def test_configurations_survive_json() -> None:
    for config in (recommended(), released(), ted_spad(), small()):
        assert MGFNConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(UsageError, match="unknown MGFN settings speed"):
        MGFNConfig.from_json({"speed": 3})


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch": 3},
        {"top": 0},
        {"selection_dropout": 1.0},
        {"learning_rate": 0.0},
        {"smoothness_on": "some"},
        {"sparsity_on": "all"},
        {"pairs": "none"},
        {"stages": ()},
        {"stages": (replace(small().stages[0], width=100),)},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        MGFNConfig(**wrong)  # type: ignore[arg-type]


def test_the_summary_calls_the_best_epoch_selected_on_test() -> None:
    found = summarise([{"roc_auc": value / 20} for value in range(12)] + [{"roc_auc": 0.5}])
    assert found["roc_auc_last"] == 0.5
    assert found["roc_auc_best_selected_on_test"] == 0.55
    assert found["roc_auc_mean_of_last_10"] == pytest.approx((sum(range(3, 12)) / 20 + 0.5) / 10)
    assert summarise([]) == {}


def test_evaluations_are_recorded_and_the_last_epoch_is_what_is_returned(
    fitted: FittedMGFN, test_set: list[AnomalyVideo]
) -> None:
    assert [("test" in record) for record in fitted.history] == [True] * 4
    assert fitted.summary()["roc_auc_last"] == fitted.score(test_set).overall.roc_auc
