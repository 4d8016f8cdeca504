"""The linear probe: what it learns, what it does not depend on, and what it refuses."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.forked import start_processes
from tests.ports import free_port
from tests.tasks.make_store import (
    ACTIONS,
    WIDTH,
    action_items,
    action_rows,
    action_store,
    damage,
    seen,
    unseen,
    write_store,
)
from videoveil import _torchvision  # noqa: F401 - must come before lightning
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, BadItems, CheckpointError, Diverged, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks import feature_set
from videoveil.tasks.action.metrics import Prior
from videoveil.tasks.action.probe import MODEL, ActionProbe, FittedProbe, ProbeConfig, fit, paper
from videoveil.tasks.base import Clips, Features
from videoveil.tasks.feature_set import FeatureSet
from videoveil.tasks.targets import Targets
from videoveil.training.supervised import CHECKPOINT

QUICK = ProbeConfig(epochs=6, batch=8, checkpoint_every=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return action_store(tmp_path_factory.mktemp("actions") / "store")


def equal(one: FittedProbe, two: FittedProbe) -> bool:
    return torch.equal(one.layer.weight, two.layer.weight) and torch.equal(one.layer.bias, two.layer.bias)


def train(source: Features, config: ProbeConfig = QUICK, **options: Any) -> FittedProbe:
    return ActionProbe(config).fit(source, device="cpu", **options)


# --- learning and scoring -----------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [ProbeConfig(epochs=30), dataclasses.replace(paper(), learning_rate=0.05)])
def test_separable_actions_are_learnt_far_above_chance(store: FeatureStore, config: ProbeConfig) -> None:
    score = train(seen(store), config).score(unseen(store))
    assert score.task == "action"
    assert score.items == 15
    top1 = score["top1"]
    assert top1.value is not None
    assert top1.chance == pytest.approx(1 / 3)
    assert top1.value >= 0.9
    assert set(score.per_class) == set(ACTIONS)


def test_what_noise_teaches_is_worth_no_more_than_chance(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    items = action_items(60, 90)
    noise = write_store(
        tmp_path / "s", items, [rng.standard_normal((2, WIDTH)) for _ in items], classes=ACTIONS
    )
    top1 = train(seen(noise), ProbeConfig(epochs=20)).score(unseen(noise))["top1"].value
    assert top1 is not None
    assert abs(top1 - 1 / 3) < 0.17


def test_a_video_is_the_mean_of_five_evenly_spaced_clips(store: FeatureStore) -> None:
    """The slow, obvious twin: numpy, one clip at a time."""
    fitted = train(seen(store))
    weight, bias = fitted.layer.weight.double().numpy(), fitted.layer.bias.double().numpy()
    data = feature_set.load(unseen(store))
    found = fitted.probabilities(data)
    for n, entry in enumerate(sorted(unseen(store).items(), key=lambda e: e.item.id)):
        clips = store.read(entry).clip.astype(np.float64)
        answers = []
        for k in range(5):
            logits = weight @ clips[round(k * (len(clips) - 1) / 4)] + bias
            answers.append(np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum())
        np.testing.assert_allclose(found[n], np.mean(answers, 0), atol=1e-12)
    several = FittedProbe(fitted.layer, fitted.names, fitted.prior, dataclasses.replace(QUICK, clips=2))
    assert not np.allclose(several.probabilities(data), found)


def test_what_is_said_of_a_video_does_not_depend_on_the_others(store: FeatureStore) -> None:
    fitted, data = train(seen(store)), feature_set.load(unseen(store))
    whole = fitted.probabilities(data)
    for n, (first, last) in enumerate(zip(data.offsets, data.offsets[1:])):
        alone = FeatureSet((data.items[n],), data.rows[first:last], np.array([0, last - first]))
        assert np.array_equal(fitted.probabilities(alone)[0], whole[n])


def test_scores_depend_neither_on_the_order_of_items_nor_on_how_the_store_was_written(
    store: FeatureStore, tmp_path: Path
) -> None:
    items = action_items()[::-1]
    rows = [action_rows(n, n % 3, 1 + n % 7) for n in range(len(items))][::-1]
    other = write_store(tmp_path / "s", items, rows, classes=ACTIONS, salt="elsewhere")
    one, two = train(seen(store)), train(seen(other))
    assert equal(one, two)
    assert one.score(unseen(store)) == two.score(unseen(other))


# --- standardising ------------------------------------------------------------------------------------------


def test_standardising_is_folded_into_the_layer_exactly(store: FeatureStore) -> None:
    """Training on features that were standardised by hand, without the option, gives the same answers."""
    data = feature_set.load(seen(store))
    rows = data.rows.astype(np.float64)
    mean, deviation = rows.mean(0), rows.std(0)
    norm = (256 / rows.shape[1]) ** 0.5  # that of 256 dimensions, whatever the width
    by_hand = dataclasses.replace(data, rows=(norm * (rows - mean) / deviation).astype(np.float32))
    labels = Targets(ACTIONS, np.array([ACTIONS.index(str(item.action)) for item in data.items]))
    folded = fit(data, labels, QUICK, device="cpu")
    plain = fit(by_hand, labels, dataclasses.replace(QUICK, standardise=False), device="cpu")
    np.testing.assert_allclose(
        folded.clip_probabilities(data.rows), plain.clip_probabilities(by_hand.rows), atol=2e-6
    )


def test_scale_and_shift_of_the_features_do_not_matter(store: FeatureStore) -> None:
    data = feature_set.load(seen(store))
    rng = np.random.default_rng(3)
    scale, shift = 10 ** rng.uniform(-3, 3, WIDTH), rng.normal(0, 5, WIDTH)
    moved = dataclasses.replace(data, rows=(data.rows * scale + shift * scale).astype(np.float32))
    labels = Targets(ACTIONS, np.array([ACTIONS.index(str(item.action)) for item in data.items]))
    one, two = (fit(d, labels, QUICK, device="cpu") for d in (data, moved))
    np.testing.assert_allclose(
        one.clip_probabilities(data.rows), two.clip_probabilities(moved.rows), atol=1e-4
    )


def test_a_dimension_that_never_changes_does_no_harm(store: FeatureStore) -> None:
    data = feature_set.load(seen(store))
    rows = data.rows.copy()
    rows[:, 4] = 7.0
    labels = Targets(ACTIONS, np.array([ACTIONS.index(str(item.action)) for item in data.items]))
    fitted = fit(dataclasses.replace(data, rows=rows), labels, QUICK, device="cpu")
    assert torch.isfinite(fitted.layer.weight).all()
    assert torch.isfinite(fitted.layer.bias).all()


# --- tags ---------------------------------------------------------------------------------------------------


def test_tags_are_learnt_and_scored_by_cmap(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tags = ("ball", "car", "dog")
    items, rows = [], []
    for n in range(60):
        has = rng.random(3) < 0.4
        here = tuple(tag for tag, there in zip(tags, has) if there)
        items.append(Item(f"v{n:02d}", Path("v.mp4"), "train" if n < 40 else "test", objects=here))
        clips = rng.standard_normal((3, WIDTH))
        clips[:, :3] += 4 * has
        rows.append(clips)
    store = write_store(tmp_path / "s", items, rows)
    fitted = train(seen(store), ProbeConfig(target="objects", epochs=60, batch=16, learning_rate=0.02))
    score = fitted.score(unseen(store))
    assert fitted.names == tags
    assert score.headline.name == "cmap"
    assert score.headline.value is not None
    assert score.headline.chance is not None
    assert score.headline.value > 0.9 > 0.6 > score.headline.chance


# --- repeatability and resuming -----------------------------------------------------------------------------


def test_the_seed_decides_everything_and_global_randomness_nothing(store: FeatureStore) -> None:
    torch.manual_seed(1)
    one = train(seen(store), seed=4)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    two = train(seen(store), seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert equal(one, two)
    assert list(one.history) == list(two.history)
    assert not equal(one, train(seen(store), seed=5))


class Killed(Exception):
    pass


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_killed_run_goes_on_to_the_very_same_weights_and_history(
    store: FeatureStore, tmp_path: Path, optimizer: Any
) -> None:
    config = dataclasses.replace(QUICK, optimizer=optimizer, warmup_epochs=1)
    whole = train(seen(store), config, run=tmp_path / "whole")

    def kill(step: int, total: int, loss: float) -> None:
        if step == 10:  # in the fourth of six epochs of three steps
            raise Killed

    with pytest.raises(Killed):
        train(seen(store), config, run=tmp_path / "cut", progress=kill)
    assert not (tmp_path / "cut" / MODEL).exists()
    steps: list[int] = []
    again = train(seen(store), config, run=tmp_path / "cut", progress=lambda s, *_: steps.append(s))
    assert steps == list(range(7, 19))  # from the checkpoint after two epochs
    assert equal(whole, again)
    assert list(whole.history) == list(again.history)
    assert (tmp_path / "whole" / MODEL).read_bytes() == (tmp_path / "cut" / MODEL).read_bytes()
    # a finished run is not trained again
    assert equal(whole, train(seen(store), config, run=tmp_path / "cut", progress=kill))


def test_a_run_of_other_data_or_settings_is_refused_naming_what_differs(
    store: FeatureStore, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(seen(store), run=run)
    changed = action_store(tmp_path / "s", seed=1)
    relabelled = write_store(
        tmp_path / "r",
        [dataclasses.replace(item, action=ACTIONS[(n + 1) % 3]) for n, item in enumerate(action_items())],
        [action_rows(n, n % 3, 1 + n % 7) for n in range(39)],
        classes=ACTIONS,
    )
    for name, source, config, seed in (
        ("data", seen(changed), QUICK, 0),
        ("labels", seen(relabelled), QUICK, 0),
        ("learning_rate", seen(store), dataclasses.replace(QUICK, learning_rate=1.0), 0),
        ("standardise", seen(store), dataclasses.replace(QUICK, standardise=False), 0),
        ("epochs", seen(store), dataclasses.replace(QUICK, epochs=7), 0),
        ("seed", seen(store), QUICK, 3),
    ):
        with pytest.raises(CheckpointError, match=f"with other {name};"):
            train(source, config, run=run, seed=seed)
    train(seen(store), dataclasses.replace(QUICK, checkpoint_every=1), run=run)  # may be changed
    (run / CHECKPOINT).write_bytes(b"half a file")
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        train(seen(store), run=run)


def test_progress_counts_every_step_to_the_end(store: FeatureStore) -> None:
    calls: list[tuple[int, int, float]] = []
    fitted = train(seen(store), progress=lambda *row: calls.append(row))
    assert [call[:2] for call in calls] == [(step, 18) for step in range(1, 19)]
    assert [row["epoch"] for row in fitted.history] == list(range(6))
    assert fitted.history[0]["loss"] == pytest.approx(np.mean([call[2] for call in calls[:3]]), rel=1e-6)


# --- several processes --------------------------------------------------------------------------------------


def _one_of_two(rank: int, root: str, destination: str, port: int, config: ProbeConfig) -> None:
    """What a launcher such as torchrun starts: the environment says which process this is."""
    from lightning.fabric import Fabric

    from videoveil.tasks.runs import train as train_run

    torch.set_num_threads(1)
    os.environ |= {
        **{name: str(rank) for name in ("RANK", "LOCAL_RANK")},
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "2"),
        **{
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": "test",
        },
    }
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    assert (fabric.global_rank, fabric.world_size) == (rank, 2)
    source = seen(FeatureStore.open(root))
    train_run(ActionProbe(config), source, destination, seed=2, fabric=fabric)
    with pytest.raises(UsageError, match="cannot be shared by 2 processes"):
        ActionProbe(dataclasses.replace(config, batch=7)).fit(source, fabric=fabric)
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(tmp_path: Path) -> None:
    store = action_store(tmp_path / "store", train=25)  # the last step has one video for two processes
    alone = train(seen(store), QUICK, seed=2)
    start_processes(_one_of_two, (str(store.root), str(tmp_path / "run"), free_port(), QUICK), nprocs=2)
    shared = FittedProbe.load(tmp_path / "run" / MODEL)
    torch.testing.assert_close(shared.layer.weight, alone.layer.weight, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(shared.layer.bias, alone.layer.bias, atol=1e-6, rtol=1e-5)
    for mine, theirs in zip(alone.history, shared.history, strict=True):
        assert theirs["loss"] == pytest.approx(mine["loss"], rel=1e-5)
        assert theirs["gradient_norm"] == pytest.approx(mine["gradient_norm"], rel=1e-4)


# --- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_divergence_stops_naming_step_epoch_items_and_the_way_out(
    store: FeatureStore, tmp_path: Path, optimizer: Any
) -> None:
    config = ProbeConfig(learning_rate=1e30, batch=8, optimizer=optimizer, decay="constant")
    with pytest.raises(
        Diverged, match=r"probe diverged in step \d+ \(epoch \d+, items v0.*lower learning_rate=1e\+30"
    ):
        train(seen(store), config, run=tmp_path / "run")
    assert not (tmp_path / "run" / MODEL).exists()


def test_every_bad_item_is_listed_in_one_error_before_training(tmp_path: Path) -> None:
    items = action_items(12, 0)
    items[5] = dataclasses.replace(items[5], action=None)
    items[6] = dataclasses.replace(items[6], action="fly")
    store = write_store(tmp_path / "s", items, [action_rows(n, n % 3, 3) for n in range(12)], classes=ACTIONS)
    nan = action_rows(1, 1, 3)
    nan[2, 3] = np.nan
    damage(store, "v001", np.zeros((0, WIDTH), np.float32))
    damage(store, "v002", nan)
    damage(store, "v003", np.zeros((3, WIDTH + 1), np.float32))
    damage(store, "v004", np.zeros((3, WIDTH), np.int64))
    (gone, broken) = (entry for entry in store.items() if entry.item.id in ("v007", "v008"))
    store.path(gone.key).unlink()
    store.path(broken.key).write_bytes(b"half")

    def never(*_: object) -> None:
        raise AssertionError("training has started")

    with pytest.raises(BadItems) as caught:
        train(seen(store), progress=never)
    text = {line.partition(":")[0]: line for line in caught.value.offenders}
    assert sorted(text) == [f"v00{n}" for n in range(1, 9)]
    assert len(caught.value.offenders) == 8
    for id_, says in {
        "v001": "no features",
        "v002": "1 of 3 clips have NaN or infinite values, first 2",
        "v003": f"{WIDTH + 1} wide instead of {WIDTH}",
        "v004": "int64",
        "v005": "no action label",
        "v006": "'fly' is not one of the 3 classes",
        "v007": "missing",
        "v008": "damaged",
    }.items():
        assert says in text[id_]


def test_an_empty_split_says_which_splits_there_are(store: FeatureStore) -> None:
    with pytest.raises(BadItems, match=r"no items in split 'val'; there are train 24, test 15"):
        train(Features(store, split="val"))


def test_a_dataset_without_labels_is_refused(tmp_path: Path) -> None:
    items = [Item(f"v{n}", Path("v.mp4"), "train") for n in range(3)]
    store = write_store(tmp_path / "s", items, [np.ones((2, 3))] * 3)
    with pytest.raises(AnnotationError, match="no item has action labels"):
        train(seen(store))
    with pytest.raises(UsageError, match="target 'colour': choose one of action, actions"):
        train(seen(store), dataclasses.replace(QUICK, target="colour"))  # type: ignore[arg-type]


def test_scoring_lists_test_items_that_do_not_fit(store: FeatureStore, tmp_path: Path) -> None:
    fitted = train(seen(store))
    narrow = write_store(tmp_path / "n", action_items(0, 2), [np.ones((1, 5))] * 2, classes=ACTIONS)
    with pytest.raises(BadItems) as caught:
        fitted.score(unseen(narrow))
    assert [line[:4] for line in caught.value.offenders] == ["v000", "v001"]
    assert f"5 wide instead of {WIDTH}" in caught.value.offenders[0]
    foreign = write_store(
        tmp_path / "f", [Item("x", Path("x.mp4"), "test", action="fly")], [np.ones((1, WIDTH))]
    )
    with pytest.raises(BadItems, match="'fly' is not one of the 3 classes"):
        fitted.score(unseen(foreign))


def test_clips_are_not_features() -> None:
    with pytest.raises(UsageError, match="a probe learns from features"):
        ActionProbe().fit(Clips(Dataset("d", Path(), ())))  # type: ignore[arg-type]


# --- on disk ------------------------------------------------------------------------------------------------


def test_a_saved_probe_says_the_same(store: FeatureStore, tmp_path: Path) -> None:
    fitted = train(seen(store))
    fitted.save(tmp_path / "probe.safetensors")
    back = ActionProbe().load(tmp_path / "probe.safetensors")
    assert equal(fitted, back)
    assert (back.names, back.prior, back.config, back.seed) == (ACTIONS, fitted.prior, QUICK, 0)
    assert back.score(unseen(store)) == fitted.score(unseen(store))
    again = tmp_path / "again.safetensors"
    back.save(again)
    assert again.read_bytes() == (tmp_path / "probe.safetensors").read_bytes()


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    from videoveil.training import checkpoints

    file = tmp_path / "x.safetensors"
    checkpoints.write(file, "something-else", {"weight": torch.zeros(2, 2)}, {})
    with pytest.raises(CheckpointError, match="expected 'videoveil-probe-1'"):
        FittedProbe.load(file)
    checkpoints.write(file, "videoveil-probe-1", {"weight": torch.zeros(2, 2)}, {})
    with pytest.raises(CheckpointError, match="description is damaged"):
        FittedProbe.load(file)
    whole = FittedProbe(nn.Linear(2, 2), ("a", "b"), Prior((0.5, 0.5)), QUICK)
    whole.names = ("a", "b", "c")
    whole.save(file)
    with pytest.raises(CheckpointError, match="not the weights of this network"):
        FittedProbe.load(file)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="clips=0"):
        ProbeConfig(clips=0)
    with pytest.raises(UsageError, match="precision='half' cannot be used"):
        data = FeatureSet((Item("a", Path("a"), "train"),), np.ones((1, 2), np.float32), np.array([0, 1]))
        fit(data, Targets(("a",), np.array([0])), dataclasses.replace(QUICK, precision="half"), device="cpu")
