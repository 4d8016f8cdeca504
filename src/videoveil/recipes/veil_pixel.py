"""Our own pixel recipes: a network in front of a code that has room for little, trained against restarted attackers.

A network alone hides nothing from somebody who trains afresh on what it gives out. Here what it draws has to pass
through few grey pixels with few levels, so that what is left out is gone for everybody; f_A learns what to put there.
"""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.pixel.config import Grey, Levels, LowResolution, UNet
from videoveil.recipes.pixel import PixelRecipe
from videoveil.training.minimax_settings import (
    Budget,
    MinimaxSettings,
    Phase,
    Rates,
    Start,
    Utility,
)


def veil_pixel() -> PixelRecipe:
    """The default."""
    return PixelRecipe(
        name="veil-pixel",
        stages=(UNet(width=16), Grey(), LowResolution(size=28, up="bilinear"), Levels(4)),
        settings=MinimaxSettings(
            utility=Utility(encoder="r3d.18"),
            budget=Budget(members=("resnet.18", "resnet.18"), combine="mean", restart=10, restart_steps=40),
            phases=(Phase("anonymizer", 2), Phase("auxiliary")),
            rates=Rates(anonymizer=1e-3, utility=3e-4, budget=3e-4),
            start=Start(identity_epochs=20, identity_goal=0.02, utility_epochs=10, budget_epochs=10),
            epochs=40,
            precision="bf16-mixed",
        ),
    )


def veil_pixel_plain() -> PixelRecipe:
    """The same code without attackers: f_A learns to keep the action, and nothing else is paid for."""
    base = veil_pixel()
    settings = replace(base.settings, budget=None, phases=(Phase("restore"),))
    return replace(base, name="veil-pixel-plain", settings=settings)
