from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.audit import world
from videoveil.attacks.attributes import own_attributes
from videoveil.audit.grid import GridConfig, attack, cells, rows
from videoveil.audit.subject import BlackFrames, Untouched
from videoveil.data.records import Dataset
from videoveil.tasks.base import Clips
from videoveil.tasks.outcomes import AttributeOutcome

CONFIG = GridConfig(rows=2, columns=3, kinds=("linear",), frames=2, workers=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"), train=16, test=8)


def test_cells_are_mean_brightest_and_darkest_by_hand() -> None:
    pictures = torch.rand(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))
    found = cells(pictures, CONFIG)
    slow = []
    for change in (np.mean, np.max, np.min):
        for colour in range(3):
            for i in range(2):
                for j in range(3):
                    slow.append(change(pictures[1, colour, 4 * i : 4 * i + 4, 3 * j : 3 * j + 3].numpy()))
    assert found.shape == (2, 54)
    assert found[1].numpy() == pytest.approx(np.array(slow), abs=1e-6)


def test_a_single_bright_pixel_in_a_corner_changes_its_cell() -> None:
    pictures = torch.zeros(1, 3, 120, 160)
    before = cells(pictures, CONFIG)
    pictures[:, :, -1, -1] = 1.0
    assert (cells(pictures, CONFIG) - before).max() == 1.0


def test_the_canary_is_found_and_nothing_in_black_frames(data: Dataset) -> None:
    sides = [Clips(data, split, Untouched()) for split in ("train", "test")]
    (found,) = attack(*sides, own_attributes, GridConfig(kinds=("linear",), workers=1)).values()
    assert isinstance(found, AttributeOutcome)
    assert found.attributes()["canary"].value == pytest.approx(1.0)
    dark = [Clips(data, split, BlackFrames()) for split in ("train", "test")]
    (blind,) = attack(*dark, own_attributes, CONFIG).values()
    assert blind.measure().value == pytest.approx(blind.measure().chance)


def test_only_what_the_anonymizer_gives_out_is_seen(data: Dataset) -> None:
    items = data.split("test")
    raw, numbers = rows(Clips(data, "test"), items, CONFIG, 0)
    same, _ = rows(Clips(data, "test", Untouched()), items, CONFIG, 0)
    assert np.array_equal(raw, same)
    black, _ = rows(Clips(data, "test", BlackFrames()), items, CONFIG, 0)
    assert not black.any()
    assert numbers.tolist() == [n for n in range(8) for _ in range(2)]


def test_the_same_seed_gives_the_same_answers(data: Dataset, tmp_path: Path) -> None:
    sides = [Clips(data, split) for split in ("train", "test")]
    once, again = (attack(*sides, own_attributes, CONFIG, seed=3)["linear"] for _ in range(2))
    assert isinstance(once, AttributeOutcome)
    assert isinstance(again, AttributeOutcome)
    assert np.array_equal(once.scores, again.scores)
