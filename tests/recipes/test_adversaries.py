from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.recipes.test_fitting import HEADS, SMALL
from tests.training.latent_world import store_of, world
from videoveil.anonymizers import Erase
from videoveil.errors import UsageError
from videoveil.objectives.adversaries import Adversaries
from videoveil.recipes import (
    LatentRecipe,
    fit,
    recipe,
    recipe_names,
    splavu_adversaries,
    splavu_hmdb51,
    veil_adversaries,
)
from videoveil.recipes.fitting import run_recipe
from videoveil.tasks.base import Features


def test_only_these_recipes_have_adversaries_and_the_text_of_the_others_is_as_before() -> None:
    for name in recipe_names():
        made = recipe(name)
        assert (made.adversaries is not None) == name.endswith("-adversaries"), name
        assert ("adversaries" in made.to_json()) == name.endswith("-adversaries"), name
        assert ("reference" in made.to_json()) == (name == "splavu-gait"), name


def test_adversaries_take_the_place_of_the_plain_budget() -> None:
    made = splavu_adversaries()
    assert replace(made, name="splavu-hmdb51", w_budget=1.0, adversaries=None) == splavu_hmdb51()
    assert made.w_budget == 0
    composed = veil_adversaries()
    assert isinstance(composed.stages[0], Erase)
    assert composed.starts_as_identity
    assert composed.objective().adversaries == composed.adversaries


def test_a_setting_that_does_not_exist_or_makes_no_sense_is_named() -> None:
    value = splavu_adversaries().to_json()
    with pytest.raises(UsageError, match="no setting speed"):
        LatentRecipe.from_json({**value, "adversaries": {"speed": 1}})
    with pytest.raises(UsageError, match="heads=0"):
        LatentRecipe.from_json({**value, "adversaries": {"heads": 0}})
    assert LatentRecipe.from_json({**value, "adversaries": None}).adversaries is None


@pytest.mark.parametrize("name", ["splavu-adversaries", "veil-adversaries"])
def test_a_killed_fit_goes_on_to_the_same_anonymizer(tmp_path: Path, name: str) -> None:
    source = Features(store_of(tmp_path / "s", world(48).pool), split="train")
    stages = (Erase(6, "both"), SMALL) if name.startswith("veil") else (SMALL,)
    adversaries = Adversaries(heads=2, outputs=8, steps=1, restart=1)
    made = replace(
        recipe(name),
        stages=stages,
        epochs=4,
        batch=16,
        checkpoint_every=1,
        heads=HEADS,
        adversaries=adversaries,
    )
    straight = fit(made, {"action": source}, tmp_path / "straight", device="cpu")

    class Killed(Exception):
        pass

    def kill(step: int, total: int, loss: float) -> None:
        if step > total // 2:
            raise Killed

    with pytest.raises(Killed):
        fit(made, {"action": source}, tmp_path / "cut", device="cpu", progress=kill)
    again = fit(made, {"action": source}, tmp_path / "cut", device="cpu")
    assert again.content_hash() == straight.content_hash()
    assert run_recipe(tmp_path / "cut") == made
