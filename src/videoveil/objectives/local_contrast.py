"""LLTC: the moments of one video are told from each other. TCLR's local-local loss, TeD-SPAD's costlier alternative.

Shapes: N videos, T moments of each (four consecutive clips in the papers), d channels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives.contrastive import TEMPERATURE, nt_xent


def local_temporal_contrast(z1: Tensor, z2: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """TCLR's L_LL, scalar: z1, z2 (N, T, d) are T moments of N videos under two augmentations.

    In every video by itself a symmetric NT-Xent whose "batch" are its T moments: the positive is the same moment
    under the other augmentation, the negatives are the 2T−2 embeddings of the other moments. Mean over videos (TCLR
    sums), so that its weight does not depend on the batch. Equal vectors give ln(2T−1), 1.946 for four moments.
    """
    if z1.dim() != 3 or z1.shape != z2.shape or not len(z1):
        raise UsageError(
            f"LLTC: two views of one shape (N, T, d) are needed, not {tuple(z1.shape)} and {tuple(z2.shape)}"
        )
    videos, moments = z1.shape[:2]
    if moments < 2:
        raise UsageError(f"LLTC: {moments} moments of a video; at least 2 are needed to be told apart")
    # candidates are kept inside a video, and all videos have equally many: the mean over anchors is that over videos
    video = torch.arange(videos, device=z1.device).repeat_interleave(moments)  # (N·T,)
    return nt_xent(z1.flatten(0, 1), z2.flatten(0, 1), temperature, groups=video)
