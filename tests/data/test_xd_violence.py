"""XD-Violence: labels in names, exclusive ends, names that must agree with the annotations."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, disguise, lines_of, located, nasty_text, numbers, quick, touch, write
from videoveil.data.frame_truth import frame_truth
from videoveil.data.reading import Complaints
from videoveil.data.records import FrameSpan
from videoveil.data.xd_violence import NAMES, codes_of, load, parse_coded_spans, parse_spans
from videoveil.errors import AnnotationError, MissingItems

FIGHT = "Bad.Film.1995__#00-02-39_00-03-41_label_B1-B2-0"
BLAST = "v=u5SF4SlqNDQ__#1_label_G-0-0"
CALM = "v=abc__#1_label_A"
TRAIN = ("v=one__#1_label_B6-0-0", "v=two__#1_label_A")
TREE = {
    "annotations.txt": f"{FIGHT}.mp4 2 4 6 7\r\n{BLAST} 0 3\r\n",
    "annotations_multiclasses.txt": f"{FIGHT} B1 2 4 B2 6 8\n{BLAST} G 0 3\n",
}
FILES = (
    f"train/{TRAIN[0]}.mp4",
    f"train/{TRAIN[1]}.mp4",
    f"test/{FIGHT}.mp4",
    f"test/{BLAST}.mp4",
    f"test/{CALM}.mp4",
)


def test_labels_come_from_names_and_frames_from_the_annotations(tmp_path: Path) -> None:
    found = load(touch(write(tmp_path, TREE), *FILES))
    assert {i.id: (i.split, i.anomaly, i.anomaly_class) for i in found} == {
        TRAIN[0]: ("train", True, "B6"),
        TRAIN[1]: ("train", False, "A"),
        FIGHT: ("test", True, "B1-B2"),
        BLAST: ("test", True, "G"),
        CALM: ("test", False, "A"),
    }
    assert {i.path for i in found} == {tmp_path / name for name in FILES}
    assert found.classes == tuple(NAMES)
    assert all(i.anomaly_spans == () for i in found.split("train"))


def test_ends_are_excluded_and_codes_taken_where_both_files_agree(tmp_path: Path) -> None:
    found = {i.id: i for i in load(touch(write(tmp_path, TREE), *FILES))}
    assert found[FIGHT].anomaly_spans == (FrameSpan(2, 4, "B1"), FrameSpan(6, 7, ""))
    assert frame_truth(found[FIGHT], 9).tolist() == [0, 0, 1, 1, 0, 0, 1, 0, 0]
    assert frame_truth(found[FIGHT], 3).tolist() == [0, 0, 1]
    assert frame_truth(found[CALM], 2).tolist() == [0, 0]
    (tmp_path / "annotations_multiclasses.txt").unlink()
    plain = {i.id: i for i in load(tmp_path)}
    assert plain[FIGHT].anomaly_spans == (FrameSpan(2, 4), FrameSpan(6, 7))


@pytest.mark.parametrize("folder", ["1-1004", "3320-3954", "train/sub"])
def test_training_videos_may_lie_in_the_official_parts_and_deeper(tmp_path: Path, folder: str) -> None:
    names = [name.replace("train/", f"{folder}/").replace("test/", "videos/part/") for name in FILES]
    assert {i.path for i in load(touch(write(tmp_path, TREE), *names))} == {tmp_path / name for name in names}


def test_training_videos_are_never_taken_for_test_videos(tmp_path: Path) -> None:
    touch(write(tmp_path, TREE), *FILES[:2])
    found = load(tmp_path, skip_bad=True)
    assert found.counts() == {"train": 2}
    assert {entry.split(": ")[0] for entry in found.skipped} == {FIGHT, BLAST}


def test_without_media_only_the_violent_test_videos_are_known(tmp_path: Path) -> None:
    found = load(touch(write(tmp_path, TREE), *FILES), annotations_only=True)
    assert {i.id for i in found} == {FIGHT, BLAST}
    assert "only the violent test videos" in found.notes[0]


def test_names_and_annotations_that_disagree_are_all_listed(tmp_path: Path) -> None:
    extra = (
        "test/v=x__#1_label_B4-0-0.mp4",
        "test/nolabel.mp4",
        "train/v=y_label_B3-0-0.mp4",
        "test/v=z_label_.mp4",
    )
    write(tmp_path, {**TREE, "annotations.txt": TREE["annotations.txt"] + f"{CALM} 1 2\n"})
    with pytest.raises(AnnotationError, match="5 mistakes") as caught:
        load(touch(tmp_path, *FILES, *extra))
    text = str(caught.value)
    assert f"{CALM}: its name and annotations.txt disagree" in text
    assert "v=x__#1_label_B4-0-0: its name and annotations.txt disagree" in text
    assert "'nolabel' has no _label_ part" in text
    assert "the unknown label 'B3'" in text
    assert "the unknown label ''" in text


def test_a_coded_row_that_the_plain_file_does_not_have_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path, {**TREE, "annotations_multiclasses.txt": "v=q_label_B1-0-0 B1 1 2\n"})
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path, annotations_only=True)
    assert caught.value.offenders == (
        "annotations_multiclasses.txt: v=q_label_B1-0-0 is not in annotations.txt",
    )


def test_all_mistakes_of_both_files_are_in_one_error(tmp_path: Path) -> None:
    plain = f"{BLAST} 0 3\na\na 1\na 1 2 3\na 2 2\na -1 2\na 1 ²\n{BLAST} 4 5\n"
    write(
        tmp_path, {"annotations.txt": plain, "annotations_multiclasses.txt": "a B1 1\na B1 3 2\na 1 2 3 4\n"}
    )
    with pytest.raises(AnnotationError) as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        *(f"annotations.txt:{n}" for n in range(2, 9)),
        *(f"annotations_multiclasses.txt:{n}" for n in (1, 2, 3)),
    ]


def test_all_missing_test_videos_are_in_one_error(tmp_path: Path) -> None:
    with pytest.raises(MissingItems, match="2 of 5") as caught:
        load(touch(write(tmp_path, TREE), *FILES[:2], FILES[4]))
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [FIGHT, BLAST]


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("x_label_A", ()),
        ("x_label_B1-0-0", ("B1",)),
        ("x_label_B1-B2-G", ("B1", "B2", "G")),
        ("_label_A_label_G", ("G",)),
    ],
)
def test_codes_of_names(name: str, codes: tuple[str, ...]) -> None:
    assert codes_of(name) == codes


@quick
@given(nasty_text)
def test_any_name_has_codes_or_is_a_value_error(name: str) -> None:
    try:
        assert set(codes_of(name)) <= set(NAMES)
    except ValueError as error:
        assert "label" in str(error)  # noqa: PT017


@quick
@given(nasty_text)
def test_any_row_becomes_spans_or_a_complaint(text: str) -> None:
    for parse in (parse_spans, parse_coded_spans):
        complaints = Complaints()
        spans = parse(text, PATH, complaints)
        assert len(spans) <= lines_of(text)
        assert located(complaints.found)
        assert all(0 <= span.first < span.stop for rows in spans.values() for span in rows)


@quick
@given(
    st.lists(st.lists(st.tuples(numbers, st.integers(1, 99)), min_size=1, max_size=3), max_size=4),
    st.booleans(),
)
def test_well_formed_rows_round_trip(videos: list[list[tuple[int, int]]], suffixed: bool) -> None:
    suffix = ".mp4" if suffixed else ""
    plain, coded = [], []
    for number, spans in enumerate(videos):
        plain.append(f"v{number}_label_G{suffix} " + " ".join(f"{a} {a + n}" for a, n in spans))
        coded.append(f"v{number}_label_G{suffix} " + " ".join(f"G {a} {a + n}" for a, n in spans))
    for parse, lines, code in ((parse_spans, plain, ""), (parse_coded_spans, coded, "G")):
        for text in disguise(lines):
            complaints = Complaints()
            found = parse(text, PATH, complaints)
            assert complaints.found == []
            assert found == {
                f"v{number}_label_G": tuple(FrameSpan(a, a + n, code) for a, n in spans)
                for number, spans in enumerate(videos)
            }
