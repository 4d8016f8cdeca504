"""The penalty-driven anonymizer as published: the game, with a bound on how far a clip may be changed."""

from __future__ import annotations

from videoveil.anonymizers.pixel.config import UNetPP
from videoveil.recipes.latent import Origin
from videoveil.recipes.pixel import PixelRecipe
from videoveil.recipes.ted_spad import FINE_TUNED, FRAMES
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Penalty, Rates, Utility

BOUNDS = (0.3, 0.5, 0.7, 0.9)


def penalty(bound: float = 0.3) -> PixelRecipe:
    """L_A = L_T − L_B + max(0, RMS − B), pairs four frames apart; a smaller B is a shorter leash."""
    return PixelRecipe(
        name="penalty" if bound == BOUNDS[0] else f"penalty/B={bound:g}",
        stages=(UNetPP(),),
        origin=Origin("I3D-ResNet-50", "ucf101"),
        settings=MinimaxSettings(
            utility=Utility(encoder="i3d.resnet50", sampler="ted-spad", augment="ted-spad", dropout=0.5),
            budget=Budget(members=("resnet.50",), pair="gap:4", augment=FRAMES),
            penalty=Penalty(bound=bound),
            size=224,
            epochs=100,
            batch=8,
            privacy_batch=8,
            rates=Rates(anonymizer=0.4e-4),
            start=FINE_TUNED,
        ),
    )
