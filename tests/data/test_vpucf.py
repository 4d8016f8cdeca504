"""VPUCF is UCF101 with attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.data.test_ucf101 import FILES, TREE
from tests.data.trees import touch, write
from videoveil.data.safe_pickle import dump_labels
from videoveil.data.vpucf import load
from videoveil.errors import AnnotationError, MissingItems

LABELS = {
    name.replace(".avi", ".mp4"): np.array([[1, number % 2, 1, 0, 1]], dtype=np.int64)
    for number, name in enumerate(FILES)
}


def labelled(root: Path) -> Path:
    dump_labels(write(root, TREE) / "ucf101_privacy_attribute_label.pickle", LABELS)
    return root


def test_items_are_those_of_the_action_split_with_their_attributes(tmp_path: Path) -> None:
    found = load(touch(labelled(tmp_path), *(f"UCF-101/{name}" for name in FILES)))
    assert (found.name, found.counts()) == ("vpucf", {"train": 3, "test": 2})
    assert [item.attributes["face"] for item in found if item.attributes] == [0, 1, 0, 1, 0]
    assert [item.action for item in found] == ["Run", "HandstandPushups", "Walk", "Run", "Walk"]
    other = load(tmp_path, split=2)
    assert [(i.id, i.split) for i in other] == [("Run/v_Run_g01_c01", "train"), ("Run/v_Run_g08_c01", "test")]
    assert other.notes == ("3 labelled videos are not in this split",)


def test_missing_videos_and_missing_labels_are_different_errors(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="neither"):
        load(write(tmp_path, TREE), annotations_only=True)
    with pytest.raises(MissingItems, match="5 of 5"):
        load(labelled(tmp_path))
    assert len(load(tmp_path, skip_bad=True).skipped) == 5
