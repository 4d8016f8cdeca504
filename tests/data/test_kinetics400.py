"""Kinetics-400: CSV lists and the folders that downloaders make."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, nasty_text, quick, touch, write
from videoveil.data.kinetics400 import COLUMNS, load, parse_rows
from videoveil.data.reading import Complaints
from videoveil.errors import AnnotationError, MissingItems

HEAD = "label,youtube_id,time_start,time_end,split\n"
TREE = {
    "annotations/train.csv": HEAD
    + "riding a bike,-abcdefghij,5,15,train\nabseiling,_kLmnOpqrst,12,22,train\n",
    "annotations/val.csv": "\ufeff" + HEAD.replace("\n", "\r\n") + "abseiling,zzzzzzzzzzz,0,10,val\r\n",
}
TRAIN = ("-abcdefghij_000005_000015", "_kLmnOpqrst_000012_000022")
VAL = "zzzzzzzzzzz_000000_000010"


@pytest.mark.parametrize(
    "layout",
    [
        ("train/riding a bike/{}.mp4", "train/abseiling/{}.mp4", "val/abseiling/{}.mp4"),
        ("train/riding_a_bike/{}.mp4", "train/abseiling/{}.mkv", "val/abseiling/{}.webm"),
        ("train/{}.mp4", "train/{}.mp4", "val/{}.mp4"),
        ("videos/train/Riding a bike/{}.mp4", "videos/{}.mp4", "{}.mp4"),
    ],
)
def test_clips_are_found_in_the_layouts_of_downloaders(tmp_path: Path, layout: tuple[str, str, str]) -> None:
    names = [place.format(stem) for place, stem in zip(layout, (*TRAIN, VAL))]
    found = load(touch(write(tmp_path, TREE), *names))
    assert [(i.id, i.split, i.action, i.path) for i in found] == [
        (TRAIN[0], "train", "riding a bike", tmp_path / names[0]),
        (TRAIN[1], "train", "abseiling", tmp_path / names[1]),
        (VAL, "val", "abseiling", tmp_path / names[2]),
    ]
    assert found.classes == ("abseiling", "riding a bike")


def test_a_list_that_is_absent_is_noted(tmp_path: Path) -> None:
    found = load(write(tmp_path, TREE), annotations_only=True)
    assert found.counts() == {"train": 2, "val": 1}
    assert len(found.notes) == 1
    assert "no list for test" in found.notes[0]


@pytest.mark.parametrize("name", ["val.csv", "kinetics-400_val.csv", "kinetics_val.csv"])
def test_lists_have_several_names_and_may_lie_in_the_root(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: TREE["annotations/val.csv"]})
    assert load(tmp_path, annotations_only=True).counts() == {"val": 1}


def test_no_list_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="columns youtube_id, time_start, time_end"):
        load(tmp_path)


def test_a_test_list_without_labels_loads(tmp_path: Path) -> None:
    touch(
        write(tmp_path, {"test.csv": HEAD + ",aaaaaaaaaaa,1,11,test\n"}), "test/aaaaaaaaaaa_000001_000011.mp4"
    )
    found = load(tmp_path)
    assert [(i.split, i.action) for i in found] == [("test", None)]
    assert found.classes == ()


def test_the_validation_list_may_call_itself_validate(tmp_path: Path) -> None:
    write(tmp_path, {"validate.csv": HEAD + "abseiling,zzzzzzzzzzz,0,10,validate\n"})
    assert load(tmp_path, annotations_only=True).counts() == {"val": 1}


def test_a_row_of_another_split_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path, {"train.csv": HEAD + "abseiling,zzzzzzzzzzz,0,10,test\n"})
    with pytest.raises(AnnotationError, match="mistakes") as caught:
        load(tmp_path, annotations_only=True)
    assert caught.value.offenders == ("train.csv:2: the row says test, the file is the list of train",)


def test_vanished_videos_are_all_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), f"val/abseiling/{VAL}.mp4")
    with pytest.raises(MissingItems) as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == list(TRAIN)
    assert load(tmp_path, skip_bad=True).skipped == caught.value.offenders


def test_all_mistakes_of_all_lists_are_in_one_error(tmp_path: Path) -> None:
    rows = (
        "a,b,1,x,train\na,b,nan,5,train\na,b,1,inf,train\na,b,5,5,train\na,,1,2,train\na,b\na,ok,1,2,train\n"
    )
    write(tmp_path, {"train.csv": HEAD + rows, "val.csv": HEAD + "a,b,1e999999999,2,val\n"})
    with pytest.raises(AnnotationError, match="7 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        *(f"train.csv:{n}" for n in (2, 3, 4, 5, 6, 7)),
        "val.csv:2",
    ]


@quick
@given(st.lists(st.fixed_dictionaries(dict.fromkeys(("label", *COLUMNS), nasty_text)), max_size=4))
def test_any_row_becomes_an_item_or_a_complaint(rows: list[dict[str, str]]) -> None:
    complaints = Complaints()
    items = parse_rows(list(enumerate(rows, 2)), PATH, "train", complaints)
    assert len(items) + len(complaints.found) == len(rows)


@quick
@given(st.integers(0, 3000), st.integers(1, 600), st.sampled_from(["", "a b", "(c)"]))
def test_well_formed_rows_round_trip(start: int, length: int, label: str) -> None:
    complaints = Complaints()
    row = {"label": label, "youtube_id": "x-_yz", "time_start": str(start), "time_end": f"{start + length}.0"}
    (item,) = parse_rows([(2, row)], PATH, "val", complaints)
    assert complaints.found == []
    assert item.id == f"x-_yz_{start:06d}_{start + length:06d}"
    assert item.action == (label or None)
