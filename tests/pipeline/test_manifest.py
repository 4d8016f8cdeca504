"""Lists of videos: what is meant is read, what cannot be meant is named with its line."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoveil.errors import UsageError
from videoveil.pipeline.manifest import Entry, read_manifest


def test_a_folder_gives_its_videos_by_name_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b/two.AVI", "a.mp4", "notes.txt", "b/.veil-tmp-x.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert read_manifest(tmp_path) == (
        Entry(str(tmp_path / "a.mp4"), "a.mp4"),
        Entry(str(tmp_path / "b" / "two.AVI"), "b/two.mp4"),
    )


def test_the_three_kinds_of_list_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("# cameras\n\nx/a.mkv\nb.mp4\n")
    (tmp_path / "l.csv").write_text("source,name\nx/a.mkv,\nb.mp4,b\n")
    (tmp_path / "l.jsonl").write_text('{"source": "x/a.mkv"}\n\n{"source": "b.mp4", "name": "b.mp4"}\n')
    wanted = (Entry(str(tmp_path / "x/a.mkv"), "x/a.mp4"), Entry(str(tmp_path / "b.mp4"), "b.mp4"))
    assert [read_manifest(tmp_path / f"l.{kind}") for kind in ("txt", "csv", "jsonl")] == [wanted] * 3


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("l.txt", "\n# nothing\n", "names no video"),
        ("l.csv", "path\na.mp4\n", "no column 'source'"),
        ("l.csv", "source\n\n \n", "no source|names no video"),
        ("l.jsonl", '{"source": 3}\n', ":1: must be an object"),
        ("l.jsonl", "{]\n", ":1: is not JSON"),
        ("l.jsonl", '{"source": "a.mp4", "name": "../../out"}\n', "outside the destination"),
        ("l.jsonl", '{"source": "a.mp4", "name": "/etc/out"}\n', "outside the destination"),
        ("l.jsonl", '{"source": "a.mp4", "name": ".veil-corpus/x"}\n', "begins with a dot"),
        ("l.txt", "a.mp4\nA.avi\n", "several videos would be called"),
        ("l.yaml", "a.mp4\n", r"is a \.txt"),
    ],
)
def test_what_cannot_be_meant_is_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=problem):
        read_manifest(tmp_path / name)


def test_a_list_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder or list"):
        read_manifest(tmp_path / "nowhere")
    (tmp_path / "l.txt").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UsageError, match="UTF-8"):
        read_manifest(tmp_path / "l.txt")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4))
def test_whatever_a_list_says_results_stay_below_the_destination(tmp_path: Path, names: list[str]) -> None:
    lines = [json.dumps({"source": f"{n}.mp4", "name": name}) for n, name in enumerate(names)]
    (tmp_path / "l.jsonl").write_text("\n".join(lines))
    try:
        entries = read_manifest(tmp_path / "l.jsonl")
    except UsageError:
        return
    for entry in entries:
        parts = PurePosixPath(entry.name).parts
        assert parts
        assert ".." not in parts
        assert not entry.name.startswith(("/", "."))
        assert (tmp_path / "out" / entry.name).resolve().is_relative_to((tmp_path / "out").resolve())
