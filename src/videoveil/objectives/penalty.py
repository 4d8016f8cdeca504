"""The penalty-driven anonymizer's leash: how far frames may go from what they were before it costs anything.

Shapes: x and its anonymized version have one shape, clips (N, 3, T, H, W) in [0, 1] or features (N, d).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives.precision import precise

Gather = Callable[[Tensor], Tensor]  # rows of this process → rows of all processes, with gradient


def rms(x: Tensor, y: Tensor, gather: Gather | None = None) -> Tensor:
    """‖x − y‖_RMS = sqrt(mean((x − y)²)) over the whole batch, scalar; at x = y its gradient is 0.

    `gather`, if given, brings the parts of other processes, as large as this one.
    """
    if x.shape != y.shape or not x.numel():
        raise UsageError(f"RMS: {tuple(x.shape)} and {tuple(y.shape)} must have one shape and not be empty")
    with precise(x, y) as (a, b):
        # not `vector_norm`: on a CPU it adds up one after the other, and of a batch of clips loses a percent
        mean = (a - b).square().mean()
        if gather is not None:
            mean = gather(mean.view(1)).mean()
        there = mean > 0  # the root has no finite gradient at 0: there it is taken of 1 instead, and not used
        return torch.where(there, torch.where(there, mean, 1.0).sqrt(), 0.0)


def above_bound(distance: Tensor, bound: float, *, differentiable: bool = True) -> Tensor:
    """max(0, distance − B), scalar; without gradient at and below B, and anywhere unless `differentiable`."""
    if not 0 <= bound < float("inf"):
        raise UsageError(f"penalty: bound={bound} must be a number of 0 or more")
    over = (distance - bound).relu()
    return over if differentiable else over.detach()


def rms_penalty(
    x: Tensor,
    anonymized: Tensor,
    bound: float,
    *,
    differentiable: bool = True,
    gather: Gather | None = None,
) -> Tensor:
    """Penalty-driven anonymizer, L_penalty = max(0, ‖X_action − f_A(X_action)‖_RMS − B), scalar.

    Only for action clips, never for the budget's frames. A smaller B is a shorter leash; clips in [0, 1] never go
    beyond 1. `differentiable=False` is what the released code does: the value in the log, no gradient, the same
    training for every B.
    """
    return above_bound(rms(x.detach(), anonymized, gather), bound, differentiable=differentiable)


def feature_penalty(
    raw: Tensor,
    anonymized: Tensor,
    bound: float,
    *,
    differentiable: bool = True,
    gather: Gather | None = None,
) -> Tensor:
    """The penalty as the paper words it, on action features: f_T's of clips and of their anonymized version, (N, d).

    Their scale is f_T's own, so B has to be chosen for it. The features of the raw clips receive no gradient.
    """
    return rms_penalty(raw, anonymized, bound, differentiable=differentiable, gather=gather)
