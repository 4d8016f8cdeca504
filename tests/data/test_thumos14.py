"""THUMOS14: the JSON file, the official text files, and what is odd but published."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, json_values, nasty_text, quick, touch, write
from videoveil.data.reading import Complaints
from videoveil.data.records import Segment
from videoveil.data.thumos14 import load, parse_database, parse_text_files
from videoveil.errors import AnnotationError, MissingItems


def row(label: str, number: int, start: float, end: float) -> dict[str, Any]:
    return {"label": label, "label_id": number, "segment": [start, end], "segment(frames)": [0, 1]}


def video(subset: str, *rows: dict[str, Any], duration: float = 60.5, fps: float = 29.97) -> dict[str, Any]:
    return {"subset": subset, "duration": duration, "fps": fps, "annotations": list(rows)}


DATABASE = {
    "video_validation_0000051": video(
        "Validation", row("Diving", 7, 0.1, 4.3), row("CliffDiving", 4, 0.1, 4.3)
    ),
    "video_test_0000004": video("test", row("BaseballPitch", 0, 59.9, 60.7), fps=30),
    "video_test_0000006": video("Test"),
}
FILE = json.dumps({"version": "Thumos14-30fps", "database": DATABASE})
TEXTS = {
    "annotation/Diving_val.txt": "video_validation_0000051  0.1 4.3\r\nvideo_validation_0000051  10.0 12.5\r\n",
    "annotation/CliffDiving_val.txt": "video_validation_0000051  0.1 4.3\n\nvideo_validation_0000002 1 2\n",
    "annotation/Diving_test.txt": "video_test_0000004  3.0  4.0 \n",
    "annotation/Ambiguous_test.txt": "video_test_0001292 1.0 2.0\n",
    "annotation/detclasslist.txt": "7 Diving\n",
}


@pytest.mark.parametrize("name", ["thumos14.json", "thumos14_actionformer.json"])
def test_times_are_exactly_those_written_and_classes_in_the_order_of_their_ids(
    tmp_path: Path, name: str
) -> None:
    found = load(touch(write(tmp_path, {name: FILE}), *(f"videos/{video}.mp4" for video in DATABASE)))
    assert found.classes == ("BaseballPitch", "CliffDiving", "Diving")
    assert found.counts() == {"train": 1, "test": 2}
    first = found.items[0]
    assert first.segments == (
        Segment("Diving", Fraction(1, 10), Fraction(43, 10)),
        Segment("CliffDiving", Fraction(1, 10), Fraction(43, 10)),
    )
    assert (first.duration, first.rate) == (Fraction(121, 2), Fraction(2997, 100))
    assert first.path == tmp_path / "videos/video_validation_0000051.mp4"


def test_the_order_of_classes_is_that_of_the_ids_not_of_the_alphabet(tmp_path: Path) -> None:
    rows = [row("Zebra", 0, 1, 2), row("Ant", 1, 1, 2)]
    write(tmp_path, {"thumos14.json": json.dumps({"database": {"a": video("Test", *rows)}})})
    assert load(tmp_path, annotations_only=True).classes == ("Zebra", "Ant")


def test_segments_beyond_the_end_are_kept_and_noted(tmp_path: Path) -> None:
    found = load(write(tmp_path, {"thumos14.json": FILE}), annotations_only=True)
    assert found.items[1].segments[0].end == Fraction(607, 10)
    assert found.notes == ("video_test_0000004: BaseballPitch ends at 60.7 s, the video at 60.5 s",)


@pytest.mark.parametrize("folder", ["validation", "test", "TH14_test_set_mp4", "."])
def test_videos_may_lie_in_several_folders(tmp_path: Path, folder: str) -> None:
    touch(write(tmp_path, {"thumos14.json": FILE}), *(f"{folder}/{video}.mkv" for video in DATABASE))
    assert all(item.path.parent == tmp_path / folder for item in load(tmp_path))


def test_without_the_json_file_the_official_text_files_are_read(tmp_path: Path) -> None:
    found = load(write(tmp_path, TEXTS), annotations_only=True)
    assert found.classes == ("CliffDiving", "Diving")
    assert {item.id: (item.split, item.segments) for item in found} == {
        "video_validation_0000002": ("train", (Segment("CliffDiving", Fraction(1), Fraction(2)),)),
        "video_validation_0000051": (
            "train",
            (
                Segment("CliffDiving", Fraction(1, 10), Fraction(43, 10)),
                Segment("Diving", Fraction(1, 10), Fraction(43, 10)),
                Segment("Diving", Fraction(10), Fraction(25, 2)),
            ),
        ),
        "video_test_0000004": ("test", (Segment("Diving", Fraction(3), Fraction(4)),)),
    }
    assert all(item.duration is None and item.rate is None for item in found)


def test_the_json_file_wins_over_the_text_files(tmp_path: Path) -> None:
    found = load(write(tmp_path, TEXTS | {"thumos14.json": FILE}), annotations_only=True)
    assert {item.id for item in found} == set(DATABASE)


def test_all_mistakes_of_the_text_files_are_in_one_error(tmp_path: Path) -> None:
    text = "v 1.0\nv 1 2 3\nv one two\nv 2 1\nv 1/0 2\nv 0 1e999999999\nv -1 2\nv 1 2\n"
    write(tmp_path, TEXTS | {"annotation/Diving_val.txt": text})
    with pytest.raises(AnnotationError, match="7 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        f"Diving_val.txt:{n}" for n in range(1, 8)
    ]


def test_all_mistakes_of_the_json_file_are_in_one_error(tmp_path: Path) -> None:
    wrong = {
        "a": video("Training"),
        "b": video("Test", row("Diving", 7, 5, 5)),
        "c": video("Test", {"label": "Diving"}),
        "d": video("Test", duration=float("nan")),
        "e": video("Test", fps=0),
        "f": ["Test"],
        "g": video("Test", row("Diving", 7, 1, 2), row("Diving", 8, 1, 2)),
        "h": video("Test", {**row("Diving", 7, 1, 2), "label_id": "7"}),
        "i": {**video("Test"), "annotations": None},
        "j": video("Test", row("Billiards", 7, 1, 2)),
    }
    write(tmp_path, {"thumos14.json": json.dumps({"database": wrong | DATABASE})})
    with pytest.raises(AnnotationError, match="10 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[1] for entry in caught.value.offenders] == [
        *"abcdefghi",
        "two labels share one label id",
    ]


def test_no_annotations_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"neither thumos14\.json nor <Class>_val\.txt"):
        load(tmp_path)
    with pytest.raises(AnnotationError, match="'database'"):
        load(write(tmp_path, {"thumos14.json": "[]"}))


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, {"thumos14.json": FILE}), "videos/video_test_0000006.mp4")
    with pytest.raises(MissingItems, match="2 of 3") as caught:
        load(tmp_path)
    found = load(tmp_path, skip_bad=True)
    assert found.skipped == caught.value.offenders
    assert [item.id for item in found] == ["video_test_0000006"]


@quick
@given(
    st.dictionaries(
        st.text(max_size=3),
        json_values
        | st.fixed_dictionaries(
            {
                "subset": st.sampled_from(["Test", "Validation"]) | json_values,
                "duration": st.floats() | json_values,
                "fps": st.floats() | json_values,
                "annotations": st.lists(
                    st.fixed_dictionaries(
                        {"label": json_values, "label_id": json_values, "segment": json_values}
                    ),
                    max_size=2,
                )
                | json_values,
            }
        ),
        max_size=3,
    )
)
def test_any_database_becomes_items_and_complaints(database: Any) -> None:
    complaints = Complaints()
    _, items, _ = parse_database({"database": database}, PATH, complaints)
    assert len(items) <= len(database) <= len(items) + len(complaints.found)


@quick
@given(st.lists(st.tuples(st.integers(0, 9999), st.integers(1, 999), st.integers(0, 3)), max_size=5))
def test_well_formed_text_files_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    """Times in tenths of a second, as in the official files."""
    folder, complaints = tmp_path_factory.mktemp("th"), Complaints()
    lines = [f"video_{n}  {start / 10:.1f} {(start + length) / 10:.1f}\r\n" for start, length, n in rows]
    write(folder, {"Diving_val.txt": "".join(lines)})
    classes, items = parse_text_files(folder, complaints)
    assert (complaints.found, classes) == ([], ["Diving"])
    expected = sorted((f"video_{n}", Fraction(a, 10), Fraction(a + length, 10)) for a, length, n in rows)
    assert sorted((item.id, s.start, s.end) for item in items for s in item.segments) == expected


@quick
@given(nasty_text)
def test_any_text_becomes_segments_and_complaints(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder, complaints = tmp_path_factory.mktemp("th"), Complaints()
    (folder / "Diving_test.txt").write_bytes(text.encode())
    _, items = parse_text_files(folder, complaints)
    assert all(0 <= s.start < s.end for item in items for s in item.segments)
