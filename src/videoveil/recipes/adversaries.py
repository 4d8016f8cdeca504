"""Trained adversaries in alternation, in place of the budget on the anonymized vectors themselves."""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.config import Attention, Erase
from videoveil.objectives.adversaries import Adversaries
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.splavu import splavu_hmdb51
from videoveil.recipes.veil import ERASED, veil


def splavu_adversaries() -> LatentRecipe:
    """The published objective with the best of four trained adversaries as its budget, on static pairs."""
    return replace(
        splavu_hmdb51(), name="splavu-adversaries", w_budget=0.0, adversaries=Adversaries(restart=20)
    )


def veil_adversaries() -> LatentRecipe:
    """`veil-erase` with an adapter behind it that adversaries train against; what was erased stays erased.

    Pairs of a moving and a static clip: who hides one kind only is found by the other.
    """
    return replace(
        veil(),
        name="veil-adversaries",
        stages=(Erase(share=ERASED, source="both"), Attention()),
        tasks=("action",),
        w_budget=0.0,
        pairs="mixed",
        epochs=50,
        adversaries=Adversaries(restart=10),
    )
