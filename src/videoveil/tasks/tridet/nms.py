"""Soft non-maximum suppression without a compiled extension: tensors in and out, a loop over small arrays inside."""

from __future__ import annotations

import numpy as np
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
    # numpy inside: its operations on a few hundred numbers cost a tenth of torch's, and there are thousands of them
    places, certain = segments.double().cpu().numpy(), scores.double().cpu().numpy()
    numbers = labels.cpu().numpy()
    rows = [
        _Row(places, certain, np.flatnonzero(numbers == label), min_score) for label in np.unique(numbers)
    ]
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

    def __init__(self, segments: np.ndarray, scores: np.ndarray, members: np.ndarray, min_score: float):
        self.members = members
        self.start, self.end = np.ascontiguousarray(segments[members].T)
        self.length = self.end - self.start + LENGTH
        self.scores = scores[members].copy()
        self._look(min_score)

    def _look(self, min_score: float) -> None:
        self.scores[self.scores < min_score] = 0.0
        self.place = int(self.scores.argmax())
        self.best, self.origin = float(self.scores[self.place]), int(self.members[self.place])

    def take(self, sigma: float, min_score: float) -> None:
        """Remove the best and lower its rivals."""
        i = self.place
        shared = np.minimum(self.end, self.end[i]) - np.maximum(self.start, self.start[i])
        rivals = np.flatnonzero(shared > 0)  # the others keep their score: exp(0) = 1
        shared = shared[rivals]
        iou = shared / (self.length[rivals] + self.length[i] - shared)
        self.scores[rivals] *= np.exp(iou * iou / -sigma)
        self.scores[i] = 0.0
        self._look(min_score)
