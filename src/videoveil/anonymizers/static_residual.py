"""Static residual: what a single frame of the video already tells is subtracted; what moves stays."""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.anonymizers import config
from videoveil.anonymizers.errors import MissingStatic, ShapeMismatch
from videoveil.anonymizers.stage import Context, FitData, FittedStage, check_rows


class StaticResidualMap(FittedStage):
    """y = x − α·(s − s̄)·W, where s (d,) is the mean static feature of the clip's video as the encoder gave it.

    W is the ridge map from static features to what arrives at this stage, fitted on training videos:
    W = (ŜᵀŜ/n + λ·v·I)⁻¹·ŜᵀX̂/n with centred Ŝ and X̂ and v the mean variance of the static features. The residue that
    is left can be small and still be read after rescaling: put a noise or quantisation stage behind it.
    """

    wants_static = True
    static_mean: Tensor
    weight: Tensor

    def __init__(self, width: int, settings: config.StaticResidual):
        super().__init__(width)
        self.alpha, self.ridge, self.required = settings.alpha, settings.ridge, settings.required
        self.register_buffer("static_mean", torch.zeros(width))
        self.register_buffer("weight", torch.zeros(width, width))

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        if context.static is None:
            if self.required:
                raise MissingStatic(
                    "this anonymizer subtracts what static clips predict: pass static= (N, d), the mean static "
                    "features of each clip's video; for a still picture these are its own features"
                )
            return x
        predicted = (context.static.to(x.dtype) - self.static_mean) @ self.weight  # (N, d)
        return x - self.alpha * predicted[:, None, :]

    @torch.no_grad()
    def fit_from(self, data: FitData) -> None:
        if data.static is None:
            raise MissingStatic("static-residual: fit_from needs static= (n, d) beside the features")
        static = data.static.detach().double()
        check_rows(static, self.width, 2, "static-residual")
        moving = data.features.detach().double()
        moving = (
            moving.mean(1) if moving.dim() == 3 else moving
        )  # a prediction is the same for all tokens of a clip
        check_rows(moving, self.width, 2, "static-residual")
        if len(moving) != len(static):
            raise ShapeMismatch(f"static-residual: {len(moving)} features and {len(static)} static ones")
        self.static_mean.copy_(static.mean(0))
        self.weight.copy_(ridge(static, moving, self.ridge))
        self.fitted.fill_(True)


def ridge(source: Tensor, target: Tensor, strength: float) -> Tensor:
    """W (d, e) that predicts centred target (n, e) from centred source (n, d); strength in mean source variances."""
    source, target = source - source.mean(0), target - target.mean(0)
    gram = source.T @ source / len(source)
    unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    penalty = strength * gram.diagonal().mean().clamp_min(torch.finfo(gram.dtype).tiny)
    return torch.linalg.solve(gram + penalty * unit, source.T @ target / len(source))
