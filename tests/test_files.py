"""Files are whole or absent."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from videoveil import files


def test_an_error_leaves_neither_destination_nor_temporary(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), files.atomic_path(tmp_path / "out.bin") as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_existing_destination_survives_a_failed_write(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    files.write_bytes(target, b"old")
    with pytest.raises(RuntimeError), files.atomic_path(target) as temporary:
        temporary.write_bytes(b"new")
        raise RuntimeError
    assert target.read_bytes() == b"old"


def test_a_killed_writer_leaves_no_destination_and_a_recognisable_leftover(tmp_path: Path) -> None:
    code = (
        "import sys, time; from videoveil import files\n"
        f"with files.atomic_path({str(tmp_path / 'out.bin')!r}) as t:\n"
        "    t.write_bytes(b'half'); print('ready', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"
    (leftover,) = tmp_path.iterdir()
    assert files.owner_alive(leftover)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    time.sleep(0.05)
    assert [p.name for p in tmp_path.iterdir()] == [leftover.name]
    assert leftover.name.startswith(files.TEMPORARY)
    assert not files.owner_alive(leftover)


def test_equal_values_give_equal_json_bytes_and_hashes(tmp_path: Path) -> None:
    files.write_json(tmp_path / "a", {"b": 1, "a": [1, 2]})
    files.write_json(tmp_path / "b", {"a": [1, 2], "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert files.file_hash(tmp_path / "a") == files.file_hash(tmp_path / "b")
    assert files.value_hash({"b": 1, "a": 2}) == files.value_hash({"a": 2, "b": 1})
    assert files.value_hash({"a": 1}) != files.value_hash({"a": 2})


def test_of_several_that_create_a_file_one_wins_and_nobody_sees_it_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, seen = os.link, list[str]()

    def look(first: Path, destination: Path) -> None:
        seen.extend(path.name for path in tmp_path.iterdir())
        link(first, destination)

    def too_late(first: Path, destination: Path) -> None:
        destination.write_text("somebody was quicker\n")
        link(first, destination)

    monkeypatch.setattr(os, "link", look)
    for value in (1, 2):
        files.create_json(tmp_path / "store.json", value)
    assert [path.name for path in tmp_path.iterdir()] == ["store.json"]
    assert (tmp_path / "store.json").read_text() == "1\n"
    assert len(seen) == 1
    assert seen[0].startswith(files.TEMPORARY), (
        "a stranger would take it for a file, and nobody would remove it"
    )
    monkeypatch.setattr(os, "link", too_late)
    assert not files.create_text(tmp_path / "other", "mine\n")
    assert (tmp_path / "other").read_text() == "somebody was quicker\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "store.json"]


def test_without_links_a_file_is_still_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a memory stick, where a key may be kept."""

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert files.create_text(tmp_path / "key", "one", mode=0o600)
    assert not files.create_text(tmp_path / "key", "two", mode=0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert (tmp_path / "key").read_text() == "one"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def _create(path: Path, text: str, gate: Any, answers: Any) -> None:
    gate.wait(60)
    files.create_text(path, text)
    answers.put(path.read_text())


def test_processes_that_create_the_same_file_at_once_all_read_the_same(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(20):
        gate, answers = context.Barrier(3), context.Queue()
        path = tmp_path / str(number)
        work = [(path, word * 9, gate, answers) for word in "abc"]
        several = [context.Process(target=_create, args=one, daemon=True) for one in work]
        for one in several:
            one.start()
        said = {answers.get(timeout=60) for _ in several}
        for one in several:
            one.join(60)
        assert said == {path.read_text()}
        assert len(path.read_text()) == 9
