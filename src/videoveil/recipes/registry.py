"""Recipes by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable

from videoveil.errors import UsageError
from videoveil.recipes import adversaries, gait
from videoveil.recipes import splavu as published
from videoveil.recipes import veil as own
from videoveil.recipes.latent import LatentRecipe

RECIPES: dict[str, Callable[[], LatentRecipe]] = {
    "veil": own.veil,
    "veil-static": own.veil_static,
    "veil-noise": own.veil_noise,
    "veil-tuned": own.veil_tuned,
    "veil-bottleneck": own.veil_bottleneck,
    "veil-gait": gait.veil_gait,
    "veil-adversaries": adversaries.veil_adversaries,
    "splavu": published.splavu,
    "splavu-actions": published.splavu_actions,
    "splavu-hmdb51": published.splavu_hmdb51,
    "splavu-released": published.splavu_released,
    "splavu-gait": gait.splavu_gait,
    "splavu-adversaries": adversaries.splavu_adversaries,
}


def recipe_names() -> tuple[str, ...]:
    """Every name that `recipe` knows; ablations as `tableN/ROW`."""
    return (*RECIPES, *published.ablations())


def recipe(name: str) -> LatentRecipe:
    """The recipe of that name."""
    if name in RECIPES:
        return RECIPES[name]()
    rows = published.ablations()
    if name in rows:
        return rows[name].recipe
    raise UsageError(
        f"no recipe {name!r}; there are {', '.join(RECIPES)} and the ablations {', '.join(rows)}"
    )
