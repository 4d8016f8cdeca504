from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.anonymizers import (
    MLP,
    Attention,
    AttentionOnly,
    EncoderReference,
    Erase,
    LatentConfig,
    Motion,
    Noise,
    Quantise,
    Rank,
    StaticResidual,
)
from videoveil.anonymizers.config import KINDS
from videoveil.errors import UsageError

STAGES = st.one_of(
    st.builds(
        Attention, depth=st.integers(1, 5), heads=st.sampled_from([4, 8, 16]), cross_sample=st.booleans()
    ),
    st.builds(AttentionOnly, init=st.sampled_from(["zero", "default"])),
    st.builds(MLP, residual=st.just(True), init=st.sampled_from(["zero", "default"])),
    st.builds(Rank, st.integers(1, 63)),
    st.builds(
        Noise, floor=st.floats(0.01, 5), learned=st.booleans(), basis=st.sampled_from(["axes", "principal"])
    ),
    st.builds(Quantise, levels=st.integers(2, 300), percentile=st.floats(0, 49)),
    st.builds(StaticResidual, alpha=st.floats(-2, 2), required=st.booleans()),
    st.builds(Erase, st.integers(1, 63)),
)


@given(
    stages=st.lists(STAGES, min_size=1, max_size=5),
    tokens=st.sampled_from(["clip", "temporal"]),
    encoder=st.one_of(st.none(), st.builds(EncoderReference, st.text(), st.text())),
)
@settings(max_examples=50, deadline=None)
def test_a_configuration_survives_json(
    stages: list[Any], tokens: Any, encoder: EncoderReference | None
) -> None:
    config = LatentConfig(64, tuple(stages), tokens, encoder)
    assert LatentConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_every_kind_of_stage_has_a_name_of_its_own() -> None:
    assert sorted(KINDS) == sorted(
        [
            "attention",
            "attention-only",
            "keep",
            "mlp",
            "rank",
            "noise",
            "quantise",
            "static-residual",
            "motion",
            "erase",
        ]
    )


def test_configurations_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LatentConfig(64).width = 32  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Attention(depth=0), "attention: depth=0"),
        (lambda: Attention(heads=1.5), "heads=1.5"),
        (lambda: Attention(dropout=1.0), "dropout=1.0"),
        (lambda: Attention(activation="tanh"), "one of relu, gelu"),
        (lambda: Attention(norm_first=False), "norm_first=True"),
        (lambda: AttentionOnly(init="ones"), "one of zero, default"),
        (lambda: MLP(depth=-1), "mlp: depth=-1"),
        (lambda: Rank(0), "rank=0"),
        (lambda: Noise(floor=0), "floor=0"),
        (lambda: Noise(clip=float("inf")), "clip=inf"),
        (lambda: Noise(basis="fourier"), "axes, principal"),
        (lambda: Quantise(levels=1), "levels=1"),
        (lambda: Quantise(percentile=50), "percentile=50"),
        (lambda: StaticResidual(ridge=0), "ridge=0"),
        (lambda: Motion(keep=-1), "keep=-1"),
        (lambda: LatentConfig(8, (Motion(keep=8),)), "keep=8"),
        (lambda: LatentConfig(8, (Rank(4), Motion())), "first"),
        (lambda: Erase(0), "directions=0"),
        (lambda: LatentConfig(64, ()), "at least one stage"),
        (lambda: LatentConfig(60, (Attention(heads=8),)), "60 is no multiple of heads=8"),
        (lambda: LatentConfig(8, (Rank(8),)), "rank=8 must be below the width 8"),
        (lambda: LatentConfig(8, (Erase(9),)), "directions=9 must be below"),
        (lambda: LatentConfig(8, (Rank(2),), tokens="all"), "clip, temporal"),
        (lambda: LatentConfig.from_json({"width": 8, "size": 3}), "unknown settings size"),
        (lambda: LatentConfig.from_json({"stages": []}), "needs width"),
        (lambda: LatentConfig.from_json({"width": 8, "stages": [{"kind": "magic"}]}), "kind 'magic'"),
        (lambda: LatentConfig.from_json({"width": 8, "stages": [{"kind": "rank"}]}), "rank: needs rank"),
        (lambda: LatentConfig.from_json({"width": 8, "stages": [{"kind": "rank", "r": 1}]}), "rank: unknown"),
    ],
)
def test_settings_that_cannot_be_are_named(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
