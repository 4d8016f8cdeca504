"""VPHMDB is HMDB51 with attributes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.data.test_hmdb51 import FILES, TREE
from tests.data.trees import touch, write
from videoveil.data.safe_pickle import dump_labels
from videoveil.data.vphmdb import load


def test_items_are_those_of_the_action_split_with_their_attributes(tmp_path: Path) -> None:
    labels = {
        name.replace(".avi", ".mp4"): np.array([[number % 2, 1, 1, 0, 1]], dtype=np.int64)
        for number, name in enumerate(FILES)
    }
    touch(write(tmp_path, TREE), *(f"hmdb51_org/{name}" for name in FILES))
    dump_labels(tmp_path / "hmdb51_privacy_attribute_label.pickle", labels)
    found = load(tmp_path)
    assert (found.name, found.counts()) == ("vphmdb", {"train": 2, "test": 2, "unused": 1})
    assert {item.id: (item.attributes or {})["skin_color"] for item in found} == {
        name[:-4]: number % 2 for number, name in enumerate(FILES)
    }
    assert load(tmp_path, split=2).counts() == {"test": 1, "train": 1}


def test_the_csv_form_is_read_as_well(tmp_path: Path) -> None:
    rows = "".join(f'"{name}","[0, 1, 0, 1, 0]"\n' for name in FILES)
    write(tmp_path, TREE | {"hmdb51_privacy_attribute_label.csv": "File Path,Array Values\n" + rows})
    found = load(tmp_path, annotations_only=True)
    assert all(list((item.attributes or {}).values()) == [0, 1, 0, 1, 0] for item in found)
    assert len(found) == 5
