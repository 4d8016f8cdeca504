"""Adversaries in alternation with the anonymizer: who learns when, from what, and going on after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from videoveil.anonymizers import LatentAnonymizer, latent
from videoveil.errors import CheckpointError
from videoveil.objectives import SplavuWeights
from videoveil.objectives.adversaries import Adversaries, worst_adversary
from videoveil.recipes.latent import LatentRecipe
from videoveil.training.latent_adversaries import Ensemble
from videoveil.training.latent_step import Objective, Step

from .latent_world import WIDTH, accuracy, linear, world
from .test_latent import HOME, SMALL, loop_of, quick, raw_heads_on, through, weights, without_time
from .test_latent_step import COUNT, moment, step, terms
from .test_latent_step import WIDTH as NARROW

FEW = Adversaries(heads=2, outputs=8, steps=2)
CPU = torch.device("cpu")


def ensemble(settings: Adversaries = FEW, seed: int = 0) -> Ensemble:
    return Ensemble(settings, NARROW, 0.1, seed, CPU)


def playing(pairs: str, **changes: Any) -> tuple[Step, Ensemble]:
    """A step with nothing but adversaries in its objective."""
    weights = SplavuWeights(0.0, 0.0, 0.0)
    objective = Objective(weights, pairs=pairs, adversaries=replace(FEW, margin=100.0, **changes))  # type: ignore[arg-type]
    made = ensemble()
    return step(objective, adversaries=made.heads), made


def gradients(parameters: Any) -> float:
    return sum(float(p.grad.abs().sum()) for p in parameters if p.grad is not None)


@pytest.mark.parametrize("pairs", ["static", "moving", "mixed"])
def test_the_anonymizers_step_is_on_the_worst_adversary_of_the_chosen_pairs(pairs: str) -> None:
    one, made = playing(pairs, weight=2.0)
    now = moment()
    found = one(now)
    g, a, b, other = (one.anonymizer.transform(x) for x in (now.clip, now.first, now.second, now.other))
    views = {"static": (a, b), "moving": (g, other), "mixed": (g, a)}[pairs]
    groups = torch.zeros(COUNT, dtype=torch.int64)
    if pairs == "moving":
        groups[5] = -6  # the video without another clip has nobody to be told from
    expected = worst_adversary(made.heads, *views, groups=groups, margin=100.0)
    assert terms(found.terms)["adversary"] == pytest.approx(float(expected.detach()), rel=1e-5)
    assert float(found.total.detach()) == pytest.approx(-2 * float(expected.detach()), rel=1e-5)


@pytest.mark.parametrize("pairs", ["static", "moving", "mixed"])
def test_adversaries_see_the_pairs_of_the_budget(pairs: str) -> None:
    one, _ = playing(pairs)
    now = moment()
    a, b, groups = one.pairs(now)
    g, first, second, other = (
        one.anonymizer.transform(x) for x in (now.clip, now.first, now.second, now.other)
    )
    expected = {"static": (first, second), "moving": (g, other), "mixed": (g, first)}[pairs]
    assert torch.allclose(a, expected[0], atol=1e-6)
    assert torch.allclose(b, expected[1], atol=1e-6)
    assert (groups.unique().tolist() == [0]) == (pairs != "moving")
    assert not a.requires_grad


def test_the_adversaries_step_gives_the_anonymizer_nothing_and_the_other_way_round() -> None:
    one, made = playing("mixed")
    now = moment()
    frozen = [p.clone() for p in one.anonymizer.parameters()]
    before = [p.clone() for p in made.heads.parameters()]
    made.learn(*one.pairs(now))
    assert gradients(one.anonymizer.parameters()) == 0
    assert all(torch.equal(p, q) for p, q in zip(frozen, one.anonymizer.parameters()))
    assert all(not torch.equal(p, q) for p, q in zip(before, made.heads.parameters()))
    one(now).total.backward()
    assert gradients(one.anonymizer.parameters()) > 0
    assert gradients(made.heads.parameters()) == 0
    assert one.head is not None
    assert gradients(one.head.parameters()) == 0


def test_adversaries_get_better_at_finding_partners() -> None:
    made = ensemble(replace(FEW, steps=1))
    a = torch.randn(COUNT, NARROW, generator=torch.Generator().manual_seed(0))
    b = a + torch.randn(COUNT, NARROW, generator=torch.Generator().manual_seed(1))
    losses = torch.stack([made.learn(a, b) for _ in range(60)])
    assert losses.shape == (60, 2)
    assert bool((losses[-1] < losses[0] - 0.3).all())


def test_one_adversary_in_turn_begins_anew() -> None:
    made = ensemble(replace(FEW, restart=2))
    a, b = (torch.randn(COUNT, NARROW, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    made.learn(a, b)

    def flat() -> list[Tensor]:
        return [torch.cat([p.detach().flatten() for p in head.parameters()]) for head in made.heads]

    changed = []
    for epoch in range(6):
        before = flat()
        made.start_epoch(epoch)
        changed.append([not torch.equal(x, y) for x, y in zip(before, flat())])
    assert changed == [[False, False]] * 2 + [[True, False], [False, False], [False, True], [False, False]]
    counted = [bool(made.optimizer.state.get(head.first.weight)) for head in made.heads]  # type: ignore[union-attr]
    assert counted == [False, False]  # what was learnt of its weights is forgotten, too
    assert not torch.equal(*flat())


# --- in the loop --------------------------------------------------------------------------------------------


def against(**changes: Any) -> LatentRecipe:
    return quick(**{"w_budget": 0.0, "adversaries": FEW, **changes})


def test_a_killed_run_with_adversaries_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    home = world(24)
    recipe = against(
        epochs=6, batch=8, checkpoint_every=2, pairs="mixed", adversaries=replace(FEW, restart=2)
    )
    straight = loop_of(recipe, home, folder=tmp_path / "straight")
    straight.run()

    class Killed(Exception):
        pass

    def kill(step: int, total: int, loss: float) -> None:
        if step > total * 0.55:
            raise Killed

    cut = loop_of(recipe, home, folder=tmp_path / "cut", progress=kill)
    with pytest.raises(Killed):
        cut.run()
    again = loop_of(recipe, home, folder=tmp_path / "cut")
    again.run()
    assert without_time(again.history) == without_time(straight.history)
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(again)[name]), name
    assert straight.adversaries is not None
    assert again.adversaries is not None
    theirs = again.adversaries.tensors()
    for name, tensor in straight.adversaries.tensors().items():
        assert torch.equal(tensor, theirs[name]), name
    assert any("exp_avg" in name for name in theirs)
    with pytest.raises(CheckpointError, match="objective"):
        loop_of(replace(recipe, adversaries=FEW), home, folder=tmp_path / "cut").run()


def test_adversaries_depend_on_the_seed_and_leave_the_callers_random_numbers_alone() -> None:
    before = torch.get_rng_state()

    def trained(seed: int) -> Tensor:
        made = loop_of(against(epochs=2), HOME, seed=seed)
        made.run()
        assert made.adversaries is not None
        return torch.cat([p.detach().flatten() for p in made.adversaries.heads.parameters()])

    first, second, third = (trained(seed) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(before, torch.get_rng_state())


def test_a_run_without_adversaries_is_what_it_was_before_there_were_any(tmp_path: Path) -> None:
    recipe = quick(epochs=1)
    assert "adversaries" not in recipe.to_json()
    made = loop_of(recipe, world(16), folder=tmp_path)
    assert made.run()[0]["adversary"] == 0.0
    assert made.adversaries is None
    assert not {"adversaries", "reference"} & set(made.facts["objective"])


def found_afresh(anonymizer: LatentAnonymizer) -> float:
    """NT-Xent of adversaries that learn afresh on anonymized static clips: the higher, the less they find."""
    fresh = Ensemble(Adversaries(heads=2, outputs=16, steps=1), WIDTH, 0.1, 9, CPU)
    static = HOME.pool.static
    assert static is not None
    clips = through(anonymizer, static.flatten(0, 1)).view_as(static)
    losses = [fresh.learn(clips[:, i % 4], clips[:, (i + 1) % 4]).min() for i in range(80)]
    return float(torch.stack(losses[-8:]).mean())


def test_adversaries_drive_looks_out_of_static_clips_and_the_task_stays() -> None:
    """Fresh adversaries find less than in raw features, a reader of raw looks too, and the actions keep their head."""
    settings = Adversaries(heads=2, outputs=16, steps=2, learning_rate=3e-3)
    made = loop_of(against(epochs=25, adversaries=settings), HOME)
    history = made.run()
    assert history[-1]["adversary"] > history[2]["adversary"] + 0.5
    assert found_afresh(made.anonymizer) > found_afresh(latent(WIDTH, SMALL)) + 0.3
    assert raw_heads_on(made.anonymizer)[0] > 0.9
    still = HOME.pool.still()
    reader = linear(still, HOME.looks, 2)
    assert (
        accuracy(reader, through(made.anonymizer, still), HOME.looks)
        < accuracy(reader, still, HOME.looks) - 0.1
    )
