"""UCF-Crime: lists, inclusive event ends, and rows that must fit the test list."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, disguise, lines_of, located, nasty_text, numbers, quick, touch, write
from videoveil.data.frame_truth import frame_truth
from videoveil.data.reading import Complaints
from videoveil.data.records import FrameSpan
from videoveil.data.ucf_crime import class_of, load, parse_list, parse_spans
from videoveil.errors import AnnotationError, MissingItems

ROWS = "Temporal_Anomaly_Annotation.txt"
TREE = {
    "Anomaly_Train.txt": "Abuse/Abuse001_x264.mp4\r\nTraining_Normal_Videos_Anomaly/Normal_Videos001_x264.mp4\r\n",
    "Anomaly_Test.txt": (
        "Abuse/Abuse028_x264.mp4\nRoadAccidents/RoadAccidents004_x264.mp4\n"
        "Testing_Normal_Videos_Anomaly/Normal_Videos_003_x264.mp4 \n"
    ),
    ROWS: (
        "Abuse028_x264.mp4  Abuse  3  5  -1  -1  \nRoadAccidents004_x264.mp4  RoadAccidents  0  1  8  8  \n"
        "Normal_Videos_003_x264.mp4  Normal  -1  -1  -1  -1  \n"
    ),
}
FILES = [
    line.strip()
    for name in ("Anomaly_Train.txt", "Anomaly_Test.txt")
    for line in TREE[name].split("\n")
    if line
]


@pytest.mark.parametrize("rows", [ROWS, "Temporal_Anomaly_Annotation_for_Testing_Videos.txt"])
def test_labels_come_from_names_and_frames_from_rows(tmp_path: Path, rows: str) -> None:
    tree = {name.replace(ROWS, rows): text for name, text in TREE.items()}
    found = load(touch(write(tmp_path, tree), *FILES))
    assert [(i.id, i.split, i.anomaly, i.anomaly_class) for i in found] == [
        ("Abuse/Abuse001_x264", "train", True, "Abuse"),
        ("Training_Normal_Videos_Anomaly/Normal_Videos001_x264", "train", False, "Normal"),
        ("Abuse/Abuse028_x264", "test", True, "Abuse"),
        ("RoadAccidents/RoadAccidents004_x264", "test", True, "RoadAccidents"),
        ("Testing_Normal_Videos_Anomaly/Normal_Videos_003_x264", "test", False, "Normal"),
    ]
    assert [i.path for i in found] == [tmp_path / name for name in FILES]
    assert found.classes == ("Abuse", "RoadAccidents")
    assert found.notes == ("3 rows of temporal annotation, 2 of them with events",)


def test_ends_are_included_and_there_may_be_two_events(tmp_path: Path) -> None:
    train, _, one, two, none = load(write(tmp_path, TREE), annotations_only=True)
    assert train.anomaly_spans == ()
    assert one.anomaly_spans == (FrameSpan(3, 6, "Abuse"),)
    assert frame_truth(one, 10).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0, 0]
    assert frame_truth(one, 5).tolist() == [0, 0, 0, 1, 1]  # cut, not lost
    assert frame_truth(two, 10).tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    assert frame_truth(none, 3).tolist() == [0, 0, 0]


def test_parts_of_the_download_may_stay_as_they_are(tmp_path: Path) -> None:
    names = [
        "Anomaly-Videos-Part-1/Abuse/Abuse001_x264.mp4",
        "Training-Normal-Videos-Part-1/Normal_Videos001_x264.mp4",
        "Anomaly-Videos-Part-1/Abuse/Abuse028_x264.mp4",
        "Anomaly-Videos-Part-3/RoadAccidents/RoadAccidents004_x264.mkv",
        "Videos/Testing_Normal_Videos_Anomaly/Normal_Videos_003_x264.mp4",
    ]
    assert [i.path for i in load(touch(write(tmp_path, TREE), *names))] == [tmp_path / name for name in names]


def test_rows_without_a_video_and_videos_without_a_row_are_all_listed(tmp_path: Path) -> None:
    rows = (
        "Arson009_x264.mp4  Arson  1  2  -1  -1\nAbuse028_x264.mp4  Abuse  -1  -1  -1  -1\n"
        "Normal_Videos_003_x264.mp4  Normal  4  9  -1  -1\nAbuse030_x264.mp4  Abuse  1  2  -1  -1\n"
    )
    write(tmp_path, {**TREE, ROWS: rows})
    with pytest.raises(AnnotationError, match="5 mistakes") as caught:
        load(tmp_path)
    assert [entry.removeprefix(f"{ROWS}: ") for entry in caught.value.offenders] == [
        "Abuse030_x264 is not in the test list",
        "Arson009_x264 is not in the test list",
        "Abuse028_x264: its name and its row disagree about being abnormal",
        "test video RoadAccidents004_x264 has no row",
        "Normal_Videos_003_x264: its name and its row disagree about being abnormal",
    ]


def test_the_class_of_a_row_and_of_a_folder_must_be_that_of_the_name(tmp_path: Path) -> None:
    tree = {**TREE, ROWS: TREE[ROWS].replace("  Abuse  ", "  Arson  ")}
    tree["Anomaly_Train.txt"] = "Arrest/Abuse001_x264.mp4\n"
    with pytest.raises(AnnotationError, match="2 mistakes") as caught:
        load(write(tmp_path, tree))
    assert caught.value.offenders == (
        "Anomaly_Train.txt:1: the folder says Arrest, the file name Abuse",
        f"{ROWS}: Abuse028_x264: its row says Arson",
    )


def test_all_mistakes_of_all_files_are_in_one_error(tmp_path: Path) -> None:
    rows = (
        TREE[ROWS]
        + "x.mp4 Abuse 1 2 -1\nx.mp4 Abuse 1 2 -1 -1 7\nx.mp4 Abuse a b -1 -1\nx.mp4 Abuse 5 4 -1 -1\n"
    )
    rows += "x.mp4 Abuse 5 -1 -1 -1\nx.mp4 Abuse -1 5 -1 -1\nx.mp4\nAbuse028_x264.mp4 Abuse 1 2 -1 -1\n"
    write(tmp_path, {**TREE, ROWS: rows, "Anomaly_Train.txt": "Abuse001_x264.mp4\nAbuse/001.mp4\n"})
    with pytest.raises(AnnotationError, match="10 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "Anomaly_Train.txt:1",
        "Anomaly_Train.txt:2",
        *(f"{ROWS}:{n}" for n in range(4, 12)),
    ]


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), *FILES[:2])
    with pytest.raises(MissingItems, match="3 of 5") as caught:
        load(tmp_path)
    found = load(tmp_path, skip_bad=True)
    assert found.skipped == caught.value.offenders
    assert found.counts() == {"train": 2}


def test_no_temporal_annotation_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, {name: text for name, text in TREE.items() if name != ROWS})
    with pytest.raises(AnnotationError, match=ROWS):
        load(tmp_path)


def test_a_name_is_normal_only_if_it_says_so() -> None:
    assert class_of("Normal_Videos_003_x264") == class_of("Normal_Videos003_x264") == "Normal"
    assert class_of("RoadAccidents133_x264") == "RoadAccidents"
    with pytest.raises(ValueError, match="does not begin with a class"):
        class_of("001_x264")


@quick
@given(nasty_text)
def test_any_line_becomes_an_item_or_a_complaint(text: str) -> None:
    complaints = Complaints()
    items = parse_list(text, PATH, "train", complaints)
    assert len(items) <= lines_of(text) <= len(items) + len(complaints.found)
    assert located(complaints.found)


@quick
@given(nasty_text)
def test_any_row_becomes_spans_or_a_complaint(text: str) -> None:
    complaints = Complaints()
    spans = parse_spans(text, PATH, complaints)
    assert len(spans) <= lines_of(text) <= len(spans) + len(complaints.found)
    assert located(complaints.found)


@quick
@given(st.lists(st.lists(st.tuples(numbers, numbers), max_size=2), max_size=5))
def test_well_formed_rows_round_trip(videos: list[list[tuple[int, int]]]) -> None:
    lines = []
    for number, events in enumerate(videos):
        edges = [edge for event in events for edge in (min(event), max(event))] + [-1] * (4 - 2 * len(events))
        lines.append(f"Abuse{number:03d}_x264.mp4  Abuse  " + "  ".join(map(str, edges)))
    for text in disguise(lines):
        complaints = Complaints()
        spans = parse_spans(text, PATH, complaints)
        assert complaints.found == []
        assert list(spans.values()) == [
            tuple(FrameSpan(min(event), max(event) + 1, "Abuse") for event in events) for events in videos
        ]
