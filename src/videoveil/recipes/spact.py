"""SPAct as published: a UNet against a self-supervised budget net that tells videos apart by two of their frames."""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.pixel.config import UNet
from videoveil.recipes.latent import Origin
from videoveil.recipes.pixel import PixelRecipe
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Utility


def spact() -> PixelRecipe:
    """The method as the paper describes it: two random frames of one anonymized video are the pair."""
    return PixelRecipe(
        name="spact",
        stages=(UNet(width=64),),
        origin=Origin("R3D-18", "ucf101"),
        settings=MinimaxSettings(
            utility=Utility(encoder="r3d.18-spact", sampler="spact"),
            budget=Budget(members=("resnet.50",), pair="random"),
            size=112,
            epochs=100,
            batch=24,
            privacy_batch=24,
        ),
    )


def spact_released() -> PixelRecipe:
    """What its released code does: the pair is two weak views of one image of VISPR."""
    base = spact()
    budget = Budget(members=("resnet.50",), source="images", augment="weak-image")
    return replace(
        base,
        name="spact-released",
        settings=replace(base.settings, budget=budget, privacy_batch=64),
    )


def spact_supervised() -> PixelRecipe:
    """VITA as SPAct re-implements it: the same players, f_B taught the private attributes of VISPR (Tables 2 to 6).

    At the rates of the others: only the parameter file of its released code halves that of f_B.
    """
    base = spact()
    budget = Budget(kind="labels", members=("resnet.50",), source="images", augment="weak-image")
    return replace(
        base,
        name="vita",
        settings=replace(base.settings, budget=budget),
    )
