"""The records that loaders return."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from videoveil.data.records import Dataset, Item

ITEMS = (
    Item("a", Path("a.avi"), "train", action="walk"),
    Item("b", Path("b.avi"), "test", action="run"),
    Item("c", Path("c.avi"), "test"),
)
DATASET = Dataset("mine", Path("root"), ITEMS, classes=("run", "walk"), notes=("odd",))


def test_a_label_is_the_index_of_the_class() -> None:
    assert [DATASET.label(item) for item in ITEMS[:2]] == [1, 0]
    with pytest.raises(ValueError, match="c of mine has no action label"):
        DATASET.label(ITEMS[2])


def test_splits_are_counted_and_taken() -> None:
    assert DATASET.counts() == {"train": 1, "test": 2}
    assert DATASET.split("test") == ITEMS[1:]
    assert DATASET.split("val") == ()
    assert (len(DATASET), tuple(DATASET)) == (3, ITEMS)


def test_a_part_keeps_the_vocabulary() -> None:
    part = DATASET.where(lambda item: item.split == "train")
    assert part.items == ITEMS[:1]
    assert (part.classes, part.notes, part.label(part.items[0])) == (("run", "walk"), ("odd",), 1)


def test_records_cannot_be_changed_only_copied() -> None:
    with pytest.raises(FrozenInstanceError):
        ITEMS[0].split = "test"  # type: ignore[misc]
    with pytest.raises(TypeError):
        ITEMS[0].extra["group"] = "1"  # type: ignore[index]
    assert ITEMS[0].with_split("val").split == "val"
    assert ITEMS[0].split == "train"
