"""NT-Xent between pairs of views: the budget of SPLAVU (Eq. 5) on static clips and of SPAct on frames.

It says how well the two views of a video find each other among the views of other videos. Self-supervised attackers
minimise it; an anonymizer maximises it, with no labels of what is private.

Shapes: N videos (or persons), d channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.errors import UsageError
from videoveil.objectives.precision import without_autocast

TEMPERATURE = 0.1
NORM_EPS = 1e-8  # as in torch's cosine similarity: a zero vector is like nothing, with a bounded gradient


def nt_xent(
    a: Tensor,
    b: Tensor,
    temperature: float = TEMPERATURE,
    *,
    symmetric: bool = True,
    groups: Tensor | None = None,
    margin: float | None = None,
) -> Tensor:
    """SPLAVU Eq. 5, scalar: a, b (N, d) are two views of N videos, row i of one with row i of the other.

    L_i = −log [ sim(a_i, b_i) / Σ_j ( 1[j≠i]·sim(a_i, a_j) + sim(a_i, b_j) ) ],  sim(u, v) = exp(cos(u, v)/τ)

    The positive is in the denominator once, so every anchor chooses among 2N−1 candidates. `symmetric` takes all 2N
    views as anchors; otherwise only a, as the equation is printed. Known values: ln(2N−1) when all vectors are
    equal, never more than 2/τ + ln(2N−1).

    `groups` (N,), if given, leaves an anchor only candidates of its own group (say, videos of the same action): what
    the group tells cannot help to find the partner, so destroying it gains nothing. An anchor that is alone in its
    group has nothing to choose from and does not count; where all are alone the value is 0.

    `margin`, if given, is the guard of `budget_guard`. Computed in float32 or better.
    """
    _check(a, b, temperature, groups)
    count = len(a)
    precise = torch.promote_types(a.dtype, torch.float32)
    with without_autocast(a.device):
        views = F.normalize(torch.cat((a, b)).to(precise), dim=1, eps=NORM_EPS)  # (2N, d)
        anchors = views if symmetric else views[:count]  # (A, d), A = 2N or N
        logits = anchors @ views.T / temperature  # (A, 2N)
        here = torch.arange(len(anchors), device=a.device)
        partner = (here + count) % (2 * count)
        excluded = F.one_hot(here, 2 * count).bool()  # an anchor is no candidate of its own
        if groups is not None:
            both = groups.repeat(2)  # (2N,)
            excluded |= both[: len(anchors), None] != both[None, :]
        each = F.cross_entropy(logits.masked_fill(excluded, -math.inf), partner, reduction="none")  # (A,)
        if groups is None:
            loss, ceiling = each.mean(), torch.full((), budget_ceiling(count), device=a.device)
        else:
            candidates = (~excluded).sum(1)  # (A,)
            counts = (candidates > 1).to(precise)
            total = counts.sum().clamp_min(1)
            loss = (each * counts).sum() / total
            ceiling = (candidates.to(precise).log() * counts).sum() / total
        return loss if margin is None else budget_guard(loss, ceiling, margin)


def budget_ceiling(count: int) -> float:
    """ln(2N−1): the value of `nt_xent` where the vectors say nothing; above it, partners avoid each other."""
    return math.log(2 * count - 1)


def budget_guard(loss: Tensor, ceiling: Tensor | float, margin: float) -> Tensor:
    """The same value, without gradient where loss > ceiling + margin.

    A maximised budget does not stop at "cannot be told": it goes on to anti-aligned partners, which tell as much as
    aligned ones. The guard ends the push there. Not in the paper, so off unless a margin is given.
    """
    if margin < 0:
        raise UsageError(f"margin={margin}: must be 0 or more")
    return torch.where(loss > ceiling + margin, loss.detach(), loss)


def _check(a: Tensor, b: Tensor, temperature: float, groups: Tensor | None) -> None:
    if a.dim() != 2 or a.shape != b.shape:
        raise UsageError(
            f"NT-Xent: two views of one shape (N, d) are needed, not {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if len(a) < 2:
        raise UsageError(f"NT-Xent: {len(a)} pairs; at least 2 are needed, one has nothing to be told from")
    if not temperature > 0:
        raise UsageError(f"NT-Xent: temperature={temperature} must be above 0")
    if groups is not None and groups.shape != (len(a),):
        raise UsageError(f"NT-Xent: groups must be ({len(a)},), not {tuple(groups.shape)}")
