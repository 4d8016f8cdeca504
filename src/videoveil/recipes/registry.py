"""Recipes by name, for the command line."""

from __future__ import annotations

from collections.abc import Callable

from videoveil.errors import UsageError
from videoveil.recipes import adversaries, gait
from videoveil.recipes import splavu as published
from videoveil.recipes import veil as own
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.noisy_features import noisy_features
from videoveil.recipes.penalty import penalty
from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.pixel_ablations import pixel_ablations
from videoveil.recipes.spact import spact, spact_released
from videoveil.recipes.ted_spad import ted_spad
from videoveil.recipes.veil_pixel import veil_pixel, veil_pixel_attackers, veil_pixel_plain
from videoveil.recipes.vita import vita, vita_entropy, vita_grl, vita_kbeam, vita_restarting

Recipe = LatentRecipe | PixelRecipe

RECIPES: dict[str, Callable[[], LatentRecipe]] = {
    "veil": own.veil,
    "veil-erase": own.veil_erase,
    "veil-static": own.veil_static,
    "veil-noise": own.veil_noise,
    "veil-tuned": own.veil_tuned,
    "veil-bottleneck": own.veil_bottleneck,
    "veil-motion": own.veil_motion,
    "veil-gait": gait.veil_gait,
    "veil-adversaries": adversaries.veil_adversaries,
    "splavu": published.splavu,
    "splavu-actions": published.splavu_actions,
    "splavu-hmdb51": published.splavu_hmdb51,
    "splavu-released": published.splavu_released,
    "splavu-gait": gait.splavu_gait,
    "splavu-adversaries": adversaries.splavu_adversaries,
}


PIXEL: dict[str, Callable[[], PixelRecipe]] = {
    "veil-pixel": veil_pixel,
    "veil-pixel-plain": veil_pixel_plain,
    "veil-pixel-attackers": veil_pixel_attackers,
    "spact": spact,
    "spact-released": spact_released,
    "ted-spad": ted_spad,
    "penalty": penalty,
    "vita": vita,
    "vita-grl": vita_grl,
    "vita-kbeam": vita_kbeam,
    "vita-entropy": vita_entropy,
    "vita-restarting": vita_restarting,
    "noisy-features": noisy_features,
}


def recipe_names() -> tuple[str, ...]:
    """Every latent recipe that `recipe` knows; ablations as `tableN/ROW`."""
    return (*RECIPES, *published.ablations())


def pixel_names() -> tuple[str, ...]:
    """Every pixel recipe that `pixel_recipe` knows; ablations as `PAPER/FIELD=VALUE`."""
    return (*PIXEL, *pixel_ablations())


def recipe(name: str) -> LatentRecipe:
    """The latent recipe of that name."""
    if name in RECIPES:
        return RECIPES[name]()
    rows = published.ablations()
    if name in rows:
        return rows[name].recipe
    if name in pixel_names():
        raise UsageError(f"{name} makes a pixel anonymizer, from videos and not from features")
    raise UsageError(
        f"no recipe {name!r}; there are {', '.join(RECIPES)} and the ablations {', '.join(rows)}"
    )


def pixel_recipe(name: str) -> PixelRecipe:
    """The pixel recipe of that name."""
    if name in PIXEL:
        return PIXEL[name]()
    rows = pixel_ablations()
    if name in rows:
        return rows[name].recipe
    if name in recipe_names():
        raise UsageError(f"{name} makes a latent anonymizer, from features and not from videos")
    raise UsageError(
        f"no pixel recipe {name!r}; there are {', '.join(PIXEL)} and the ablations {', '.join(rows)}"
    )


def either(name: str) -> Recipe:
    """The recipe of that name, of either kind."""
    if name in RECIPES or name in published.ablations():
        return recipe(name)
    if name in pixel_names():
        return pixel_recipe(name)
    raise UsageError(
        f"no recipe {name!r}; there are {', '.join((*RECIPES, *PIXEL))} and the ablations "
        f"{', '.join((*published.ablations(), *pixel_ablations()))}"
    )
