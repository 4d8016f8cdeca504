"""The noise stage: a floor that nothing lowers, a signal that nothing raises, and a bound on what passes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from videoveil.anonymizers import MissingKey, Noise, NotFitted
from videoveil.anonymizers.keys import FreshNoise
from videoveil.anonymizers.noise import NoiseFloor
from videoveil.anonymizers.stage import Context, FitData

from .pipelines import WIDTH, features, normal

BASES = pytest.mark.parametrize("basis", ["axes", "principal"])


def stage(basis: str = "axes", floor: float = 0.5, clip: float = 3.0, learned: bool = True) -> NoiseFloor:
    found = NoiseFloor(WIDTH, Noise(floor, clip, learned, basis))  # type: ignore[arg-type]
    found.fit_from(FitData(features(4000)))
    return found


def fresh(seed: int = 0) -> Context:
    return Context(noise=FreshNoise(torch.Generator().manual_seed(seed)))


class Silent:
    """A source without noise, to see the signal."""

    def draw(self, like: Tensor, mask: Tensor | None, label: str) -> Tensor:
        return torch.zeros_like(like)


@BASES
def test_the_noise_is_at_least_the_floor_in_every_channel_or_direction(basis: str) -> None:
    one = stage(basis)
    with torch.no_grad():
        one.rho.fill_(-1e9)  # learning has made the noise as small as it can
        x = features(1, seed=1).expand(20_000, 1, WIDTH)
        error = (one(x, fresh()) - one(x, Context(noise=Silent())))[:, 0]
        rows = features(4000)
        if basis == "axes":
            spread = rows.std(0, correction=0)
        else:
            assert one.basis is not None
            error, spread = error @ one.basis, (rows @ one.basis).std(0, correction=0)
        assert torch.allclose(error.std(0) / spread, torch.full((WIDTH,), 0.5), rtol=0.05)


@BASES
def test_a_louder_signal_does_not_drown_the_noise(basis: str) -> None:
    one = stage(basis)
    loud = features(50)[:, None] * 1e6
    with torch.no_grad():
        signal = one(loud, Context(noise=Silent())) - one.centre
        coordinates = signal if one.basis is None else signal @ one.basis
    assert float((coordinates / one.spread).abs().max()) <= 3 + 1e-3


@BASES
def test_inside_the_range_the_signal_is_unchanged(basis: str) -> None:
    x = features(4000)[:, None]
    with torch.no_grad():
        assert torch.allclose(stage(basis, clip=50)(x, Context(noise=Silent())), x, atol=2e-4)


def test_principal_noise_cannot_be_averaged_over_channels() -> None:
    """One hidden number, repeated over all channels: along it, axis noise shrinks by √d, principal noise does not."""
    hidden = normal(4000, 1)
    x = hidden.expand(-1, WIDTH) + 1e-3 * normal(4000, WIDTH, seed=1)
    correlations = {}
    for basis in ("axes", "principal"):
        one = NoiseFloor(WIDTH, Noise(1.0, basis=basis))  # type: ignore[arg-type]
        one.fit_from(FitData(x))
        with torch.no_grad():
            averaged = one(x[:, None], fresh())[:, 0].mean(1)
        correlations[basis] = float(torch.corrcoef(torch.stack((averaged, hidden[:, 0])))[0, 1])
    assert correlations["axes"] > 0.95
    assert correlations["principal"] < 0.8


def test_capacity_is_the_sum_over_channels_and_falls_with_the_noise() -> None:
    one = stage(floor=0.5, learned=False)
    assert one.capacity_bits().item() == pytest.approx(WIDTH * 0.5 * math.log2(1 + 36))
    assert stage(floor=2.0).capacity_bits().item() < one.capacity_bits().item() / 2
    learned = stage()
    learned.capacity_bits().backward()
    assert learned.rho.grad is not None
    assert bool((learned.rho.grad < 0).all())  # more noise, fewer bits


def test_capacity_bounds_what_a_gaussian_signal_tells() -> None:
    """For jointly normal numbers information is known exactly: ½·log₂(1 + 1/σ²) a channel, below the bound."""
    one = stage(floor=0.5, learned=False)
    x = normal(20_000, WIDTH, seed=99) * one.spread + one.centre
    with torch.no_grad():
        y = one(x[:, None], fresh())[:, 0]
    bits = 0.0
    for channel in range(WIDTH):
        rho = float(torch.corrcoef(torch.stack((x[:, channel], y[:, channel])))[0, 1])
        bits += -0.5 * math.log2(1 - rho**2)
    assert 0.25 * one.capacity_bits().item() < bits < one.capacity_bits().item()


def test_the_scale_learns_through_the_noise_and_a_fixed_one_does_not() -> None:
    x, one, fixed = features(20)[:, None], stage(), stage(learned=False)
    (one(x, fresh()) - x).square().mean().backward()
    assert one.rho.grad is not None
    assert bool((one.rho.grad > 0).all())  # reconstruction wants less noise
    assert not fixed.rho.requires_grad
    assert torch.equal(fixed.scale(), torch.full((WIDTH,), 0.5))


def test_freezing_a_learned_scale_does_not_change_it() -> None:
    one = stage()
    before = one.scale().detach().clone()
    one.requires_grad_(False)
    assert torch.equal(one.scale(), before)
    assert bool((before > 0.5).all())


@BASES
def test_a_direction_without_spread_in_the_data_carries_nothing(basis: str) -> None:
    x = features(100)
    x[:, 0] = 1.0
    one = NoiseFloor(WIDTH, Noise(basis=basis))  # type: ignore[arg-type]
    one.fit_from(FitData(x))
    probe = x[:2, None].clone()
    probe[1] = probe[0]
    probe[1, 0, 0] = 1e4  # told apart by the dead channel only
    with torch.no_grad():
        quiet = one(probe, Context(noise=Silent()))
    assert float((quiet[0] - quiet[1]).abs().max()) < 1e-2


def test_without_data_or_key_there_is_no_output() -> None:
    with pytest.raises(NotFitted, match="NoiseFloor: call fit_from"):
        NoiseFloor(WIDTH, Noise())(features(2)[:, None])
    with pytest.raises(MissingKey, match=r"NoiseKey\.generate"):
        stage()(features(2)[:, None])
