"""Temporal invariance, TeD-SPAD's negative control: all moments of a video should look alike to the utility network.

Shapes: N videos, d channels.
"""

from __future__ import annotations

from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives.consistency import Reduction
from videoveil.objectives.contrastive import TEMPERATURE, nt_xent


def temporal_invariance(
    first: Tensor,
    second: Tensor,
    temperature: float = TEMPERATURE,
    *,
    symmetric: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """TeD-SPAD's L_I, scalar: NT-Xent over the batch between two random clips z_t, z_{t'} (N, d) of each video.

    As printed only the first clips are anchors (`symmetric=False`); the symmetric form takes all 2N. `mean` is over
    anchors; `sum` is the Σ_i of the equation, N times as much (in the symmetric form too, where the two directions
    are averaged), so its weight means something else for every batch size.
    """
    if reduction not in ("mean", "sum"):
        raise UsageError(f"reduction={reduction!r}: must be 'mean' or 'sum'")
    loss = nt_xent(first, second, temperature, symmetric=symmetric)
    return loss if reduction == "mean" else len(first) * loss
