"""Motion only: a clip's features minus those of the same frames standing still; what does not move is not there."""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.anonymizers import config
from videoveil.anonymizers.errors import MissingStatic, ShapeMismatch
from videoveil.anonymizers.stage import Context, FitData, FittedStage, check_rows
from videoveil.errors import UsageError

SHRINK = 0.3  # of the mean variance, added to the scatter within actions: there are fewer videos than it has numbers


class MotionOnly(FittedStage):
    """y = x − s + (s − s̄)·D·Uᵀ, where s (d,) is the mean static feature of the clip's video as the encoder gave it.

    A still picture is its own static feature, so that nothing of it is left, to the last bit, but what D (d, k) lets
    through: the k numbers of s that tell actions apart best (linear discriminants, shrunk), scaled to the spread of
    the features and written into k directions of their own, U (d, k). With k = 0 nothing of s comes through.
    """

    wants_static = True
    centre: Tensor
    down: Tensor
    up: Tensor

    def __init__(self, width: int, settings: config.Motion):
        super().__init__(width)
        self.keep = settings.keep
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("down", torch.zeros(width, settings.keep))
        self.register_buffer("up", torch.zeros(width, settings.keep))

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        if context.static is None:
            raise MissingStatic(
                "this anonymizer subtracts static clips: pass static= (N, d), the mean static features of each clip's "
                "video; for a still picture these are its own features"
            )
        static = context.static.to(x.dtype)
        moved = x - static[:, None, :]
        if not self.keep:
            return moved
        return moved + ((static - self.centre) @ self.down @ self.up.T)[:, None, :]

    @torch.no_grad()
    def fit_from(self, data: FitData) -> None:
        if data.static is None:
            raise MissingStatic("motion: fit_from needs static= (n, d) beside the features")
        if self.keep:
            self._fit_kept(data.static.detach().double(), data)
        self.fitted.fill_(True)

    def _fit_kept(self, static: Tensor, data: FitData) -> None:
        check_rows(static, self.width, 2, "motion")
        if data.actions is None:
            raise UsageError("motion: to keep what tells actions apart it needs actions= (n,); or keep=0")
        if len(data.actions) != len(static):
            raise ShapeMismatch(f"motion: {len(static)} static features and {len(data.actions)} actions")
        known = data.actions >= 0
        static, actions = static[known], data.actions[known]
        if len(actions.unique()) <= self.keep:
            raise UsageError(
                f"motion: {len(actions.unique())} actions have fewer than keep={self.keep} discriminants; keep less"
            )
        centre, down = discriminants(static, actions, self.keep)
        codes = (static - centre) @ down
        spread = data.rows.var(0).mean().sqrt()  # of the features that arrive here
        down = down / codes.std(0).clamp_min(torch.finfo(codes.dtype).tiny)
        self.centre.copy_(centre)
        self.down.copy_(down)
        self.up.copy_(torch.linalg.qr(down).Q * spread)


def discriminants(x: Tensor, classes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean (d,), and the `count` directions (d, count) with most scatter between classes for that within them."""
    centre = x.mean(0)
    names, places = classes.unique(return_inverse=True)
    means = torch.stack([x[places == place].mean(0) for place in range(len(names))])
    inner = x - means[places]
    within = inner.T @ inner / max(1, len(x) - len(names))
    unit = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    shrunk = within + SHRINK * within.diagonal().mean().clamp_min(torch.finfo(x.dtype).tiny) * unit
    whiten = torch.linalg.cholesky(torch.linalg.inv(shrunk))
    directions = torch.linalg.svd((means - centre) @ whiten, full_matrices=False).Vh[:count]
    found = whiten @ directions.T
    largest = found.gather(
        0, found.abs().argmax(0, keepdim=True)
    )  # a direction's sign is free: made the same
    return centre, found * torch.where(largest < 0, -1.0, 1.0)
