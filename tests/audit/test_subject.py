from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.audit import world
from videoveil.anonymizers import LatentAnonymizer
from videoveil.anonymizers.config import Rank
from videoveil.anonymizers.latent import latent
from videoveil.audit.subject import BlackFrames, Stores, Subject, Untouched, open_anonymizer
from videoveil.data.records import Dataset
from videoveil.errors import UsageError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"), train=4, test=2)


@pytest.mark.parametrize("name", ["identity", "black", "blur", "weak-blur", "downsample:4"])
def test_obfuscations_are_known_by_name_and_keep_the_shape(name: str) -> None:
    frames = torch.rand(2, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    made = open_anonymizer(name)(frames)
    assert made.shape == frames.shape
    assert torch.equal(made, frames) == (name == "identity")
    assert bool(made.any()) == (name != "black")


def test_a_folder_that_training_wrote_is_opened(tmp_path: Path) -> None:
    latent(8, Rank(2)).save_pretrained(tmp_path / "run")
    assert isinstance(open_anonymizer(str(tmp_path / "run")), LatentAnonymizer)


@pytest.mark.parametrize("name", ["magic", "downsample:x"])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        open_anonymizer(name)


def test_identities_tell_anonymizers_data_and_labels_apart(data: Dataset) -> None:
    one, other = Subject.of(data, Untouched()), Subject.of(data, BlackFrames())
    assert one.raw.identity() == other.raw.identity()
    assert one.anonymized.identity() != other.anonymized.identity()
    assert one.identity() == other.identity()
    relabelled = dataclasses.replace(data, items=tuple(dataclasses.replace(i, attributes={}) for i in data))
    assert Subject.of(relabelled, Untouched()).identity() != one.identity()
    fewer = dataclasses.replace(data, items=data.items[:-1])
    assert Subject.of(fewer, Untouched()).raw.identity() != one.raw.identity()


def test_features_of_a_latent_anonymizer_are_those_it_lets_out(data: Dataset, tmp_path: Path) -> None:
    anonymizer = latent(256, Rank(2))
    subject = Subject.of(data, anonymizer)
    assert subject.anonymized.clips is None
    stores = Stores(subject, tmp_path / "raw", tmp_path / "own", "cpu")
    raw, veiled = (stores.features(which, "test") for which in ("raw", "anonymized"))  # type: ignore[arg-type]
    for before, after in zip(raw.items(), veiled.items()):
        x, y = raw.store.read(before), veiled.store.read(after)
        assert before.item.id == after.item.id
        assert x.clip.shape == y.clip.shape
        assert not np.allclose(x.clip, y.clip)
        assert x.static is not None
        assert len(x.static) == 4
