"""The total of the pixel methods: utility down, budget up, and the leash. All terms are scalars.

SPAct, TeD-SPAD, the penalty-driven anonymizer and VITA are one equation with different terms in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from videoveil.errors import UsageError

TERMS = ("total", "utility", "budget", "penalty")


@dataclass(frozen=True, slots=True)
class PixelWeights:
    """w_T, w_B, w_temp and λ, four names for what TeD-SPAD's Algorithm 1 calls ω twice."""

    utility: float = 1.0
    budget: float = 1.0
    temporal: float = 0.1  # of the temporal term inside L_T
    penalty: float = 1.0

    def __post_init__(self) -> None:
        for name in ("utility", "budget", "temporal", "penalty"):
            weight = getattr(self, name)
            if not 0 <= weight < float("inf"):
                raise UsageError(
                    f"weight {name}={weight}: must be 0 or more; the budget's sign is in the equation"
                )


@dataclass(frozen=True, slots=True)
class PixelLoss:
    """The total and its terms, unweighted."""

    total: Tensor
    utility: Tensor
    budget: Tensor
    penalty: Tensor

    def values(self) -> dict[str, float]:
        """Plain numbers for the log, in one transfer from the device."""
        stacked = torch.stack([getattr(self, name).detach().float() for name in TERMS])
        return dict(zip(TERMS, stacked.tolist()))


def clip_utility(
    cross_entropy: Tensor, temporal: Tensor | None = None, weights: PixelWeights | None = None
) -> Tensor:
    """TeD-SPAD's L_T = L_CE + w_temp·L_D (or L_LL, or L_I); SPAct's and the penalty paper's is L_CE alone."""
    weight = (weights or PixelWeights()).temporal
    return cross_entropy if temporal is None or not weight else cross_entropy + weight * temporal


def anonymizer_total(
    utility: Tensor, budget: Tensor, penalty: Tensor | None = None, weights: PixelWeights | None = None
) -> PixelLoss:
    """Step 1 of every pixel method, minimised over θ_A: L_A = w_T·L_T − w_B·L_B + λ·L_penalty.

    Where the anonymizer minimises an aim J instead of maximising a loss (`attributes`), its budget is −J. A term of
    weight 0 takes no part at all, so that a NaN in it cannot reach the total.
    """
    weights = weights or PixelWeights()
    leash = torch.zeros_like(budget) if penalty is None else penalty
    signed = ((weights.utility, utility), (-weights.budget, budget), (weights.penalty, leash))
    total = torch.stack([weight * term for weight, term in signed if weight] or [torch.zeros_like(budget)])
    return PixelLoss(total.sum(), utility, budget, leash)
