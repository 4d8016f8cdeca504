"""Predictions on disk: one JSON, lines of JSON, or a table; nothing is left of what breaks off."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from videoveil.errors import StoreError, UsageError
from videoveil.report.said import COLUMNS, write_many, write_one
from videoveil.tasks.predict import Prediction, Span

SAID = (
    Prediction(
        "action", 'a, "b"', 2.0, "head", (Span(0.0, 0.5, "läuft", 0.75),), (("läuft", 0.5), ("geht", 0.25))
    ),
    Prediction("action", "c", 1.0, "head", ()),
)


def test_many_are_lines_of_json(tmp_path: Path) -> None:
    write_many(SAID, tmp_path / "said.jsonl")
    lines = (tmp_path / "said.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [one.to_json() for one in SAID]
    assert "läuft" in lines[0]


def test_many_are_a_table_with_the_whole_video_first(tmp_path: Path) -> None:
    write_many(SAID, tmp_path / "said.csv")
    with open(tmp_path / "said.csv", encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == COLUMNS
    assert rows == [
        ['a, "b"', "video", "0.0", "2.0", "läuft", "0.5"],
        ['a, "b"', "video", "0.0", "2.0", "geht", "0.25"],
        ['a, "b"', "span", "0.0", "0.5", "läuft", "0.75"],
    ]


def test_without_a_place_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    write_many(SAID, None)
    assert len(capsys.readouterr().out.splitlines()) == 2
    write_one(SAID[0], None)
    assert json.loads(capsys.readouterr().out) == SAID[0].to_json()


def test_one_is_a_json_or_a_table(tmp_path: Path) -> None:
    write_one(SAID[0], tmp_path / "one.json")
    assert json.loads((tmp_path / "one.json").read_text("utf-8")) == SAID[0].to_json()
    write_one(SAID[0], tmp_path / "one.csv")
    assert (tmp_path / "one.csv").read_text("utf-8").startswith("video,of,start")


def test_many_in_one_json_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    def never() -> Iterator[Prediction]:
        raise AssertionError("was asked")
        yield

    with pytest.raises(UsageError, match=r"said\.json: of many videos write JSON lines"):
        write_many(never(), tmp_path / "said.json")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_what_breaks_off_leaves_nothing_and_keeps_what_was_there(tmp_path: Path, suffix: str) -> None:
    def broken() -> Iterator[Prediction]:
        yield SAID[0]
        raise StoreError("damaged")

    out = tmp_path / f"said{suffix}"
    with pytest.raises(StoreError):
        write_many(broken(), out)
    assert list(tmp_path.iterdir()) == []
    out.write_text("before")
    with pytest.raises(StoreError):
        write_many(broken(), out)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert out.read_text() == "before"
