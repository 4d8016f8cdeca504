"""What all loaders share: text, CSV, JSON, numbers, and finding media on disk."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.trees import disguise, nasty_text, odd_names, quick, touch, write
from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    first_file,
    first_folder,
    numbered_lines,
    read_json,
    read_rows,
    read_text,
    seconds,
    stem_of,
    videos_below,
    whole,
)
from videoveil.data.records import Item
from videoveil.errors import AnnotationError, MissingItems


def item(name: str, split: str = "train") -> Item:
    return Item(stem_of(name), Path(name), split)


# --- text --------------------------------------------------------------------------------------------------


def test_all_complaints_are_raised_at_once_with_file_and_line() -> None:
    complaints = Complaints()
    complaints.settle("mine")  # nothing found, nothing raised
    for line in range(1, 31):
        complaints.add(Path("some/list.txt"), line, "odd")
    complaints.add(Path("some/list.txt"), None, "short")
    with pytest.raises(AnnotationError, match="mine: 31 mistakes") as caught:
        complaints.settle("mine")
    assert caught.value.offenders == (*(f"list.txt:{n}: odd" for n in range(1, 31)), "list.txt: short")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, mark: bytes) -> None:
    assert read_text(write(tmp_path, {"a.txt": mark + b"caf\xc3\xa9"}) / "a.txt") == "café"


def test_text_that_cannot_be_read_is_an_annotation_error_with_its_path(tmp_path: Path) -> None:
    write(tmp_path, {"latin.txt": b"caf\xe9"})
    (tmp_path / "folder").mkdir()
    for name, reason in (("latin.txt", "byte 3"), ("none.txt", "missing"), ("folder", "cannot be read")):
        with pytest.raises(AnnotationError, match=reason) as caught:
            read_text(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


@quick
@given(st.lists(odd_names, max_size=6))
def test_lines_are_the_same_whatever_their_ends(rows: list[str]) -> None:
    for text in disguise(rows):
        assert [line for _, line in numbered_lines(text)] == rows
    assert list(numbered_lines("\r\n".join(rows))) == list(enumerate(rows, 1))


def test_line_numbers_are_those_of_an_editor() -> None:
    assert list(numbered_lines("a\x0bb\u2028c\n\n d \r\ne\rf")) == [
        (1, "a\x0bb\u2028c"),
        (3, "d"),
        (4, "e"),
        (5, "f"),
    ]


# --- numbers -----------------------------------------------------------------------------------------------


@quick
@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_whole_numbers_come_back(number: int) -> None:
    assert whole(str(number)) == number


@pytest.mark.parametrize("text", ["", "-", "--1", "²", "٣", "1_0", " 1", "1.0", "1e3", "9" * 5000])
def test_what_is_not_plain_digits_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        whole(text)


@quick
@given(st.decimals(min_value=0, max_value=10**9, allow_nan=False, places=6) | st.floats(0, 1e9))
def test_seconds_are_exactly_what_was_written(number: Decimal | float) -> None:
    assert seconds(str(number)) == Fraction(Decimal(str(number)))


def test_seconds_may_be_ratios_and_need_no_leading_zero() -> None:
    assert (seconds("1001/30"), seconds(".5"), seconds("3."), seconds(7)) == (
        Fraction(1001, 30),
        Fraction(1, 2),
        3,
        7,
    )


@pytest.mark.parametrize(
    "text",
    ["", "-1", "nan", "inf", "1e999999999", "1e-999999999", "1/0", "1/00", "1_0", "²", "True", "9" * 5000],
)
def test_what_is_not_a_bounded_number_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="not a number of seconds"):
        seconds(text)


# --- CSV and JSON ------------------------------------------------------------------------------------------


def test_csv_rows_have_their_line_numbers_and_no_blanks_around(tmp_path: Path) -> None:
    write(tmp_path, {"a.csv": b'\xef\xbb\xbfpath , label\r\n a.mp4 ,"run, fast"\r\n\r\n,\r\nb.mp4\r\n'})
    assert read_rows(tmp_path / "a.csv", ("path", "label")) == [
        (2, {"path": "a.mp4", "label": "run, fast"}),
        (5, {"path": "b.mp4", "label": ""}),
    ]


def test_values_beyond_the_header_are_errors_with_their_lines(tmp_path: Path) -> None:
    write(tmp_path, {"a.csv": "path,label\na.mp4,run, fast\nb.mp4,run\nc.mp4,run,,\n"})
    with pytest.raises(AnnotationError) as caught:
        read_rows(tmp_path / "a.csv", ("path",))
    assert [entry.split(": ")[0] for entry in caught.value.offenders] == ["a.csv:2", "a.csv:4"]


@pytest.mark.parametrize(
    ("text", "reason"), [("", "lacks path"), ("label\nx\n", "lacks path"), ("path,path\n", "twice")]
)
def test_a_wrong_header_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    write(tmp_path, {"a.csv": text})
    with pytest.raises(AnnotationError, match=reason):
        read_rows(tmp_path / "a.csv", ("path",))


def test_a_field_without_end_is_an_error_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, {"a.csv": "path\na\n" + "x" * 200_000})
    with pytest.raises(AnnotationError, match=r"a\.csv:3: not CSV"):
        read_rows(tmp_path / "a.csv", ("path",))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a":\n 1,}', r"a\.json:2: not JSON"),
        ("[" * 100_000, "not usable"),
        ("1" * 5000, "not usable"),
        ("", "1: not"),
    ],
)
def test_what_is_not_json_is_an_annotation_error(tmp_path: Path, text: str, reason: str) -> None:
    write(tmp_path, {"a.json": text})
    with pytest.raises(AnnotationError, match=reason):
        read_json(tmp_path / "a.json")


def test_json_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": b'\xef\xbb\xbf{"a": [1]}'})
    assert read_json(tmp_path / "a.json") == {"a": [1]}


# --- finding -----------------------------------------------------------------------------------------------


def test_the_first_folder_and_file_that_exist_are_taken(tmp_path: Path) -> None:
    touch(tmp_path, "b/x.txt", "c/y.txt")
    assert first_folder(tmp_path, "a", "b", "c") == tmp_path / "b"
    assert first_folder(tmp_path, "nowhere") == tmp_path
    assert first_file(tmp_path, "x.txt", "c/y.txt") == tmp_path / "c/y.txt"
    with pytest.raises(AnnotationError, match=r"p\.txt, q\.txt"):
        first_file(tmp_path, "p.txt", "q.txt")


def test_media_are_found_in_any_folder_case_and_any_container(tmp_path: Path) -> None:
    touch(
        tmp_path, "one/HandStandPushups/v_a.avi", "two/Run/v_b.mkv", "two/Run/v_c.MP4", "two/Run/v_d.e.webm"
    )
    finder = MediaFinder(tmp_path / "nowhere", tmp_path / "one", tmp_path / "two")
    assert finder.find("HandstandPushups/v_a.avi") == tmp_path / "one/HandStandPushups/v_a.avi"
    assert finder.find("Run/v_b.avi") == tmp_path / "two/Run/v_b.mkv"
    assert finder.find("Run/v_c.avi") == tmp_path / "two/Run/v_c.MP4"
    assert finder.find("Run/v_d.e") == tmp_path / "two/Run/v_d.e.webm"
    assert finder.find("Run/v_e.avi") is None


def test_the_original_container_and_the_exact_folder_come_first(tmp_path: Path) -> None:
    touch(tmp_path, "RUN/a.avi", "Run/a.avi", "Run/a.mp4", "Run/a.mkv")
    finder = MediaFinder(tmp_path)
    assert finder.find("Run/a.mkv") == tmp_path / "Run/a.mkv"
    assert finder.find("Run/a.webm") == tmp_path / "Run/a.avi"
    assert finder.find("RUN/a.mp4") == tmp_path / "RUN/a.avi"


def test_file_names_that_differ_in_case_are_different_videos(tmp_path: Path) -> None:
    finder = MediaFinder(touch(tmp_path, "Run/clip.avi"))
    assert finder.find("Run/clip.avi") is not None
    assert finder.find("Run/CLIP.avi") is None


def test_folders_and_dead_links_are_no_media(tmp_path: Path) -> None:
    (tmp_path / "a.avi").mkdir()
    (tmp_path / "b.avi").symlink_to(tmp_path / "gone.avi")
    assert MediaFinder(tmp_path).find("a.avi") is None
    assert MediaFinder(tmp_path).find("b.avi") is None


def test_no_name_leads_out_of_the_folders(tmp_path: Path) -> None:
    touch(tmp_path, "secret.avi", "root/run/a.avi")
    finder = MediaFinder(tmp_path / "root")
    for name in ("../secret.avi", "run/../../secret.avi", str(tmp_path / "secret.avi"), "..", "", "run", "."):
        assert finder.find(name) is None


def test_names_are_no_patterns(tmp_path: Path) -> None:
    names = ["a[1]!(b)#c&+;~@_0.avi", "*.avi", "?.avi", "[a-z].avi", "$HOME.avi", "~.avi"]
    touch(tmp_path, "plain.avi", *names)
    finder = MediaFinder(tmp_path)
    for name in names:
        assert finder.find(name) == tmp_path / name
    assert finder.find("[p]lain.avi") is None


@quick
@given(nasty_text)
def test_any_name_at_all_can_be_looked_for(name: str) -> None:
    finder = MediaFinder(Path(__file__).parent)
    found = finder.find(name)
    assert found is None or found.parent == Path(__file__).parent


def test_only_media_suffixes_are_cut_off() -> None:
    assert stem_of("a/b.c.avi") == "a/b.c"
    assert stem_of("a/b.MP4") == "a/b"
    assert stem_of("Film.1995__#0_label_B2-0-0") == "Film.1995__#0_label_B2-0-0"


def test_videos_below_are_sorted_and_hidden_leftovers_are_not_among_them(tmp_path: Path) -> None:
    touch(tmp_path, "b/x.AVI", "a/y.mp4", "a/.veil-tmp-1-2-3.mp4", "a/._y.mp4", "a/notes.txt", "z.mkv")
    (tmp_path / "folder.avi").mkdir()
    assert [p.relative_to(tmp_path).as_posix() for p in videos_below(tmp_path)] == [
        "a/y.mp4",
        "b/x.AVI",
        "z.mkv",
    ]
    assert videos_below(tmp_path / "nowhere") == []


# --- assembling --------------------------------------------------------------------------------------------


def test_all_missing_files_are_in_one_error(tmp_path: Path) -> None:
    touch(tmp_path, "here.avi")
    items = [item("here.avi"), *(item(f"gone{n:02d}.avi") for n in range(30))]
    with pytest.raises(MissingItems, match="30 of 31 files") as caught:
        assemble("mine", tmp_path, items, finder=MediaFinder(tmp_path), skip_bad=False)
    assert caught.value.offenders == tuple(f"gone{n:02d}: missing (gone{n:02d}.avi)" for n in range(30))
    assert all(offender in str(caught.value) for offender in caught.value.offenders)
    assert "--skip-bad" in str(caught.value)


def test_missing_files_that_may_be_skipped_are_listed(tmp_path: Path) -> None:
    touch(tmp_path, "here.mp4")
    found = assemble(
        "mine", tmp_path, [item("here.avi"), item("gone.avi")], finder=MediaFinder(tmp_path), skip_bad=True
    )
    assert [(i.id, i.path) for i in found] == [("here", tmp_path / "here.mp4")]
    assert found.skipped == ("gone: missing (gone.avi)",)


def test_annotations_alone_need_no_files(tmp_path: Path) -> None:
    found = assemble("mine", tmp_path, [item("gone.avi")], finder=None, skip_bad=False)
    assert (len(found), found.items[0].path, found.skipped) == (1, Path("gone.avi"), ())


def test_an_item_in_two_splits_is_an_error_or_skipped(tmp_path: Path) -> None:
    items = [item("a.avi"), item("b.avi"), item("a.avi", "test")]
    with pytest.raises(AnnotationError, match="twice") as caught:
        assemble("mine", tmp_path, items, finder=None, skip_bad=False)
    assert caught.value.offenders == ("a",)
    found = assemble("mine", tmp_path, items, finder=None, skip_bad=True)
    assert [(i.id, i.split) for i in found] == [("a", "train"), ("b", "train")]
    assert found.skipped == ("a: there twice",)
