"""Features of another making have the same shape and mean something else: they are refused, by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from videoveil.errors import StoreError
from videoveil.features.store import FeatureRecipe, FeatureStore
from videoveil.tasks import suits

TINY = {"name": "tiny", "hash": "a" * 64, "width": 4}
VEILED = {
    "name": "tiny+veil-bb",
    "hash": "b" * 64,
    "encoder": {"name": "tiny", "hash": "a" * 64},
    "anonymizer": {"hash": "c" * 64},
}
DRAWN = {"name": "tiny+pixels", "hash": "d" * 64, "encoder": TINY, "pixels": {"hash": "e" * 64}}
RECIPE = FeatureRecipe(16, 1, 128, 112)


def store(encoder: dict[str, Any] = TINY, **changes: Any) -> FeatureStore:
    return FeatureStore(Path("STORE"), encoder, dataclasses.replace(RECIPE, **changes))


def trained(encoder: dict[str, Any] = TINY, **changes: Any) -> dict[str, Any]:
    return {"encoder": encoder, "recipe": dataclasses.replace(RECIPE, **changes).to_json()}


@pytest.mark.parametrize("facts", [TINY, VEILED, DRAWN, {**VEILED, "encoder": DRAWN}])
def test_the_network_is_found_behind_every_anonymizer(facts: dict[str, Any]) -> None:
    assert suits.network(facts)["hash"] == "a" * 64
    suits.require_encoder(trained(), store(facts), "head")
    suits.require_encoder(trained(facts), store(), "head")


def test_another_encoder_is_refused_with_both_hashes() -> None:
    other = {"name": "tiny", "hash": "9" * 64, "width": 4}
    for there in (other, {**VEILED, "encoder": other}):
        with pytest.raises(
            StoreError, match=r"STORE: features of tiny \(9{12}\), and head .* tiny \(a{12}\)"
        ):
            suits.require_encoder(trained(), store(there), "head")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("precision", "bf16"),
        ("stride", 2),
        ("frames", 8),
        ("size", 96),
        ("resize", 160),
        ("crop", "ted-spad"),
    ],
)
def test_clips_of_another_making_are_refused(name: str, value: Any) -> None:
    with pytest.raises(StoreError, match=f"extracted with {name}={value}, and head .*again with {name}="):
        suits.require_encoder(trained(), store(**{name: value}), "head")


def test_static_clips_and_tokens_beside_the_clips_change_nothing() -> None:
    suits.require_encoder(trained(), store(static=3, tokens=True), "head")
    suits.require_grid(trained(), store(static=3, tokens=True), "head")


def test_clips_at_other_distances_are_refused_with_the_option() -> None:
    with pytest.raises(StoreError, match=r"clips='all', and head .*clips='dense:4'; .*--clips dense:4"):
        suits.require_grid(trained(clips="dense:4"), store(), "head")


@pytest.mark.parametrize(
    ("mine", "theirs", "says"),
    [
        (VEILED, TINY, "are raw, and head .* went through anonymizer c{12}; give it with --anonymizer"),
        (TINY, VEILED, "went through anonymizer c{12}, and head .* are raw; use a model"),
        (TINY, DRAWN, "made from pictures of anonymizer e{12}, and head .* are raw; use a model"),
        (VEILED, {**VEILED, "hash": "f" * 64}, "begin with the raw store"),
    ],
)
def test_another_anonymizer_or_none_is_refused_with_what_to_do(
    mine: dict[str, Any], theirs: dict[str, Any], says: str
) -> None:
    with pytest.raises(StoreError, match=says):
        suits.require_veil(trained(mine), store(theirs), "head")
    suits.require_veil(trained(mine), store(mine), "head")
