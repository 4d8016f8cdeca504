"""Settings from JSON and from the command line's words: everything given is honoured or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import nasty_text, quick
from videoveil.errors import UsageError
from videoveil.tasks import registry, settings
from videoveil.tasks.action.network import NetworkConfig
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.mgfn import MGFNConfig
from videoveil.tasks.tridet import TriDetConfig

EVERY = [(kind.name, preset) for kind in registry.KINDS for preset in kind.presets]


@pytest.mark.parametrize(("task", "preset"), EVERY)
def test_every_preset_survives_json(task: str, preset: str) -> None:
    config = registry.kind(task).config(preset)
    text = json.dumps(settings.to_json(config))
    assert settings.from_json(type(config), json.loads(text)) == config
    assert registry.kind(task).from_json(json.loads(text)).config == config


@pytest.mark.parametrize(("task", "preset"), EVERY)
def test_every_setting_can_be_given_as_its_own_text(task: str, preset: str) -> None:
    config = registry.kind(task).config(preset)
    words = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in settings.to_json(config).items()
    }
    assert settings.override(config, words) == config


@pytest.mark.parametrize("kind", [ProbeConfig, NetworkConfig, TriDetConfig, MGFNConfig])
def test_an_unknown_setting_is_refused_because_it_would_not_be_honoured(kind: Any) -> None:
    with pytest.raises(UsageError, match="colour"):
        settings.from_json(kind, {**settings.to_json(kind()), "colour": 1})
    with pytest.raises(UsageError, match=r"no setting 'colour'; there are .*learning_rate"):
        settings.override(kind(), {"colour": "1"})


def test_words_become_values_of_the_kind_the_setting_has() -> None:
    words = {"epochs": "7", "learning_rate": "1", "standardise": "False", "target": "objects"}
    made = settings.override(ProbeConfig(), words)
    assert (made.epochs, made.learning_rate, made.standardise, made.target) == (7, 1.0, False, "objects")
    assert isinstance(made.learning_rate, float)
    assert settings.override(ProbeConfig(), {"standardise": "true"}).standardise is True
    assert settings.override(TriDetConfig(), {"crop_ratio": "[0.5, 1]"}).crop_ratio == (0.5, 1)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("epochs", "many"),
        ("epochs", "2.5"),
        ("epochs", "1e3"),
        ("epochs", "true"),
        ("epochs", "null"),
        ("epochs", "None"),
        ("epochs", ""),
        ("epochs", "[1]"),
        ("learning_rate", "fast"),
        ("learning_rate", "true"),
        ("learning_rate", "null"),
        ("standardise", "1"),
        ("standardise", "yes"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_an_example(key: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{key}='{text.replace('[', '.').replace(']', '.')}': expected"):
        settings.override(ProbeConfig(), {key: text})


@pytest.mark.parametrize(
    ("key", "text"),
    [("epochs", "0"), ("learning_rate", "NaN"), ("learning_rate", "Infinity"), ("clips", "-1")],
)
def test_a_value_that_makes_no_sense_is_refused_by_the_settings_themselves(key: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{key}="):
        settings.override(ProbeConfig(), {key: text})


@pytest.mark.parametrize(
    ("config", "key", "text"),
    [
        (MGFNConfig(), "stages", "[1]"),
        (MGFNConfig(), "stages", '[{"width": 64}]'),
        (MGFNConfig(), "learning_rate", "NaN"),
        (TriDetConfig(), "crop_ratio", "[1]"),
        (TriDetConfig(), "crop_ratio", '["a", "b"]'),
        (TriDetConfig(), "learning_rate", "Infinity"),
    ],
)
def test_a_list_or_number_of_the_wrong_shape_is_a_usage_error(config: Any, key: str, text: str) -> None:
    with pytest.raises(UsageError, match=key):
        settings.override(config, {key: text})


@quick
@given(st.sampled_from(sorted(settings.to_json(ProbeConfig()))), nasty_text)
def test_any_word_makes_settings_or_a_usage_error(key: str, text: str) -> None:
    try:
        made = settings.override(ProbeConfig(), {key: text})
    except UsageError:
        return
    assert type(getattr(made, key)) is type(getattr(ProbeConfig(), key))
