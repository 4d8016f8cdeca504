"""Toyota Smarthome: everything is in the names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.trees import touch, write
from videoveil.data.toyota_smarthome import TRAIN_SUBJECTS, load
from videoveil.errors import AnnotationError

FILES = ("Cook.Cleandishes_p03_r00_v01_c04.mp4", "Walk_p02_r02_v13_c07.mp4", "Cutbread_p25_r00_v00_c01.mp4")


@pytest.mark.parametrize("folder", ["mp4", "videos", "."])
def test_names_say_everything(tmp_path: Path, folder: str) -> None:
    touch(tmp_path, *(f"{folder}/{name}" for name in FILES))
    write(tmp_path, {"gender.json": '{"p02": "female", "p03": "male"}'})
    found = load(tmp_path)
    assert {i.id: (i.split, i.action, i.subject, i.gender) for i in found} == {
        "Cook.Cleandishes_p03_r00_v01_c04": ("train", "Cook.Cleandishes", "p03", "male"),
        "Cutbread_p25_r00_v00_c01": ("train", "Cutbread", "p25", None),
        "Walk_p02_r02_v13_c07": ("test", "Walk", "p02", "female"),
    }
    assert found.classes == ("Cook.Cleandishes", "Cutbread", "Walk")
    assert {i.path for i in found} == {tmp_path / folder / name for name in FILES}
    assert found.items[-1].extra == {"repetition": "02", "video": "13", "camera": "07"}


def test_the_split_is_by_the_eleven_official_subjects() -> None:
    assert sorted(TRAIN_SUBJECTS) == [3, 4, 6, 7, 9, 12, 13, 15, 17, 19, 25]


def test_subjects_are_never_in_both_parts(tmp_path: Path) -> None:
    touch(tmp_path, *(f"Walk_p{p:02d}_r00_v00_c0{c}.mp4" for p in range(2, 26) for c in (1, 2)))
    found = load(tmp_path)
    train, test = ({i.subject for i in found.split(part)} for part in ("train", "test"))
    assert not train & test
    assert train == {f"p{p:02d}" for p in TRAIN_SUBJECTS}


def test_other_names_are_left_out_and_noted_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "mp4/holiday.mp4")
    with pytest.raises(AnnotationError, match="the names are the annotation"):
        load(tmp_path)
    found = load(touch(tmp_path, f"mp4/{FILES[0]}"))
    assert found.notes == ("holiday.mp4: not a Toyota Smarthome name, left out",)
    assert len(found) == 1
