from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from videoveil.anonymizers import Attention, Erase, Keep
from videoveil.errors import UsageError
from videoveil.recipes import LatentRecipe, Origin, recipe, recipe_names, splavu, veil, veil_erase, veil_noise
from videoveil.recipes.latent import ENCODERS
from videoveil.tasks.detection import small
from videoveil.training.latent_heads import HeadSettings


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_comes_back_from_its_text(name: str) -> None:
    made = recipe(name)
    assert LatentRecipe.from_text(made.to_text()) == made
    assert pytest.importorskip("yaml").safe_load(made.to_yaml()) == made.to_json()


def test_changed_heads_and_margins_come_back_too() -> None:
    made = replace(splavu(), heads=HeadSettings(detection=small(), cut=True), margin=0.5, spare=True)
    assert LatentRecipe.from_text(made.to_text()) == made


def test_recipes_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        splavu().epochs = 3  # type: ignore[misc]


def test_what_cannot_be_honoured_is_named() -> None:
    value = splavu().to_json()
    with pytest.raises(UsageError, match="no setting w_magic"):
        LatentRecipe.from_json({**value, "w_magic": 1})
    with pytest.raises(UsageError, match="unknown settings size"):
        LatentRecipe.from_json({**value, "stages": [{"kind": "erase", "directions": 3, "size": 1}]})
    with pytest.raises(UsageError, match="no setting speed"):
        LatentRecipe.from_json({**value, "identity": {"speed": 1}})
    with pytest.raises(UsageError, match="not a recipe"):
        LatentRecipe.from_text("[1]")
    with pytest.raises(UsageError, match="not a recipe"):
        LatentRecipe.from_text("{")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("gait",)}, "no task gait"),
        ({"tasks": ("action", "action")}, "named twice"),
        ({"tasks": ()}, "at least one task"),
        ({"stages": ()}, "at least one stage"),
        ({"epochs": -1}, "epochs=-1"),
        ({"w_budget": -1.0}, "budget=-1"),
        ({"pairs": "any"}, "pairs='any'"),
        ({"learning_rate": 0.0}, "learning_rate"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(splavu(), **changes)


def test_a_recipe_knows_whether_it_has_to_learn_the_identity_first() -> None:
    assert splavu().starts_as_identity
    assert veil().starts_as_identity
    assert veil().finds_directions
    assert not splavu().finds_directions
    assert not replace(splavu(), stages=(Erase(3), Attention(init="default"))).starts_as_identity


def test_objective_and_schedule_are_those_of_the_paper() -> None:
    weights = splavu().objective().weights
    assert (weights.consistency, weights.utility, weights.budget, weights.temporal) == (100, 1, 1, 0)
    assert (splavu().temperature, splavu().pairs, splavu().reduction) == (0.1, "static", "mean")
    schedule = splavu().schedule()
    assert (schedule.epochs, schedule.batch, schedule.learning_rate) == (100, 512, 1e-4)
    assert (schedule.weight_decay, schedule.gradient_clip, schedule.decay) == (0.01, 1.0, "constant")


def test_the_default_trains_nothing_and_keeps_an_eighth_of_the_width() -> None:
    (stage,) = veil().stages
    assert isinstance(stage, Keep)
    assert (stage.count(256), veil().epochs) == (32, 0)
    (stage,) = veil_erase().stages
    assert isinstance(stage, Erase)
    assert (stage.source, stage.count(256), stage.room(256)) == ("both", 32, 64)
    assert [s.kind for s in veil_noise().stages] == ["erase", "noise"]


def test_an_origin_knows_what_is_not_the_published_features() -> None:
    published = Origin("VideoMAE-B", "hmdb51")
    assert published.departure("videomae.b", "hmdb51") == ""
    assert published.departure("videomae.b") == ""  # not trained for actions: there is no action dataset
    assert (
        published.departure("tiny", "hmdb51")
        == "published with VideoMAE-B on hmdb51, made here with tiny on hmdb51"
    )
    assert "on ucf101" in published.departure("videomae.b", "ucf101")
    assert "made here with videomae.h" in Origin("InternVideo-H", "hmdb51").departure("videomae.h", "hmdb51")
    assert Origin().departure("tiny", "hmdb51") == ""


def test_the_encoders_of_origins_are_ours() -> None:
    from videoveil.encoders.registry import MODELS

    assert set(ENCODERS.values()) <= set(MODELS)
    assert {name for name in recipe_names() if recipe(name).origin.encoder not in ("", *ENCODERS)} == {
        f"table12/InternVideo-H/{data}" for data in ("hmdb51", "ucf101")
    }
