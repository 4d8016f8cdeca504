"""Recipes: one function, one frozen record; an ablation is a recipe with one field replaced.

anonymizer = fit(veil(), {"action": Features(store, split="train")}, "RUN")
anonymizer = fit(splavu_actions(), {"action": EncodedClips(Clips(dataset, "train"), encoder)}, "RUN")  # from videos
"""

from videoveil.recipes.adversaries import splavu_adversaries, veil_adversaries
from videoveil.recipes.fitting import Evaluate, fit
from videoveil.recipes.gait import splavu_gait, veil_gait
from videoveil.recipes.latent import LatentRecipe, Origin
from videoveil.recipes.looking import Looker, middle_clip, picture_run
from videoveil.recipes.noisy_features import noisy_features
from videoveil.recipes.penalty import penalty
from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.pixel_ablations import PixelAblation, pixel_ablations
from videoveil.recipes.pixel_fitting import Made, fit_pixel
from videoveil.recipes.registry import PIXEL, RECIPES, either, pixel_names, pixel_recipe, recipe, recipe_names
from videoveil.recipes.spact import spact, spact_released
from videoveil.recipes.splavu import (
    Ablation,
    ablations,
    splavu,
    splavu_actions,
    splavu_hmdb51,
    splavu_released,
)
from videoveil.recipes.ted_spad import ted_spad
from videoveil.recipes.veil import (
    veil,
    veil_bottleneck,
    veil_erase,
    veil_motion,
    veil_noise,
    veil_static,
    veil_tuned,
)
from videoveil.recipes.veil_pixel import veil_pixel, veil_pixel_attackers, veil_pixel_plain
from videoveil.recipes.vita import vita, vita_entropy, vita_grl, vita_kbeam, vita_restarting
from videoveil.training.latent_video import EncodedClips

__all__ = [
    "PIXEL",
    "RECIPES",
    "Ablation",
    "EncodedClips",
    "Evaluate",
    "LatentRecipe",
    "Looker",
    "Made",
    "Origin",
    "PixelAblation",
    "PixelRecipe",
    "ablations",
    "either",
    "fit",
    "fit_pixel",
    "middle_clip",
    "noisy_features",
    "penalty",
    "picture_run",
    "pixel_ablations",
    "pixel_names",
    "pixel_recipe",
    "recipe",
    "recipe_names",
    "spact",
    "spact_released",
    "splavu",
    "splavu_actions",
    "splavu_adversaries",
    "splavu_gait",
    "splavu_hmdb51",
    "splavu_released",
    "ted_spad",
    "veil",
    "veil_adversaries",
    "veil_bottleneck",
    "veil_erase",
    "veil_gait",
    "veil_motion",
    "veil_noise",
    "veil_pixel",
    "veil_pixel_attackers",
    "veil_pixel_plain",
    "veil_static",
    "veil_tuned",
    "vita",
    "vita_entropy",
    "vita_grl",
    "vita_kbeam",
    "vita_restarting",
]
