"""From a video of any length to 32 training segments, and the magnitude channel.

Shapes: T snippets, n crops, C channels, L segments. Everything is differentiable in the features.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor


def boundaries(length: int, segments: int) -> list[int]:
    """r_0 … r_L with r_i = ⌊i·T/L⌋, in exact integers."""
    return [i * length // segments for i in range(segments + 1)]


def row_ranges(length: int, segments: int) -> list[range]:
    """The rows that segment i averages: r_i … r_{i+1}−1, or row r_i alone where that is empty (T < L)."""
    edges = boundaries(length, segments)
    return [range(a, max(b, a + 1)) for a, b in pairwise(edges)]


def segment_means(features: Tensor, segments: int) -> Tensor:
    """(T, …) → (L, …): the mean of every segment's rows (Sultani et al.'s reduction, without normalisation)."""
    length = features.shape[0]
    if length == 0:
        raise ValueError("a video without snippets has no segments")
    parts = row_ranges(length, segments)
    return torch.stack([features[part.start : part.stop].mean(0) for part in parts])


def draw_rows(
    length: int, segments: int, most: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """At most `most` random rows of every segment, and the segment each belongs to; (m,) and (m,), both int64.

    Bounds the cost of training something in front of MGFN (SPLAVU's adapter) on long videos: transform the drawn rows
    only, then average them with `mean_by_owner`.
    """
    rows: list[Tensor] = []
    owner: list[Tensor] = []
    for i, part in enumerate(row_ranges(length, segments)):
        kept = torch.randperm(len(part), generator=generator)[:most].sort().values
        rows.append(part.start + kept)
        owner.append(torch.full_like(kept, i))
    return torch.cat(rows), torch.cat(owner)


def mean_by_owner(values: Tensor, owner: Tensor, segments: int) -> Tensor:
    """(m, …) with the segment (m,) of each row → (L, …) means."""
    shape = (segments, *values.shape[1:])
    total = torch.zeros(shape, dtype=values.dtype, device=values.device).index_add(0, owner, values)
    count = torch.bincount(owner, minlength=segments).to(values.dtype)
    return total / count.view(-1, *(1 for _ in values.shape[1:]))


def with_magnitude(features: Tensor) -> Tensor:
    """(…, C) → (…, C+1): ‖feature‖₂ appended as the last channel.

    In training it is called on segment means (the norm of the mean, not the mean of norms), in testing on snippets.
    """
    magnitude = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    return torch.cat((features, magnitude), -1)
