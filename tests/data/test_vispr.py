"""VISPR: JSON files, label pickles, two attribute sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, json_values, nasty_text, quick, touch, write
from videoveil.data.reading import Complaints
from videoveil.data.safe_pickle import dump_labels
from videoveil.data.vispr import SETS, load, parse_annotation, parse_table
from videoveil.errors import AnnotationError, MissingItems, UnsafePickle

IMAGES = {
    "train": {"2017_00000001": ["a4_gender", "a9_face_complete"], "2017_00000002": ["a0_safe"]},
    "val": {"2017_00000003": ["a65_rel_soci", "a6_hair_color"]},
    "test": {"2017_00000004": ["a65_rel_social", "a17_color", "a11_tattoo"]},
}


def lists() -> dict[str, str]:
    return {
        f"{split}2017.txt": "".join(f"annotations/{split}2017/{stem}.json\r\n" for stem in images)
        for split, images in IMAGES.items()
    }


def annotations(folder: str = "annotations/{split}2017") -> dict[str, str]:
    return {
        f"{folder.format(split=split)}/{stem}.json": json.dumps(
            {"image_path": f"images/{split}2017/{stem}.jpg", "labels": labels, "id": stem, "other": 1}
        )
        for split, images in IMAGES.items()
        for stem, labels in images.items()
    }


def pictures(folder: str = "images/{split}2017") -> list[str]:
    return [f"{folder.format(split=split)}/{stem}.jpg" for split, images in IMAGES.items() for stem in images]


def vectors(split: str) -> dict[str, np.ndarray]:
    return {stem: np.arange(7) % 2 * 1.0 for stem in IMAGES[split]}


def present(dataset: Any) -> dict[str, set[str] | None]:
    return {
        item.id: None
        if item.attributes is None
        else {name for name, value in item.attributes.items() if value}
        for item in dataset
    }


def test_json_labels_splits_and_images(tmp_path: Path) -> None:
    found = load(touch(write(tmp_path, lists() | annotations()), *pictures()))
    assert found.attributes == SETS["vispr1"]
    assert present(found) == {
        "train2017/2017_00000001": {"a4_gender", "a9_face_complete"},
        "train2017/2017_00000002": set(),
        "val2017/2017_00000003": {"a65_rel_social"},  # the papers' spelling
        "test2017/2017_00000004": {"a65_rel_social", "a17_color"},
    }
    assert found.counts() == {"train": 2, "val": 1, "test": 1}
    assert all(item.kind == "image" and tuple(item.attributes or ()) == SETS["vispr1"] for item in found)
    assert [item.path for item in found] == [tmp_path / name for name in pictures()]
    assert found.notes == ()


def test_the_second_attribute_set(tmp_path: Path) -> None:
    found = load(write(tmp_path, lists() | annotations()), attributes="vispr2", annotations_only=True)
    assert found.attributes == SETS["vispr2"]
    assert list(present(found).values()) == [set(), set(), {"a6_hair_color"}, {"a11_tattoo"}]


@pytest.mark.parametrize("folder", ["{split}2017", "{split}2017_annotations"])
def test_images_and_annotations_may_lie_in_folders_of_the_root(tmp_path: Path, folder: str) -> None:
    touch(write(tmp_path, lists() | annotations(folder)), *pictures("{split}2017"))
    found = load(tmp_path)
    assert present(found)["train2017/2017_00000001"] == {"a4_gender", "a9_face_complete"}
    assert [item.path for item in found] == [tmp_path / name for name in pictures("{split}2017")]


def test_pickled_labels_come_in_the_order_of_the_first_set(tmp_path: Path) -> None:
    write(tmp_path, lists())
    dump_labels(tmp_path / "train_labels.pkl", {"2017_00000001": np.eye(7)[6], "2017_00000002": np.eye(7)[0]})
    dump_labels(tmp_path / "test_VISPR1_labels.pkl", vectors("test"))
    found = load(tmp_path, annotations_only=True)
    assert list(present(found).values()) == [
        {"a65_rel_social"},
        {"a17_color"},
        None,
        {"a4_gender", "a10_face_partial", "a64_rel_personal"},
    ]


def test_the_second_set_takes_only_its_own_pickles(tmp_path: Path) -> None:
    write(tmp_path, lists())
    dump_labels(tmp_path / "train_labels.pkl", vectors("train"))  # of the first set: must not be used
    dump_labels(tmp_path / "test_VISPR2_labels.pkl", vectors("test"))
    found = load(tmp_path, attributes="vispr2", annotations_only=True)
    assert list(present(found).values()) == [None, None, None, {"a16_race", "a1_age_approx", "a73_landmark"}]


def test_an_unlabelled_split_keeps_its_images_and_is_noted(tmp_path: Path) -> None:
    write(tmp_path, lists() | {name: text for name, text in annotations().items() if "val2017" not in name})
    found = load(touch(tmp_path, *pictures()))
    assert found.notes == ("val: 1 of 1 images have no labels here",)
    assert present(found)["val2017/2017_00000003"] is None
    assert found.counts()["val"] == 1


@pytest.mark.parametrize("source", ["json", "pickle"])
def test_one_image_without_labels_in_a_labelled_split_is_a_mistake(tmp_path: Path, source: str) -> None:
    if source == "json":
        write(tmp_path, lists() | annotations())
        (tmp_path / "annotations/train2017/2017_00000002.json").unlink()
    else:
        write(tmp_path, lists())
        dump_labels(tmp_path / "train_labels.pkl", {"2017_00000001": np.ones(7)})
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path, annotations_only=True)
    (offender,) = caught.value.offenders
    assert offender.startswith("train2017.txt: 2017_00000002 has neither")


def test_labels_that_the_table_does_not_know_are_ignored_and_counted(tmp_path: Path) -> None:
    table = "idx\tattribute_id\tgroup\tdescription\r\n" + "".join(
        f"{number}\t{name}\tg\td\r\n"
        for number, name in enumerate(("a0_safe", *SETS["vispr1"], *SETS["vispr2"]))
    )
    write(tmp_path, lists() | annotations() | {"attributes.tsv": table + "\ta99_group\t\t\r\n"})
    assert load(tmp_path, annotations_only=True).notes == ()
    more = {
        "image_path": "images/train2017/2017_00000001.jpg",
        "labels": ["a4_gender", "a99_group", "a98_shoe_size"],
    }
    write(tmp_path, {"annotations/train2017/2017_00000001.json": json.dumps(more)})
    found = load(tmp_path, annotations_only=True)
    assert present(found)["train2017/2017_00000001"] == {"a4_gender"}
    assert found.notes == (
        "unknown label 'a99_group' in 1 images",
        "unknown label 'a98_shoe_size' in 1 images",
    )


def test_all_missing_images_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, lists() | annotations()), pictures()[0])
    with pytest.raises(MissingItems) as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "train2017/2017_00000002",
        "val2017/2017_00000003",
        "test2017/2017_00000004",
    ]
    assert load(tmp_path, skip_bad=True).skipped == caught.value.offenders


def test_all_mistakes_are_in_one_error(tmp_path: Path) -> None:
    wrong = {
        "annotations/train2017/2017_00000001.json": b"\xef\xbb\xbf{",
        "annotations/train2017/2017_00000002.json": "[]",
        "annotations/val2017/2017_00000003.json": '{"labels": [], "image_path": 3}',
        "annotations/test2017/2017_00000004.json": b"\xff\xfe",
        "attributes.tsv": "idx\tattribute_id\n²\ta0_safe\n",
    }
    write(tmp_path, {**lists(), **wrong})
    with pytest.raises(AnnotationError, match="5 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "attributes.tsv:2",
        *(f"2017_0000000{n}.json" for n in (1, 2, 3, 4)),
    ]


def test_an_image_path_cannot_lead_out_of_the_root(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"secret.jpg": b"", **{f"root/{name}": text for name, text in (lists() | annotations()).items()}},
    )
    touch(tmp_path / "root", *pictures()[1:])
    for path in ("../secret.jpg", "images/../../secret.jpg", str(tmp_path / "secret.jpg")):
        content = json.dumps({"image_path": path, "labels": []})
        write(tmp_path, {"root/annotations/train2017/2017_00000001.json": content})
        with pytest.raises(MissingItems) as caught:
            load(tmp_path / "root")
        assert len(caught.value.offenders) == 1


@pytest.mark.parametrize(
    "value",
    [
        {"a": np.ones(6)},
        {"a": np.full(7, 0.5)},
        {"a": np.full(7, np.nan)},
        {"a": [1] * 7},
        {"a": np.array(["x"] * 7)},
    ],
)
def test_pickles_of_other_shapes_and_values_are_errors(tmp_path: Path, value: Any) -> None:
    write(tmp_path, lists())
    dump_labels(tmp_path / "train_labels.pkl", value)
    with pytest.raises(AnnotationError, match="seven 0 or 1") as caught:
        load(tmp_path)
    assert caught.value.offenders[0].startswith("a: ")


def test_a_pickle_that_is_no_dict_or_holds_code_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, lists() | {"train_labels.pkl": b"]."})
    with pytest.raises(AnnotationError, match="found a list"):
        load(tmp_path)
    write(tmp_path, {"train_labels.pkl": b"cos\nsystem\n(S'true'\ntR."})
    with pytest.raises(UnsafePickle, match=r"os\.system"):
        load(tmp_path)


def test_a_missing_list_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"train2017\.txt: missing"):
        load(tmp_path)


@quick
@given(json_values | st.fixed_dictionaries({"labels": json_values, "image_path": json_values}))
def test_any_json_is_an_annotation_or_a_value_error(value: Any) -> None:
    try:
        image, labels, _ = parse_annotation(value, SETS["vispr1"])
    except ValueError:
        return
    assert isinstance(image, str)
    assert set(labels.values()) <= {0, 1}


@quick
@given(st.sets(st.sampled_from([*SETS["vispr1"], *SETS["vispr2"], "a0_safe"])))
def test_well_formed_annotations_round_trip(labels: set[str]) -> None:
    value = {"image_path": "images/x.jpg", "labels": sorted(labels)}
    for names in SETS.values():
        _, found, everything = parse_annotation(value, names)
        assert {name for name in names if found[name]} == labels & set(names)
        assert set(everything) == labels


@quick
@given(st.lists(st.fixed_dictionaries({"idx": nasty_text, "attribute_id": nasty_text}), max_size=4))
def test_any_table_row_is_an_attribute_a_group_or_a_complaint(rows: list[dict[str, str]]) -> None:
    complaints = Complaints()
    found = parse_table(list(enumerate(rows, 2)), PATH, complaints)
    groups = sum(not row["idx"] for row in rows)
    assert len(found) <= len(rows) - len(complaints.found) - groups
