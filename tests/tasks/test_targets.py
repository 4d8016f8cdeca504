"""Labels of items: the numbers of their names, and every one that is absent or unknown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, UsageError
from videoveil.tasks.targets import targets, vocabulary


def item(id_: str, action: str | None = None, **tags: tuple[str, ...]) -> Item:
    return Item(id_, Path(f"{id_}.mp4"), "train", action=action, **tags)  # type: ignore[arg-type]


def test_an_action_is_the_number_of_its_name() -> None:
    found = targets([item("a", "run"), item("b", "jump"), item("c", "run")], ("jump", "run"), "action")
    assert found.values.tolist() == [1, 0, 1]
    assert found.values.dtype == np.int64
    assert not found.several


def test_tags_are_a_row_of_zeros_and_ones() -> None:
    items = [item("a", objects=("dog", "car")), item("b"), item("c", objects=("car", "car"))]
    found = targets(items, ("ball", "car", "dog"), "objects")
    assert found.values.tolist() == [[0, 1, 1], [0, 0, 0], [0, 1, 0]]
    assert found.several


def test_the_vocabulary_is_the_datasets_own_or_what_its_items_carry() -> None:
    items = (item("a", "run", scenes=("park",)), item("b", "jump", scenes=("street", "park")), item("c"))
    assert vocabulary(Dataset("d", Path(), items, classes=("walk", "run", "jump")), "action") == (
        "walk",
        "run",
        "jump",
    )
    plain = Dataset("d", Path(), items)
    assert vocabulary(plain, "action") == ("jump", "run")
    assert vocabulary(plain, "scenes") == ("park", "street")
    assert vocabulary(plain, "objects") == ()
    with pytest.raises(UsageError, match="target 'colour': choose one of action, actions, objects, scenes"):
        vocabulary(plain, "colour")  # type: ignore[arg-type]


def test_every_absent_or_unknown_label_is_listed() -> None:
    with pytest.raises(AnnotationError) as caught:
        targets([item("a", "fly"), item("b", "run"), item("c")], ("run",), "action")
    assert caught.value.offenders == (
        "a: action 'fly' is not one of the 1 classes",
        "c: no action label",
    )
    with pytest.raises(AnnotationError) as caught:
        targets([item("a", objects=("x", "car", "y")), item("b", objects=("z",))], ("car",), "objects")
    assert [line.partition(" is")[0] for line in caught.value.offenders] == ["a: 'x'", "a: 'y'", "b: 'z'"]
    with pytest.raises(AnnotationError, match="no item has scenes labels"):
        targets([item("a")], (), "scenes")
