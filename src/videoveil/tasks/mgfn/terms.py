"""The terms of MGFN's objective, one equation a function (Chen et al., AAAI 2023; Eqs. 9–13 in SPLAVU's appendix).

The papers and the released codes differ; the forms here are the codes', which the published numbers come from. The
papers' λ₁ = λ₂ = 1 stand on top of weights of 8·10⁻⁴ and 8·10⁻³ that are inside the codes' terms, and so they are here.

Shapes: B videos of a class, T segments, n crops, k selected segments, D embedding channels.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.tasks.mgfn.config import Pairs, SmoothnessOn, SparsityOn

DISTANCE_EPS = 1e-6


def classification(normal: Tensor, abnormal: Tensor) -> Tensor:
    """L_sce: mean cross-entropy of the video scores (B,), already in [0, 1], with 0 for normal and 1 for anomalous."""
    scores = torch.cat((normal, abnormal))
    labels = torch.cat((torch.zeros_like(normal), torch.ones_like(abnormal)))
    # The built-in refuses NaN, on CUDA by ending the process; it shall come out as a NaN that training can report.
    return F.binary_cross_entropy(scores.nan_to_num(0.5), labels) + 0 * scores.sum()


def smoothness(
    normal: Tensor, abnormal: Tensor, on: SmoothnessOn = "abnormal", weight: float = 8e-4
) -> Tensor:
    """L_smooth: weight · Σ (s_{t+1} − s_t)² over segment scores (B, T).

    `abnormal`: inside every anomalous video (recommended, as the paper says); `all`: inside every video (MGFN's newest
    code); `abnormal-joined`: anomalous videos as one long vector, so also across their borders (TeD-SPAD).
    """
    if on == "all":
        scores = torch.cat((normal, abnormal))
    elif on == "abnormal":
        scores = abnormal
    else:
        scores = abnormal.reshape(1, -1)
    return weight * scores.diff(dim=1).square().sum()


def sparsity(normal: Tensor, abnormal: Tensor, on: SparsityOn = "abnormal", weight: float = 8e-3) -> Tensor:
    """L_sparse: weight · ‖s‖₂ of all segment scores (B, T) of one class as one vector.

    `abnormal`: as RTFM, TeD-SPAD and MGFN until April 2023 (recommended); `normal`: as MGFN's newest code.
    """
    scores = abnormal if on == "abnormal" else normal
    return weight * torch.linalg.vector_norm(scores)


def segment_magnitudes(features: Tensor) -> Tensor:
    """M: (m, k, D) → (m, k), the L1 norm of every selected segment (selection itself goes by the L2 norm)."""
    return torch.linalg.vector_norm(features, ord=1, dim=-1)


def pair_loss(first: Tensor, second: Tensor, *, different: bool, margin: float = 200.0) -> Tensor:
    """Mean of D² for pairs of one class, of max(margin − D, 0)² for pairs of different classes; D = ‖a − b + ε‖₂.

    Both (m, k); pairs are aligned by index.
    """
    distance = torch.linalg.vector_norm(first - second + DISTANCE_EPS, dim=-1)
    if different:
        return (margin - distance).clamp_min(0).square().mean()
    return distance.square().mean()


def halves(magnitudes: Tensor, crops: int, pairs: Pairs = "videos") -> tuple[Tensor, Tensor]:
    """Pair the entries (n·B, k) of one class, crop-major, with each other: two tensors of (n·B/2, k).

    `videos`: video i + B/2 with video i, seen through the same crop. `released`: entry h + i with entry i, h = n·B/2;
    with one crop that is the same, with ten it compares crop c + 5 with crop c of the same video.
    """
    if pairs == "released":
        half = len(magnitudes) // 2
        return magnitudes[half:], magnitudes[:half]
    by_crop = magnitudes.unflatten(0, (crops, -1))  # (n, B, k)
    half = by_crop.shape[1] // 2
    return by_crop[:, half:].flatten(0, 1), by_crop[:, :half].flatten(0, 1)


def inter_class(normal: Tensor, abnormal: Tensor, margin: float = 200.0) -> Tensor:
    """L_inter: anomalous and normal magnitudes (m, k) should be `margin` apart."""
    return pair_loss(abnormal, normal, different=True, margin=margin)


def intra_class(magnitudes: Tensor, crops: int = 1, pairs: Pairs = "videos") -> Tensor:
    """L_intra: magnitudes (n·B, k) of one class should be alike."""
    return pair_loss(*halves(magnitudes, crops, pairs), different=False)


def magnitude_contrastive(
    inter: Tensor,
    intra_normal: Tensor,
    intra_abnormal: Tensor,
    weight: float = 1e-3,
    inter_weight: float = 1e-3,
) -> Tensor:
    """L_mc: weight · (inter_weight · L_inter + L_intra(normal) + L_intra(anomalous))."""
    return weight * (inter_weight * inter + intra_normal + intra_abnormal)
