from __future__ import annotations

import torch

from videoveil.anonymizers import latent
from videoveil.anonymizers.config import MLP


def test_weights_that_were_changed_behind_pytorchs_back_count_once_that_is_told() -> None:
    """A replayed CUDA graph changes tensors without their versions; `.data` does the same on every machine."""
    torch.manual_seed(0)
    anonymizer, x = latent(8, MLP(1, init="default")).eval(), torch.randn(4, 8)
    with torch.inference_mode():
        before = anonymizer(x)
    for parameter in anonymizer.parameters():
        parameter.data.mul_(3)
    with torch.inference_mode():
        assert torch.equal(anonymizer(x), before)  # so that it can go wrong at all
        anonymizer.weights_changed()
        assert not torch.equal(anonymizer(x), before)
