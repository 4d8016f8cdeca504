"""Noise with a floor on a bounded signal: a cap on what can be known, not only a nuisance.

A floor alone is no limit: an adapter in front could make its signal louder. So the signal is first clipped to ±`clip`
standard deviations of the features it was fitted to, and the noise is at least `floor` of them; what passes of
one vector is then at most Σ ½·log₂(1 + (clip/σ)²) bits, for any attacker (`capacity_bits`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers import config
from videoveil.anonymizers.errors import MissingKey
from videoveil.anonymizers.rank import principal
from videoveil.anonymizers.stage import Context, FitData, FittedStage, check_rows

START = -5.0  # softplus(−5) ≈ 0.007: noise starts at the floor and is learned from there
NARROW = 1e-6  # of the widest direction; a direction without spread in the data carries nothing


class NoiseFloor(FittedStage):
    """z = clip((x − m)·V / s), y = (z + σ·ε)·s·Vᵀ + m with σ = floor + softplus(ρ), ρ (d,) learned.

    m, s and V (the channels themselves, or principal directions) come from `fit_from`; ε is fresh in training and a
    function of key and content otherwise (`keys`).
    """

    wants_noise = True
    centre: Tensor
    spread: Tensor
    basis: Tensor | None

    def __init__(self, width: int, settings: config.Noise, label: str = "noise"):
        super().__init__(width)
        self.floor, self.clip, self.learned, self.label = (
            settings.floor,
            settings.clip,
            settings.learned,
            label,
        )
        self.rho = nn.Parameter(torch.full((width,), START), requires_grad=settings.learned)
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("spread", torch.ones(width))
        self.register_buffer("basis", torch.eye(width) if settings.basis == "principal" else None)

    def scale(self) -> Tensor:
        """σ (d,), in standard deviations of the features; never below the floor."""
        return self.floor + (F.softplus(self.rho) if self.learned else torch.zeros_like(self.rho))

    def capacity_bits(self) -> Tensor:
        """Upper bound, in bits, on what one output vector tells about its input: differentiable in σ.

        Parallel Gaussian channels of power clip² at most; clipping bounds the amplitude, hence the power. S tokens or
        S clips tell at most S times as much, as long as no two share a `content`, and with it their noise.
        """
        return 0.5 * torch.log2(1 + (self.clip / self.scale()).square()).sum()

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        if context.noise is None:
            raise MissingKey(
                "exported noise needs a secret: set anonymizer.key = NoiseKey.generate() (and keep it), or call "
                "anonymizer.train() for fresh noise"
            )
        signal = (x - self.centre) if self.basis is None else (x - self.centre) @ self.basis
        signal = (signal / self.spread).clamp(-self.clip, self.clip)
        noise = context.noise.draw(x, context.mask, self.label)  # (N, S, d)
        noisy = (signal + self.scale().to(x.dtype) * noise) * self.spread
        return (noisy if self.basis is None else noisy @ self.basis.T) + self.centre

    @torch.no_grad()
    def fit_from(self, data: FitData) -> None:
        rows = data.rows
        check_rows(rows, self.width, 2, "noise")
        if self.basis is None:
            centre, spread = rows.mean(0), rows.std(0, correction=0)
        else:
            centre, directions, spread = principal(rows)
            self.basis.copy_(directions)
        self.centre.copy_(centre)
        self.spread.copy_(
            spread.clamp_min(max(float(spread.max()) * NARROW, torch.finfo(torch.float32).tiny))
        )
        self.fitted.fill_(True)
