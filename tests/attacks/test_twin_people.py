"""Who is in the videos of a twin."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from videoveil.attacks.twin_people import lead_person
from videoveil.data.records import Item
from videoveil.data.twins import plan
from videoveil.errors import UsageError


def test_the_leading_person_of_every_video_is_named_as_the_plan_has_it(tmp_path: Path) -> None:
    people = lead_person("vphmdb", tmp_path, seed=3)
    names = set()
    for reel in plan("vphmdb", 3, "tiny").reels:
        item = Item(reel.path, tmp_path / reel.path, "train")
        assert people(item) == reel.play.roles[0].person.name
        names.add(people(item))
    assert len(names) > 1


def test_datasets_that_name_people_name_the_same_ones(tmp_path: Path) -> None:
    people = lead_person("ntu60", tmp_path)
    for reel in plan("ntu60", 0, "tiny").reels:
        stem = Path(reel.path).stem
        performer = stem[stem.index("P") : stem.index("P") + 4]
        other = dataclasses.replace(Item("a", tmp_path / reel.path, "train"), subject=performer)
        same = [r for r in plan("ntu60", 0, "tiny").reels if performer in r.path]
        assert {people(dataclasses.replace(other, path=tmp_path / r.path)) for r in same} == {people(other)}
        break


def test_videos_of_another_twin_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give what it was made with"):
        lead_person("vphmdb", tmp_path)(Item("x", tmp_path / "x.mp4", "train"))
