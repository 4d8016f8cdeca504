"""The paper's start of an adapter: taught to give back what it gets, by L1, before it is taught to hide anything."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from videoveil.anonymizers.latent import LatentAnonymizer
from videoveil.errors import Diverged, UsageError
from videoveil.objectives import l1_reconstruction
from videoveil.training import seeds

GOOD = 0.05  # relative error of a start that is worth its name


@dataclass(frozen=True, kw_only=True)
class IdentitySettings:
    """AdamW on mean |x − f(x)|; the paper's rate and epochs, which are meant for hundreds of thousands of videos."""

    epochs: int = 100
    batch: int = 512
    learning_rate: float = 2e-5
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"identity {name}={getattr(self, name)}: must be a number above 0")
        if not 0 <= self.weight_decay < math.inf:
            raise UsageError(f"identity weight_decay={self.weight_decay}: must be a number, 0 or more")


def learn_identity(
    anonymizer: LatentAnonymizer,
    rows: Tensor,
    settings: IdentitySettings | None = None,
    *,
    seed: int = 0,
    device: torch.device | None = None,
) -> float:
    """Teach the anonymizer to reproduce rows (M, d) or (M, S, d); what is left, mean |f(x) − x| / mean |x|.

    Without dropout, which no identity survives; batch norm counts its statistics. Up to `GOOD` the start is good, and
    `shortfall` says what to do about one that is not.
    """
    settings = settings or IdentitySettings()
    device = device or torch.device("cpu")
    learned = [p for p in anonymizer.to(device).parameters() if p.requires_grad]
    if not learned:
        return 0.0
    rows = rows.to(device)
    optimizer = torch.optim.AdamW(learned, lr=settings.learning_rate, weight_decay=settings.weight_decay)
    anonymizer.eval()
    for module in anonymizer.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.train()
    for epoch in range(settings.epochs):
        order = torch.randperm(len(rows), generator=seeds.generator(seed, "identity", epoch)).to(device)
        total = torch.zeros((), device=device)
        for chosen in order.split(settings.batch):
            if len(chosen) < 2 <= len(rows):  # a batch of one has no statistics
                continue
            optimizer.zero_grad()
            loss = l1_reconstruction(rows[chosen], anonymizer.transform(rows[chosen]))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        if not math.isfinite(float(total)):
            raise Diverged(
                f"the identity start diverged in epoch {epoch + 1}: loss {float(total):.4g}; lower its "
                f"learning_rate={settings.learning_rate:g}"
            )
    anonymizer.eval()
    return relative_error(anonymizer, rows)


def shortfall(error: float, settings: IdentitySettings) -> str:
    """What is to be said of a start with this relative error; nothing where it is good."""
    if error <= GOOD:
        return ""
    return (
        f"the identity start has a relative error of {error:.3f} instead of {GOOD} at most, so training begins with "
        f"features that are changed already: give it more than identity.epochs={settings.epochs} (or a higher "
        f"learning_rate than {settings.learning_rate:g}), or take init='zero', which starts exactly"
    )


@torch.no_grad()
def relative_error(anonymizer: LatentAnonymizer, rows: Tensor, batch: int = 4096) -> float:
    """mean |f(x) − x| / mean |x| in eval mode."""
    difference = sum(float((anonymizer.transform(x) - x).abs().sum()) for x in rows.split(batch))
    return difference / float(rows.abs().sum())
