"""Our own recipes: what was thrown away cannot be found again."""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.config import Attention, Erase, Keep, Motion, Noise, Rank
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.splavu import splavu_hmdb51

KEPT = 1 / 8  # of the width
ERASED = 1 / 8  # of the width, from static clips and from moving clips each


def veil() -> LatentRecipe:
    """The default: keep the directions in which what happens stands out against who and where. Nothing is trained.

    A closed form: seconds on a processor, the same bytes every time, and what is not kept nobody gets back. It uses
    action labels where they are given and no labels of anything private.
    """
    return LatentRecipe(name="veil", stages=(Keep(share=KEPT),), tasks=(), epochs=0)


def veil_erase() -> LatentRecipe:
    """The other way round: erase the directions that tell videos apart, in static and in moving clips.

    It keeps more of what nobody thought of, useful or not: attackers who train on videos it was not made from find
    much more than with `veil`.
    """
    return replace(veil(), name="veil-erase", stages=(Erase(share=ERASED, source="both"),))


def veil_static() -> LatentRecipe:
    """Static clips only, as the paper's budget looks at them: moving clips stay readable. For comparison."""
    return replace(veil(), name="veil-static", stages=(Erase(share=ERASED, source="static"),))


def veil_noise() -> LatentRecipe:
    """`veil-erase` with a floor of keyed noise behind it, for what erasing leaves."""
    stages = (Erase(share=ERASED, source="both"), Noise(floor=0.3, learned=False, basis="principal"))
    return replace(veil(), name="veil-noise", stages=stages)


def veil_tuned() -> LatentRecipe:
    """`veil-erase` with an adapter behind it that makes the best of what is left: utility and consistency."""
    return replace(
        veil(),
        name="veil-tuned",
        stages=(Erase(share=ERASED, source="both"), Attention()),
        tasks=("action",),
        w_budget=0.0,
        epochs=50,
    )


def veil_bottleneck() -> LatentRecipe:
    """Through 24 numbers, trained for actions and consistency, with a floor of noise behind them.

    For encoders in which erasing does not find what is private: on real clips the best that was found, at a cost to
    tasks it was not trained for.
    """
    stages = (Rank(24), Noise(floor=0.3, learned=False, basis="principal"))
    return replace(splavu_hmdb51(), name="veil-bottleneck", stages=stages, w_budget=0.0)


def veil_motion() -> LatentRecipe:
    """Motion only: minus the static features of the same video, so that of a still picture nothing is left.

    For real encoders, in which faces do not lie in the directions that erasing finds. A closed form without numbers of
    its own; it needs static clips beside the moving ones wherever it is used.
    """
    return replace(veil(), name="veil-motion", stages=(Motion(),))
