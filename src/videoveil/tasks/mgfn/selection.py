"""Which segments speak for a video: the k of largest embedding magnitude, behind a random mask while training.

Shapes: B videos of one class, n crops, T segments, D embedding channels, k selected segments.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from videoveil.tasks.mgfn.network import Scored


class Selected(NamedTuple):
    """What the objective sees of the videos of one class."""

    video_scores: Tensor  # (B,)
    features: Tensor  # (n·B, k, D), index = crop·B + video
    segment_scores: Tensor  # (B, T), mean over crops


def selection_mask(
    videos: int, length: int, dropout: float, generator: torch.Generator | None = None
) -> Tensor:
    """(B, T): 0 with probability `dropout`, else 1/(1 − dropout). Drawn on the CPU, so every device sees the same."""
    kept = torch.rand(videos, length, generator=generator) >= dropout
    return kept.float() / (1.0 - dropout)


def top_segments(embedding: Tensor, mask: Tensor | None, top: int) -> Tensor:
    """(B, n, T, D) → (B, k): segments of largest crop-averaged ‖z‖₂ times the mask; k = min(top, T).

    One mask for all crops of a video. Where fewer than k segments survive it, masked ones fill up in any order.
    """
    magnitude = torch.linalg.vector_norm(embedding, dim=-1).mean(1)  # (B, T)
    if mask is not None:
        magnitude = magnitude * mask.to(magnitude)
    return magnitude.topk(min(top, magnitude.shape[1]), dim=1).indices


def select(scored: Scored, top: int, mask: Tensor | None = None) -> Selected:
    """MGFN's magnitude selection and score aggregation for the videos of one class."""
    crops, width = scored.embedding.shape[1], scored.embedding.shape[-1]
    chosen = top_segments(scored.embedding, mask, top)  # (B, k)
    segment_scores = scored.scores.mean(1)  # (B, T)
    video_scores = segment_scores.gather(1, chosen).mean(1)
    index = chosen[:, None, :, None].expand(-1, crops, -1, width)  # (B, n, k, D)
    features = scored.embedding.gather(2, index)  # (B, n, k, D)
    return Selected(video_scores, features.transpose(0, 1).flatten(0, 1), segment_scores)
