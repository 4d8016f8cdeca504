"""Signals of membership: what they are where nothing, or everything, is changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.attacks.pictures import Changed
from videoveil.anonymizers.pixel import Grey, UNet, pixel
from videoveil.attacks.composed import Composed
from videoveil.attacks.member_signals import (
    feature_control,
    feature_response,
    feature_signals,
    picture_control,
    picture_signals,
    trained,
)
from videoveil.features.pixels import PixelVeil


def test_only_what_has_weights_can_have_been_trained() -> None:
    assert not trained(None)
    assert not trained(pixel(Grey()))
    assert not trained(Composed(pixel(Grey()), pixel(Grey())))
    assert trained(pixel(UNet(width=1)))
    assert trained(Composed(pixel(Grey()), Changed("scale")))


def test_features_that_stay_as_they_are_have_not_changed() -> None:
    x = np.random.default_rng(0).normal(size=(3, 5))
    same = feature_signals(x, x)
    assert (same["change"], same["norm"]) == (0.0, 0.0)
    assert same["turn"] == pytest.approx(0.0, abs=1e-12)
    assert feature_signals(x, 2 * x)["norm"] == pytest.approx(np.log(2))
    assert feature_signals(x, -x)["turn"] == pytest.approx(2.0)


def test_an_anonymizer_that_does_nothing_is_steady_and_changes_nothing() -> None:
    frames = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    signals, published = picture_signals(frames, PixelVeil(Changed("scale")), 0)
    assert torch.equal(published, frames)
    for name in ("change", "rms", "spread", "mirror", "dim"):
        assert signals[name] == pytest.approx(0.0, abs=1e-7)
    assert signals["shake"] == pytest.approx(0.02 * np.sqrt(2 / np.pi), rel=0.1)
    dark, _ = picture_signals(frames, PixelVeil(Changed("scale", 0.5)), 0)
    assert dark["change"] == pytest.approx(float(frames.mean()) / 2, rel=1e-5)
    noisy, _ = picture_signals(frames, PixelVeil(Changed("noise", 0.1)), 0)
    assert noisy == picture_signals(frames, PixelVeil(Changed("noise", 0.1)), 0)[0]


def test_the_control_knows_nothing_of_the_anonymizer() -> None:
    frames = torch.full((2, 3, 16, 16), 0.25)
    found = picture_control(frames)
    assert found["bright"] == pytest.approx(0.25)
    assert [found[name] for name in ("contrast", "edges", "motion")] == pytest.approx([0.0] * 3)
    rows = np.full((4, 9), 2.0)
    assert feature_control(rows)["norm"] == pytest.approx(6.0)


def test_an_anonymizer_of_features_answers_as_loudly_as_it_multiplies() -> None:
    x = np.random.default_rng(0).normal(size=(5, 8))
    assert feature_response(x, Changed("scale", 3.0), 0)["shake"] == pytest.approx(3.0, rel=1e-4)
    assert feature_response(x, Changed("constant", 0.0), 0)["shake"] == 0.0
