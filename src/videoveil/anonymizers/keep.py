"""Directions keeper: a projection, in closed form, onto a few directions in which what happens stands out.

An eraser has to find everything that tells who; whatever it misses stays, and somebody who trains on videos it was not
made from finds that. A keeper is the other way round: it has to find what happens, and everything it does not know
about is thrown away.
"""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.anonymizers import config
from videoveil.anonymizers.erase import RELATIVE_RANK, orthonormal, outside
from videoveil.anonymizers.scatter import MovingClips, one_thread, shared_by_static
from videoveil.anonymizers.stage import Context, FitData, FittedStage
from videoveil.errors import UsageError


class Keeper(FittedStage):
    """y = m + (x − m)·K·Kᵀ with orthonormal columns K (d, k): k numbers of a feature come through, and its mean.

    Everything passes through (x − m)·K, so that, unlike with an eraser, how exactly K is orthonormal does not matter
    to what is hidden.
    """

    centre: Tensor
    directions: Tensor

    def __init__(self, width: int, settings: config.Keep):
        super().__init__(width)
        self.count, self.ridge = settings.count(width), settings.ridge
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("directions", torch.zeros(width, self.count, dtype=torch.float64))

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        directions, centre = self.directions.to(x.dtype), self.centre.to(x.dtype)
        return centre + ((x - centre) @ directions) @ directions.T

    @torch.no_grad()
    def fit_from(self, data: FitData) -> None:
        """Keep what stands out most, and first of all `data.spare`."""
        if data.videos is None or data.owners is None:
            raise UsageError(
                "keep: fit_from needs videos= (V, K, d), K ≥ 2 static clips of each training video, and owners= (n,), "
                "which of them every moving clip belongs to"
            )
        with one_thread():
            clips = data.features.mean(1) if data.features.dim() == 3 else data.features
            moving = MovingClips(clips, data.owners, data.actions, "keep")
            found = standing_out(
                what(moving), who(moving, data.videos), self.count, ridge=self.ridge, spare=data.spare
            )
            self.directions.zero_()
            self.directions[:, : found.shape[1]] = found.to(self.directions)
            self.centre.copy_(data.rows.mean(0))
        self.fitted.fill_(True)


def what(moving: MovingClips) -> Tensor:
    """What happens (d, d): what changes inside videos and, where actions are known, what their means differ in."""
    changes = moving.around_videos()
    return changes if moving.actions is None else changes + moving.between_actions()


def who(moving: MovingClips, videos: Tensor) -> Tensor:
    """Who and where (d, d): what static clips of a video share, and what moving clips of one action differ in.

    Where no action is known, what static clips predict of the moving ones takes the place of the second.
    """
    told = moving.predicted_by_static(videos) if moving.actions is None else moving.around_actions()
    return shared_by_static(videos, "keep") + told


def standing_out(
    what: Tensor, who: Tensor, count: int, *, ridge: float, spare: Tensor | None = None
) -> Tensor:
    """Orthonormal columns (d, ≤ count) of the directions v with the largest vᵀ·what·v ÷ vᵀ·who·v.

    `who` gets `ridge` mean variances on its diagonal: without it, directions in which few training videos happen to
    agree look as if nobody could be told apart by them. The rows of `spare` (c, d) are kept first.
    """
    kept = what.new_zeros(len(what), 0)
    if spare is not None:
        kept = orthonormal(spare.detach().double().cpu())
        if kept.shape[1] > count:
            raise UsageError(f"keep: {kept.shape[1]} directions of a head to spare, room for {count}")
    free = outside(spare, len(what))  # (d, f)
    values, vectors = torch.linalg.eigh(free.T @ who @ free)
    floor = ridge * values.clamp_min(0).mean()
    if not float(floor) > 0:
        raise UsageError("keep: the training videos do not differ in anything; give other ones")
    whiten = free @ (vectors / (values.clamp_min(0) + floor).sqrt())  # (d, f)
    ratios, best = torch.linalg.eigh(whiten.T @ what @ whiten)
    chosen = whiten @ best.flip(1)[:, : count - kept.shape[1]]
    positive = ratios.flip(0)[: chosen.shape[1]] > RELATIVE_RANK * ratios.abs().max()
    return torch.cat((kept, orthonormal(chosen[:, positive].T)), 1)
