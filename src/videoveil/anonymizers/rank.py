"""Rank bottleneck: whatever is in the d − r directions that do not go through is gone for every attacker."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from videoveil.anonymizers import config
from videoveil.anonymizers.stage import Context, FitData, Stage, check_rows


class RankBottleneck(Stage):
    """y = up·down·(x − m) + m, with down (r, d) and up (d, r): an affine map of rank r, whatever is learned.

    Starts with random orthonormal directions; `fit_from` starts it at the r principal directions of the features, the
    best of that rank in squared error.
    """

    centre: Tensor

    def __init__(self, width: int, settings: config.Rank):
        super().__init__(width)
        self.down = nn.Parameter(torch.empty(settings.rank, width))
        nn.init.orthogonal_(self.down)
        self.up = nn.Parameter(self.down.detach().T.clone())
        self.register_buffer("centre", torch.zeros(width))

    @property
    def rank(self) -> int:
        return len(self.down)

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        return (x - self.centre) @ self.down.T @ self.up.T + self.centre

    @torch.no_grad()
    def fit_from(self, data: FitData) -> None:
        rows = data.rows
        check_rows(rows, self.width, self.rank + 1, "rank bottleneck")
        centre, directions, _ = principal(rows)
        self.centre.copy_(centre)
        self.down.copy_(directions[:, : self.rank].T)
        self.up.copy_(directions[:, : self.rank])


def principal(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean (d,), principal directions (d, d) as columns by falling variance, and their standard deviations (d,).

    The sign of a direction is free; its largest entry is made positive, so that the result is the same everywhere.
    """
    centre = rows.mean(0)
    centred = rows - centre
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(rows))
    variances, directions = variances.flip(0), directions.flip(1)
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))  # (1, d)
    return centre, directions * torch.where(largest < 0, -1.0, 1.0), variances.clamp_min(0).sqrt()
