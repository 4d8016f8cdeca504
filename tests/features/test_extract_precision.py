"""Stores of several arithmetics: near one another, named, and never mixed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.encoders.helpers import small
from tests.features.conftest import as_dataset, tree
from videoveil.anonymizers import latent
from videoveil.anonymizers.config import Rank
from videoveil.data.records import Dataset
from videoveil.encoders import Encoder
from videoveil.errors import StoreError, UsageError
from videoveil.features.anonymize import anonymize
from videoveil.features.extract import extract, features_of, recipe_for
from videoveil.features.store import FeatureRecipe, FeatureStore


@pytest.fixture(scope="module")
def videomae() -> Encoder:
    return small("videomae.b")


@pytest.fixture(scope="module")
def two(films: Path) -> Dataset:
    return as_dataset(films).where(lambda item: item.id < "v02")


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.asarray((a * b).sum(-1) / lengths)


def test_features_in_bfloat16_are_near_those_in_single_precision_and_repeat_to_the_bit(
    two: Dataset, tmp_path: Path, videomae: Encoder
) -> None:
    for name, precision in (("a", "fp32"), ("b", "bf16"), ("c", "bf16")):
        recipe = recipe_for(videomae, static=2, tokens=True, precision=precision)  # type: ignore[arg-type]
        extract(two, tmp_path / name, videomae, recipe, batch=3, device="cpu")
    assert tree(tmp_path / "b") == tree(tmp_path / "c")
    exact, rounded = FeatureStore.open(tmp_path / "a"), FeatureStore.open(tmp_path / "b")
    for one, other in zip(exact.items(), rounded.items(), strict=True):
        mine, near = exact.read(one), rounded.read(other)
        for kind in ("clip", "static", "tokens"):
            assert cosine(getattr(mine, kind), getattr(near, kind)).min() > 0.999
            assert not np.array_equal(getattr(mine, kind), getattr(near, kind))
        made = features_of(one.item, videomae, rounded.recipe, batch=3, device="cpu")
        assert np.array_equal(made.clip, near.clip)
        assert np.array_equal(made.static, near.static)


def test_a_store_names_its_arithmetic_and_takes_no_other(
    two: Dataset, tmp_path: Path, videomae: Encoder
) -> None:
    extract(two, tmp_path / "s", videomae, recipe_for(videomae, precision="bf16"), device="cpu")
    store, before = FeatureStore.open(tmp_path / "s"), tree(tmp_path / "s")
    assert store.recipe.precision == "bf16"
    facts = store.read(store.items()[0]).provenance
    assert facts is not None
    assert json.loads(facts["recipe"])["precision"] == "bf16"
    for precision in ("fp32", "tf32"):
        with pytest.raises(StoreError, match="bf16"):
            extract(two, tmp_path / "s", videomae, recipe_for(videomae, precision=precision), device="cpu")  # type: ignore[arg-type]
    assert tree(tmp_path / "s") == before
    anonymize(tmp_path / "s", tmp_path / "safe", latent(videomae.width, Rank(4)), device="cpu")
    assert FeatureStore.open(tmp_path / "safe").recipe.precision == "bf16"


def test_a_store_from_before_there_was_a_choice_is_one_of_single_precision(
    two: Dataset, tmp_path: Path, videomae: Encoder
) -> None:
    recipe = recipe_for(videomae)
    assert "precision" not in recipe.to_json()
    assert FeatureRecipe(**recipe.to_json()) == recipe
    assert FeatureRecipe(**recipe_for(videomae, precision="tf32").to_json()).precision == "tf32"
    with pytest.raises(UsageError, match="precision='half'"):
        recipe_for(videomae, precision="half")  # type: ignore[arg-type]


def test_compiled_batches_all_have_one_shape_and_files_say_it(
    two: Dataset, tmp_path: Path, videomae: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    torch._dynamo.reset()
    extract(two, tmp_path / "plain", videomae, recipe_for(videomae, static=1), batch=4, device="cpu")
    seen = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    extract(
        two, tmp_path / "fast", videomae, recipe_for(videomae, static=1), batch=4, device="cpu", compiled=True
    )
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == seen + 1
    plain, fast = FeatureStore.open(tmp_path / "plain"), FeatureStore.open(tmp_path / "fast")
    for one in plain.items():
        a, b = plain.read(one), fast.read(one)
        np.testing.assert_allclose(a.clip, b.clip, atol=2e-4)
        np.testing.assert_allclose(a.static, b.static, atol=2e-4)
        assert a.provenance is not None
        assert b.provenance is not None
        assert (a.provenance["software"] + ", compiled") == b.provenance["software"]
