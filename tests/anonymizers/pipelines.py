"""Features and fitted pipelines shared by the anonymizer tests."""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.anonymizers import (
    MLP,
    Attention,
    AttentionOnly,
    Erase,
    Keep,
    LatentAnonymizer,
    Motion,
    Noise,
    NoiseKey,
    Quantise,
    Rank,
    StageConfig,
    StaticResidual,
    latent,
)

WIDTH = 32
KEY = NoiseKey(b"a key that is only for the tests")

LEARNED: dict[str, tuple[StageConfig, ...]] = {
    "attention": (Attention(init="default", heads=4),),
    "attention, post-norm, gelu": (Attention(1, 8, norm_first=False, activation="gelu", init="default"),),
    "attention-only": (AttentionOnly(init="default", heads=4),),
    "mlp": (MLP(),),
    "mlp, residual": (MLP(5, residual=True),),
}
MECHANISMS: dict[str, tuple[StageConfig, ...]] = {
    "rank": (Rank(6),),
    "noise": (Noise(0.5),),
    "noise, principal": (Noise(0.5, basis="principal"),),
    "quantise": (Quantise(5),),
    "static-residual": (StaticResidual(),),
    "motion, keeping": (Motion(2),),
    "erase": (Erase(9),),
    "erase, both": (Erase(share=1 / 8, source="both"),),
    "keep": (Keep(5),),
}
WHOLE: dict[str, tuple[StageConfig, ...]] = {
    "all": (
        Attention(init="default", heads=4),
        StaticResidual(0.7),
        Erase(4),
        Rank(12),
        Noise(0.3, basis="principal"),
        Noise(0.1),
        Quantise(9),
    ),
    "mechanisms before the adapter": (Rank(12), Quantise(7), MLP(1)),
}
ALL = LEARNED | MECHANISMS | WHOLE


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def features(count: int, width: int = WIDTH, seed: int = 0) -> Tensor:
    """Vectors with a mean and channels of different sizes and correlations, as encoders give them."""
    mixing = normal(width, width, seed=1000 + width)
    return normal(count, width, seed=seed) @ mixing * torch.linspace(0.1, 3, width) + 2


def videos(count: int, clips: int, seed: int = 0) -> Tensor:
    """(V, K, d) static clips: what a video's have in common, and what each has of its own."""
    own = normal(count, clips, WIDTH, seed=seed + 1)
    return features(count, seed=seed)[:, None] + own


def fitted(stages: tuple[StageConfig, ...], *, seed: int = 0) -> LatentAnonymizer:
    """A pipeline with random weights and fitted mechanisms, in eval mode, with a key."""
    anonymizer = latent(WIDTH, *stages, key=KEY, seed=seed)
    with torch.no_grad():
        for module in anonymizer.modules():  # as after training: no statistic at its default
            if isinstance(module, torch.nn.BatchNorm1d):
                module.running_mean.copy_(normal(WIDTH, seed=5).abs())
                module.running_var.copy_(0.5 + normal(WIDTH, seed=6).abs())
    still = features(200, seed=7)
    moving = still + normal(200, WIDTH, seed=8)
    owners = torch.arange(200) % 60
    return anonymizer.fit_from(moving, static=still, videos=videos(60, 3), owners=owners, actions=owners % 5)
