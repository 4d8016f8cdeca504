"""Videos with a CSV file: every row is checked, none leaves the root."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import nasty_text, odd_names, quick, touch, write
from videoveil.attacks.gait import GALLERY, PROBE
from videoveil.data.own_csv import KNOWN, UNSAID, dealt, load, parse_row
from videoveil.data.own_folder import SPLITS, hashed_split
from videoveil.data.records import Item
from videoveil.errors import AnnotationError, MissingItems

TABLE = (
    "path,label,split,subject,gender,start,end,attr:face,attr:skin\r\n"
    "walk/a.mp4,walk,train,anna,female,,,1,0\r\n"
    'run/b.mp4,"run, fast",test,,,1.5,2.75,0,0\r\n'
    "run/b.mp4,run,test,,,4,1001/30,0,1\r\n"
    "c.mp4,,,,,,,1,1\r\n"
)


def test_rows_say_what_they_say(tmp_path: Path) -> None:
    found = load(touch(write(tmp_path, {"videos.csv": TABLE}), "walk/a.mp4", "run/b.mkv", "c.mp4"))
    first, second, third, last = found
    assert (first.id, first.split, first.action, first.subject, first.gender) == (
        "walk/a",
        "train",
        "walk",
        "anna",
        "female",
    )
    assert (first.attributes, first.clip) == ({"face": 1, "skin": 0}, None)
    assert second.clip == (Fraction(3, 2), Fraction(11, 4))
    assert third.clip == (Fraction(4), Fraction(1001, 30))
    assert second.id != third.id
    assert second.path == third.path == tmp_path / "run/b.mkv"
    assert (last.action, last.split) == (None, hashed_split("c.mp4", 0))
    assert (found.classes, found.attributes) == (("run", "run, fast", "walk"), ("face", "skin"))


def test_only_the_path_is_needed_and_blanks_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, {"mine.csv": b"\xef\xbb\xbf path \n a.mp4 \n\n./deep\\b.mp4\n"})
    found = load(tmp_path, file="mine.csv", annotations_only=True)
    assert [(i.id, i.path, i.attributes) for i in found] == [
        ("a", Path("a.mp4"), None),
        ("deep/b", Path("deep/b.mp4"), None),
    ]


def test_people_can_be_known_by_their_walk_in_own_data(tmp_path: Path) -> None:
    """What gait asks for: the same people by name in a gallery and among the probes."""
    rows = "".join(f"{who}/{part}.mp4,{part},{who}\n" for who in ("anna", "ben") for part in (GALLERY, PROBE))
    found = load(write(tmp_path, {"videos.csv": "path,split,subject\n" + rows}), annotations_only=True)
    gallery, probe = ({item.subject for item in found.split(part)} for part in (GALLERY, PROBE))
    assert gallery == probe == {"anna", "ben"}
    assert found.counts() == {GALLERY: 2, PROBE: 2}


def test_parts_of_one_video_share_a_split(tmp_path: Path) -> None:
    rows = "".join(f"v{n}.mp4,{part},{part + 1}\n" for n in range(20) for part in range(3))
    found = load(write(tmp_path, {"videos.csv": "path,start,end\n" + rows}), annotations_only=True)
    splits = {path: {i.split for i in found if i.path == path} for path in {i.path for i in found}}
    assert all(len(names) == 1 for names in splits.values())
    assert len(set().union(*splits.values())) > 1
    other = load(tmp_path, seed=3, annotations_only=True)
    assert [i.split for i in other] != [i.split for i in found]


def test_all_videos_of_a_person_share_a_split(tmp_path: Path) -> None:
    rows = "".join(f"{who}/{n}.mp4,p{who}\n" for who in range(30) for n in range(4))
    found = load(write(tmp_path, {"videos.csv": "path,subject\n" + rows}), annotations_only=True)
    assert {i.split for i in found} == set(SPLITS)
    assert [i.split for i in found] == [hashed_split(str(i.subject)) for i in found]
    other = load(tmp_path, seed=3, annotations_only=True)
    assert [i.split for i in other] == [hashed_split(str(i.subject), 3) for i in other]


def test_a_split_that_is_named_is_taken_whoever_is_in_it(tmp_path: Path) -> None:
    rows = "".join(f"{n}.mp4,{split},anna\n" for n, split in enumerate(KNOWN))
    found = load(write(tmp_path, {"videos.csv": "path,split,subject\n" + rows}), annotations_only=True)
    assert [i.split for i in found] == list(KNOWN)


def looks(rows: list[tuple[int, str]]) -> list[Item]:
    """Parts of files, a row each with the number of its file and who is in it; nobody says of which split."""
    return [
        parse_row({"path": f"f{file}.mp4", "subject": who, "start": str(n), "end": str(n + 1)})
        for n, (file, who) in enumerate(rows)
    ]


parts = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", *"abcdefgh"])), min_size=1, max_size=14)


@quick
@given(parts, st.integers(0, 99), st.randoms())
def test_neither_a_person_nor_a_file_is_in_two_splits(
    rows: list[tuple[int, str]], seed: int, rng: random.Random
) -> None:
    items = looks(rows)
    found = dealt(items, seed)
    assert set(found) == {item.id for item in items}
    for one in items:
        for other in items:
            if one.path == other.path or one.subject == other.subject is not None:
                assert found[one.id] == found[other.id]
    mixed = [*items]
    rng.shuffle(mixed)
    assert dealt(mixed, seed) == found  # whatever the order of the rows


@quick
@given(parts, st.integers(0, 99), st.integers(0, 13))
def test_another_video_of_somebody_who_is_there_moves_nobody(
    rows: list[tuple[int, str]], seed: int, which: int
) -> None:
    whose = rows[which % len(rows)][1]
    before, after = dealt(looks(rows), seed), dealt(looks([*rows, (10, whose)]), seed)
    assert before.items() <= after.items()


@quick
@given(parts, st.integers(0, 99))
def test_where_nobody_is_named_the_path_decides_as_it_always_did(
    rows: list[tuple[int, str]], seed: int
) -> None:
    items = looks([(file, "") for file, _ in rows])
    assert dealt(items, seed) == {item.id: hashed_split(str(item.path), seed) for item in items}


def test_all_mistakes_are_in_one_error_with_their_lines(tmp_path: Path) -> None:
    rows = [
        "a.mp4,train,,,1",
        ",train,,,1",
        "../x.mp4,train,,,1",
        "/etc/x.mp4,train,,,1",
        "a/../../x.mp4,train,,,1",
        "..\\x.mp4,train,,,1",
        ".,train,,,1",
        "b.mp4,training,,,1",
        "c.mp4,train,2,1,1",
        "d.mp4,train,1,,1",
        "e.mp4,train,-1,2,1",
        "f.mp4,train,a,2,1",
        "g.mp4,train,0,1e999999999,1",
        "h.mp4,train,0,1/0,1",
        "i.mp4,train,,,yes",
        "j.mp4,train,,,",
        "k.mp4",
        "a.mp4,test,,,0",
    ]
    write(tmp_path, {"videos.csv": "path,split,start,end,attr:face\n" + "\n".join(rows) + "\n"})
    with pytest.raises(AnnotationError, match="17 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        f"videos.csv:{n}" for n in range(3, 20)
    ]
    assert "stay inside it" in caught.value.offenders[1]
    assert caught.value.offenders[-1] == "videos.csv:19: a is listed twice"


def test_paths_that_leave_the_root_are_refused_even_if_the_file_exists(tmp_path: Path) -> None:
    touch(tmp_path, "secret.mp4", "root/a.mp4")
    for path in ("../secret.mp4", str(tmp_path / "secret.mp4"), "x/../../secret.mp4", "..\\secret.mp4"):
        write(tmp_path / "root", {"videos.csv": f"path\n{path}\n"})
        with pytest.raises(AnnotationError, match="stay inside it"):
            load(tmp_path / "root", skip_bad=True)


def test_an_unquoted_comma_in_a_label_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path, {"videos.csv": "path,label\na.mp4,run, fast\n"})
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path)
    assert caught.value.offenders == ("videos.csv:2: 3 values for 2 columns",)


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, {"videos.csv": TABLE}), "c.mp4")
    with pytest.raises(MissingItems, match="3 of 4") as caught:
        load(tmp_path)
    found = load(tmp_path, skip_bad=True)
    assert found.skipped == caught.value.offenders
    assert [i.id for i in found] == ["c"]


@pytest.mark.parametrize(
    ("text", "reason"), [("", "lacks path"), ("video\na.mp4\n", "lacks path"), ("path\n\n", "no rows")]
)
def test_a_table_without_paths_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(AnnotationError, match=reason):
        load(write(tmp_path, {"videos.csv": text}))


def test_a_table_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"mine\.csv: missing"):
        load(tmp_path, file="mine.csv")


def test_dots_in_names_are_no_suffixes(tmp_path: Path) -> None:
    found = load(
        write(tmp_path, {"videos.csv": "path\nx.2020.mp4\nx.2021.mp4\ny.1\ny.2\n"}), annotations_only=True
    )
    assert [i.id for i in found] == ["x.2020", "x.2021", "y.1", "y.2"]


@quick
@given(st.fixed_dictionaries(dict.fromkeys(("path", "label", "split", "start", "end", "attr:x"), nasty_text)))
def test_any_row_is_an_item_inside_the_root_or_a_value_error(row: dict[str, str]) -> None:
    for value in (row, {**row, "split": "", "start": "", "end": "", "attr:x": "1"}):
        try:
            item = parse_row(value)
        except ValueError:
            continue
        assert item.split in (*KNOWN, UNSAID)
        assert not item.path.is_absolute()
        assert ".." not in item.path.parts


@quick
@given(odd_names, st.sampled_from(KNOWN), st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from("01"))
def test_well_formed_rows_round_trip(name: str, split: Any, start: int, length: int, face: str) -> None:
    row = {"path": f"a/{name}.mp4", "split": split, "start": f"{start / 8}", "end": f"{(start + length) / 8}"}
    item = parse_row({**row, "label": name, "attr:face": face})
    assert item.clip == (Fraction(start, 8), Fraction(start + length, 8))
    assert (item.path, item.split, item.action, item.attributes) == (
        Path(f"a/{name}.mp4"),
        split,
        name,
        {"face": int(face)},
    )
