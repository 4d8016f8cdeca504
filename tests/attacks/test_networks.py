from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from videoveil.attacks import attacker
from videoveil.attacks.losses import attribute_loss, probabilities
from videoveil.attacks.networks import MLP2, MLP5, RELEASED, MLPAttacker
from videoveil.errors import Diverged, UsageError

from .synthetic import HELD_OUT, TEST, TRAIN, VALIDATION


def layers(network: nn.Module) -> list[Any]:
    return [(m.in_features, m.out_features) if isinstance(m, nn.Linear) else type(m) for m in network]  # type: ignore[attr-defined]


def test_the_networks_are_the_papers() -> None:
    assert layers(MLP2.network(768, 7)) == [(768, 768), nn.ReLU, (768, 7)]
    assert [x for x in layers(MLP5.network(2048, 7)) if x is not nn.ReLU] == [
        (2048, 2048),
        (2048, 1028),
        (1028, 1028),
        (1028, 512),
        (512, 7),
    ]
    assert (MLP2.rate, MLP2.epochs, MLP2.plateau) == (1e-3, 100, 0.2)
    assert (MLP5.rate, MLP5.epochs, MLP5.plateau) == (1e-4, 50, 1.0)
    assert attacker("released") is RELEASED


def test_the_epoch_is_chosen_on_validation_and_the_last_one_without() -> None:
    """Training labels that the validation data contradict: every epoch makes it worse there, so the first is kept."""
    one = dataclasses.replace(MLP2, epochs=20)
    fitted = one.fit(TRAIN.x, TRAIN.y, (VALIDATION.x, 1 - VALIDATION.y))
    assert fitted.facts["epoch"] < 20
    last = one.fit(TRAIN.x, TRAIN.y)
    assert last.facts["epoch"] == last.facts["epochs"] == 20
    chosen = one.fit(TRAIN.x, TRAIN.y, HELD_OUT)
    best = max(
        dataclasses.replace(one, epochs=n).fit(TRAIN.x, TRAIN.y).report(*HELD_OUT).score  # type: ignore[type-var]
        for n in range(1, 21)
    )
    assert chosen.report(*HELD_OUT).score == pytest.approx(best)
    assert chosen.facts["validation"] == pytest.approx(best)


def test_patience_ends_training_early() -> None:
    """Labels that mean nothing: what does well on the validation data does so by chance, and soon no better."""
    rng = np.random.default_rng(0)
    noise, held_out = ((rng.random((n, 1)) < 0.5).astype(float) for n in (500, 200))
    one = dataclasses.replace(MLP2, epochs=60, patience=3)
    facts = one.fit(TRAIN.x, noise, (VALIDATION.x, held_out)).facts
    assert facts["epochs"] == facts["epoch"] + 3 < 60


def test_the_rate_falls_on_a_plateau_until_training_ends() -> None:
    """One row per batch and a loss that cannot fall below its start: the rate falls every epoch, by five."""
    still = MLPAttacker("still", (0,), rate=1e-11, epochs=50, plateau=0.2)
    facts = still.fit(TRAIN.x, TRAIN.y).facts
    assert facts["epochs"] <= 6
    assert MLPAttacker("free", (0,), rate=1e-11, epochs=8).fit(TRAIN.x, TRAIN.y).facts["epochs"] == 8


def test_the_released_attacker_has_bounded_outputs() -> None:
    scores = RELEASED.fit(TRAIN.x, TRAIN.y).scores(TEST.x)
    logits = np.log(scores / (1 - scores))
    assert np.allclose(np.linalg.norm(logits, axis=1), 1, atol=1e-5)
    free = MLP2.fit(TRAIN.x, TRAIN.y).scores(TEST.x)
    assert np.linalg.norm(np.log(free / (1 - free)), axis=1).max() > 2
    with pytest.raises(UsageError, match="attributes only"):
        RELEASED.fit(TRAIN.x, TRAIN.identity)


def test_divergence_is_reported() -> None:
    with pytest.raises(Diverged, match="attacker wild diverged in epoch"):
        MLPAttacker("wild", (0,), rate=1e30, epochs=5).fit(TRAIN.x, TRAIN.y)


def test_unknown_targets_get_no_gradient() -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    targets = torch.tensor([[1.0, torch.nan, 0], [torch.nan] * 3, [0, 1, torch.nan], [1, 1, 1]])
    loss = attribute_loss(logits, targets)
    loss.backward()
    known = ~targets.isnan()
    assert logits.grad is not None
    assert torch.equal(logits.grad == 0, ~known)
    p = torch.sigmoid(logits.detach())
    slow = [-(t * q.log() + (1 - t) * (1 - q).log()) for t, q in zip(targets[known], p[known])]
    assert loss.item() == pytest.approx(float(sum(slow) / len(slow)), rel=1e-5)
    nothing = attribute_loss(logits, torch.full((4, 3), torch.nan))
    assert nothing.item() == 0


def test_probabilities_do_not_overflow() -> None:
    extreme = np.array([[-1e4, 0.0, 1e4]])
    assert probabilities(extreme, True).tolist() == [[0.0, 0.5, 1.0]]
    assert probabilities(extreme, False).tolist() == [[0.0, 0.0, 1.0]]
