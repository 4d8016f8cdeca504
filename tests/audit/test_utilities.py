from __future__ import annotations

import numpy as np
import pytest

from videoveil.audit.utilities import of_probabilities
from videoveil.data.records import Item
from videoveil.tasks.action.metrics import Prior, score
from videoveil.tasks.targets import Targets


def items(count: int) -> list[Item]:
    from pathlib import Path

    return [Item(f"v{n}", Path("none"), "test") for n in range(count)]


def test_top1_is_that_of_the_task_and_so_is_its_chance() -> None:
    rng = np.random.default_rng(0)
    said = rng.random((50, 4))
    labels = Targets(tuple("abcd"), rng.integers(0, 4, 50))
    prior = Prior((0.1, 0.5, 0.2, 0.2))
    expected = score("action", said, labels, prior).headline
    found = of_probabilities(said, items(50), labels, prior).measure()
    assert found.value == pytest.approx(expected.value)
    assert found.chance == pytest.approx(expected.chance)


def test_tags_are_scored_by_cmap() -> None:
    rng = np.random.default_rng(0)
    said, truth = rng.random((50, 3)), rng.integers(0, 2, (50, 3)).astype(np.float32)
    labels = Targets(tuple("abc"), truth)
    expected = score("action", said, labels, Prior((0.5, 0.5, 0.5))).headline
    found = of_probabilities(said, items(50), labels, Prior((0.5, 0.5, 0.5))).measure()
    assert found.value == pytest.approx(expected.value)
