from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from videoveil.anonymizers import Attention, Erase, LatentAnonymizer, StaticResidual, latent
from videoveil.errors import CheckpointError, Diverged, UsageError
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.splavu import splavu_actions
from videoveil.tasks.mgfn import MGFN, small
from videoveil.tasks.tridet import TriDet, TriDetConfig
from videoveil.training.latent import LatentLoop, LatentSchedule, score_curve
from videoveil.training.latent_data import LatentData
from videoveil.training.latent_heads import HeadSettings, trainable

from .latent_world import ACTIONS, UNSEEN, WIDTH, World, accuracy, linear, untrimmed, world

SMALL = Attention(depth=1, heads=4)
DETECTION = TriDetConfig(
    width=16, mlp_width=16, group_norm_groups=4, branch_blocks=2, max_seq_len=64, learning_rate=1e-3
)
HEADS = HeadSettings(detection=DETECTION, anomaly=small(epochs=1, batch=2))


def quick(**changes: Any) -> LatentRecipe:
    """The published objective on a world of small features, with a rate for a few hundred steps."""
    base = replace(splavu_actions(), stages=(SMALL,), epochs=40, batch=32, learning_rate=16e-3, heads=HEADS)
    return replace(base, **changes)


def heads_for(recipe: LatentRecipe, home: World | None = None) -> dict[str, nn.Module]:
    made: dict[str, nn.Module] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        if "action" in recipe.tasks and home is not None:
            made["action"] = trainable(linear(home.pool.rows, home.actions[home.pool.owners()], ACTIONS))
        if "detection" in recipe.tasks:
            made["detection"] = TriDet(WIDTH, 2, recipe.heads.detection)
        if "anomaly" in recipe.tasks:
            made["anomaly"] = MGFN(WIDTH, recipe.heads.anomaly)
    return made


def loop_of(recipe: LatentRecipe, home: World | None = None, **options: Any) -> LatentLoop:
    from videoveil.recipes.fitting import make_loop

    data = LatentData(
        action=home.pool if home is not None else None,
        detection=untrimmed() if "detection" in recipe.tasks else None,
        anomaly=untrimmed(seed=1) if "anomaly" in recipe.tasks else None,
    )
    anonymizer = options.pop("anonymizer", None) or latent(WIDTH, *recipe.stages)
    made = make_loop(anonymizer, recipe, data, heads_for(recipe, home), seed=options.pop("seed", 0))
    for name, value in options.items():
        setattr(made, name, value)
    return made


def through(anonymizer: LatentAnonymizer, x: Tensor) -> Tensor:
    with torch.no_grad():
        return anonymizer(x)


# --- what the terms of the objective do (the rows of Table 5, small) ----------------------------------------

HOME, AWAY = world(160, scale=0.3), world(300, seed=1, scale=0.3)


def attack_on_static(anonymizer: LatentAnonymizer | None) -> float:
    """Accuracy of a fresh attacker on looks in static clips."""

    def rows(one: World) -> Tensor:
        assert one.pool.static is not None
        x = one.pool.static.flatten(0, 1)
        return x if anonymizer is None else through(anonymizer, x)

    attacker = linear(rows(HOME), HOME.looks.repeat_interleave(4), 2)
    return accuracy(attacker, rows(AWAY), AWAY.looks.repeat_interleave(4))


def raw_heads_on(anonymizer: LatentAnonymizer) -> tuple[float, float]:
    """What heads that were taught on raw features are worth on anonymized ones: the task, and an unseen one."""
    owners, away = HOME.pool.owners(), AWAY.pool.owners()
    x = through(anonymizer, AWAY.pool.rows)
    task = linear(HOME.pool.rows, HOME.actions[owners], ACTIONS)
    unseen = linear(HOME.pool.rows, HOME.unseen[owners], UNSEEN)
    return accuracy(task, x, AWAY.actions[away]), accuracy(unseen, x, AWAY.unseen[away])


def trained(**changes: Any) -> tuple[LatentAnonymizer, list[dict[str, Any]]]:
    made = loop_of(quick(**changes), HOME)
    return made.anonymizer, made.run()


def test_the_budget_lowers_what_static_clips_tell_and_without_it_the_attack_stays_at_raw() -> None:
    raw = attack_on_static(None)
    with_budget, history = trained()
    without, flat = trained(w_budget=0.0)
    assert raw > 0.85
    assert history[-1]["budget"] > history[0]["budget"] + 2
    assert attack_on_static(with_budget) < raw - 0.15
    assert abs(attack_on_static(without) - raw) < 0.02
    assert abs(flat[-1]["budget"] - flat[0]["budget"]) < 0.2
    assert min(raw_heads_on(with_budget)) > 0.95


def test_without_the_utility_term_who_was_taught_on_raw_features_loses_the_trained_task() -> None:
    """Pairs of moving clips, weak consistency: the budget then moves the action away unless utility holds it.

    Heads that learn afresh find it again, on twins with the published objective too (docs/latent.md, Table 5).
    """
    with_utility, _ = trained(pairs="moving", w_consistency=1.0)
    without, _ = trained(pairs="moving", w_consistency=1.0, w_utility=0.0)
    assert raw_heads_on(with_utility)[0] > 0.9
    assert raw_heads_on(without)[0] < 0.6


def test_without_the_consistency_term_who_was_taught_on_raw_features_loses_an_unseen_task() -> None:
    with_consistency, _ = trained(pairs="moving")
    without, _ = trained(pairs="moving", w_consistency=0.0)
    assert raw_heads_on(with_consistency)[1] > 0.9
    assert raw_heads_on(without)[1] < 0.6


def test_the_temporal_budget_lowers_what_only_moving_clips_tell() -> None:
    """Gait is in no static clip: the published budget leaves it readable by whoever could read it before."""
    owners, away = HOME.pool.owners(), AWAY.pool.owners()
    reader = linear(HOME.pool.rows, HOME.gait[owners], 2)

    def gait(anonymizer: LatentAnonymizer) -> float:
        return accuracy(reader, through(anonymizer, AWAY.pool.rows), AWAY.gait[away])

    published, _ = trained(epochs=60)
    temporal, history = trained(epochs=60, w_temporal=1.0, w_consistency=10.0)
    assert gait(published) > 0.85
    assert gait(temporal) < 0.7
    assert history[-1]["temporal"] > history[0]["temporal"] + 0.5
    assert raw_heads_on(temporal)[0] > 0.9


# --- the loop -----------------------------------------------------------------------------------------------


def test_the_first_step_sees_the_identity() -> None:
    made = loop_of(quick(epochs=1, batch=160, stages=(Attention(1, 4, dropout=0.0),)), HOME)
    history = made.run()
    assert history[0]["consistency"] == 0.0
    assert history[0]["action"] < 0.1  # the head was taught on raw features


def weights(made: LatentLoop) -> dict[str, Tensor]:
    return {name: t.clone() for name, t in made.networks.state_dict().items()}


def without_time(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


@pytest.mark.parametrize("tasks", [("action",), ("action", "detection", "anomaly"), ("detection", "anomaly")])
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, tasks: tuple[str, ...]) -> None:
    home = world(24)
    recipe = quick(epochs=4, tasks=tasks, batch=8, checkpoint_every=2)
    own = home if "action" in tasks else None
    straight = loop_of(recipe, own, folder=tmp_path / "straight")
    straight.run()

    class Killed(Exception):
        pass

    def kill(step: int, total: int, loss: float) -> None:
        if step > total // 2:
            raise Killed

    cut = loop_of(recipe, own, folder=tmp_path / "cut", progress=kill)
    with pytest.raises(Killed):
        cut.run()
    again = loop_of(recipe, own, folder=tmp_path / "cut")
    again.run()
    assert without_time(again.history) == without_time(straight.history)
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(again)[name]), name
    third = loop_of(recipe, own, folder=tmp_path / "cut")
    assert without_time(third.run()) == without_time(straight.history)  # done: nothing is trained again


def test_equal_seeds_give_equal_weights_and_other_seeds_others() -> None:
    recipe = quick(epochs=2)
    runs = [loop_of(recipe, HOME, seed=seed) for seed in (0, 0, 1)]
    before = torch.get_rng_state()
    for made in runs:
        made.run()
    assert torch.equal(before, torch.get_rng_state())  # the caller's random numbers are left alone
    first, second, third = (weights(made)["anonymizer.stages.0.layers.0.linear2.weight"] for made in runs)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_a_run_is_not_continued_with_other_settings_or_data(tmp_path: Path) -> None:
    home = world(16)
    loop_of(quick(epochs=1), home, folder=tmp_path).run()
    with pytest.raises(CheckpointError, match="learning_rate"):
        loop_of(quick(epochs=1, learning_rate=1e-3), home, folder=tmp_path).run()
    with pytest.raises(CheckpointError, match="objective"):
        loop_of(quick(epochs=1, w_budget=2.0), home, folder=tmp_path).run()
    with pytest.raises(CheckpointError, match="data"):
        loop_of(quick(epochs=1), world(16, seed=5), folder=tmp_path).run()


def test_divergence_names_the_step_and_the_terms(tmp_path: Path) -> None:
    home = world(16)
    made = loop_of(quick(epochs=2), home, folder=tmp_path)
    home.pool.rows[int(home.pool.offsets[3]) : int(home.pool.offsets[4])] = math.inf
    with pytest.raises(Diverged, match=r"step 1 \(epoch 1\).*consistency (inf|nan), .*budget [0-9.]+,"):
        made.run()
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_heads_learn_from_utility_only_and_the_anonymizer_from_everything() -> None:
    """With utility at 0 a head keeps its weights but for weight decay, which is 0 here."""
    recipe = quick(epochs=2, w_utility=0.0, weight_decay=0.0)
    made = loop_of(recipe, HOME)
    before = {n: p.clone() for n, p in made.heads["action"].named_parameters()}
    made.run()
    for name, parameter in made.heads["action"].named_parameters():
        assert torch.equal(before[name], parameter), name
    moved = loop_of(quick(epochs=2, weight_decay=0.0), HOME)
    moved.run()
    assert not torch.equal(before["weight"], moved.heads["action"].get_parameter("weight"))


def test_evaluation_is_recorded_as_eq_14_and_its_time_is_not_counted() -> None:
    import time

    def slow(anonymizer: LatentAnonymizer, epoch: int) -> tuple[float, float]:
        assert not anonymizer.training
        time.sleep(0.3)
        return 0.9, 0.3

    made = loop_of(quick(epochs=4, evaluate_every=2, batch=160), HOME, evaluate=slow)
    began = time.perf_counter()
    history = made.run()
    whole = time.perf_counter() - began
    points = score_curve(history)
    assert [record["epoch"] for record in history if "score" in record] == [1, 3]
    assert points[0]["score"] == pytest.approx(0.5 * (0.9 + 1 - 0.3))
    assert points[1]["seconds"] > points[0]["seconds"]
    assert history[-1]["seconds"] < whole - 0.6  # two evaluations of 0.3 s


def test_the_rate_grows_with_the_batch_and_falls_by_a_cosine_if_asked() -> None:
    schedule = LatentSchedule(decay="cosine", epochs=10)
    assert schedule.rate(512) == 1e-4
    assert schedule.rate(64) == pytest.approx(1.25e-5)
    assert schedule.factor(0) == 1
    assert schedule.factor(5) == pytest.approx(0.5)
    made = loop_of(quick(epochs=2, decay="cosine"), HOME)
    rates = [record["learning_rate"] for record in made.run()]
    assert rates == pytest.approx([1e-3, 5e-4])
    assert [group["lr"] for group in made.optimizer.param_groups] == pytest.approx([5e-4, 5e-4])


def test_every_head_has_its_own_rate_and_decay() -> None:
    recipe = quick(epochs=1, tasks=("action", "detection", "anomaly"), batch=8)
    made = loop_of(recipe, world(16))
    made.run()
    groups = [(g["lr"], g["weight_decay"]) for g in made.optimizer.param_groups]
    rate = 16e-3 * 8 / 512
    assert groups == [(rate, 0.01), (rate, 0.01), (1e-3, 0.025), (1e-3, 0.0), (1e-4, 5e-4)]
    counted = sum(len(g["params"]) for g in made.optimizer.param_groups)
    assert counted == sum(1 for p in made.networks.parameters() if p.requires_grad)


def test_stages_that_want_static_features_get_those_of_their_video() -> None:
    home = world(24)
    anonymizer = latent(WIDTH, StaticResidual(), SMALL)
    owners = home.pool.owners()
    anonymizer.fit_from(home.pool.rows, static=home.pool.still()[owners])
    recipe = quick(epochs=1, tasks=("action", "detection", "anomaly"), batch=8)
    history = loop_of(recipe, home, anonymizer=anonymizer).run()
    assert all(math.isfinite(value) for value in history[0].values())


def test_nothing_to_train_and_unfitted_stages_are_refused() -> None:
    erased = latent(WIDTH, Erase(4))
    with pytest.raises(UsageError, match="nothing to train"):
        loop_of(quick(), HOME, anonymizer=erased).run()
    with pytest.raises(UsageError, match="not been fitted"):
        loop_of(quick(), HOME, anonymizer=latent(WIDTH, Erase(4), SMALL)).run()


@pytest.mark.parametrize(
    ("field", "value"), [("epochs", 0), ("learning_rate", math.nan), ("decay", "linear"), ("precision", "16")]
)
def test_settings_that_make_no_sense_are_named(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=field):
        LatentSchedule(**{field: value})


def test_the_history_is_written_as_lines_of_json(tmp_path: Path) -> None:
    loop_of(quick(epochs=3), world(16), folder=tmp_path).run()
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [0, 1, 2]
    assert {"total", "budget", "consistency", "action", "seconds"} <= set(json.loads(lines[0]))


def test_half_precision_gives_nearly_the_same_losses() -> None:
    full = loop_of(quick(epochs=2), HOME).run()
    half = loop_of(quick(epochs=2, precision="bf16-mixed"), HOME).run()
    assert half[0]["budget"] == pytest.approx(full[0]["budget"], rel=0.05)
    assert half[0]["budget"] != full[0]["budget"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_captured_step_gives_the_losses_of_the_plain_one() -> None:
    recipe = quick(epochs=3, stages=(Attention(1, 4, dropout=0.0),))
    plain = loop_of(recipe, HOME).run()

    def on_device(capture: bool) -> list[dict[str, Any]]:
        from videoveil.recipes.fitting import make_loop

        made = make_loop(
            latent(WIDTH, *recipe.stages),
            recipe,
            LatentData(action=HOME.pool),
            heads_for(recipe, HOME),
            device=torch.device("cuda"),
        )
        made.capture = capture
        return made.run()

    for history in (on_device(False), on_device(True)):
        for mine, theirs in zip(history, plain):
            for name in ("total", "budget", "action", "consistency", "gradient_norm"):
                assert mine[name] == pytest.approx(theirs[name], rel=2e-3, abs=1e-5), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_whoever_looks_into_a_captured_run_sees_the_weights_of_that_epoch() -> None:
    from videoveil.recipes.fitting import make_loop

    recipe, x = quick(epochs=3, evaluate_every=1), torch.randn(8, WIDTH, device="cuda")
    seen: list[torch.Tensor] = []

    def look(anonymizer: LatentAnonymizer, epoch: int) -> tuple[float, float]:
        with torch.inference_mode():
            seen.append(anonymizer(x).cpu())
        return 0.0, 0.0

    where = torch.device("cuda")
    made = make_loop(
        latent(WIDTH, *recipe.stages),
        recipe,
        LatentData(action=HOME.pool),
        heads_for(recipe, HOME),
        device=where,
    )
    made.evaluate = look
    made.run()
    assert len(seen) == 3
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])
