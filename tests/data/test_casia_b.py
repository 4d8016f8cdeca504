"""CASIA-B: gallery and probe from the names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.data.trees import touch
from videoveil.data.casia_b import OFFICIAL, load
from videoveil.errors import AnnotationError

WALKS = [f"nm-0{n}" for n in range(1, 7)] + ["bg-01", "bg-02", "cl-01", "cl-02"]


@pytest.mark.parametrize("folder", ["videos", "DatasetB-1/video", "."])
def test_the_first_four_normal_walks_are_the_gallery(tmp_path: Path, folder: str) -> None:
    touch(
        tmp_path,
        *(f"{folder}/{s}-{walk}-{v}.avi" for s in ("001", "124") for walk in WALKS for v in ("000", "180")),
    )
    found = load(tmp_path)
    assert found.counts() == {"gallery": 16, "probe": 24}
    for item in found:
        condition, number = item.extra["condition"], int(item.extra["number"])
        assert (item.split == "gallery") == (condition == "nm" and number <= 4)
    item = next(i for i in found if i.id == "124-bg-02-180")
    assert (item.subject, item.extra) == ("124", {"condition": "bg", "number": "02", "view": "180"})
    assert item.path == tmp_path / folder / "124-bg-02-180.avi"


def test_the_papers_probes_are_two_normal_walks_of_everybody(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{s:03d}-{walk}-090.avi" for s in range(1, 4) for walk in WALKS))
    probes = [i for i in load(tmp_path).split("probe") if i.extra["condition"] == "nm"]
    assert sorted(i.id for i in probes) == [f"{s:03d}-nm-0{n}-090" for s in (1, 2, 3) for n in (5, 6)]


def test_the_official_numbers_are_all_walks_of_124_people_in_11_views() -> None:
    assert sum(OFFICIAL[""].values()) == 124 * 11 * 10 == 13_640


def test_other_names_are_left_out_and_noted_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, "001-xx-01-000.avi", "1-nm-01-000.avi", "notes.txt")
    with pytest.raises(AnnotationError, match="the names are the annotation"):
        load(tmp_path)
    found = load(touch(tmp_path, "001-nm-01-000.mp4"))
    assert len(found) == 1
    assert len(found.notes) == 2
