from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.anonymizers import NotFitted, Quantise
from videoveil.anonymizers.quantise import Quantiser, percentile
from videoveil.anonymizers.stage import FitData

from .pipelines import WIDTH, features


def stage(levels: int = 5, share: float = 1.0, learned: bool = False) -> Quantiser:
    found = Quantiser(WIDTH, Quantise(levels, share, learned))
    found.fit_from(FitData(features(500)))
    return found


@given(levels=st.integers(2, 40), share=st.floats(0, 20), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_every_value_is_the_nearest_of_its_channels_levels(levels: int, share: float, seed: int) -> None:
    rows = features(500).double().numpy()
    x = features(40, seed=seed)
    found = stage(levels, share)(x[:, None])[:, 0].numpy()
    low, high = np.percentile(rows, [share, 100 - share], axis=0)
    grid = low + (high - low) * np.linspace(0, 1, levels)[:, None]  # (levels, d)
    distance = np.abs(found[None] - grid[:, None])  # (levels, n, d)
    assert distance.min(0).max() < 1e-3
    best = np.abs(x.numpy()[None] - grid[:, None]).min(0)
    assert (np.abs(x.numpy() - found) <= best + 1e-3).all()


def test_no_more_values_than_levels_come_out() -> None:
    out = stage(4)(features(3000, seed=5)[:, None])[:, 0]
    assert max(len(out[:, c].unique()) for c in range(WIDTH)) == 4
    assert stage(4).capacity_bits() == WIDTH * math.log2(4)


def test_the_gradient_passes_rounding_and_stops_at_the_ends() -> None:
    x = torch.cat((features(500), features(500) * 100))[:, None].requires_grad_()
    one = stage(5)
    one(x).sum().backward()
    assert x.grad is not None
    inside = (x > one.low) & (x < one.low + one.log_width.exp())
    assert torch.allclose(x.grad[inside], torch.ones(()), atol=1e-5)
    outside = (x < one.low - 1e-3) | (x > one.low + one.log_width.exp() + 1e-3)
    assert not bool(x.grad[outside].any())
    assert bool(outside.any())


def test_learned_ranges_follow_their_gradient() -> None:
    one, x = stage(5, 10.0, learned=True), features(500)[:, None]
    optimizer = torch.optim.SGD(one.parameters(), 0.02)
    errors = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (one(x) - x).square().mean()
        errors.append(loss.item())
        loss.backward()
        optimizer.step()
    assert errors[-1] < 0.9 * errors[0]
    assert not any(p.requires_grad for p in stage().parameters())


def test_a_constant_channel_stays_constant() -> None:
    rows = features(50)
    rows[:, 3] = 7.0
    one = Quantiser(WIDTH, Quantise(3))
    one.fit_from(FitData(rows))
    out = one(rows[:, None])[:, 0]
    assert bool(out.isfinite().all())
    assert torch.allclose(out[:, 3], torch.tensor(7.0))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.25, 0.5, 0.999, 1.0])
def test_percentiles_are_numpys(share: float) -> None:
    rows = features(37).double()
    assert np.allclose(percentile(rows, share).numpy(), np.percentile(rows.numpy(), 100 * share, axis=0))


def test_without_data_there_is_no_output() -> None:
    with pytest.raises(NotFitted, match="Quantiser"):
        Quantiser(WIDTH, Quantise())(features(2)[:, None])
