"""Clip features as one matrix: complete, in the order of ids, and checked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.tasks.make_store import WIDTH, action_items, action_store, damage, seen, unseen, write_store
from videoveil.errors import BadItems
from videoveil.tasks import feature_set
from videoveil.tasks.base import Features


def test_every_clip_of_every_item_is_there_in_the_order_of_ids(tmp_path: Path) -> None:
    store = action_store(tmp_path / "s", train=9, test=2)
    data = feature_set.load(seen(store))
    assert [item.id for item in data.items] == [f"v{n:03d}" for n in range(9)]
    assert (len(data), data.width, data.rows.dtype) == (9, WIDTH, np.float32)
    assert data.counts().tolist() == [1 + n % 7 for n in range(9)]
    for n, entry in enumerate(seen(store).items()):
        assert np.array_equal(data.rows[data.offsets[n] : data.offsets[n + 1]], store.read(entry).clip)


def test_the_fingerprint_sees_every_bit_item_and_border(tmp_path: Path) -> None:
    store = action_store(tmp_path / "s", train=4, test=0)
    data = feature_set.load(seen(store))
    touched = data.rows.copy()
    touched[3, 5] = np.nextafter(touched[3, 5], np.float32(9))
    moved = data.offsets.copy()
    moved[1] += 1
    renamed = (dataclasses.replace(data.items[0], id="x"), *data.items[1:])
    versions = [
        data,
        dataclasses.replace(data, rows=touched),
        dataclasses.replace(data, offsets=moved),
        dataclasses.replace(data, items=renamed),
    ]
    assert len({version.fingerprint() for version in versions}) == 4
    assert feature_set.load(seen(store)).fingerprint() == data.fingerprint()


def test_the_width_of_most_items_is_right_unless_one_is_given(tmp_path: Path) -> None:
    store = action_store(tmp_path / "s", train=5, test=0)
    damage(store, "v002", np.ones((2, 7), np.float32))
    with pytest.raises(BadItems) as caught:
        feature_set.load(seen(store))
    assert caught.value.offenders == (f"v002: features are 7 wide instead of {WIDTH}",)
    with pytest.raises(BadItems) as caught:
        feature_set.load(seen(store), 7)
    assert [line[:4] for line in caught.value.offenders] == ["v000", "v001", "v003", "v004"]


def test_an_item_is_listed_once_for_every_thing_that_is_wrong(tmp_path: Path) -> None:
    store = write_store(
        tmp_path / "s",
        [dataclasses.replace(item, id=f"a:{item.id}") for item in action_items(3, 0)],
        [np.ones((2, 4))] * 3,
    )
    wrong = np.full((2, 5), np.inf, np.float32)
    damage(store, "a:v001", wrong)
    (entry,) = (entry for entry in store.items() if entry.item.id == "a:v002")
    store.path(entry.key).unlink()
    with pytest.raises(BadItems) as caught:
        feature_set.load(seen(store), also=["a:v000: no action label"])
    assert [line.partition(": ")[0] for line in caught.value.offenders] == [
        "a:v000",
        "a:v002",
        "a:v001",
        "a:v001",
    ]


def test_a_file_without_its_tensors_is_listed_not_a_crash(tmp_path: Path) -> None:
    store = action_store(tmp_path / "s", train=3, test=0)
    entry = store.items()[1]
    facts = json.dumps(store.read(entry).provenance)
    save_file({"other": np.zeros(3)}, store.path(entry.key), metadata={"provenance": facts})
    with pytest.raises(BadItems) as caught:
        feature_set.load(seen(store))
    assert len(caught.value.offenders) == 1
    assert "damaged" in caught.value.offenders[0]


def test_an_empty_split_names_those_that_are_there(tmp_path: Path) -> None:
    store = action_store(tmp_path / "s", train=3, test=1)
    assert len(feature_set.load(unseen(store))) == 1
    with pytest.raises(BadItems, match="no items in split 'validation'; there are train 3, test 1"):
        feature_set.load(Features(store, split="validation"))
