"""TeD-SPAD's temporal distinctness: the same moment of a video lies closer than another moment of it.

Shapes: N videos, d channels of the embedding (in the released code an L2-normalised head of 128).
"""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives.precision import precise

MARGIN = 1.0


def temporal_triplet(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = MARGIN) -> Tensor:
    """TeD-SPAD's L_D, scalar: mean over N of max{ ‖z_t − z̃_t‖ − ‖z_t − z_{t'}‖ + μ, 0 }.

    anchor z_t, positive z̃_t (same time, other augmentation), negative z_{t'} (same video, other time): (N, d). The
    margin is sensible for unit vectors, whose distances are at most 2. Where all three are equal the value is μ. A
    distance of 0 has gradient 0 (it has none, and anything but a number would spoil the whole step).
    """
    if (
        anchor.dim() != 2
        or anchor.shape != positive.shape
        or anchor.shape != negative.shape
        or not len(anchor)
    ):
        raise UsageError(
            "triplet: anchor, positive and negative must have one shape (N, d) and not be empty, not "
            f"{tuple(anchor.shape)}, {tuple(positive.shape)} and {tuple(negative.shape)}"
        )
    if not 0 < margin < float("inf"):
        raise UsageError(f"triplet: margin={margin} must be a number above 0")
    with precise(anchor, positive, negative) as (z, same, other):
        near = torch.linalg.vector_norm(z - same, dim=1)  # (N,); its gradient at 0 is 0
        far = torch.linalg.vector_norm(z - other, dim=1)  # (N,)
        return (near - far + margin).relu().mean()
