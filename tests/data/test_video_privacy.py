"""Five private attributes per video, from a pickle or a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import json_values, nasty_text, odd_names, quick, write
from videoveil.data.records import Dataset, Item
from videoveil.data.safe_pickle import dump_labels
from videoveil.data.video_privacy import ATTRIBUTES, attach, parse_arrays, parse_csv
from videoveil.errors import AnnotationError

STEM = "ucf101_privacy_attribute_label"
five = st.lists(st.integers(0, 1), min_size=5, max_size=5)


def base(root: Path, *ids: str) -> Dataset:
    return Dataset(
        "ucf101", root, tuple(Item(id_, Path(f"{id_}.avi"), "train") for id_ in ids), notes=("kept",)
    )


def row(*values: int) -> np.ndarray:
    return np.array([values], dtype=np.int64)


def named(*values: int) -> dict[str, int]:
    return dict(zip(ATTRIBUTES, values))


def test_the_columns_are_skin_face_gender_nudity_relationship() -> None:
    assert ATTRIBUTES == ("skin_color", "face", "gender", "nudity", "relationship")


@pytest.mark.parametrize("suffix", [".pickle", ".pkl"])
def test_pickled_rows_reach_their_videos(tmp_path: Path, suffix: str) -> None:
    dump_labels(
        tmp_path / f"{STEM}{suffix}", {"Run/a.mp4": row(1, 0, 1, 0, 0), "Run/b.mp4": row(0, 1, 0, 1, 1)}
    )
    found = attach(base(tmp_path, "Run/b", "Run/a"), "vpucf", STEM)
    assert [item.attributes for item in found] == [named(0, 1, 0, 1, 1), named(1, 0, 1, 0, 0)]
    assert (found.name, found.attributes, found.notes) == ("vpucf", ATTRIBUTES, ("kept",))


def test_csv_rows_reach_their_videos(tmp_path: Path) -> None:
    text = 'File Path,Array Values\r\nRun/a.mp4,"[1, 0, 1, 0, 0]"\r\n/data/x/Run/b.avi,"[ 0,1,0,1,1 ]"\r\n'
    write(tmp_path, {f"{STEM}.csv": b"\xef\xbb\xbf" + text.encode()})
    found = attach(base(tmp_path, "Run/a", "Run/b"), "vpucf", STEM)
    assert [item.attributes for item in found] == [named(1, 0, 1, 0, 0), named(0, 1, 0, 1, 1)]


def test_the_class_folder_may_be_spelt_otherwise(tmp_path: Path) -> None:
    dump_labels(tmp_path / f"{STEM}.pickle", {"HandStandPushups/v.mp4": row(1, 1, 1, 1, 1)})
    found = attach(base(tmp_path, "HandstandPushups/v"), "vpucf", STEM)
    assert found.items[0].attributes == named(1, 1, 1, 1, 1)


def test_all_videos_without_attributes_are_listed_and_spare_rows_noted(tmp_path: Path) -> None:
    dump_labels(
        tmp_path / f"{STEM}.pickle", {"Run/a.mp4": row(1, 0, 1, 0, 0), "Run/z.mp4": row(0, 0, 0, 0, 0)}
    )
    with pytest.raises(AnnotationError, match="2 videos have no attributes") as caught:
        attach(base(tmp_path, "Run/a", "Run/b", "Run/c"), "vpucf", STEM)
    assert caught.value.offenders == ("Run/b", "Run/c")
    found = attach(base(tmp_path, "Run/a"), "vpucf", STEM)
    assert found.notes == ("kept", "1 labelled videos are not in this split")


def test_no_labels_at_all_is_an_error_that_names_the_files(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=rf"{STEM}\.pickle nor {STEM}\.csv"):
        attach(base(tmp_path), "vpucf", STEM)


def test_all_rows_of_other_shapes_and_values_are_listed() -> None:
    wrong = {
        "flat": np.ones(5, dtype=int),
        "long": np.ones((1, 6), dtype=int),
        "two": row(0, 1, 2, 0, 0),
        "nan": np.full((1, 5), np.nan),
        "list": [[1, 1, 1, 1, 1]],
        3: row(1, 1, 1, 1, 1),
    }
    with pytest.raises(AnnotationError, match="6 mistakes") as caught:
        parse_arrays({**wrong, "fine.mp4": row(1, 1, 1, 1, 1)}, Path("x.pickle"))
    assert [entry.split(": ")[1] for entry in caught.value.offenders] == [
        "flat",
        "long",
        "two",
        "nan",
        "list",
        "3",
    ]
    with pytest.raises(AnnotationError, match="found a list"):
        parse_arrays([], Path("x.pickle"))


@quick
@given(json_values)
def test_anything_else_in_a_pickle_is_an_annotation_error(value: Any) -> None:
    if value != {}:
        with pytest.raises(AnnotationError):
            parse_arrays(value, Path("x.pickle"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "[1, 0, 1, 0]",
        "[1, 0, 1, 0, 2]",
        "[1 0 1 0 1]",
        "(1, 0, 1, 0, 1)",
        "[1, 0, 1, 0, True]",
        "[" * 5000,
        "__import__('os').system('true')",
        "[1, 0, 1, 0, 1] + []",
        "[[1, 0, 1, 0, 1]]",
        "[１, 0, 1, 0, 1]",
    ],
)
def test_what_is_not_five_bits_is_named_with_its_line_and_never_run(tmp_path: Path, value: str) -> None:
    write(tmp_path, {"x.csv": f'File Path,Array Values\nRun/a.mp4,"{value}"\nRun/b.mp4,"[1, 0, 1, 0, 1]"\n'})
    with pytest.raises(AnnotationError) as caught:
        parse_csv(tmp_path / "x.csv")
    (offender,) = caught.value.offenders
    assert offender.startswith("x.csv:2: expected a list of five 0 or 1")


@quick
@given(st.dictionaries(odd_names, five, max_size=5))
def test_both_forms_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: dict[str, list[int]]) -> None:
    path = tmp_path_factory.mktemp("vp") / "x.csv"
    path.write_text(
        "File Path,Array Values\n" + "".join(f'Run/{name}.mp4,"{values}"\n' for name, values in rows.items()),
        "utf-8",
    )
    expected = {f"Run/{name}": named(*values) for name, values in rows.items()}
    assert parse_csv(path) == expected
    assert parse_arrays({f"Run/{name}.mp4": row(*values) for name, values in rows.items()}, path) == expected


@quick
@given(nasty_text)
def test_any_csv_is_read_or_an_annotation_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("vp") / "x.csv"
    path.write_text("File Path,Array Values\n" + text, "utf-8")
    try:
        assert isinstance(parse_csv(path), dict)
    except AnnotationError as error:
        assert "x.csv" in str(error)  # noqa: PT017
