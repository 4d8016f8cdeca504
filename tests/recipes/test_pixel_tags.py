"""Several tags per video, as in P-HVU: actions to keep, objects or scenes to hide."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.minimax_world import QUICK, videos
from videoveil.anonymizers.pixel.config import UNet
from videoveil.data.records import Dataset
from videoveil.errors import AnnotationError
from videoveil.recipes import PixelRecipe, fit_pixel
from videoveil.recipes.pixel_fitting import labelled, private_labels
from videoveil.tasks.base import Clips
from videoveil.training.minimax_settings import Budget


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    made = videos(tmp_path_factory.mktemp("tags"))
    items = [
        replace(
            item,
            actions=("go", str(item.action)) if n % 2 else (str(item.action),),
            objects=("chair",) if n % 3 else ("chair", "lamp"),
            scenes=("stage",) if n % 2 else ("street",),
        )
        for n, item in enumerate(made.items)
    ]
    return replace(made, items=tuple(items))


def recipe(**budget: Any) -> PixelRecipe:
    own = replace(
        QUICK,
        utility=replace(QUICK.utility, target="actions"),
        budget=Budget(kind="labels", members=("mobilenet.v1-0.25",), **budget),
    )
    return PixelRecipe(name="tags", stages=(UNet(width=4),), settings=own)


@pytest.mark.parametrize("which", ["objects", "scenes"])
def test_actions_are_kept_as_tags_while_objects_or_scenes_are_hidden(
    which: Any, tagged: Dataset, tmp_path: Path
) -> None:
    made = fit_pixel(recipe(labels=which), Clips(tagged, "train"), tmp_path / "run", device="cpu")
    assert made.utility is not None
    assert made.utility.classifier.classes == 3  # go, left, right
    assert made.budgets[0].head.out_features == 2  # type: ignore[union-attr]
    assert [record["act"] for record in made.history][-1] == "minimax"
    assert all(record["right"] == 0 for record in made.history if "right" in record)  # tags have no top-1


def test_tags_become_rows_of_zeros_and_ones(tagged: Dataset) -> None:
    found = private_labels(tagged.items[:3], "objects")
    assert torch.equal(found, torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))


def test_a_budget_without_any_label_is_refused(tagged: Dataset) -> None:
    bare = [replace(item, scenes=()) for item in tagged.items]
    with pytest.raises(AnnotationError, match="tags: 0 of 8 items have scenes"):
        labelled(bare, "scenes", None, "tags")
