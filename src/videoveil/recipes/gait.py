"""Against being known by one's walk: what the paper leaves as future work, trained and in closed form.

Both send features through a bottleneck with a floor of noise. On a twin, a budget alone, static or temporal, was met
on the videos it was trained on and left an attacker who learns nearly everything of the walks of people it had never
seen; and erased directions, however many, were not the ones in which these differ. What does not fit through the
bottleneck is gone, whoever walks. `benchmarks/gait.py` has the figures, with and without each part.
"""

from __future__ import annotations

from dataclasses import replace

from videoveil.anonymizers.config import Attention, Erase, Noise, Rank
from videoveil.recipes.latent import LatentRecipe
from videoveil.recipes.splavu import splavu_hmdb51
from videoveil.recipes.veil import ERASED, veil


def splavu_gait() -> LatentRecipe:
    """SPLAVU with a budget on moving clips beside that on static ones, a bottleneck and a floor; consistency stays on.

    Consistency weighs 10, one of the paper's smaller weights (Table 9): at 100 moving clips cannot change enough. Both
    budgets end where views say nothing (`margin=0`): pushed further they make the views of a video avoid each other,
    which tells as much as likeness does. The larger part of what is hidden, the bottleneck and the floor hide.
    """
    return replace(
        splavu_hmdb51(),
        name="splavu-gait",
        stages=(Attention(), Rank(64), Noise(floor=0.2, learned=False, basis="principal")),
        w_consistency=10.0,
        w_temporal=3.0,
        reference="none",
        margin=0.0,
    )


def veil_gait() -> LatentRecipe:
    """`veil-erase`, then a bottleneck and a floor: also against who learns. Nothing is trained.

    24 directions of what erasing leaves, by variance. Tasks that need others than the actions it is made from lose more
    here than with `veil`.
    """
    stages = (
        Erase(share=ERASED, source="both"),
        Rank(24),
        Noise(floor=0.45, learned=False, basis="principal"),
    )
    return replace(veil(), name="veil-gait", stages=stages)
