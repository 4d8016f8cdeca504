"""PA-HMDB51: intervals per attribute, the papers' binary rules, and a training set without the labelled videos."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, json_values, quick, touch, write
from videoveil.data.pa_hmdb51 import (
    ATTRIBUTES,
    RULES,
    VALUES,
    at_rate,
    binary,
    frame_labels,
    labelled_frames,
    load,
    parse_file,
    parse_video,
)
from videoveil.data.reading import Complaints
from videoveil.data.records import AttributeSpan, Dataset, Item
from videoveil.errors import AnnotationError, MissingItems, UsageError

VIDEO = {
    "skin_color": [[0, 9, 1]],
    "face": [[0, 4, 2], [5, 9, 0]],
    "gender": [[0, 9, [1, 2]]],
    "nudity": [[0, 9, 0]],
    "relationship": [[0, 9, 1]],
    "review": True,
    "note": "",
}
SPLITS = {
    "testTrainMulti_7030_splits/climb_test_split1.txt": "a_climb.avi 1\nb_climb.avi 2\nc_climb.avi 0\n",
    "testTrainMulti_7030_splits/climb_stairs_test_split1.txt": "a_stairs.avi 1\nb_stairs.avi 2\n",
}
LABELS = {
    "PrivacyAttributes/climb.json": json.dumps({"a_climb.avi": VIDEO}),
    "PrivacyAttributes/climb_stairs.json": json.dumps({"b_stairs.avi": VIDEO}),
}


def changed(**attributes: Any) -> dict[str, Any]:
    return {**VIDEO, **attributes}


def labelled(video: dict[str, Any]) -> Item:
    return Item("climb/a", Path("a.avi"), "test", attribute_spans=parse_video(video))


# --- intervals ---------------------------------------------------------------------------------------------


def test_both_ends_of_an_interval_are_included_and_lists_are_several_people() -> None:
    same = {"skin_color": (1,), "gender": (1, 2), "nudity": (0,), "relationship": (1,)}
    assert parse_video(VIDEO) == (
        AttributeSpan(0, 5, {**same, "face": (2,)}),
        AttributeSpan(5, 10, {**same, "face": (0,)}),
    )


def test_frames_before_a_late_start_are_not_labelled() -> None:
    item = labelled(changed(face=[[3, 9, 1]]))
    assert [frame_labels(item, f) is None for f in range(11)] == [True] * 3 + [False] * 7 + [True]
    assert labelled_frames(item) == 7
    assert "face" not in item.attribute_spans[0].values
    assert item.attribute_spans[0].values["gender"] == (1, 2)  # the others are known there


def test_a_gap_is_not_labelled() -> None:
    item = labelled(changed(nudity=[[0, 4, 1], [6, 9, 1]]))
    assert [frame_labels(item, f) is None for f in range(10)] == [f == 5 for f in range(10)]
    assert labelled_frames(item) == 9


def test_of_two_overlapping_intervals_the_later_holds() -> None:
    item = labelled(changed(face=[[0, 5, 2], [5, 9, 1]]))
    assert [frame_labels(item, f, "spact")["a9_face_complete"] for f in range(10)] == [1] * 5 + [0] * 5  # type: ignore[index]
    assert labelled_frames(item) == 10


def test_notes_and_reviews_may_be_missing_or_false() -> None:
    bare = {name: VIDEO[name] for name in reversed(ATTRIBUTES)}  # and the order of keys is free
    assert parse_video(bare) == parse_video(VIDEO) == parse_video(changed(review=False))


def test_neighbours_with_the_same_values_are_one_span() -> None:
    assert len(parse_video(changed(face=[[0, 4, 2], [5, 9, 2]]))) == 1


def test_equal_values_on_both_sides_of_a_gap_are_two_spans() -> None:
    rows = {name: [[0, 4, 0], [6, 9, 0]] for name in ATTRIBUTES}
    assert [(span.first, span.stop) for span in parse_video(rows)] == [(0, 5), (6, 10)]


interval_lists = {
    name: st.lists(
        st.tuples(
            st.integers(0, 20),
            st.integers(0, 10),
            st.integers(0, top - 1) | st.lists(st.integers(0, top - 1), min_size=1, max_size=2),
        ).map(lambda row: [row[0], row[0] + row[1], row[2]]),
        min_size=1,
        max_size=3,
    )
    for name, top in VALUES.items()
}


@quick
@given(st.fixed_dictionaries(interval_lists))
def test_intervals_equal_a_slow_twin_frame_by_frame(video: dict[str, Any]) -> None:
    item = labelled(video)
    complete = 0
    for frame in range(35):
        slow = {}
        for name, rows in video.items():
            for first, last, value in rows:  # a later row overwrites an earlier one
                if first <= frame <= last:
                    slow[name] = tuple(value) if isinstance(value, list) else (value,)
        fast = [span.values for span in item.attribute_spans if span.first <= frame < span.stop]
        assert fast == ([slow] if slow else [])
        complete += len(slow) == 5
        assert frame_labels(item, frame, "vita") == (binary(slow, "vita") if len(slow) == 5 else None)
    assert labelled_frames(item) == complete


@quick
@given(json_values | st.fixed_dictionaries(dict.fromkeys(ATTRIBUTES, json_values)))
def test_any_json_is_a_video_or_a_value_error(value: Any) -> None:
    try:
        spans = parse_video(value)
    except ValueError:
        return
    assert all(0 <= span.first < span.stop for span in spans)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (None, "expected a list"),
        ([], "expected a list"),
        ([[0, 1]], "first, last, value"),
        ([[0, 1.5, 1]], "first, last, value"),
        ([[True, 1, 1]], "first, last, value"),
        ([[5, 4, 1]], "no interval"),
        ([[-1, 4, 1]], "no interval"),
        ([[0, 4, 3]], "from 0 to 2"),
        ([[0, 4, -1]], "from 0 to 2"),
        ([[0, 4, []]], "from 0 to 2"),
        ([[0, 4, [1, "2"]]], "from 0 to 2"),
        ([[0, 4, None]], "from 0 to 2"),
    ],
)
def test_what_is_no_interval_is_named(rows: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"face.*{reason}|{reason}.*face"):
        parse_video(changed(face=rows))


# --- other frame rates -------------------------------------------------------------------------------------


def alone(item: Item) -> Dataset:
    return Dataset("pa-hmdb51", Path(), (item,))


def test_at_half_the_rate_a_frame_has_the_labels_of_every_second_original_one() -> None:
    item = labelled(changed(face=[[0, 4, 2], [5, 9, 0]]))
    (half,) = at_rate(alone(item), 15)
    assert [(span.first, span.stop) for span in half.attribute_spans] == [(0, 3), (3, 5)]
    for frame in range(6):
        assert frame_labels(half, frame) == frame_labels(item, 2 * frame)


def test_a_span_without_a_frame_in_the_new_file_is_gone() -> None:
    item = labelled(changed(face=[[0, 4, 2], [5, 5, 1], [6, 9, 0]]))
    (half,) = at_rate(alone(item), 15)
    assert [span.values["face"] for span in half.attribute_spans] == [(2,), (0,)]


def test_at_the_original_rate_nothing_changes() -> None:
    found = alone(labelled(VIDEO))
    assert at_rate(found, 30) == found


@quick
@given(
    st.fixed_dictionaries(interval_lists),
    st.fractions(min_value=Fraction(1, 4), max_value=60, max_denominator=1001),
)
def test_at_any_rate_a_frame_has_the_labels_of_the_original_one_shown_at_its_time(
    video: dict[str, Any], rate: Fraction
) -> None:
    item = labelled(video)
    (moved,) = at_rate(alone(item), rate)
    for frame in range(int(35 * rate / 30) + 2):
        assert frame_labels(moved, frame) == frame_labels(item, int(frame * 30 / rate))


@pytest.mark.parametrize("rate", [0, -15, Fraction(-1, 2)])
def test_a_rate_that_is_none_is_a_usage_error(rate: Fraction | int) -> None:
    with pytest.raises(UsageError, match="above 0"):
        at_rate(alone(labelled(VIDEO)), rate)


# --- binary rules ------------------------------------------------------------------------------------------


def values(skin: Any = 0, face: Any = 0, gender: Any = 0, nudity: Any = 0, relationship: Any = 0) -> Any:
    found = dict(zip(ATTRIBUTES, (skin, face, gender, nudity, relationship)))
    return {name: value if isinstance(value, tuple) else (value,) for name, value in found.items()}


def present(rule: str, **given: Any) -> set[str]:
    return {name for name, value in binary(values(**given), rule).items() if value}


@pytest.mark.parametrize("rule", ["vita", "spact", "splavu"])
def test_nothing_visible_is_nothing_present(rule: str) -> None:
    assert binary(values(), rule) == dict.fromkeys(RULES[rule], 0)


@pytest.mark.parametrize("rule", ["vita", "spact", "splavu"])
def test_skin_gender_and_relationship_are_present_when_not_0(rule: str) -> None:
    for value in (1, 2, 3, (1, 3), (0, 1)):
        assert present(rule, skin=value) == {"a17_color"}
    for value in (1, 2, (1, 2), (0, 1)):
        assert present(rule, gender=value) == {"a4_gender"}
    assert present(rule, relationship=1) == {"a64_rel_personal"}


def test_the_vita_rule_has_five_labels_and_one_for_the_face() -> None:
    assert RULES["vita"] == (
        "a17_color",
        "a10_face_partial",
        "a4_gender",
        "a12_semi_nudity",
        "a64_rel_personal",
    )
    assert present("vita", face=1) == present("vita", face=2) == {"a10_face_partial"}
    assert present("vita", nudity=1) == present("vita", nudity=2) == {"a12_semi_nudity"}


def test_the_spact_rule_has_the_first_six_attributes_of_vispr1_and_both_faces() -> None:
    from videoveil.data.vispr import SETS

    assert RULES["spact"] == SETS["vispr1"][:6]
    assert present("spact", face=1) == {"a10_face_partial"}
    assert present("spact", face=2) == {"a9_face_complete"}
    assert present("spact", nudity=1) == present("spact", nudity=2) == {"a12_semi_nudity"}


def test_the_splavu_rule_calls_only_semi_nudity_nudity() -> None:
    assert RULES["splavu"] == RULES["spact"]
    assert present("splavu", nudity=1) == set()
    assert present("splavu", nudity=2) == {"a12_semi_nudity"}
    assert present("splavu", face=2) == {"a9_face_complete"}


def test_an_unknown_rule_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="vita, spact, splavu"):
        binary(values(), "mine")


# --- the dataset -------------------------------------------------------------------------------------------


def test_labelled_videos_are_the_test_set_and_all_others_the_training_set(tmp_path: Path) -> None:
    names = (
        "climb/a_climb",
        "climb/b_climb",
        "climb/c_climb",
        "climb_stairs/a_stairs",
        "climb_stairs/b_stairs",
    )
    found = load(touch(write(tmp_path, SPLITS | LABELS), *(f"hmdb51_org/{name}.avi" for name in names)))
    assert {item.id: item.split for item in found} == {
        "climb/a_climb": "test",  # although split 1 calls it a training video
        "climb_stairs/b_stairs": "test",
        "climb/b_climb": "train",
        "climb/c_climb": "train",
        "climb_stairs/a_stairs": "train",
    }
    assert {item.id for item in found if item.attribute_spans} == {i.id for i in found.split("test")}
    assert found.classes == ("climb", "climb_stairs")
    assert found.attributes == ATTRIBUTES
    assert found.notes == ()


def test_without_split_files_only_the_labelled_videos_load_and_a_note_says_so(tmp_path: Path) -> None:
    found = load(write(tmp_path, LABELS), annotations_only=True)
    assert found.counts() == {"test": 2}
    assert "no HMDB51 split files" in found.notes[0]


def test_mistakes_in_the_split_files_are_not_taken_for_their_absence(tmp_path: Path) -> None:
    write(tmp_path, LABELS | {"splits/climb_test_split1.txt": "a_climb.avi 7\n"})
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path, annotations_only=True)
    assert caught.value.offenders[0].startswith("climb_test_split1.txt:1: ")


def test_a_class_without_labelled_videos_is_still_a_class(tmp_path: Path) -> None:
    write(tmp_path, SPLITS | {"PrivacyAttributes/climb.json": LABELS["PrivacyAttributes/climb.json"]})
    found = load(tmp_path, annotations_only=True)
    assert [found.label(item) for item in found] == [0, 0, 0, 1, 1]


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, LABELS), "videos/climb/a_climb.mp4")
    with pytest.raises(MissingItems) as caught:
        load(tmp_path)
    assert caught.value.offenders == ("climb_stairs/b_stairs: missing (climb_stairs/b_stairs.avi)",)
    assert load(tmp_path, skip_bad=True).skipped == caught.value.offenders


def test_all_mistakes_of_all_files_are_in_one_error(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "PrivacyAttributes/climb.json": json.dumps(
                {"a.avi": changed(face=[]), "b.avi": 3, "c.avi": VIDEO}
            ),
            "PrivacyAttributes/run.json": "[1]",
            "PrivacyAttributes/._run.json": b"\xff",
        },
    )
    with pytest.raises(AnnotationError, match="3 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[:2] for entry in caught.value.offenders][:2] == [
        ["climb.json", "a.avi"],
        ["climb.json", "b.avi"],
    ]
    assert caught.value.offenders[2].startswith("run.json: ")


def test_no_labels_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match="unpack PrivacyAttributes"):
        load(tmp_path)


@quick
@given(json_values)
def test_any_file_becomes_items_and_complaints(value: Any) -> None:
    complaints = Complaints()
    items = parse_file(value, PATH, complaints)
    assert len(items) + len(complaints.found) == (len(value) if isinstance(value, dict) else 1)
