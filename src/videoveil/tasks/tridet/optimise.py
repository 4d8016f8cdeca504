"""Optimiser, learning rate and averaged weights of the published recipe."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from videoveil.tasks.tridet.config import TriDetConfig


def parameter_groups(network: nn.Module) -> tuple[list[str], list[str]]:
    """Names of the parameters that decay (weights of convolutions) and of those that do not (everything else)."""
    decay = {
        f"{prefix}.weight" for prefix, module in network.named_modules() if isinstance(module, nn.Conv1d)
    }
    names = [name for name, _ in network.named_parameters()]
    return [n for n in names if n in decay], [n for n in names if n not in decay]


def optimizer(network: nn.Module, config: TriDetConfig) -> torch.optim.AdamW:
    """AdamW with weight decay on convolution weights only."""
    parameters = dict(network.named_parameters())
    decay, plain = parameter_groups(network)
    groups = [
        {"params": [parameters[name] for name in decay], "weight_decay": config.weight_decay},
        {"params": [parameters[name] for name in plain], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.999))


def learning_rate(step: int, steps_per_epoch: int, config: TriDetConfig) -> float:
    """Rate at a step: a line from 0 over the warm-up epochs, then half a cosine down to the final rate."""
    warm, total = config.warmup_epochs * steps_per_epoch, config.epochs * steps_per_epoch
    if step < warm:
        return config.learning_rate * step / max(warm - 1, 1)
    if total == warm:
        return config.learning_rate
    part = (1 + math.cos(math.pi * (step - warm) / (total - warm))) / 2
    return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * part


@torch.no_grad()
def update_average(average: dict[str, Tensor], network: nn.Module, decay: float) -> None:
    """Exponential moving average of all weights: a ← decay·a + (1 − decay)·w, in place."""
    for name, value in network.state_dict().items():
        average[name].lerp_(value.to(average[name].dtype), 1 - decay)
