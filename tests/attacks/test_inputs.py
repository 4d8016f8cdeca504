from __future__ import annotations

import numpy as np
import pytest

from videoveil.attacks.inputs import standard, whitened

from .synthetic import TEST, TRAIN, WIDTH


def test_standard_inputs_have_mean_0_and_deviation_1() -> None:
    scaled = standard(TRAIN.x)(TRAIN.x)
    assert np.allclose(scaled.mean(0), 0)
    assert np.allclose(scaled.std(0), 1)


def test_whitened_inputs_are_uncorrelated() -> None:
    white = whitened(TRAIN.x)(TRAIN.x)
    assert np.allclose(np.cov(white.T, bias=True), np.eye(WIDTH), atol=1e-8)
    plain = whitened(TRAIN.x, 4, unit=False)(TRAIN.x)
    assert plain.shape == (500, 4)
    assert (np.diff(plain.var(0)) < 0).all()


def test_an_offset_far_larger_than_the_spread_is_no_obstacle() -> None:
    far = TRAIN.x + 1e8
    assert np.allclose(standard(far)(far), standard(TRAIN.x)(TRAIN.x), atol=1e-5)


@pytest.mark.parametrize("make", [standard, whitened])
def test_what_does_not_vary_becomes_0(make: object) -> None:
    assert callable(make)
    dead = TRAIN.x.copy()
    dead[:, 3] = 1 / 3
    scaled = make(dead)(np.where(np.arange(WIDTH) == 3, 1e6, TEST.x))
    assert np.isfinite(scaled).all()
    assert np.abs(scaled).max() < 1e3


def test_weights_can_be_taken_back_to_raw_features() -> None:
    weight = np.random.default_rng(0).normal(size=(WIDTH, 2))
    for scaling in (standard(TRAIN.x), whitened(TRAIN.x)):
        assert np.allclose((TEST.x - scaling.mean) @ scaling.back(weight), scaling(TEST.x) @ weight)
