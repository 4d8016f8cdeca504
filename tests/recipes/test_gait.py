from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.training.latent_world import ACTIONS, WIDTH, World, accuracy, linear, store_of, world
from tests.training.test_latent import HOME, loop_of, quick, through
from videoveil.anonymizers import Erase, LatentAnonymizer, NoiseKey, Rank
from videoveil.errors import UsageError
from videoveil.objectives import nt_xent
from videoveil.recipes import LatentRecipe, fit, recipe, splavu_gait, splavu_hmdb51, veil_gait
from videoveil.tasks.base import Features


def differences(one: LatentRecipe, other: LatentRecipe) -> set[str]:
    names = {f.name for f in fields(one)}
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def test_the_trained_recipe_has_a_temporal_budget_with_consistency_on_behind_a_bottleneck() -> None:
    made = splavu_gait()
    changed = {"name", "stages", "w_consistency", "w_temporal", "reference", "margin"}
    assert differences(made, splavu_hmdb51()) == changed
    assert [stage.kind for stage in made.stages] == ["attention", "rank", "noise"]
    assert min(made.w_temporal, made.w_consistency, made.w_utility, made.w_budget) > 0
    assert (made.margin, made.reference) == (0.0, "none")
    assert made.objective().wants_other


def test_the_closed_form_erases_squeezes_and_adds_noise() -> None:
    assert [stage.kind for stage in veil_gait().stages] == ["erase", "rank", "noise"]
    assert veil_gait().epochs == 0
    assert differences(veil_gait(), recipe("veil")) == {"name", "stages"}


def gait_of(anonymizer: LatentAnonymizer | None, home: World, away: World) -> dict[str, float]:
    """Accuracy of gait and of actions by readers that learn afresh on what comes out."""

    def out(x: Tensor) -> Tensor:
        return x if anonymizer is None else through(anonymizer, x)

    def one(labels: tuple[Tensor, Tensor], classes: int) -> float:
        reader = linear(out(home.pool.rows), labels[0][home.pool.owners()], classes)
        return accuracy(reader, out(away.pool.rows), labels[1][away.pool.owners()])

    return {
        "gait": one((home.gait, away.gait), 2),
        "action": one((home.actions, away.actions), ACTIONS),
    }


def test_the_closed_form_takes_gait_from_a_reader_that_learns_and_leaves_the_action(tmp_path: Path) -> None:
    """In a world of 32 dimensions: up to 24 are erased, 6 go through."""
    home, away = world(160), world(300, seed=1)
    source = Features(store_of(tmp_path / "s", home.pool), split="train")
    stages = (Erase(12, "both"), Rank(6), veil_gait().stages[2])
    made = fit(replace(veil_gait(), stages=stages), {"action": source}, tmp_path / "run", device="cpu")
    with pytest.raises(UsageError, match="secret"):
        made(torch.zeros(1, WIDTH))
    made.key = NoiseKey(b"k" * 32)
    raw, found = gait_of(None, home, away), gait_of(made, home, away)
    assert raw["gait"] > 0.85
    assert found["gait"] < 0.5 + 0.5 * (raw["gait"] - 0.5)
    assert found["action"] > 0.95 * raw["action"]


@pytest.mark.parametrize("temporal", [0.0, splavu_gait().w_temporal])
def test_the_temporal_budget_makes_moving_clips_of_one_action_alike(temporal: float) -> None:
    """Two clips of a video find each other among those of its action, unless the budget is on; the action stays."""
    settings = {name: getattr(splavu_gait(), name) for name in ("w_consistency", "reference", "margin")}
    made = loop_of(quick(w_temporal=temporal, epochs=40, **settings), HOME)
    made.run()
    pool = HOME.pool
    several = (pool.counts > 1).nonzero().flatten()
    a, b = (through(made.anonymizer, pool.rows[pool.offsets[several] + i]) for i in (0, 1))
    centre = torch.cat((a, b)).mean(0)
    ceiling = math.log(2 * len(several) / ACTIONS - 1)
    found = float(nt_xent(a - centre, b - centre, groups=HOME.actions[several]))
    assert found > 0.7 * ceiling if temporal else found < 0.3 * ceiling
    head = linear(pool.rows, HOME.actions[pool.owners()], ACTIONS)
    assert accuracy(head, through(made.anonymizer, pool.rows), HOME.actions[pool.owners()]) > 0.9
