"""Quantisation: `levels` values per channel, evenly spaced; d·log₂(levels) bits per vector at most."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from videoveil.anonymizers import config
from videoveil.anonymizers.stage import Context, FitData, FittedStage, check_rows

NARROW = 1e-6  # of the widest channel; a constant channel still needs a width to divide by


class Quantiser(FittedStage):
    """y = low + width·round(clip((x − low)/width, 0, 1)·(k − 1))/(k − 1), low and width (d,) per channel.

    The ranges come from percentiles (`fit_from`) and are learned further if asked for. Rounding passes the gradient
    through unchanged; clipping stops it, and lets it widen or shift a range that is learned.
    """

    def __init__(self, width: int, settings: config.Quantise):
        super().__init__(width)
        self.levels, self.percentile = settings.levels, settings.percentile
        self.low = nn.Parameter(torch.zeros(width), requires_grad=settings.learned)
        self.log_width = nn.Parameter(torch.zeros(width), requires_grad=settings.learned)

    def capacity_bits(self) -> float:
        """Upper bound, in bits, on what one vector tells."""
        return self.width * math.log2(self.levels)

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        width = self.log_width.exp()
        steps = ((x - self.low) / width).clamp(0, 1) * (self.levels - 1)
        rounded = steps + (steps.round() - steps).detach()
        return self.low + rounded * (width / (self.levels - 1))

    @torch.no_grad()
    def fit_from(self, data: FitData) -> None:
        rows = data.rows
        check_rows(rows, self.width, 2, "quantise")
        share = self.percentile / 100
        low, high = percentile(rows, share), percentile(rows, 1 - share)
        widest = float((high - low).max())
        width = (high - low).clamp_min(max(widest * NARROW, torch.finfo(torch.float32).tiny))
        self.low.copy_(low)
        self.log_width.copy_(width.log())
        self.fitted.fill_(True)


def percentile(rows: Tensor, share: float) -> Tensor:
    """(n, d) → (d,), linear between order statistics; without the limit on n that torch.quantile has."""
    ordered = rows.sort(dim=0).values
    place = share * (len(rows) - 1)
    below = math.floor(place)
    above = min(below + 1, len(rows) - 1)
    return ordered[below].lerp(ordered[above], place - below)
