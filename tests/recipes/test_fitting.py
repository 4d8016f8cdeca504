from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.tasks.make_store import grey_dataset
from tests.training.latent_world import (
    ACTIONS,
    ENCODER,
    WIDTH,
    World,
    accuracy,
    linear,
    store_of,
    untrimmed,
    world,
)
from videoveil.anonymizers import Attention, Erase, Keep, LatentAnonymizer, StageConfig
from videoveil.anonymizers.errors import EncoderMismatch
from videoveil.data.records import Dataset
from videoveil.encoders import create
from videoveil.encoders.base import Encoder
from videoveil.errors import BadItems, StoreError, UsageError
from videoveil.features.anonymize import anonymize
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.features.tokens import NotMeanPooled
from videoveil.recipes import (
    EncodedClips,
    LatentRecipe,
    Origin,
    fit,
    recipe,
    splavu,
    splavu_actions,
    veil,
    veil_static,
    veil_tuned,
)
from videoveil.recipes.fitting import from_videos, run_notes, run_recipe
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.base import Clips, Features
from videoveil.tasks.mgfn import small
from videoveil.tasks.tridet import TriDetConfig
from videoveil.training.identity import IdentitySettings
from videoveil.training.latent_heads import HeadSettings

HEADS = HeadSettings(
    action=ProbeConfig(epochs=3),
    detection=TriDetConfig(
        width=16,
        mlp_width=16,
        group_norm_groups=4,
        branch_blocks=2,
        max_seq_len=64,
        warmup_epochs=1,
        cosine_epochs=0,
    ),
    anomaly=small(epochs=1, batch=2),
)
SMALL = Attention(depth=1, heads=4)


def quick(base: LatentRecipe, **changes: Any) -> LatentRecipe:
    return replace(base, **{"stages": (SMALL,), "epochs": 2, "batch": 16, "heads": HEADS, **changes})


@pytest.fixture(scope="module")
def home() -> World:
    return world(160)


@pytest.fixture(scope="module")
def actions(tmp_path_factory: pytest.TempPathFactory, home: World) -> Features:
    return Features(store_of(tmp_path_factory.mktemp("actions") / "s", home.pool), split="train")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Features]:
    root = tmp_path_factory.mktemp("others")
    kinds = ("detection", "anomaly")
    stores = {kind: store_of(root / kind, untrimmed(seed=i), kind=kind) for i, kind in enumerate(kinds)}
    return {kind: Features(store, split="train") for kind, store in stores.items()}


def leakage(anonymizer: LatentAnonymizer | None, home: World, away: World) -> dict[str, float]:
    """A fresh reader's accuracy: looks in static and in moving clips, gait and action in moving ones."""

    def through(x: Tensor) -> Tensor:
        with torch.no_grad():
            return x if anonymizer is None else anonymizer(x)

    def one(pick: Any, label: Any, classes: int = 2) -> float:
        reader = linear(through(pick(home)), label(home), classes)
        return accuracy(reader, through(pick(away)), label(away))

    def still(w: World) -> Tensor:
        assert w.pool.static is not None
        return w.pool.static.flatten(0, 1)

    def moving(w: World) -> Tensor:
        return w.pool.rows

    return {
        "static": one(still, lambda w: w.looks.repeat_interleave(4)),
        "moving": one(moving, lambda w: w.looks[w.pool.owners()]),
        "gait": one(moving, lambda w: w.gait[w.pool.owners()]),
        "action": one(moving, lambda w: w.actions[w.pool.owners()], ACTIONS),
    }


HIDING = {"keep": Keep(4, ridge=0.1), "erase": Erase(13, "both")}  # 6 axes of looks; looks, gait, unseen task


@pytest.mark.parametrize("stage", HIDING.values(), ids=HIDING)
def test_our_recipes_hide_the_person_in_static_and_moving_clips_and_keep_the_action(
    tmp_path: Path, actions: Features, home: World, stage: StageConfig
) -> None:
    away = world(300, seed=1)
    recipe = replace(veil(), stages=(stage,))
    found = leakage(fit(recipe, {"action": actions}, tmp_path / "run", device="cpu"), home, away)
    raw = leakage(None, home, away)
    assert min(raw.values()) > 0.85
    assert found["static"] < 0.6
    assert found["moving"] < 0.6
    assert found["gait"] < 0.6
    assert found["action"] > 0.95


def test_erasing_from_static_clips_alone_leaves_what_only_moves(
    tmp_path: Path, actions: Features, home: World
) -> None:
    away = world(300, seed=1)
    recipe = replace(veil_static(), stages=(Erase(6),))
    found = leakage(fit(recipe, {"action": actions}, tmp_path / "run", device="cpu"), home, away)
    assert found["static"] < 0.6
    assert found["gait"] > 0.85


def test_fitting_twice_gives_the_same_bytes_and_a_finished_run_is_only_read(
    tmp_path: Path, actions: Features
) -> None:
    sources = {"action": actions}
    one = fit(veil(), sources, tmp_path / "a", device="cpu")
    two = fit(veil(), sources, tmp_path / "b", device="cpu")
    assert one.content_hash() == two.content_hash()
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    stamp = (tmp_path / "a/model.safetensors").stat().st_mtime_ns
    again = fit(veil(), sources, tmp_path / "a", device="cpu")
    assert again.content_hash() == one.content_hash()
    assert not again.training
    assert (tmp_path / "a/model.safetensors").stat().st_mtime_ns == stamp
    assert LatentAnonymizer.from_pretrained(tmp_path / "a").config.encoder is not None


def test_a_run_folder_says_how_it_came_to_be(tmp_path: Path, actions: Features) -> None:
    recipe = quick(splavu_actions(), evaluate_every=1)
    made = fit(
        recipe,
        {"action": actions},
        tmp_path,
        seed=3,
        device="cpu",
        evaluate=lambda anonymizer, epoch: (0.8, 0.4),
    )
    assert run_recipe(tmp_path) == recipe
    assert "name: splavu-actions" in (tmp_path / "recipe.yaml").read_text()
    value = json.loads((tmp_path / "run.json").read_text())
    assert value["seed"] == 3
    assert value["sources"]["action"]["encoder"] == ENCODER
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == 2
    assert [point["score"] for point in json.loads((tmp_path / "curve.json").read_text())] == [0.7, 0.7]
    assert "action: made-up (train)" in made.card.training_data
    assert made.config.encoder is not None
    assert made.config.encoder.hash == ENCODER["hash"]
    assert made.export_problems() == []


@pytest.mark.slow
def test_all_tasks_train_together_and_a_killed_fit_goes_on_to_the_same_anonymizer(
    tmp_path: Path, actions: Features, others: dict[str, Features]
) -> None:
    recipe = quick(splavu(), checkpoint_every=1, batch=64)
    sources = {"action": actions, **others}
    straight = fit(recipe, sources, tmp_path / "straight", device="cpu")

    class Killed(Exception):
        pass

    def kill(step: int, total: int, loss: float) -> None:
        if step > total // 2:
            raise Killed

    with pytest.raises(Killed):
        fit(recipe, sources, tmp_path / "cut", device="cpu", progress=kill)
    assert not (tmp_path / "cut/config.json").exists()
    again = fit(recipe, sources, tmp_path / "cut", device="cpu")
    assert again.content_hash() == straight.content_hash()
    last = json.loads((tmp_path / "cut/history.jsonl").read_text().splitlines()[-1])
    assert last["action"] > 0
    assert last["detection"] > 0
    assert last["anomaly"] > 0


def test_an_adapter_that_does_not_start_as_the_identity_learns_it_first(
    tmp_path: Path, actions: Features
) -> None:
    settings = IdentitySettings(epochs=60, batch=64, learning_rate=3e-3)
    recipe = quick(splavu_actions(), stages=(Attention(1, 4, init="default"),), identity=settings, epochs=1)
    made = fit(recipe, {"action": actions}, tmp_path, device="cpu")
    assert (tmp_path / "identity.safetensors").is_file()
    rows = torch.from_numpy(actions.store.read(actions.items()[0]).clip)
    with torch.no_grad():
        assert float((made(rows) - rows).abs().mean() / rows.abs().mean()) < 0.3


def test_an_identity_start_that_falls_short_is_recorded_and_warned_of(
    tmp_path: Path, actions: Features
) -> None:
    stage = Attention(1, 4, init="default")
    short = quick(splavu_actions(), stages=(stage,), identity=IdentitySettings(epochs=1), epochs=1)
    with pytest.warns(UserWarning, match=r"splavu-actions: the identity start has .* init='zero'"):
        made = fit(short, {"action": actions}, tmp_path / "short", device="cpu")
    value = json.loads((tmp_path / "short/run.json").read_text())
    assert value["identity_error"] > 0.05
    assert f"relative error of {value['identity_error']:.3f}" in made.card.notes
    assert any("more than identity.epochs=1" in note for note in value["notes"])
    settings = IdentitySettings(epochs=200, batch=64, learning_rate=3e-3, weight_decay=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(replace(short, identity=settings), {"action": actions}, tmp_path / "long", device="cpu")
    assert 0 < json.loads((tmp_path / "long/run.json").read_text())["identity_error"] <= 0.05


def test_an_adapter_behind_the_erasure_cannot_bring_anything_back(tmp_path: Path, actions: Features) -> None:
    made = fit(
        quick(veil_tuned(), stages=(Erase(6, "both"), SMALL)), {"action": actions}, tmp_path, device="cpu"
    )
    directions = made.state_dict()["stages.0.directions"]
    x = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(0))
    moved = x + torch.randn(5, 12, generator=torch.Generator().manual_seed(1)) @ directions.T.float()
    with torch.no_grad():
        assert torch.allclose(made(x), made(moved), atol=1e-4)


def test_the_heads_directions_are_spared_when_asked_for(tmp_path: Path, actions: Features) -> None:
    from videoveil.tasks.action.probe import FittedProbe

    recipe = replace(veil(), stages=(Erase(8, "both"),), spare=True, heads=HEADS)
    made = fit(recipe, {"action": actions}, tmp_path, device="cpu")
    head = FittedProbe.load(tmp_path / "heads/action/model.safetensors").layer
    rows = torch.from_numpy(actions.store.read(actions.items()[5]).clip)
    with torch.no_grad():
        assert torch.allclose(head(made(rows)), head(rows), atol=1e-4)
        assert not torch.allclose(made(rows), rows, atol=0.1)


def test_untrimmed_videos_alone_are_enough_for_the_default(
    tmp_path: Path, others: dict[str, Features]
) -> None:
    made = fit(
        replace(veil(), stages=(Erase(4, "both"),)), {"anomaly": others["anomaly"]}, tmp_path, device="cpu"
    )
    assert made.fitted
    assert int((made.state_dict()["stages.0.directions"].abs().sum(0) > 0).sum()) >= 4


def test_what_does_not_fit_together_is_refused_before_anything_is_written(
    tmp_path: Path, actions: Features, others: dict[str, Features]
) -> None:
    with pytest.raises(UsageError, match="no features for detection, anomaly"):
        fit(splavu(), {"action": actions}, tmp_path / "a")
    with pytest.raises(UsageError, match="features for gait"):
        fit(veil(), {"gait": actions}, tmp_path / "a")
    with pytest.raises(UsageError, match="at least one task"):
        fit(veil(), {}, tmp_path / "a")
    with pytest.raises(UsageError, match="spare=True needs action"):
        fit(replace(veil(), spare=True), others, tmp_path / "a")
    other = FeatureStore(others["anomaly"].store.root, {**ENCODER, "hash": "cd" * 32}, actions.store.recipe)
    with pytest.raises(StoreError, match="several encoders"):
        fit(veil(), {"action": actions, "anomaly": Features(other)}, tmp_path / "a")
    rough = replace(actions.store.recipe, precision="bf16")
    with pytest.raises(StoreError, match="several precisions"):
        halved = Features(FeatureStore(others["anomaly"].store.root, ENCODER, rough))
        fit(veil(), {"action": actions, "anomaly": halved}, tmp_path / "a")
    veiled = FeatureStore(actions.store.root, {**ENCODER, "anonymizer": {}}, actions.store.recipe)
    with pytest.raises(StoreError, match="anonymized already"):
        fit(veil(), {"action": Features(veiled)}, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_features_without_static_clips_are_refused_with_the_fix(tmp_path: Path, home: World) -> None:
    bare = Features(store_of(tmp_path / "s", world(16).pool, static=False))
    with pytest.raises(StoreError, match="extract again with static=10"):
        fit(veil(), {"action": bare}, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
    mended = Features(store_of(tmp_path / "mended", world(16).pool))
    assert fit(replace(veil(), stages=(Keep(4),)), {"action": mended}, tmp_path / "run", device="cpu").fitted


def test_a_run_of_an_ablation_says_which(tmp_path: Path, actions: Features) -> None:
    made = fit(quick(recipe("table5/T+LC")), {"action": actions}, tmp_path, device="cpu")
    assert run_recipe(tmp_path).name == "table5/T+LC"
    assert "Recipe `table5/T+LC`, trained for action." in made.card.notes


def test_data_that_the_papers_row_was_not_made_with_are_noted(tmp_path: Path, actions: Features) -> None:
    said = "published with VideoMAE-B on ucf101, made here with made-up on made-up"
    made = fit(quick(recipe("table3/UCF101")), {"action": actions}, tmp_path / "a", device="cpu")
    assert run_notes(tmp_path / "a") == [said]
    assert f"P{said[1:]}." in made.card.notes
    own = quick(splavu_actions(), origin=Origin("made-up", "made-up"))
    fit(own, {"action": actions}, tmp_path / "b", device="cpu")
    assert run_notes(tmp_path / "b") == []


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path, actions: Features) -> None:
    fit(veil(), {"action": actions}, tmp_path / "run", device="cpu")
    with pytest.raises(UsageError, match="holds a run with other seed"):
        fit(veil(), {"action": actions}, tmp_path / "run", seed=1, device="cpu")
    with pytest.raises(UsageError, match="holds a run with other recipe"):
        fit(veil_static(), {"action": actions}, tmp_path / "run", device="cpu")
    (tmp_path / "mine").mkdir()
    np.save(tmp_path / "mine" / "x.npy", np.zeros(3))
    with pytest.raises(UsageError, match="is not a run"):
        fit(veil(), {"action": actions}, tmp_path / "mine", device="cpu")
    with pytest.raises(UsageError, match="not a run"):
        run_recipe(tmp_path / "nothing")


# --- from videos --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return grey_dataset(tmp_path_factory.mktemp("films"), train=6, test=2)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return create("tiny", frames=8, size=32)


@pytest.fixture
def watched(films: Dataset, encoder: Encoder) -> EncodedClips:
    return EncodedClips(Clips(films, "train"), encoder)


class Killed(Exception):
    pass


def test_an_anonymizer_learns_from_videos_and_is_for_the_features_of_the_same_encoder(
    tmp_path: Path, films: Dataset, encoder: Encoder, watched: EncodedClips
) -> None:
    run = tmp_path / "run"
    made = fit(quick(splavu_actions(), learning_rate=1e-2), {"action": watched}, run, device="cpu")
    facts = json.loads((run / "run.json").read_text())["sources"]["action"]
    assert (facts["kind"], facts["dataset"], facts["split"]) == ("videos", "greys", "train")
    assert facts["encoder"]["hash"] == encoder.content_hash()
    assert from_videos(run)
    assert made.config.encoder is not None
    assert (made.config.encoder.name, made.config.encoder.hash) == ("tiny", encoder.content_hash())
    assert made.card.training_data == "action: greys (train)"
    assert "trained for action from videos, the encoder in the loop" in made.card.notes
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert len(history) == 2
    assert all(record["action"] > 0 and record["budget"] > 0 for record in history)
    assert history[1]["consistency"] > 0  # it is no longer the identity
    extract(films, tmp_path / "raw", encoder, recipe_for(encoder, static=2), device="cpu")
    assert anonymize(tmp_path / "raw", tmp_path / "safe", made, device="cpu").items == 8
    other = create("tiny", weights="random", frames=8, size=32)
    extract(films, tmp_path / "other", other, recipe_for(other, static=2), device="cpu")
    with pytest.raises(EncoderMismatch, match="what was measured would not hold"):
        anonymize(tmp_path / "other", tmp_path / "no", made, device="cpu")


def test_the_head_starts_from_raw_features_of_the_videos(tmp_path: Path, watched: EncodedClips) -> None:
    from videoveil.tasks.action.probe import FittedProbe

    taught = replace(HEADS, action=ProbeConfig(epochs=30))
    fit(quick(splavu_actions(), heads=taught, epochs=1), {"action": watched}, tmp_path, device="cpu")
    head = FittedProbe.load(tmp_path / "heads/action/model.safetensors")
    assert head.names == ("above", "below")
    assert head.history[-1]["loss"] < 0.1  # bright above or bright below is seen at a glance
    first = json.loads((tmp_path / "history.jsonl").read_text().splitlines()[0])
    assert first["action"] < 0.3


def test_a_killed_training_from_videos_goes_on_to_the_same_anonymizer(
    tmp_path: Path, watched: EncodedClips
) -> None:
    short = quick(splavu_actions(), epochs=4, batch=3, checkpoint_every=1)
    straight = fit(short, {"action": watched}, tmp_path / "straight", device="cpu")

    def kill(step: int, total: int, loss: float) -> None:
        if step > total // 2:
            raise Killed

    with pytest.raises(Killed):
        fit(short, {"action": watched}, tmp_path / "cut", device="cpu", progress=kill)
    done = len((tmp_path / "cut/history.jsonl").read_text().splitlines())
    assert 0 < done < 4
    again = fit(short, {"action": watched}, tmp_path / "cut", device="cpu")
    assert again.content_hash() == straight.content_hash()


@pytest.mark.parametrize("changes", [{"w_temporal": 1.0}, {"pairs": "moving"}], ids=["temporal", "moving"])
def test_objectives_that_compare_moving_clips_get_two_of_every_video(
    tmp_path: Path, watched: EncodedClips, changes: dict[str, Any]
) -> None:
    fit(quick(splavu_actions(), epochs=1, **changes), {"action": watched}, tmp_path, device="cpu")
    (record,) = map(json.loads, (tmp_path / "history.jsonl").read_text().splitlines())
    assert record["temporal" if "w_temporal" in changes else "budget"] > 0


def test_untrimmed_videos_come_as_features_beside_the_videos_of_actions(
    tmp_path: Path, films: Dataset, encoder: Encoder, watched: EncodedClips
) -> None:
    odd = tuple(replace(item, action=None, anomaly=bool(n % 2)) for n, item in enumerate(films.items))
    extract(replace(films, items=odd), tmp_path / "s", encoder, recipe_for(encoder, static=2), device="cpu")
    sources = {"action": watched, "anomaly": Features(FeatureStore.open(tmp_path / "s"), split="train")}
    both = quick(splavu(), tasks=("action", "anomaly"), epochs=1)
    fit(both, sources, tmp_path / "run", device="cpu")
    (record,) = map(json.loads, (tmp_path / "run/history.jsonl").read_text().splitlines())
    assert record["action"] > 0
    assert record["anomaly"] > 0


def test_our_default_is_made_from_videos_as_well(tmp_path: Path, watched: EncodedClips) -> None:
    made = fit(replace(veil(), stages=(Keep(4),)), {"action": watched}, tmp_path, device="cpu")
    assert made.fitted
    assert "fitted in closed form from videos" in made.card.notes


def test_videos_that_cannot_be_learnt_from_are_refused_and_the_folder_stays_free(
    tmp_path: Path, films: Dataset, encoder: Encoder, watched: EncodedClips, others: dict[str, Features]
) -> None:
    run = tmp_path / "run"
    with pytest.raises(UsageError, match=r"no features for detection, anomaly; .*`splavu-actions`"):
        fit(splavu(), {"action": watched}, run)
    with pytest.raises(UsageError, match="videos for anomaly: only actions are learnt from videos"):
        fit(veil(), {"anomaly": watched}, run)
    with pytest.raises(StoreError, match="several encoders"):
        fit(veil(), {"action": watched, "anomaly": others["anomaly"]}, run)
    with pytest.raises(BadItems, match="no items in split 'validation'"):
        fit(
            splavu_actions(), {"action": EncodedClips(Clips(films, "validation"), encoder)}, run, device="cpu"
        )
    assert not run.exists()


def test_temporal_tokens_whose_mean_is_not_the_vector_are_refused_before_a_folder_appears(
    tmp_path: Path,
) -> None:
    store = store_of(tmp_path / "raw", world(3).pool, tokens=2)
    for entry in store.items():
        features = store.read(entry)
        store.write(entry.key, replace(features, clip=-features.clip), {})
    asked = replace(splavu_actions(), tokens="temporal", heads=HEADS)
    with pytest.raises(NotMeanPooled, match="its vectors are not the means"):
        fit(asked, {"action": Features(store, split="train")}, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
