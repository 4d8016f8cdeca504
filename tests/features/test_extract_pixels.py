"""Features of anonymized pictures: exactly f_A then the encoder, in a store that says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.attacks.pictures import Changed
from tests.features.conftest import as_dataset, tree
from videoveil.anonymizers import NoiseKey, latent
from videoveil.anonymizers.config import Rank
from videoveil.anonymizers.errors import NotExportable
from videoveil.anonymizers.pixel import Grey, LowResolution, NoiseFloor, UNet, pixel
from videoveil.data.records import Dataset
from videoveil.encoders import Encoder, create
from videoveil.errors import StoreError, UsageError
from videoveil.features.anonymize import anonymize
from videoveil.features.extract import extract, features_of, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.media.reader import open_video
from videoveil.media.transforms import EvalTransform


@pytest.fixture(scope="module")
def tiny() -> Encoder:
    return create("tiny", weights="random", size=32)


@pytest.fixture(scope="module")
def two(films: Path) -> Dataset:
    return as_dataset(films).where(lambda item: item.id < "v02")


@pytest.mark.parametrize("eight_bit", [False, True])
def test_features_are_those_of_the_anonymized_frames(
    two: Dataset, tmp_path: Path, tiny: Encoder, eight_bit: bool
) -> None:
    """The slow, obvious twin: every frame, every clip, one by one."""
    veil = pixel(UNet(width=4), Grey())
    recipe = recipe_for(tiny, static=1)
    extract(two, tmp_path / "s", tiny, recipe, batch=3, device="cpu", anonymizer=veil, eight_bit=eight_bit)
    store = FeatureStore.open(tmp_path / "s")
    transform = EvalTransform(tiny.input.resize, tiny.input.size, as_float=True)
    for stored in store.items():
        got = store.read(stored)
        with open_video(stored.item.path) as video:
            frames = np.stack([f.image for f in video.frames()])
        views = [(frames[s : s + 16], row) for s, row in zip(got.starts, got.clip)]
        views += [(frames[[s] * 16], row) for s, row in zip(got.static_frames, got.static)]
        for pictures, row in views:
            with torch.inference_mode():
                seen = torch.cat([veil(transform(one[None])[None]) for one in pictures], dim=2)
                seen = (seen * 255).round() / 255 if eight_bit else seen
                np.testing.assert_allclose(tiny(seen)[0], row, atol=5e-4)
        made = features_of(
            stored.item, tiny, recipe, batch=3, device="cpu", anonymizer=veil, eight_bit=eight_bit
        )
        assert np.array_equal(made.clip, got.clip)
        assert np.array_equal(made.static, got.static)


def test_a_store_names_its_anonymizer_and_takes_no_other(two: Dataset, tmp_path: Path, tiny: Encoder) -> None:
    low, grey = pixel(LowResolution(8)), pixel(Grey())
    extract(two, tmp_path / "s", tiny, device="cpu", anonymizer=low)
    facts = FeatureStore.open(tmp_path / "s").encoder
    assert facts["pixels"] == {"hash": low.content_hash(), "eight_bit": False, "key": None}
    assert facts["encoder"]["hash"] == tiny.content_hash() != facts["hash"]
    before = tree(tmp_path / "s")
    for options in ({}, {"anonymizer": grey}, {"anonymizer": low, "eight_bit": True}):
        with pytest.raises(StoreError):
            extract(two, tmp_path / "s", tiny, device="cpu", **options)
    assert extract(two, tmp_path / "s", tiny, device="cpu", anonymizer=low).extracted == 0
    assert tree(tmp_path / "s") == before


def test_noise_is_keyed_so_that_a_second_extraction_gives_the_same_bytes(
    two: Dataset, tmp_path: Path, tiny: Encoder
) -> None:
    made = []
    for name, key in (("a", b"k" * 32), ("b", b"k" * 32), ("c", b"l" * 32)):
        noisy = pixel(NoiseFloor(0.1), key=NoiseKey(key))
        extract(two, tmp_path / name, tiny, device="cpu", batch=2 if name == "b" else 8, anonymizer=noisy)
        store = FeatureStore.open(tmp_path / name)
        made.append((store.encoder["hash"], [store.read(entry).clip for entry in store.items()]))
    assert made[0][0] == made[1][0] != made[2][0]
    for mine, same, other in zip(made[0][1], made[1][1], made[2][1]):
        np.testing.assert_allclose(mine, same, atol=2e-4)
        assert np.abs(mine - other).max() > 1e-3


def test_what_must_not_leave_the_process_is_refused(two: Dataset, tmp_path: Path, tiny: Encoder) -> None:
    with pytest.raises(NotExportable, match="has no key"):
        extract(two, tmp_path / "s", tiny, anonymizer=pixel(NoiseFloor(0.1)))
    with pytest.raises(NotExportable, match="training mode"):
        extract(two, tmp_path / "s", tiny, anonymizer=pixel(UNet(width=4)).train())
    with pytest.raises(UsageError, match="there is none"):
        extract(two, tmp_path / "s", tiny, eight_bit=True)
    assert not (tmp_path / "s").exists()
    with pytest.raises(Exception, match="NaN or infinite"):
        extract(two, tmp_path / "t", tiny, device="cpu", anonymizer=Changed("broken").eval())
    assert not any((tmp_path / "t").rglob("*.safetensors"))


def test_features_of_anonymized_pictures_can_be_anonymized_again(
    two: Dataset, tmp_path: Path, tiny: Encoder
) -> None:
    low = pixel(LowResolution(8))
    extract(two, tmp_path / "s", tiny, device="cpu", anonymizer=low)
    anonymize(tmp_path / "s", tmp_path / "both", latent(tiny.width, Rank(4)), device="cpu")
    facts = FeatureStore.open(tmp_path / "both").encoder
    assert facts["encoder"]["pixels"]["hash"] == low.content_hash()
    assert facts["encoder"]["encoder"]["hash"] == tiny.content_hash()
