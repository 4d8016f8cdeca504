"""Our own pixel recipes: a line drawing, by itself or with a network in front that learns what to draw.

A network alone hides nothing from somebody who trains afresh on what it gives out. A line drawing has no room for the
colour of skin, hair and clothes, whoever looks at it, and keeps where limbs are and how they move. What it still tells
is shape: size, build, long hair, a skirt.
"""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.pixel.config import Outline, UNet
from videoveil.recipes.pixel import PixelRecipe
from videoveil.training.minimax_settings import (
    Budget,
    Headway,
    MinimaxSettings,
    Phase,
    Rates,
    Start,
    Utility,
)

# Asked after 20 and 40 epochs, when budget nets have learnt for ten and are about to start anew; a shorter run is never
# asked. Where budget nets won every round L_B was at most .39 of its chance level, at the end of veil-unet's run .87.
HIDES = Headway(epochs=20, share=0.4)


def veil_pixel() -> PixelRecipe:
    """The default: nothing is trained, so nothing is learnt from anybody's videos either."""
    return PixelRecipe(
        name="veil-pixel",
        stages=(Outline(),),
        settings=MinimaxSettings(budget=None, phases=(Phase("restore"),), epochs=0),
    )


def veil_pixel_plain() -> PixelRecipe:
    """A network in front of the drawing, without attackers: f_A learns to keep the action, nothing else is paid for."""
    return PixelRecipe(
        name="veil-pixel-plain",
        stages=(UNet(width=16), Outline()),
        settings=MinimaxSettings(
            utility=Utility(encoder="r3d.18"),
            budget=None,
            phases=(Phase("restore"),),
            rates=Rates(anonymizer=3e-4, utility=1e-3),
            start=Start(identity_epochs=20, identity_goal=0.02, utility_epochs=10),
            epochs=40,
            precision="bf16-mixed",
        ),
    )


def veil_pixel_attackers() -> PixelRecipe:
    """The same network and drawing against attackers that start anew: f_A has three turns for each of theirs."""
    base = veil_pixel_plain()
    settings = replace(
        base.settings,
        budget=Budget(members=("resnet.18", "resnet.18"), combine="mean", restart=10, restart_steps=40),
        phases=(Phase("anonymizer", 3), Phase("auxiliary")),
        rates=Rates(anonymizer=3e-4, utility=1e-3, budget=1e-3),
        start=replace(base.settings.start, budget_epochs=10),
        headway=HIDES,
    )
    return replace(base, name="veil-pixel-attackers", settings=settings)
