"""Soft non-maximum suppression in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

LENGTH = 1e-6  # added to every length, so that two empty segments have an IoU


def soft_nms(
    segments: Tensor, scores: Tensor, labels: Tensor, *, sigma: float, min_score: float, top: int
) -> tuple[Tensor, Tensor]:
    """Gaussian soft-NMS (Bodla et al. 2017, Eq. 3) inside each class; the `top` best of all classes together.

    Again and again the best segment is taken, and every other score of its class is multiplied by exp(−IoU²/σ); what
    falls below `min_score` is out. segments (n, 2), scores (n,), labels (n,) → indices (m,) and their new scores (m,),
    the best first, equal ones in the order given.

    A class never influences another and the scores it gives out never rise, so taking the best of all classes each
    time gives the merged and sorted list directly, and stops after `top` steps instead of `top` steps per class.
    """
    segments, scores = segments.double().cpu(), scores.double().cpu()
    labels = labels.cpu()
    rows = [_Row(segments, scores, (labels == label).nonzero()[:, 0], min_score) for label in labels.unique()]
    kept: list[int] = []
    final: list[float] = []
    while len(kept) < top and rows:
        row = max(rows, key=lambda r: (r.best, -r.origin))
        if row.best <= 0:
            break
        kept.append(row.origin)
        final.append(row.best)
        row.take(sigma, min_score)
    return torch.tensor(kept, dtype=torch.int64), torch.tensor(final, dtype=torch.float64)


class _Row:
    """The segments of one class that are still in the game; a score of 0 is out."""

    def __init__(self, segments: Tensor, scores: Tensor, members: Tensor, min_score: float):
        self.members = members
        self.start, self.end = (column.contiguous() for column in segments[members].unbind(1))
        self.length = self.end - self.start + LENGTH
        self.scores = scores[members].clone()
        self._look(min_score)

    def _look(self, min_score: float) -> None:
        self.scores.masked_fill_(self.scores < min_score, 0.0)
        best, place = self.scores.max(0)
        self.best, self.place = best.item(), int(place)
        self.origin = int(self.members[self.place])

    def take(self, sigma: float, min_score: float) -> None:
        """Remove the best and lower its rivals."""
        i = self.place
        shared = torch.minimum(self.end, self.end[i]) - torch.maximum(self.start, self.start[i])
        rivals = (shared > 0).nonzero()[:, 0]  # the others keep their score: exp(0) = 1
        shared = shared[rivals]
        iou = shared / (self.length[rivals] + self.length[i] - shared)
        self.scores[rivals] *= iou.square_().div_(-sigma).exp_()
        self.scores[i] = 0.0
        self._look(min_score)
