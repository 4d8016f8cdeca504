"""NTU RGB+D 60: names, official splits, and the balanced and biased sets."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import nasty_text, quick, touch, write
from videoveil.data.ntu60 import TRAIN_SUBJECTS, balance, load, parse_name, read_genders, skew
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, UsageError

TRAIN, TEST = (1, 2, 4, 5, 8), (3, 6, 7, 10, 11, 12)
MALE = {1, 2, 4, 3, 6, 7, 10}  # three of five, four of six
ACTIONS = (1, 4, 9)


def name(setup: int = 1, camera: int = 1, performer: int = 1, repetition: int = 1, action: int = 1) -> str:
    return f"S{setup:03d}C{camera:03d}P{performer:03d}R{repetition:03d}A{action:03d}"


def names(repetitions: int = 4) -> list[str]:
    """Cameras 1 and 2 of every performer, action and repetition; performer 2 lacks some of action 9."""
    return [
        name(1, camera, performer, repetition, action)
        for performer in (*TRAIN, *TEST)
        for action in ACTIONS
        for camera in (1, 2)
        for repetition in range(1, repetitions + 1)
        if (performer, action) != (2, 9) or repetition == 1
    ]


GENDERS = {f"P{p:03d}": "male" if p in MALE else "female" for p in (*TRAIN, *TEST)}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ntu")
    touch(folder, *(f"nturgb+d_rgb/{n}_rgb.avi" for n in names()))
    return write(folder, {"gender.json": json.dumps(GENDERS)})


def per_group(dataset: Dataset | list[Item], split: str) -> Counter[tuple[str | None, str | None]]:
    return Counter((i.action, i.gender) for i in dataset if i.split == split)


# --- names and splits --------------------------------------------------------------------------------------


def test_names_say_everything(root: Path) -> None:
    found = load(root)
    item = next(i for i in found if i.id == name(1, 2, 3, 4, 9))
    assert (item.split, item.action, item.subject, item.gender) == ("test", "A009", "P003", "male")
    assert item.extra == {"setup": "1", "camera": "2", "repetition": "4"}
    assert item.path == root / "nturgb+d_rgb" / f"{item.id}_rgb.avi"
    assert found.classes == ("A001", "A004", "A009")
    assert len(found) == len(names())


def test_the_cross_subject_split_is_by_the_twenty_official_performers(root: Path) -> None:
    assert len(TRAIN_SUBJECTS) == 20
    found = load(root)
    assert {i.subject for i in found.split("train")} == {f"P{p:03d}" for p in TRAIN}
    assert {i.subject for i in found.split("test")} == {f"P{p:03d}" for p in TEST}


def test_the_cross_view_split_tests_on_the_first_camera(root: Path) -> None:
    found = load(root, protocol="cross-view")
    assert {i.extra["camera"] for i in found.split("test")} == {"1"}
    assert {i.extra["camera"] for i in found.split("train")} == {"2"}


@pytest.mark.parametrize("folder", ["videos", "."])
def test_other_names_are_left_out_and_noted(tmp_path: Path, folder: str) -> None:
    others = ("film.mp4", f"{name(action=61)}_rgb.avi", f"{name(performer=41)}_rgb.avi", "S1C1P1R1A1_rgb.avi")
    touch(tmp_path, *(f"{folder}/{n}" for n in (f"{name()}_rgb.mkv", f"{name(repetition=2)}.avi", *others)))
    found = load(tmp_path)
    assert [i.id for i in found] == [name(), name(repetition=2)]
    assert {note.split(": ")[0] for note in found.notes} == set(others)
    assert found.items[0].gender is None


def test_no_videos_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="the names are the annotation"):
        load(tmp_path)


def test_one_clip_in_two_containers_is_an_error(tmp_path: Path) -> None:
    touch(tmp_path, f"{name()}_rgb.avi", f"{name()}_rgb.mp4")
    with pytest.raises(AnnotationError, match="twice"):
        load(tmp_path)


@quick
@given(*(st.integers(0, 999) for _ in range(5)))
def test_well_formed_names_round_trip(s: int, c: int, p: int, r: int, a: int) -> None:
    for stem in (name(s, c, p, r, a), name(s, c, p, r, a) + "_rgb"):
        assert parse_name(stem) == {"S": s, "C": c, "P": p, "R": r, "A": a}


@quick
@given(nasty_text)
def test_any_other_name_is_none(text: str) -> None:
    assert parse_name(text) is None


def test_the_gender_table_is_checked(tmp_path: Path) -> None:
    assert read_genders(tmp_path / "gender.json") == {}
    write(tmp_path, {"gender.json": '{"P001": "male", "P002": "m", "P003": ["male"]}'})
    with pytest.raises(AnnotationError) as caught:
        read_genders(tmp_path / "gender.json")
    assert caught.value.offenders == ("P002: 'm'", "P003: ['male']")
    write(tmp_path, {"gender.json": '["male"]'})
    with pytest.raises(AnnotationError, match="expected"):
        read_genders(tmp_path / "gender.json")


# --- balanced and biased sets ------------------------------------------------------------------------------


def test_balanced_parts_have_equally_many_people_and_videos_of_either_gender(root: Path) -> None:
    found = load(root, bias="balanced")
    for split, count in (("train", 2), ("test", 2)):
        people = {
            gender: {i.subject for i in found.split(split) if i.gender == gender}
            for gender in ("male", "female")
        }
        assert [len(p) for p in people.values()] == [count, count]
        groups = per_group(found, split)
        for action in found.classes:
            assert groups[action, "male"] == groups[action, "female"] > 0
    assert not {i.subject for i in found.split("train")} & {i.subject for i in found.split("test")}


def test_balancing_drops_no_more_than_it_must(root: Path) -> None:
    """Every woman and every one of her videos stays, unless the chosen men have fewer of that action."""
    whole, found = load(root), load(root, bias="balanced")
    for split in ("train", "test"):
        chosen = {i.subject for i in found.split(split)}
        raw = Counter((i.action, i.gender) for i in whole.split(split) if i.subject in chosen)
        for action in found.classes:
            least = min(raw[action, "male"], raw[action, "female"])
            assert per_group(found, split)[action, "male"] == least


@pytest.mark.parametrize(("bias", "favoured"), [("F", "male"), ("M", "female")])
@pytest.mark.parametrize("shortcut", ["A004", "A009"])
def test_the_biased_training_part_has_the_papers_counts(
    root: Path, bias: str, favoured: str, shortcut: str
) -> None:
    balanced, found = load(root, bias="balanced"), load(root, bias=bias, shortcut=shortcut)
    before, after = per_group(balanced, "train"), per_group(found, "train")
    for action in found.classes:
        m = before[action, "male"]
        many, few = round(0.95 * m), max(1, round(0.05 * m))
        other = "female" if favoured == "male" else "male"
        rich, poor = (other, favoured) if action == shortcut else (favoured, other)
        assert (after[action, rich], after[action, poor]) == (many, few)
        assert many > few


def test_the_test_part_of_a_biased_set_is_the_balanced_one(root: Path) -> None:
    balanced = load(root, bias="balanced")
    for bias in ("F", "M"):
        found = load(root, bias=bias)
        assert found.split("test") == balanced.split("test")
        assert {i.id for i in found.split("train")} < {i.id for i in balanced.split("train")}


def test_the_same_seed_gives_the_same_set_and_another_seed_another(root: Path) -> None:
    def drawn(seed: int) -> list[str]:
        return [i.id for i in load(root, bias="F", seed=seed)]

    assert drawn(0) == drawn(0)
    assert len({tuple(drawn(seed)) for seed in range(4)}) > 1


@pytest.mark.parametrize("bias", ["F", "M", "balanced"])
def test_every_seed_is_tested_on_the_same_items(root: Path, bias: str) -> None:
    """Of four men two are needed, and of some actions fewer videos than there are: there is much to choose."""
    parts = [load(root, bias=bias, seed=seed).split("test") for seed in range(6)]
    assert all(part == parts[0] for part in parts)
    assert len(parts[0]) < len(load(root).split("test"))


@quick
@given(st.integers(1, 45), st.integers(0, 5), st.sampled_from(["male", "female"]), st.randoms())
def test_skew_keeps_the_papers_share_of_any_number(m: int, seed: int, favoured: str, random: object) -> None:
    items = [
        Item(f"{action}-{gender}-{n:03d}", Path("x"), split, action=action, gender=gender)
        for split, size in (("train", m), ("test", 3))
        for action in ("A001", "A004")
        for gender in ("male", "female")
        for n in range(size)
    ]
    for n, item in enumerate(items):
        if item.split == "test":
            items[n] = Item(f"t-{item.id}", item.path, "test", action=item.action, gender=item.gender)
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    kept = skew(items, favoured=favoured, shortcut="A004", seed=seed)
    assert kept == skew(
        shuffled, favoured=favoured, shortcut="A004", seed=seed
    )  # the order on disk does not matter
    counts = per_group(kept, "train")
    other = "female" if favoured == "male" else "male"
    many, few = round(0.95 * m), max(1, round(0.05 * m))
    assert (counts["A001", favoured], counts["A001", other]) == (many, few)
    assert (counts["A004", favoured], counts["A004", other]) == (few, many)
    assert sum(i.split == "test" for i in kept) == 12


def test_bias_needs_every_performers_gender(root: Path, tmp_path: Path) -> None:
    touch(tmp_path, *(f"{n}_rgb.avi" for n in names(1)))
    write(
        tmp_path, {"gender.json": json.dumps({k: v for k, v in GENDERS.items() if k not in ("P002", "P010")})}
    )
    with pytest.raises(AnnotationError, match=r"gender\.json") as caught:
        load(tmp_path, bias="F")
    assert caught.value.offenders == ("P002", "P010")


def test_a_part_with_one_gender_only_cannot_be_balanced(root: Path) -> None:
    men = [i for i in load(root) if i.gender == "male"]
    with pytest.raises(AnnotationError, match="one gender only"):
        balance(men)


def test_bias_needs_the_split_whose_parts_share_nobody(root: Path) -> None:
    with pytest.raises(UsageError, match="bias=F needs protocol=cross-subject"):
        load(root, bias="F", protocol="cross-view")


def test_an_unknown_shortcut_is_an_error_with_the_actions_there_are(root: Path) -> None:
    with pytest.raises(AnnotationError, match="A060 is not among A001, A004, A009"):
        load(root, bias="F", shortcut="A060")
