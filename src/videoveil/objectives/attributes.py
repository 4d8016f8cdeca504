"""Budgets that know what is private: the supervised adversarial baseline (VITA) on labelled attributes.

The budget network minimises `attribute_loss`. The anonymizer either maximises it (L_B of the total), or minimises
one of two aims J that make the network uncertain instead of wrong: `negative_entropy` and `uniform_target`. Of an
ensemble of budget networks the anonymizer fights, for every sample, the one that is most certain: `strongest`.

Shapes: N samples, K attributes (sigmoid: each there or not) or classes (softmax: one of them), M networks.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from videoveil.errors import UsageError
from videoveil.objectives.precision import precise

Per = Literal["batch", "sample"]
Head = Literal["sigmoid", "softmax"]


def attribute_loss(logits: Tensor, labels: Tensor, per: Per = "batch") -> Tensor:
    """SPAct's supervised L_B: binary cross-entropy of logits (N, K) with labels (N, K) in [0, 1], NaN = unknown.

    Unknown labels take no part, not even by a gradient. `batch`: the mean over all known labels, 0 where there is
    none. `sample`: (N,), every sample's mean over its own known labels.
    """
    _check(logits, per)
    if labels.shape != logits.shape:
        raise UsageError(
            f"attributes: labels {tuple(labels.shape)} must have the shape of the logits {tuple(logits.shape)}"
        )
    if bool(((labels < 0) | (labels > 1)).any()):
        raise UsageError("attributes: labels must be in [0, 1], or NaN where they are not known")
    with precise(logits) as (exact,):
        truth = labels.to(exact.dtype)
        known = ~truth.isnan()
        each = F.binary_cross_entropy_with_logits(exact, truth.nan_to_num(0.0), reduction="none")  # (N, K)
        each = each.masked_fill(~known, 0.0)
        if per == "sample":
            return each.sum(1) / known.sum(1).clamp_min(1)
        return each.sum() / known.sum().clamp_min(1)


def negative_entropy(logits: Tensor, head: Head = "sigmoid", per: Per = "batch") -> Tensor:
    """VITA's J, minimised by the anonymizer: how certain the budget network is about (N, K), right or wrong.

    sigmoid: mean over attributes of p·ln p + (1−p)·ln(1−p), from 0 down to −ln 2.
    softmax: Σ_k p_k·ln p_k, from 0 down to −ln K. Mean over samples, or (N,) per `sample`.
    """
    _check(logits, per, head)
    with precise(logits) as (exact,):
        if head == "sigmoid":
            yes = exact.sigmoid() * F.logsigmoid(exact)  # logarithms from logits: p = 0 gives 0, not NaN
            no = (-exact).sigmoid() * F.logsigmoid(-exact)
            each = (yes + no).mean(1)  # (N,)
        else:
            each = (exact.softmax(1) * exact.log_softmax(1)).sum(1)
        return each if per == "sample" else each.mean()


def uniform_target(logits: Tensor, head: Head = "sigmoid", per: Per = "batch") -> Tensor:
    """VITA's other J, minimised by the anonymizer: cross-entropy of (N, K) to the label that says nothing.

    sigmoid: binary cross-entropy to 0.5, at least ln 2 (the released code aims at all ones, which asks for
    "present", not for uncertainty). softmax: cross-entropy to 1/K each, at least ln K.
    """
    _check(logits, per, head)
    with precise(logits) as (exact,):
        if head == "sigmoid":
            each = (F.softplus(exact) - exact / 2).mean(1)  # (N,)
        else:
            each = -exact.log_softmax(1).mean(1)
        return each if per == "sample" else each.mean()


def strongest(certainty: Tensor) -> Tensor:
    """VITA's ensemble, scalar: J of M networks on N samples, (M, N) → mean over samples of max over networks.

    J is high for a network that knows. Of losses, which are low for it, take `-strongest(-losses)`.
    """
    if certainty.dim() != 2 or not certainty.numel():
        raise UsageError(f"ensemble: (networks, samples) are needed, not {tuple(certainty.shape)}")
    with precise(certainty) as (exact,):
        return exact.amax(0).mean()  # networks that are equally strong share the gradient


def _check(logits: Tensor, per: str, head: str = "sigmoid") -> None:
    if logits.dim() != 2 or not logits.numel():
        raise UsageError(f"attributes: logits must be (N, K) and not empty, not {tuple(logits.shape)}")
    if per not in ("batch", "sample"):
        raise UsageError(f"per={per!r}: must be 'batch' or 'sample'")
    if head not in ("sigmoid", "softmax"):
        raise UsageError(f"head={head!r}: must be 'sigmoid' or 'softmax'")
