"""Trained adversaries for the budget: what a raw likeness does not see, a small network may.

The published budget (`contrastive.nt_xent` on the anonymized vectors themselves) can be driven to its ceiling by
turning and rescaling the space. An adversary learns a projection in which the two views of a video find each other
again; the anonymizer then has to hide them there as well. There are several, because one is soon evaded, and the one
that does best at the time is the one that counts.

Shapes: N videos, d channels, h hidden, k outputs, M adversaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from videoveil.errors import UsageError
from videoveil.objectives.contrastive import TEMPERATURE, nt_xent

FLAT = 1e-6  # added to the variance of a channel before dividing: one that does not vary says nothing


@dataclass(frozen=True, slots=True)
class Adversaries:
    """How many there are, how they learn, and how much they count."""

    weight: float = 1.0  # of the best adversary's NT-Xent in the anonymizer's step, which goes up on it
    heads: int = 4
    outputs: int = 64
    steps: int = 3  # of the adversaries before each step of the anonymizer
    learning_rate: float = 1e-3
    restart: int = 0  # epochs after which one of them, in turn, begins anew; 0: none ever does
    margin: float = 0.0  # above what views that say nothing give: there the push ends (`budget_guard`)

    def __post_init__(self) -> None:
        for name in ("heads", "outputs", "steps"):
            if getattr(self, name) < 1:
                raise UsageError(f"adversaries: {name}={getattr(self, name)} must be at least 1")
        for name in ("weight", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"adversaries: {name}={getattr(self, name)} must be a number above 0")
        if self.restart < 0 or not 0 <= self.margin < float("inf"):
            raise UsageError(
                f"adversaries: restart={self.restart} and margin={self.margin} must be 0 or more"
            )


class Adversary(nn.Module):
    """d → d → k. Channels are brought to mean 0 and variance 1 over the batch, so that rescaling hides nothing."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.first = nn.utils.skip_init(nn.Linear, width, width)
        self.second = nn.utils.skip_init(nn.Linear, width, outputs)

    @torch.no_grad()
    def begin(self, generator: torch.Generator) -> None:
        """Random weights from a CPU generator, the same on every device."""
        for layer in (self.first, self.second):
            drawn = torch.empty(layer.weight.shape)
            nn.init.kaiming_uniform_(drawn, nonlinearity="relu", generator=generator)
            layer.weight.copy_(drawn)
            layer.bias.zero_()

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Two views (N, d) → their projections (N, k)."""
        views = torch.cat((a, b))
        variance, mean = torch.var_mean(views, 0, correction=0)
        views = (views - mean) / (variance + FLAT * variance.mean() + torch.finfo(views.dtype).tiny).sqrt()
        first, second = self.second(torch.relu(self.first(views))).split(len(a))
        return first, second


def adversary_loss(
    adversary: Adversary,
    a: Tensor,
    b: Tensor,
    temperature: float = TEMPERATURE,
    *,
    groups: Tensor | None = None,
) -> Tensor:
    """What an adversary goes down on: NT-Xent of its projections of a, b (N, d), which receive no gradient."""
    first, second = adversary(a.detach().float(), b.detach().float())
    return nt_xent(first, second, temperature, groups=groups)


def worst_adversary(
    adversaries: Sequence[Adversary] | nn.ModuleList,
    a: Tensor,
    b: Tensor,
    temperature: float = TEMPERATURE,
    *,
    groups: Tensor | None = None,
    margin: float = 0.0,
) -> Tensor:
    """What the anonymizer goes up on: min over adversaries of the NT-Xent of their projections of a, b (N, d).

    The adversaries receive no gradient. Where even the best one does no better than a blind guess (the ceiling of
    `nt_xent`, ln(2N−1) for one group, plus `margin`) there is nothing left to push, and the gradient is 0.
    """
    found = []
    for head in adversaries:
        frozen = {name: parameter.detach() for name, parameter in head.named_parameters()}
        first, second = functional_call(head, frozen, (a.float(), b.float()))
        found.append(nt_xent(first, second, temperature, groups=groups, margin=margin))
    if not found:
        raise UsageError("adversaries: there are none")
    return torch.stack(found).min()
