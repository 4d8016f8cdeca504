"""Optimiser groups, learning rate and averaged weights of the published recipe."""

from __future__ import annotations

import pytest
import torch

from videoveil.tasks.tridet import TriDetConfig
from videoveil.tasks.tridet.network import TriDet, build
from videoveil.tasks.tridet.optimise import learning_rate, optimizer, parameter_groups, update_average

from .make import SMALL, WIDTH, small


def test_only_convolution_weights_decay() -> None:
    with torch.device("meta"):
        network = TriDet(2048, 20, TriDetConfig())
    decay, plain = parameter_groups(network)
    sizes = {name: p.numel() for name, p in network.named_parameters()}
    assert (len(decay), sum(sizes[n] for n in decay)) == (63, 15_926_784)
    assert (len(plain), sum(sizes[n] for n in plain)) == (129, 62_820)
    groups = optimizer(network, TriDetConfig()).param_groups
    assert [(len(g["params"]), g["weight_decay"]) for g in groups] == [(63, 0.025), (129, 0.0)]


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),
        (1, 5.0025e-8),
        (999, 4.9975e-5),
        (1999, 1e-4),
        (2000, 1e-4),
        (3000, 5.0005e-5),
        (3999, 1.0062e-8),
    ],
)
def test_the_learning_rate_has_its_published_values(step: int, rate: float) -> None:
    assert learning_rate(step, 100, TriDetConfig()) == pytest.approx(rate, rel=1e-4, abs=1e-15)


def test_the_learning_rate_is_defined_without_warm_up_and_without_cosine() -> None:
    no_warm_up = small(warmup_epochs=0, cosine_epochs=2)
    assert learning_rate(0, 1, no_warm_up) == pytest.approx(1e-3)
    no_cosine = small(warmup_epochs=1, cosine_epochs=0)
    assert [learning_rate(i, 3, no_cosine) for i in range(3)] == pytest.approx([0, 5e-4, 1e-3])
    assert learning_rate(3, 3, no_cosine) == pytest.approx(1e-3)


def test_the_average_follows_every_weight() -> None:
    network = build(WIDTH, 3, SMALL, seed=0)
    average = {name: torch.zeros_like(value) for name, value in network.state_dict().items()}
    for _ in range(2):
        update_average(average, network, 0.9)
    for name, value in network.state_dict().items():
        torch.testing.assert_close(average[name], (0.1 + 0.09) * value)
