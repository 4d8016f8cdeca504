"""The Noisy-Features baseline, after Zhang et al. on wearable sensors; there is no published code for video."""

from __future__ import annotations

from dataclasses import replace

from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.spact import spact
from videoveil.training.minimax_settings import Phase, Utility


def noisy_features() -> PixelRecipe:
    """f_A keeps the feature maps of the clip (content) and gives them the Gram matrices of noise (style)."""
    base = spact()
    return replace(
        base,
        name="noisy-features",
        approximation="An approximation: SPAct names the baseline and gives neither weights nor code.",
        settings=replace(
            base.settings,
            utility=Utility(encoder="r3d.18", sampler="spact"),
            budget=None,
            phases=(Phase("restyle"),),
        ),
    )
