"""The store: exact, atomic, keyed by content, and it says what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import StoreError, UsageError
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures

ENCODER = {"name": "tiny", "hash": "0" * 64, "width": 4}
RECIPE = FeatureRecipe(frames=16, stride=1, resize=128, size=112, static=2, tokens=True)


def some_features(n: int = 3, seed: int = 0) -> VideoFeatures:
    rng = np.random.default_rng(seed)
    return VideoFeatures(
        clip=rng.normal(size=(n, 4)).astype(np.float32),
        starts=np.arange(n) * 16,
        pts=np.stack([np.arange(n) * 1001, np.arange(n) * 1001 + 500], 1),
        time_base=Fraction(1, 30_000),
        frames=16 * n,
        rate=Fraction(30_000, 1001),
        tokens=rng.normal(size=(n, 8, 4)).astype(np.float32),
        static=rng.normal(size=(2, 4)).astype(np.float32),
        static_frames=np.array([3, 9]),
    )


@given(st.integers(1, 40), st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_what_is_written_is_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, n: int, seed: int
) -> None:
    store = FeatureStore.create(tmp_path_factory.mktemp("store"), ENCODER, RECIPE)
    features = some_features(n, seed)
    store.write("k" * 40, features, {"content": "c"})
    back = FeatureStore.open(store.root).read("k" * 40)
    for name in ("clip", "starts", "pts", "tokens", "static", "static_frames"):
        np.testing.assert_array_equal(getattr(back, name), getattr(features, name))
    assert (back.time_base, back.rate, back.frames) == (features.time_base, features.rate, features.frames)
    assert back.times()[0] == (0, Fraction(500, 30_000))
    assert back.provenance is not None
    assert back.provenance["encoder_hash"] == ENCODER["hash"]
    assert back.provenance["content"] == "c"
    assert json.loads(back.provenance["recipe"])["frames"] == 16


def test_equal_features_give_equal_bytes(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path, ENCODER, RECIPE)
    for key in ("a" * 40, "b" * 40):
        store.write(key, some_features(), {"content": "c"})
    assert store.path("a" * 40).read_bytes() == store.path("b" * 40).read_bytes()


def test_the_key_depends_on_content_encoder_and_recipe(tmp_path: Path) -> None:
    other_recipe = FeatureRecipe(frames=16, stride=2, resize=128, size=112, static=2, tokens=True)
    stores = [
        FeatureStore(tmp_path, ENCODER, RECIPE),
        FeatureStore(tmp_path, {**ENCODER, "hash": "1" * 64}, RECIPE),
        FeatureStore(tmp_path, ENCODER, other_recipe),
    ]
    assert len({store.key(content) for store in stores for content in ("x", "y")}) == 6


def test_a_store_of_another_encoder_or_recipe_is_refused_not_mixed(tmp_path: Path) -> None:
    FeatureStore.create(tmp_path, ENCODER, RECIPE)
    FeatureStore.create(tmp_path, ENCODER, RECIPE)
    with pytest.raises(StoreError, match="another folder"):
        FeatureStore.create(tmp_path, {**ENCODER, "hash": "1" * 64}, RECIPE)


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("x")
    with pytest.raises(StoreError, match="not a feature store"):
        FeatureStore.create(tmp_path, ENCODER, RECIPE)
    with pytest.raises(StoreError, match="veil extract"):
        FeatureStore.open(tmp_path)


def test_nan_never_enters_the_store(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path, ENCODER, RECIPE)
    features = some_features()
    features.clip[1, 2] = np.nan
    with pytest.raises(StoreError, match="NaN"):
        store.write("k" * 40, features, {"content": "c"})
    assert not store.has("k" * 40)


@pytest.mark.parametrize("damage", ["truncated", "empty", "text"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    store = FeatureStore.create(tmp_path, ENCODER, RECIPE)
    store.write("k" * 40, some_features(), {"content": "c"})
    path = store.path("k" * 40)
    data = path.read_bytes()
    path.write_bytes({"truncated": data[: len(data) // 2], "empty": b"", "text": b"hello"}[damage])
    with pytest.raises(StoreError, match=str(path)):
        store.read("k" * 40)


def test_one_owner_at_a_time_and_a_closed_claim_frees_it(tmp_path: Path) -> None:
    store = FeatureStore.create(tmp_path, ENCODER, RECIPE)
    with store.claim("k" * 40) as first, store.claim("k" * 40) as second, store.claim("l" * 40) as other:
        assert (first, second, other) == (True, False, True)
    with store.claim("k" * 40) as again:
        assert again


@pytest.mark.parametrize(
    "wrong",
    [
        {"clips": "some"},
        {"clips": "0"},
        {"clips": "dense:0"},
        {"static": -1},
        {"frames": 0},
        {"resize": 100},
        {"crop": "corner"},
    ],
)
def test_a_recipe_that_makes_no_sense_is_a_usage_error(wrong: dict[str, object]) -> None:
    good = {"frames": 16, "stride": 1, "resize": 128, "size": 112}
    with pytest.raises(UsageError):
        FeatureRecipe(**{**good, **wrong})  # type: ignore[arg-type]


def test_a_store_from_before_there_was_a_choice_of_crops_is_one_of_the_short_edge(tmp_path: Path) -> None:
    assert "crop" not in RECIPE.to_json()
    middle = replace(RECIPE, crop="ted-spad")
    assert FeatureRecipe(**middle.to_json()) == middle
    FeatureStore.create(tmp_path, ENCODER, RECIPE)
    with pytest.raises(StoreError, match="ted-spad"):
        FeatureStore.create(tmp_path, ENCODER, middle)
