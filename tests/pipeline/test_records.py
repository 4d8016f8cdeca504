from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil import files
from videoveil.errors import UsageError
from videoveil.pipeline.records import Records, stamp, tidy

BEGUN = """
import os, signal, sys
from pathlib import Path
from videoveil import files
with files.atomic_path(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def leave_behind(destination: Path) -> None:
    """What a process leaves that is killed while it writes."""
    done = subprocess.run([sys.executable, "-c", BEGUN, str(destination)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_record_comes_back_by_kind_and_name(tmp_path: Path) -> None:
    records = Records(tmp_path / "own")
    assert records.get("done", "a") is None
    records.put("done", "a", {"input": [1, 2], "who": "Zoë"})
    assert Records(tmp_path / "own").get("done", "a") == {"input": [1, 2], "who": "Zoë"}
    assert records.get("plans", "a") is None
    assert records.get("done", "b") is None
    records.drop("done", "a")
    records.drop("done", "a")
    assert records.get("done", "a") is None


@given(st.binary(max_size=40))
def test_a_damaged_record_counts_as_absent(tmp_path_factory: pytest.TempPathFactory, damage: bytes) -> None:
    folder = tmp_path_factory.mktemp("own")
    Records(folder).put("done", "a", {"x": 1})
    (folder / "done" / "a.json").write_bytes(b"[" + damage)  # never an object, whatever follows
    assert Records(folder).get("done", "a") is None


def test_a_name_is_owned_by_one_at_a_time_and_free_again_afterwards(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with records.claim("a") as first, records.claim("a") as second, records.claim("b") as other:
        assert (first, second, other) == (True, False, True)
    with records.claim("a") as again:
        assert again


def test_a_stamp_tells_of_every_touch_and_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(b"one")
    first = stamp(path)
    assert stamp(path) == first
    os.utime(path, ns=(5, 5))
    touched = stamp(path)
    path.write_bytes(b"longer")
    os.utime(path, ns=(5, 5))
    assert len({tuple(one) for one in (first, touched, stamp(path))}) == 3
    path.unlink()
    with pytest.raises(UsageError, match=r"film\.mp4: cannot be read \(No such file"):
        stamp(path)


def test_what_killed_processes_left_is_removed_at_any_depth_and_the_work_of_the_living_stays(
    tmp_path: Path,
) -> None:
    leave_behind(tmp_path / "a.mp4")
    leave_behind(tmp_path / "deep" / "er" / "b.mp4")
    assert len(list(tmp_path.rglob(f"{files.TEMPORARY}*"))) == 2
    with files.atomic_path(tmp_path / "deep" / "c.mp4") as mine:
        mine.write_bytes(b"c")
        assert len(tidy(tmp_path)) == 2
        assert list(tmp_path.rglob(f"{files.TEMPORARY}*")) == [mine]
    assert (tmp_path / "deep" / "c.mp4").read_bytes() == b"c"
    assert tidy(tmp_path / "absent") == []


def test_folders_that_disappear_meanwhile_are_passed_over(tmp_path: Path) -> None:
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            for number in range(20):
                (tmp_path / "parts" / str(number)).mkdir(parents=True, exist_ok=True)
            shutil.rmtree(tmp_path / "parts", ignore_errors=True)

    thread = threading.Thread(target=churn, daemon=True)
    thread.start()
    try:
        for _ in range(300):
            assert tidy(tmp_path) == []
    finally:
        over.set()
        thread.join(60)
