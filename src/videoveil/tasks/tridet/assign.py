"""Label assignment: which instant of which level answers for which action.

Shapes: Q instants of all levels one after the other, A actions, K classes. Times are in feature steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from videoveil.tasks.tridet.config import TriDetConfig

SAME_LENGTH = 1e-3  # actions that differ by no more share an instant


@dataclass(frozen=True)
class Points:
    """All instants of a pyramid."""

    time: Tensor  # (Q,)
    low: Tensor  # (Q,) the longer side of the actions an instant learns is at least this
    high: Tensor  # (Q,) and at most this
    stride: Tensor  # (Q,)

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class Target:
    """The actions of one sequence: `segments` (A, 2) in feature steps, `labels` (A,) class numbers."""

    segments: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Assignment:
    """What the instants should say."""

    classes: Tensor  # (Q, K) multi-hot float; a row of zeros is a negative
    offsets: Tensor  # (Q, 2) left and right in strides; only where some class is set


def points(steps: int, config: TriDetConfig, device: torch.device | None = None) -> Points:
    """The instants of a sequence of `steps`: 0, s, 2s, … on the level of stride s."""
    rows = [
        torch.stack([t, torch.full_like(t, low), torch.full_like(t, high), torch.full_like(t, stride)])
        for stride, (low, high) in zip(config.strides, config.regression_ranges)
        for t in [torch.arange(0, steps, stride, dtype=torch.float32, device=device)]
    ]
    return Points(*torch.cat(rows, 1))


def assign(where: Points, target: Target, classes: int, radius: float = 1.5) -> Assignment:
    """TriDet's label assignment (centre sampling, one range of lengths per level, the shortest action wins).

    An instant may answer for an action if it lies strictly inside the action and strictly within `radius` strides of
    its centre, and if the longer of the two sides is in the range of the level, ends included. Of several the shortest
    wins; actions of the same length within 1e-3 all give their class, the first of the shortest its boundaries.
    """
    count = len(target.labels)
    if count == 0:
        empty = where.time.new_zeros(len(where), classes)
        return Assignment(empty, where.time.new_zeros(len(where), 2))
    begin, finish = (column[None] for column in target.segments.to(where.time.dtype).unbind(-1))  # (1, A)
    time, reach = where.time[:, None], radius * where.stride[:, None]  # (Q, 1)
    left, right = time - begin, finish - time  # (Q, A)
    centre = (begin + finish) / 2
    inside = (time > torch.maximum(centre - reach, begin)) & (time < torch.minimum(centre + reach, finish))
    longer = torch.maximum(left, right)
    fits = inside & (longer >= where.low[:, None]) & (longer <= where.high[:, None])
    lengths = (finish - begin).expand_as(left).masked_fill(~fits, torch.inf)
    shortest, winner = lengths.min(1)  # (Q,)
    shares = fits & (lengths <= shortest[:, None] + SAME_LENGTH)
    hot = torch.zeros(count, classes, dtype=left.dtype, device=left.device)
    hot[torch.arange(count, device=left.device), target.labels] = 1
    rows = torch.arange(len(where), device=left.device)
    offsets = torch.stack((left[rows, winner], right[rows, winner]), -1) / where.stride[:, None]
    return Assignment((shares.to(left.dtype) @ hot).clamp(max=1), offsets * fits.any(1, keepdim=True))
