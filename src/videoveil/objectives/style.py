"""Noisy-Features, the baseline that dresses clips in the texture of noise. An approximation.

SPAct compares with this method, extended to video, without code or equations. What is here is the usual content and
style pair on a frozen network φ, with noise as the style; its numbers are ours, not the paper's.

Shapes: a feature map is (N, C, …) with L positions in …: frames (H, W) or clips (T, H, W).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives.precision import precise


@dataclass(frozen=True, slots=True)
class StyleLoss:
    """The total and its two terms, weighted."""

    total: Tensor
    content: Tensor
    style: Tensor


def gram(features: Tensor) -> Tensor:
    """(N, C, …) → (N, C, C): F·Fᵀ / (C·L), so that neither the size of a map nor its depth decides its weight."""
    if features.dim() < 3 or not features.numel():
        raise UsageError(f"Gram: feature maps must be (N, C, …) and not empty, not {tuple(features.shape)}")
    with precise(features) as (exact,):
        flat = exact.flatten(2)  # (N, C, L)
        return flat @ flat.mT / flat[0].numel()


def noisy_features(
    anonymized: Sequence[Tensor],
    raw: Sequence[Tensor],
    noise: Sequence[Tensor],
    content_weights: Sequence[float],
    style_weights: Sequence[float],
) -> StyleLoss:
    """Σ_l a_l·‖φ_l(f_A(x)) − φ_l(x)‖² + Σ_l b_l·‖Gram(φ_l(f_A(x))) − Gram(φ_l(n))‖², an approximation of the method.

    Feature maps of layers l: anonymized and raw (N, C_l, …); noise (N or 1, C_l, …) of any size. Squares are averaged
    over what they are taken of. Raw and noise are targets and receive no gradient; a weight of 0 leaves a term out.
    """
    count = len(anonymized)
    if not count or any(len(one) != count for one in (raw, noise, content_weights, style_weights)):
        raise UsageError(
            "Noisy-Features: at least one layer, and for each its anonymized, raw and noise maps and weights"
        )
    for weight in (*content_weights, *style_weights):
        if not 0 <= weight < float("inf"):
            raise UsageError(f"Noisy-Features: weight {weight} must be a number of 0 or more")
    content = [a * _content(f, x) for a, f, x in zip(content_weights, anonymized, raw) if a]
    style = [b * _style(f, n) for b, f, n in zip(style_weights, anonymized, noise) if b]
    none = torch.zeros((), device=anonymized[0].device)
    both = (torch.stack(content).sum() if content else none, torch.stack(style).sum() if style else none)
    return StyleLoss(both[0] + both[1], *both)


def _content(features: Tensor, target: Tensor) -> Tensor:
    if features.shape != target.shape:
        raise UsageError(f"content: {tuple(features.shape)} and {tuple(target.shape)} must have one shape")
    with precise(features, target) as (f, x):
        return (f - x.detach()).square().mean()


def _style(features: Tensor, target: Tensor) -> Tensor:
    if features.shape[1] != target.shape[1] or len(target) not in (1, len(features)):
        raise UsageError(
            f"style: noise must be (N or 1, C, …) for maps {tuple(features.shape)}, not {tuple(target.shape)}"
        )
    return (gram(features) - gram(target).detach()).square().mean()
