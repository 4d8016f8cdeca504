"""Recipes: one function, one frozen record; an ablation is a recipe with one field replaced.

anonymizer = fit(veil(), {"action": Features(store, split="train")}, "RUN")
"""

from videoveil.recipes.adversaries import splavu_adversaries, veil_adversaries
from videoveil.recipes.fitting import Evaluate, fit
from videoveil.recipes.gait import splavu_gait, veil_gait
from videoveil.recipes.latent import LatentRecipe, Origin
from videoveil.recipes.registry import RECIPES, recipe, recipe_names
from videoveil.recipes.splavu import (
    Ablation,
    ablations,
    splavu,
    splavu_actions,
    splavu_hmdb51,
    splavu_released,
)
from videoveil.recipes.veil import veil, veil_bottleneck, veil_noise, veil_static, veil_tuned

__all__ = [
    "RECIPES",
    "Ablation",
    "Evaluate",
    "LatentRecipe",
    "Origin",
    "ablations",
    "fit",
    "recipe",
    "recipe_names",
    "splavu",
    "splavu_actions",
    "splavu_adversaries",
    "splavu_gait",
    "splavu_hmdb51",
    "splavu_released",
    "veil",
    "veil_adversaries",
    "veil_bottleneck",
    "veil_gait",
    "veil_noise",
    "veil_static",
    "veil_tuned",
]
