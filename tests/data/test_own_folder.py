"""A folder per class: splits by a hash that never changes, or by folders."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.data.trees import touch
from videoveil.data.own_folder import hashed_split, load
from videoveil.errors import AnnotationError

GOLDEN = (
    ["train", "test", "test", "train", "train", "test", "train", "val"],
    ["train", "test", "train", "train", "train", "train", "val", "train"],
)


def test_the_hash_is_the_same_on_every_machine() -> None:
    """Golden values: a change here moves people's test videos into their training sets."""
    names = ("walk/a", "walk/b", "run/a", "run/b", "run/é", "x", "y", "z")
    assert [hashed_split(name) for name in names] == GOLDEN[0]
    assert [hashed_split(name, 1) for name in names] == GOLDEN[1]


def test_the_hash_draws_seven_one_two_parts_in_ten() -> None:
    drawn = Counter(hashed_split(f"walk/{n}") for n in range(5000))
    assert abs(drawn["train"] / 5000 - 0.7) < 0.03
    assert abs(drawn["val"] / 5000 - 0.1) < 0.02
    assert abs(drawn["test"] / 5000 - 0.2) < 0.03


def test_classes_are_folders_and_ids_relative_names(tmp_path: Path) -> None:
    found = load(touch(tmp_path, "walk/a.mp4", "walk/deep/b.AVI", "run fast/c.mkv", "run fast/notes.txt"))
    assert [(i.id, i.action, i.path) for i in found] == [
        ("run fast/c", "run fast", tmp_path / "run fast/c.mkv"),
        ("walk/a", "walk", tmp_path / "walk/a.mp4"),
        ("walk/deep/b", "walk", tmp_path / "walk/deep/b.AVI"),
    ]
    assert found.classes == ("run fast", "walk")
    assert [i.split for i in found] == [hashed_split(i.id) for i in found]


def test_a_video_stays_in_its_split_when_others_come_or_its_container_changes(tmp_path: Path) -> None:
    before = {i.id: i.split for i in load(touch(tmp_path, *(f"walk/{n}.avi" for n in range(20))))}
    touch(tmp_path, *(f"run/{n}.avi" for n in range(20)))
    for n in range(20):
        (tmp_path / f"walk/{n}.avi").rename(tmp_path / f"walk/{n}.mp4")
    after = {i.id: i.split for i in load(tmp_path)}
    assert {id_: after[id_] for id_ in before} == before
    assert len(set(before.values())) > 1


@pytest.mark.parametrize("spelling", [str.lower, str.title])
def test_parted_folders_say_the_split(tmp_path: Path, spelling: object) -> None:
    train, test = spelling("train"), spelling("test")  # type: ignore[operator]
    found = load(touch(tmp_path, f"{train}/walk/a.mp4", f"{test}/walk/a.mp4", f"{test}/run/b.mp4"))
    assert {i.path.relative_to(tmp_path).as_posix(): (i.split, i.action) for i in found} == {
        f"{train}/walk/a.mp4": ("train", "walk"),
        f"{test}/walk/a.mp4": ("test", "walk"),
        f"{test}/run/b.mp4": ("test", "run"),
    }
    assert len({i.id for i in found}) == 3


def test_all_videos_outside_class_folders_are_listed(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4", "b.mp4", "walk/c.mp4")
    with pytest.raises(AnnotationError, match="class folders") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == ["a.mp4", "b.mp4"]


def test_videos_beside_parted_folders_are_not_silently_lost(tmp_path: Path) -> None:
    touch(tmp_path, "train/walk/a.mp4", "walk/b.mp4", "c.mp4", "test/d.mp4")
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path)
    assert {entry.split(": ")[0] for entry in caught.value.offenders} == {"walk/b.mp4", "c.mp4", "test/d.mp4"}


def test_two_containers_of_one_name_are_an_error_or_the_first_is_taken(tmp_path: Path) -> None:
    touch(tmp_path, "walk/a.avi", "walk/a.mp4", "walk/b.mp4")
    with pytest.raises(AnnotationError, match="twice"):
        load(tmp_path)
    found = load(tmp_path, skip_bad=True)
    assert [i.id for i in found] == ["walk/a", "walk/b"]
    assert found.skipped == ("walk/a: there twice",)


def test_no_videos_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="no videos"):
        load(touch(tmp_path, "walk/notes.txt"))
