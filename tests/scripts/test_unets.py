"""The shipped UNets: what they learn from, and that a training that is stopped still leaves a model and its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import unets
from tests.training.minimax_world import QUICK, videos
from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig, UNet
from videoveil.data.records import Dataset
from videoveil.errors import Diverged, NoHeadway, UsageError
from videoveil.recipes import PixelRecipe
from videoveil.training import checkpoints
from videoveil.training.minimax_settings import Headway, MinimaxSettings

LARGEST = 4.5e6  # bytes of one model: the package stays small


@pytest.fixture
def two(tmp_path: Path) -> list[Dataset]:
    """Two datasets that call everything the same."""
    return [replace(videos(tmp_path / name), name=name) for name in ("first", "second")]


@pytest.mark.parametrize("name", unets.RECIPES)
def test_a_recipe_is_narrow_is_told_nothing_private_and_has_a_scale_to_be_tried_at(name: str) -> None:
    recipe = unets.recipe_of(name, 2, None)
    made = PixelAnonymizer(PixelConfig(recipe.stages))
    assert recipe.stages[0] == UNet(width=16)
    assert sum(p.numel() * p.element_size() for p in made.parameters()) < LARGEST
    own = recipe.settings
    assert own.budget is not None
    assert own.budget.kind == "pairs"
    assert not recipe.wants_images
    assert own.budget.restart < own.epochs, "budget nets that start anew after the last epoch never do"
    quick = unets.recipe_of(name, 2, 10)
    assert quick.stages == recipe.stages
    assert quick.settings.size < own.size


def test_datasets_are_joined_without_mixing_names_or_taking_private_labels(two: list[Dataset]) -> None:
    made = unets.joined(two)
    assert len(made) == sum(map(len, two)) == len({item.id for item in made})
    assert made.classes == tuple(f"{one.name}:{label}" for one in two for label in one.classes)
    assert {item.action for item in made} <= set(made.classes)
    assert all(item.attributes is None for item in made)
    assert [item.split for item in made] == [item.split for one in two for item in one]


def test_a_folder_without_the_real_clips_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="hmdb51-12"):
        unets.fit("veil-unet", tmp_path, tmp_path / "work", cast=5, device="cpu", workers=1)
    assert not (tmp_path / "work").exists()


def quick(settings: MinimaxSettings) -> Callable[..., PixelRecipe]:
    return lambda name, workers, limit: PixelRecipe(name=name, stages=(UNet(width=4),), settings=settings)


def fitted(monkeypatch: pytest.MonkeyPatch, two: list[Dataset], folder: Path, **changes: Any) -> Any:
    monkeypatch.setattr(unets, "footage", lambda *_: two)
    monkeypatch.setattr(unets, "recipe_of", quick(replace(QUICK, **changes)))
    return unets.fit("penalty-unet", folder, folder / "work", cast=5, device="cpu", workers=1)


def test_a_whole_training_says_what_it_saw_and_is_found_again(
    monkeypatch: pytest.MonkeyPatch, two: list[Dataset], tmp_path: Path
) -> None:
    made, training = fitted(monkeypatch, two, tmp_path)
    assert training.clips == {"first": 6, "second": 6}  # training videos only
    assert (training.epochs, training.planned, training.stopped) == (2, 2, "")
    assert "budget" in training.last
    assert "2 of 2 epochs" in training.said()
    assert training.said().endswith(" Trained on one cpu.")  # where the same weights come out again
    assert "different" in replace(training, device="big GPU").said()
    assert "Trained on" not in replace(training, device="").said()
    assert "not recorded; made again on a GPU" in replace(training, device="").said()
    again, same = fitted(monkeypatch, two, tmp_path)
    assert again.content_hash() == made.content_hash()
    assert same == training


def test_a_training_without_headway_leaves_its_last_epoch_and_the_reason(
    monkeypatch: pytest.MonkeyPatch, two: list[Dataset], tmp_path: Path
) -> None:
    made, training = fitted(monkeypatch, two, tmp_path, headway=Headway(epochs=1, share=100.0))
    assert training.epochs == 1
    assert "still win" in training.stopped
    assert training.stopped in training.said()
    assert made(torch.rand(1, 3, 32, 32)).shape == (1, 3, 32, 32)  # in eval mode, fit for export


def kept(run: Path, recipe: PixelRecipe, count: int) -> list[str]:
    """Hashes of anonymizers as a run keeps them after its epochs."""
    found = []
    for epoch in range(1, count + 1):
        model = PixelAnonymizer(PixelConfig(recipe.stages), seed=epoch)
        path = run / "epochs" / f"{epoch:04d}.safetensors"
        checkpoints.write(path, unets.KEPT_FORMAT, model.state_dict(), {"epoch": epoch})
        found.append(model.content_hash())
    return found


def test_the_penalty_unet_is_trained_as_the_one_that_was_measured() -> None:
    own = unets.recipe_of("penalty-unet", 1, None).settings
    assert own.budget is not None
    assert (own.utility.sampler, own.utility.dropout, own.budget.augment) == ("random", 0.0, "tclr")
    assert own.start == unets.SCALE.start


def test_of_a_training_that_went_astray_the_last_epoch_on_record_does_not_count(tmp_path: Path) -> None:
    recipe = quick(QUICK)("penalty-unet", 1, None)
    hashes = kept(tmp_path, recipe, 3)
    assert unets.before(tmp_path, Diverged("L_T is 80")) == 2
    assert unets.before(tmp_path, NoHeadway("the budget nets win")) == 3
    assert unets.after(recipe, tmp_path, 2).content_hash() == hashes[1]


def test_a_training_that_went_astray_at_once_leaves_nothing(tmp_path: Path) -> None:
    kept(tmp_path, quick(QUICK)("penalty-unet", 1, None), 1)
    with pytest.raises(Diverged, match="L_T is 80"):
        unets.before(tmp_path, Diverged("L_T is 80"))


@pytest.mark.parametrize(
    ("started", "rights", "epochs", "wanted"),
    [
        (0.6, (0.6, 0.5, 0.4), 3, 3),
        (0.6, (0.6, 0.3, 0.1), 3, 2),  # the last one drew next to nothing
        (0.6, (0.1, 0.4, 0.1), 3, 2),
        (0.6, (0.1, 0.1, 0.1), 3, 3),  # none is better
        (0.6, (0.6, 0.1, 0.5), 2, 1),  # stopped after two
        (0.6, (0.6,), 2, 2),  # not all records are written
        (0.0, (0.0, 0.0), 2, 2),
    ],
)
def test_weights_are_of_the_last_epoch_in_which_actions_could_be_told(
    started: float, rights: tuple[float, ...], epochs: int, wanted: int
) -> None:
    history = [{"act": "utility start", "right": 0.9}, {"act": "utility start", "right": started}]
    history += [{"act": "budget start"}, *({"act": "minimax", "right": right} for right in rights)]
    assert unets.last_sound(history, epochs) == wanted


def test_a_training_that_ends_with_blank_pictures_leaves_what_it_was_before(
    monkeypatch: pytest.MonkeyPatch, two: list[Dataset], tmp_path: Path
) -> None:
    monkeypatch.setattr(unets, "last_sound", lambda *_: 1)
    made, training = fitted(monkeypatch, two, tmp_path)
    assert training.epochs == 1
    assert "after epoch 1 f_T told less" in training.said()
    run = tmp_path / "work" / "penalty-unet"
    recipe = quick(QUICK)("penalty-unet", 1, None)
    assert made.content_hash() == unets.after(recipe, run, 1).content_hash()
    assert made.content_hash() != unets.after(recipe, run, 2).content_hash()
