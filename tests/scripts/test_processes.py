"""Jobs of a study in real processes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from benchmarks import processes


@dataclass(frozen=True)
class Note:
    title: str
    folder: Path


def work(job: Note) -> str:
    if job.title == "dies":
        os._exit(9)
    if job.title == "broken":
        raise ValueError("cannot be done")
    (job.folder / job.title).write_text(f"{time.monotonic_ns()} {os.getpid()}")
    return f"{job.title} is done"


def done(folder: Path) -> list[str]:
    """What was written, in the order of the clock."""
    return [path.name for path in sorted(folder.iterdir(), key=lambda path: int(path.read_text().split()[0]))]


def test_jobs_run_elsewhere_the_most_urgent_first_and_what_they_make_possible_joins_in(
    tmp_path: Path,
) -> None:
    def after(job: Note) -> list[Note]:
        return [Note("b", tmp_path), Note("b", tmp_path)] if job.title == "a" else []

    jobs = [Note("d", tmp_path), Note("a", tmp_path), Note("c", tmp_path)]
    failed = processes.run(jobs, work, 1, after=after, urgency=lambda job: job.title)
    assert failed == []
    assert done(tmp_path) == ["a", "b", "c", "d"]
    assert (tmp_path / "a").read_text().split()[1] != str(os.getpid())


def test_what_fails_is_told_and_the_others_are_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    def after(job: Note) -> list[Note]:
        seen.append(job.title)
        return []

    failed = processes.run([Note("broken", tmp_path), Note("whole", tmp_path)], work, 2, after=after)
    assert failed == ["broken: ValueError('cannot be done')"]
    assert seen == done(tmp_path) == ["whole"]
    assert "FAILED broken" in capsys.readouterr().out


def test_a_process_that_dies_does_not_take_what_was_not_begun_with_it(tmp_path: Path) -> None:
    jobs = [Note("dies", tmp_path), *(Note(f"later {n}", tmp_path) for n in range(3))]
    failed = processes.run(jobs, work, 1)
    assert [text.split(":")[0] for text in failed] == ["dies"]
    assert done(tmp_path) == ["later 0", "later 1", "later 2"]


def test_nothing_is_begun_after_the_time_and_what_was_not_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert processes.run([Note("late", tmp_path)], work, 1, until=0.0) == []
    assert done(tmp_path) == []
    assert "not begun: late" in capsys.readouterr().out
