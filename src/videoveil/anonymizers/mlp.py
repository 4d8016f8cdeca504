"""MLP adapters: every token by itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from videoveil.anonymizers import config
from videoveil.anonymizers.stage import Context, Stage


class MLPAdapter(Stage):
    """depth × [Linear(d, d) → ReLU → BatchNorm1d → Dropout], d² + 3d weights each.

    Statistics of a training batch are over its real tokens; outside training every row is treated by itself.
    """

    def __init__(self, width: int, settings: config.MLP | None = None):
        super().__init__(width)
        settings = settings or config.MLP()
        self.residual = settings.residual
        self.layers = nn.ModuleList(_layer(width, settings) for _ in range(settings.depth))

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        if context.mask is None:
            return self._rows(x.flatten(0, 1)).view_as(x)
        rows = self._rows(x[context.mask])  # (real tokens, d)
        return torch.zeros_like(x, dtype=rows.dtype).masked_scatter(context.mask[..., None], rows)

    def _rows(self, rows: Tensor) -> Tensor:
        for layer in self.layers:
            rows = rows + layer(rows) if self.residual else layer(rows)
        return rows


def _layer(width: int, settings: config.MLP) -> nn.Sequential:
    norm = nn.BatchNorm1d(width)
    if settings.init == "zero":
        nn.init.zeros_(norm.weight)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), norm, nn.Dropout(settings.dropout))
