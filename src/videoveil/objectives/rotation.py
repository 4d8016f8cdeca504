"""RotNet, an alternative budget of SPAct: by how many quarter turns was the frame turned?

Shapes: N frames, C channels, H = W.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.errors import UsageError
from videoveil.objectives.attributes import Per
from videoveil.objectives.precision import precise

TURNS = 4
ROTATION_CHANCE = math.log(TURNS)  # the loss of a network that cannot tell


def rotate_quarters(frames: Tensor) -> tuple[Tensor, Tensor]:
    """Frames (N, C, H, W), square → all four turns (4N, C, H, W) and their labels (4N,).

    The first N are as they were (label 0), the next N are turned a quarter counter-clockwise (1), and so on.
    """
    if frames.dim() != 4 or frames.shape[2] != frames.shape[3] or not len(frames):
        raise UsageError(
            f"rotation: frames must be (N, C, H, W) with H = W, not {tuple(frames.shape)}; a turned frame that is "
            "not square tells its turn by its shape"
        )
    turned = [torch.rot90(frames, turns, (2, 3)) for turns in range(TURNS)]
    return torch.cat(turned), quarter_labels(len(frames), frames.device)


def quarter_labels(count: int, device: torch.device) -> Tensor:
    """(4·count,) how far each of the rows of `rotate_quarters` is turned."""
    return torch.arange(TURNS, device=device).repeat_interleave(count)


def rotation_loss(logits: Tensor, labels: Tensor, per: Per = "batch") -> Tensor:
    """SPAct's RotNet budget: cross-entropy of logits (M, 4) with labels (M,); ln 4 for a blind guess.

    `batch`: the mean, scalar. `sample`: (M / 4,), every frame's mean over its turns, in the order of `rotate_quarters`.
    """
    if logits.dim() != 2 or logits.shape[1] != TURNS or labels.shape != (len(logits),) or not len(logits):
        raise UsageError(
            f"rotation: logits must be (M, {TURNS}) and labels (M,), not {tuple(logits.shape)} and "
            f"{tuple(labels.shape)}"
        )
    if per == "sample" and not torch.equal(labels, quarter_labels(len(labels) // TURNS, labels.device)):
        raise UsageError("rotation: a loss by sample needs the rows and labels of `rotate_quarters`")
    with precise(logits) as (exact,):
        if per == "sample":
            return F.cross_entropy(exact, labels, reduction="none").view(TURNS, -1).mean(0)
        return F.cross_entropy(exact, labels)
