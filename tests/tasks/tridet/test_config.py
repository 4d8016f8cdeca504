"""The published settings, and settings that make no sense."""

from __future__ import annotations

import json
from typing import Any

import pytest

from videoveil.errors import UsageError
from videoveil.tasks.tridet import TriDetConfig


def test_the_defaults_are_the_published_ones() -> None:
    config = TriDetConfig()
    assert config.strides == (1, 2, 4, 8, 16, 32)
    assert config.regression_ranges == ((0, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 10000))
    assert config.sgp_wide_window == 11
    assert config.class_bias == pytest.approx(-4.595, abs=1e-3)
    assert (config.epochs, config.max_seq_len, config.bins, config.sgp_init) == (40, 2304, 16, "zero")


def test_a_config_survives_json() -> None:
    config = TriDetConfig(sgp_init="gates", crop_ratio=(0.5, 0.8), max_seq_len=576)
    assert TriDetConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UsageError, match="voting"):
        TriDetConfig.from_json({"voting": 0.7})


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_seq_len": 2300},
        {"sgp_window": 2},
        {"width": 100},
        {"sgp_init": "ones"},
        {"crop_ratio": (0.9, 1.1)},
        {"drop_path": 1.0},
        {"class_prior": 0.0},
        {"warmup_epochs": 0, "cosine_epochs": 0},
        {"batch_size": 0},
        {"precision": "64-true"},
    ],
)
def test_a_setting_without_meaning_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        TriDetConfig(**wrong)
