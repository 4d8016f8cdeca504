"""UCF101: lists, class numbers, the folder that is spelt in two ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, disguise, lines_of, located, nasty_text, odd_names, quick, touch, write
from videoveil.data.reading import Complaints
from videoveil.data.ucf101 import load, parse_classes, parse_list
from videoveil.errors import AnnotationError, MissingItems

CLASSES = {"Run": 1, "HandstandPushups": 2, "Walk": 3}
TREE = {
    "ucfTrainTestlist/classInd.txt": "1 Run\r\n2 HandstandPushups\r\n3 Walk\r\n",
    "ucfTrainTestlist/trainlist01.txt": (
        "Run/v_Run_g08_c01.avi 1\r\nHandstandPushups/v_HandStandPushups_g08_c02.avi 2\r\nWalk/v_Walk_g25_c01.avi 3\r\n"
    ),
    "ucfTrainTestlist/testlist01.txt": "Run/v_Run_g01_c01.avi\r\nWalk/v_Walk_g01_c07.avi 3 \r\n\r\n",
    "ucfTrainTestlist/trainlist02.txt": "Run/v_Run_g01_c01.avi 1\n",
    "ucfTrainTestlist/testlist02.txt": "Run/v_Run_g08_c01.avi\n",
}
FILES = (
    "Run/v_Run_g08_c01.avi",
    "HandstandPushups/v_HandStandPushups_g08_c02.avi",
    "Walk/v_Walk_g25_c01.avi",
    "Run/v_Run_g01_c01.avi",
    "Walk/v_Walk_g01_c07.avi",
)


def test_items_have_split_class_group_and_path(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), *(f"UCF-101/{name}" for name in FILES))
    found = load(tmp_path)
    assert found.classes == ("Run", "HandstandPushups", "Walk")
    assert [(i.id, i.split, found.label(i), i.extra["group"]) for i in found] == [
        ("Run/v_Run_g08_c01", "train", 0, "08"),
        ("HandstandPushups/v_HandStandPushups_g08_c02", "train", 1, "08"),
        ("Walk/v_Walk_g25_c01", "train", 2, "25"),
        ("Run/v_Run_g01_c01", "test", 0, "01"),
        ("Walk/v_Walk_g01_c07", "test", 2, "01"),
    ]
    assert [i.path for i in found] == [tmp_path / "UCF-101" / name for name in FILES]
    assert [(i.id, i.split) for i in load(tmp_path, split=2)] == [
        ("Run/v_Run_g01_c01", "train"),
        ("Run/v_Run_g08_c01", "test"),
    ]


@pytest.mark.parametrize("folder", ["UCF-101", "Videos", "videos", "."])
@pytest.mark.parametrize("spelling", ["HandstandPushups", "HandStandPushups"])
def test_handstand_pushups_are_found_however_the_folder_is_spelt(
    tmp_path: Path, folder: str, spelling: str
) -> None:
    names = [name.replace("HandstandPushups/", f"{spelling}/") for name in FILES]
    touch(write(tmp_path, TREE), *(f"{folder}/{name}" for name in names))
    handstand = next(i for i in load(tmp_path) if i.action == "HandstandPushups")
    assert handstand.path == tmp_path / folder / spelling / "v_HandStandPushups_g08_c02.avi"
    assert handstand.id == "HandstandPushups/v_HandStandPushups_g08_c02"  # the same wherever the files are


def test_lists_may_spell_the_class_otherwise_than_the_index(tmp_path: Path) -> None:
    tree = {name: text.replace("HandstandPushups/", "HandStandPushups/") for name, text in TREE.items()}
    found = load(write(tmp_path, tree), annotations_only=True)
    assert [i.action for i in found][1] == "HandstandPushups"


def test_videos_may_be_in_another_container(tmp_path: Path) -> None:
    names = [
        name.replace(".avi", suffix) for name, suffix in zip(FILES, (".mp4", ".mkv", ".webm", ".avi", ".mov"))
    ]
    touch(write(tmp_path, TREE), *(f"UCF-101/{name}" for name in names))
    found = load(tmp_path)
    assert [i.path for i in found] == [tmp_path / "UCF-101" / name for name in names]
    assert found.items[0].id == "Run/v_Run_g08_c01"


def test_lists_may_lie_in_the_root(tmp_path: Path) -> None:
    write(tmp_path, {name.removeprefix("ucfTrainTestlist/"): text for name, text in TREE.items()})
    assert load(tmp_path, annotations_only=True).counts() == {"train": 3, "test": 2}


def test_a_json_table_may_stand_in_for_the_index(tmp_path: Path) -> None:
    tree = {name: text for name, text in TREE.items() if "classInd" not in name}
    write(tmp_path, tree | {"ucfTrainTestlist/action_classes.json": json.dumps({"classes": CLASSES})})
    assert load(tmp_path, annotations_only=True).classes == tuple(CLASSES)
    for wrong in ("[]", '{"classes": {"Run": "1"}}', '{"classes": ["Run"]}'):
        write(tmp_path, {"ucfTrainTestlist/action_classes.json": wrong})
        with pytest.raises(AnnotationError, match=r"action_classes\.json"):
            load(tmp_path)


def test_no_index_at_all_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"classInd\.txt: missing"):
        load(tmp_path)


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), "UCF-101/Run/v_Run_g08_c01.avi")
    with pytest.raises(MissingItems, match="4 of 5") as caught:
        load(tmp_path)
    assert caught.value.offenders == tuple(f"{name[:-4]}: missing ({name})" for name in FILES[1:])
    found = load(tmp_path, skip_bad=True)
    assert found.skipped == caught.value.offenders
    assert [i.id for i in found] == ["Run/v_Run_g08_c01"]


def test_all_mistakes_of_all_lists_are_in_one_error(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    write(
        tmp_path,
        {
            "ucfTrainTestlist/classInd.txt": "1 Run\nx Jump\n3 Walk\n1 Swim\n3\n",
            "ucfTrainTestlist/trainlist01.txt": "Run/a.avi 1\nRun/b.avi 3\n\nFly/c.avi 1\nrubbish\nRun/d.avi 1 1\n",
            "ucfTrainTestlist/testlist01.txt": "Walk/a.avi 1\n",
        },
    )
    with pytest.raises(AnnotationError, match="8 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "classInd.txt:2",
        "classInd.txt:4",
        "classInd.txt:5",
        "trainlist01.txt:2",
        "trainlist01.txt:4",
        "trainlist01.txt:5",
        "trainlist01.txt:6",
        "testlist01.txt:1",
    ]
    assert "class Run is number 1, the line says 3" in str(caught.value)
    assert "class Walk is number 3, the line says 1" in str(caught.value)


def test_a_video_in_both_lists_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, TREE | {"ucfTrainTestlist/testlist01.txt": "Run/v_Run_g08_c01.avi\n"})
    with pytest.raises(AnnotationError, match="twice") as caught:
        load(tmp_path, annotations_only=True)
    assert caught.value.offenders == ("Run/v_Run_g08_c01",)


@quick
@given(nasty_text)
def test_any_line_becomes_a_class_or_a_complaint(text: str) -> None:
    complaints = Complaints()
    found = parse_classes(text, PATH, complaints)
    assert len(found) + len(complaints.found) == lines_of(text)
    assert located(complaints.found)
    assert len(set(found.values())) == len(found)


@quick
@given(nasty_text)
def test_any_line_becomes_an_item_or_a_complaint(text: str) -> None:
    complaints = Complaints()
    items = parse_list(text, PATH, CLASSES, "train", complaints)
    assert len(items) + len(complaints.found) == lines_of(text)
    assert located(complaints.found)
    assert all(item.action in CLASSES for item in items)


@quick
@given(st.lists(st.tuples(st.sampled_from(sorted(CLASSES)), odd_names, st.booleans()), max_size=6))
def test_well_formed_lists_round_trip(rows: list[tuple[str, str, bool]]) -> None:
    lines = [
        f"{label}/v_{name}.avi" + (f" {CLASSES[label]}" if numbered else "") for label, name, numbered in rows
    ]
    for text in disguise(lines):
        complaints = Complaints()
        items = parse_list(text, PATH, CLASSES, "test", complaints)
        assert complaints.found == []
        assert [(i.action, i.id, i.path.as_posix()) for i in items] == [
            (label, f"{label}/v_{name}", f"{label}/v_{name}.avi") for label, name, _ in rows
        ]
