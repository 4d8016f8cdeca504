"""How far an adapter's output is from its input. Shapes: h, g (N, d) or (N, S, d); results are scalars."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from videoveil.errors import UsageError

Reduction = Literal["mean", "sum"]


def latent_consistency(h: Tensor, g: Tensor, reduction: Reduction = "mean") -> Tensor:
    """SPLAVU Eq. 6: ‖h − g‖² of moving-clip features h and their anonymized g, averaged over vectors.

    `mean` averages over the d channels too (what the released code and the paper's weights fit); `sum` is the squared
    distance as printed, d times as much. Never for static clips: those are what must change.
    """
    if reduction not in ("mean", "sum"):
        raise UsageError(f"reduction={reduction!r}: must be 'mean' or 'sum'")
    squares = _difference(h, g).square()  # (…, d)
    return squares.mean() if reduction == "mean" else squares.sum(-1).mean()


def l1_reconstruction(h: Tensor, g: Tensor) -> Tensor:
    """SPLAVU's warm-up of an adapter towards the identity: mean |h − g| over everything."""
    return _difference(h, g).abs().mean()


def _difference(h: Tensor, g: Tensor) -> Tensor:
    if h.shape != g.shape or not h.numel():
        raise UsageError(
            f"features {tuple(h.shape)} and their anonymized {tuple(g.shape)} must have one shape and not be empty"
        )
    precise = torch.promote_types(torch.promote_types(h.dtype, g.dtype), torch.float32)
    return h.to(precise) - g.to(precise)
