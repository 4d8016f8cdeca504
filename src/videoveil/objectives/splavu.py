"""SPLAVU's total: consistency and utility down, budget up, in one step on one scalar. All terms are scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class SplavuWeights:
    """ω_LC, ω_T and ω_B of Eq. 7; `tasks` weighs single tasks inside L_T (1 where not named), 0 leaves one out."""

    consistency: float = 100.0
    utility: float = 1.0
    budget: float = 1.0
    temporal: float = 0.0  # of the temporal budget, which the paper does not have
    tasks: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in ("consistency", "utility", "budget", "temporal")}
        for name, weight in (named | dict(self.tasks)).items():
            if not 0 <= weight < float("inf"):
                raise UsageError(
                    f"weight {name}={weight}: must be 0 or more; the budget's sign is in the equation"
                )


@dataclass(frozen=True, slots=True)
class SplavuLoss:
    """The total and its terms, unweighted."""

    total: Tensor
    consistency: Tensor
    utility: Tensor
    budget: Tensor
    temporal: Tensor

    def values(self) -> dict[str, float]:
        """Plain numbers for the log, in one transfer from the device."""
        names = ("total", "consistency", "utility", "budget", "temporal")
        stacked = torch.stack([getattr(self, name).detach().float() for name in names])
        return dict(zip(names, stacked.tolist()))


def utility(tasks: Mapping[str, Tensor], weights: Mapping[str, float] | None = None) -> Tensor:
    """SPLAVU Eq. 4: L_T = L_AR + L_TAD + L_AD over the tasks there are, each with weight 1 unless told."""
    weights = weights or {}
    if unknown := sorted(set(weights) - set(tasks)):
        raise UsageError(f"weights for tasks that have no loss: {', '.join(unknown)}")
    parts = [weights.get(name, 1.0) * loss for name, loss in tasks.items() if weights.get(name, 1.0)]
    return torch.stack(parts).sum() if parts else torch.zeros(())


def splavu_total(
    consistency: Tensor,
    tasks: Mapping[str, Tensor],
    budget: Tensor,
    weights: SplavuWeights | None = None,
    *,
    temporal: Tensor | None = None,
) -> SplavuLoss:
    """SPLAVU Eq. 7: L = ω_LC·L_LC + ω_T·L_T − ω_B·L_B  (− ω_B'·L_B' with `temporal_budget`).

    A term of weight 0 takes no part at all, so that a NaN in it cannot reach the total.
    """
    weights = weights or SplavuWeights()
    task_loss = utility(tasks, weights.tasks).to(consistency.device)
    motion = torch.zeros_like(budget) if temporal is None else temporal
    signed = (
        (weights.consistency, consistency),
        (weights.utility, task_loss),
        (-weights.budget, budget),
        (-weights.temporal, motion),
    )
    total = torch.stack([weight * term for weight, term in signed if weight] or [torch.zeros_like(budget)])
    return SplavuLoss(total.sum(), consistency, task_loss, budget, motion)
