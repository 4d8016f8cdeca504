"""Trident decoding: the ends of an action as expectations over the neighbourhood of an instant.

Shapes: P (video, class, instant) triples of one level, N bins; windows have N + 1 places.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.tasks.tridet.network import Level


def boundary_windows(
    level: Level, videos: Tensor, classes: Tensor, instants: Tensor, bins: int
) -> tuple[Tensor, Tensor]:
    """Start logits at t−N … t and end logits at t … t+N of P triples, each (P, N+1).

    Places before the first and after the last instant count as logit 0, which is part of the published behaviour.
    """
    reach = torch.arange(bins + 1, device=instants.device)
    # padded by N zeros on the left, place t−N is index t
    starts = F.pad(level.start, (bins, 0))[videos[:, None], classes[:, None], instants[:, None] + reach]
    ends = F.pad(level.end, (0, bins))[videos[:, None], classes[:, None], instants[:, None] + reach]
    return starts, ends


def decode(starts: Tensor, ends: Tensor, centre: Tensor) -> Tensor:
    """TriDet's Trident-head: distances (left, right) of P triples in strides of the level, (P, 2).

    `starts`, `ends` (P, N+1) as from `boundary_windows`; `centre` (P, 2(N+1)), starts first. With p and q the softmax
    of the sums, left = Σ p_j (N − j) and right = Σ q_j j: in the start window the instant itself comes last.
    """
    for_start, for_end = centre.unflatten(-1, (2, -1)).unbind(-2)  # (P, N+1) each
    places = torch.arange(starts.shape[-1], device=starts.device, dtype=starts.dtype)
    left = torch.softmax(starts + for_start, -1) @ places.flip(0)
    right = torch.softmax(ends + for_end, -1) @ places
    return torch.stack((left, right), -1)


def decode_at(level: Level, videos: Tensor, classes: Tensor, instants: Tensor, bins: int) -> Tensor:
    """Distances (left, right) of P triples of one level, (P, 2), in float32 whatever the network computed in."""
    starts, ends = boundary_windows(level, videos, classes, instants, bins)
    centre = level.centre[videos, :, instants]  # (P, 2(N+1))
    return decode(starts.float(), ends.float(), centre.float())
