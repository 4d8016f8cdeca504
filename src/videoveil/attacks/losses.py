"""Cross-entropies of attacker outputs (n, columns), unknown attributes left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.attacks.targets import Data

Loss = Callable[[Tensor], Tensor]


def attribute_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy of logits (n, k) over the targets (n, k) that are known; 0 where none is."""
    known = ~targets.isnan()
    each = F.binary_cross_entropy_with_logits(logits, targets.nan_to_num(0.0), reduction="none")
    return torch.where(known, each, 0.0).sum() / known.sum().clamp_min(1)


def class_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of logits (n, C) and positions of classes (n,)."""
    return F.cross_entropy(logits, targets)


def targets_of(data: Data, device: str, dtype: torch.dtype) -> Tensor:
    """(n, k) of `dtype`, or (n,) of class positions."""
    if data.classes is None:
        return torch.from_numpy(data.y).to(device, dtype)
    return torch.from_numpy(data.codes).to(device)


def loss_of(data: Data, device: str, dtype: torch.dtype = torch.float64) -> Loss:
    """The loss of outputs for all rows of `data`."""
    targets = targets_of(data, device, dtype)
    each = attribute_loss if data.classes is None else class_loss
    return lambda logits: each(logits, targets)


def probabilities(logits: np.ndarray, attributes: bool) -> np.ndarray:
    """Sigmoid for attributes, softmax for classes."""
    if attributes:
        return np.exp(-np.logaddexp(0, -logits))
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    normed: np.ndarray = shifted / shifted.sum(1, keepdims=True)
    return normed
