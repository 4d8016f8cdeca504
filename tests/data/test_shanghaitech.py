"""ShanghaiTech: names that say abnormal, masks that say where."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import PATH, disguise, lines_of, located, nasty_text, quick, touch, write
from videoveil.data.frame_truth import check_truth, frame_truth
from videoveil.data.reading import Complaints
from videoveil.data.records import FrameSpan
from videoveil.data.shanghaitech import load, mask_spans, parse_list
from videoveil.errors import AnnotationError, MissingItems


def npy(value: object, **options: bool) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(value), **options)
    return buffer.getvalue()


MASKS = {
    "test_frame_mask/01_0014.npy": npy(np.array([0, 1, 1, 0, 1], dtype=np.uint8)),
    "test_frame_mask/05_0017.npy": npy(np.array([1, 0, 0], dtype=np.int64)),
}
LISTS = {"SH_Train.txt": "05_0017\r\n01_002\r\n", "SH_Test.txt": "01_0014\n\n12_003 \n"}


@pytest.mark.parametrize("folders", [("videos", "videos"), ("training/videos", "testing/videos"), (".", ".")])
def test_names_say_normal_or_abnormal_and_masks_say_where(tmp_path: Path, folders: tuple[str, str]) -> None:
    names = [f"{folders[0]}/{n}.avi" for n in ("05_0017", "01_002")] + [
        f"{folders[1]}/{n}.mp4" for n in ("01_0014", "12_003")
    ]
    found = load(touch(write(tmp_path, LISTS | MASKS), *names))
    assert [(i.id, i.split, i.anomaly, i.anomaly_spans) for i in found] == [
        ("05_0017", "train", True, (FrameSpan(0, 1),)),
        ("01_002", "train", False, ()),
        ("01_0014", "test", True, (FrameSpan(1, 3), FrameSpan(4, 5))),
        ("12_003", "test", False, ()),
    ]
    assert [i.path for i in found] == [tmp_path / name for name in names]


def test_a_mask_is_cut_to_the_video_or_goes_on_with_its_last_value(tmp_path: Path) -> None:
    ends_low, _, ends_high, normal = load(write(tmp_path, LISTS | MASKS), annotations_only=True)
    assert frame_truth(ends_high, 8).tolist() == [0, 1, 1, 0, 1, 1, 1, 1]
    assert frame_truth(ends_high, 2).tolist() == [0, 1]
    assert frame_truth(ends_low, 5).tolist() == [1, 0, 0, 0, 0]
    assert frame_truth(normal, 4).tolist() == [0, 0, 0, 0]
    check_truth(ends_high, 8)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "missing"),
        (b"", "not a readable array"),
        (b"\x93NUMPY", "not a readable array"),
        (b"PK\x03\x04 no archive", "not a readable array"),
        (b"PK\x05\x06" + bytes(18), "an archive"),
        (npy([{"a": 1}], allow_pickle=True), "not a readable array"),
        (npy([[0, 1]]), r"shape \(1, 2\)"),
        (npy([0, 1, 2]), "0 and 1"),
        (npy([0.5, 1]), "0 and 1"),
        (npy(["a", "b"]), "0 and 1"),
        (npy([0, 0, 0]), "no frame of its mask is 1"),
        (npy(np.zeros(0)), "no frame of its mask is 1"),
    ],
)
def test_a_mask_that_cannot_be_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    write(tmp_path, LISTS | MASKS)
    path = tmp_path / "test_frame_mask/01_0014.npy"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(AnnotationError, match=rf"01_0014.*{reason}"):
        load(tmp_path, annotations_only=True)


def test_all_mistakes_of_lists_and_masks_are_in_one_error(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"SH_Train.txt": "01_0001\n1_002\n01_02\n", "SH_Test.txt": "01_00141\n07_0009.avi\n02_0002\n"},
    )
    with pytest.raises(AnnotationError, match="6 mistakes") as caught:
        load(tmp_path)
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == [
        "SH_Train.txt:2",
        "SH_Train.txt:3",
        "01_0001.npy",
        "SH_Test.txt:1",
        "SH_Test.txt:2",
        "02_0002.npy",
    ]


def test_all_missing_videos_are_listed_or_skipped(tmp_path: Path) -> None:
    touch(write(tmp_path, LISTS | MASKS), "videos/01_002.avi")
    (tmp_path / "videos/01_0014").mkdir()  # the original's folder of pictures is no video
    with pytest.raises(MissingItems, match="3 of 4") as caught:
        load(tmp_path)
    assert load(tmp_path, skip_bad=True).skipped == caught.value.offenders


@quick
@given(st.lists(st.integers(0, 1), max_size=40))
def test_spans_are_the_runs_of_ones(mask: list[int]) -> None:
    spans = mask_spans(np.array(mask, dtype=np.uint8))
    back = [0] * len(mask)
    for span in spans:
        back[span.first : span.stop] = [1] * (span.stop - span.first)
    assert back == mask
    assert all(a.stop < b.first for a, b in pairwise(spans))  # no two that touch


@quick
@given(nasty_text)
def test_any_line_becomes_a_name_or_a_complaint(text: str) -> None:
    complaints = Complaints()
    found = parse_list(text, PATH, complaints)
    assert len(found) + len(complaints.found) == lines_of(text)
    assert located(complaints.found)


@quick
@given(st.lists(st.tuples(st.integers(1, 13), st.integers(0, 999), st.booleans()), max_size=6))
def test_well_formed_lists_round_trip(rows: list[tuple[int, int, bool]]) -> None:
    names = [f"{scene:02d}_{number:0{4 if abnormal else 3}d}" for scene, number, abnormal in rows]
    for text in disguise(names):
        complaints = Complaints()
        assert parse_list(text, PATH, complaints) == [(n, row[2]) for n, row in zip(names, rows)]
        assert complaints.found == []
