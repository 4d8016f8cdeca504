"""HMDB51: one split file per class, odd names, classes that begin like others."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, disguise, lines_of, located, nasty_text, odd_names, quick, touch, write
from videoveil.data.hmdb51 import FLAGS, load, parse_split
from videoveil.data.reading import Complaints
from videoveil.errors import AnnotationError, MissingItems

ODD = "#20_Rhythm_clap_u_nm_np1_fr_goo_0[1]!(a)&b+c;d~e@f.avi"
SPLITS = "testTrainMulti_7030_splits"
TREE = {
    f"{SPLITS}/climb_test_split1.txt": f"a_climb.avi 1 \n{ODD} 2 \nc_climb.avi 0 \n",
    f"{SPLITS}/climb_stairs_test_split1.txt": "a_climb_stairs.avi 2 \r\n",
    f"{SPLITS}/brush_hair_test_split1.txt": "a_brush.avi 1 \n",
    f"{SPLITS}/climb_test_split2.txt": f"a_climb.avi 2 \n{ODD} 1 \n",
    f"{SPLITS}/.climb_test_split1.txt": b"\x00\x05\x16\x07\xff",  # what a desktop leaves behind
}
FILES = (
    "brush_hair/a_brush.avi",
    "climb/a_climb.avi",
    f"climb/{ODD}",
    "climb/c_climb.avi",
    "climb_stairs/a_climb_stairs.avi",
)


@pytest.mark.parametrize("folder", ["hmdb51_org", "videos", "."])
def test_items_have_split_class_and_path(tmp_path: Path, folder: str) -> None:
    touch(write(tmp_path, TREE), *(f"{folder}/{name}" for name in FILES))
    found = load(tmp_path)
    assert found.classes == ("brush_hair", "climb", "climb_stairs")
    assert {i.id: (i.split, found.label(i), i.path) for i in found} == {
        "brush_hair/a_brush": ("train", 0, tmp_path / folder / FILES[0]),
        "climb/a_climb": ("train", 1, tmp_path / folder / FILES[1]),
        f"climb/{ODD[:-4]}": ("test", 1, tmp_path / folder / FILES[2]),
        "climb/c_climb": ("unused", 1, tmp_path / folder / FILES[3]),
        "climb_stairs/a_climb_stairs": ("test", 2, tmp_path / folder / FILES[4]),
    }
    assert load(tmp_path, split=2).counts() == {"test": 1, "train": 1}


def test_a_class_that_begins_another_keeps_its_own_videos(tmp_path: Path) -> None:
    found = load(write(tmp_path, TREE), annotations_only=True)
    assert [i.id for i in found if i.action == "climb_stairs"] == ["climb_stairs/a_climb_stairs"]
    assert len([i for i in found if i.action == "climb"]) == 3


def test_odd_names_are_found_in_another_container(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), *(f"videos/{name[:-4]}.mp4" for name in FILES))
    assert [i.path.suffix for i in load(tmp_path)] == [".mp4"] * 5


@pytest.mark.parametrize("folder", ["splits", "."])
def test_split_files_may_lie_elsewhere(tmp_path: Path, folder: str) -> None:
    write(tmp_path, {name.replace(SPLITS, folder): text for name, text in TREE.items()})
    assert load(tmp_path, annotations_only=True).counts() == {"train": 2, "test": 2, "unused": 1}


def test_no_split_files_is_an_error_that_says_what_is_needed(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    with pytest.raises(AnnotationError, match=r"no '<class>_test_split3\.txt' files"):
        load(tmp_path, split=3)


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), f"hmdb51_org/{FILES[1]}")
    with pytest.raises(MissingItems) as caught:
        load(tmp_path)
    assert len(caught.value.offenders) == 4
    assert f"climb/{ODD[:-4]}: missing (climb/{ODD})" in caught.value.offenders
    found = load(tmp_path, skip_bad=True)
    assert found.skipped == caught.value.offenders
    assert [i.id for i in found] == ["climb/a_climb"]


def test_all_mistakes_of_all_files_are_in_one_error(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            f"{SPLITS}/climb_test_split1.txt": "a.avi 1\nb.avi\n\nc.avi 3\n",
            f"{SPLITS}/run_test_split1.txt": "d.avi two\n1\n",
        },
    )
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "climb_test_split1.txt:2",
        "climb_test_split1.txt:4",
        "run_test_split1.txt:1",
        "run_test_split1.txt:2",
    ]


@quick
@given(nasty_text)
def test_any_line_becomes_an_item_or_a_complaint(text: str) -> None:
    complaints = Complaints()
    items = parse_split(text, PATH, "run", complaints)
    assert len(items) + len(complaints.found) == lines_of(text)
    assert located(complaints.found)


@quick
@given(st.lists(st.tuples(odd_names, st.sampled_from(sorted(FLAGS))), max_size=6))
def test_well_formed_files_round_trip(rows: list[tuple[str, str]]) -> None:
    for text in disguise([f"{name}.avi {flag}" for name, flag in rows]):
        complaints = Complaints()
        items = parse_split(text, PATH, "run", complaints)
        assert complaints.found == []
        assert [(i.id, i.path, i.split, i.action) for i in items] == [
            (f"run/{name}", Path("run", f"{name}.avi"), FLAGS[flag], "run") for name, flag in rows
        ]
