"""A real Ray gives what local workers give, also when its workers are killed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_corpus import archive, by_one, made
from videoveil.pipeline import ray_engine
from videoveil.pipeline.ray_engine import _same_handlers, _watched

__all__ = ["archive"]
pytestmark = pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="Ray is an extra: videoveil[ray]")


def run(source: Path, out: Path, kills: int | str) -> dict[str, Any]:
    """In a process of its own and, where that is allowed, in a network without any other machine."""
    script = [sys.executable, str(Path(__file__).with_name("ray_run.py")), str(source), str(out), str(kills)]
    tools = shutil.which("unshare") and shutil.which("ip")
    alone = tools and not subprocess.run(["unshare", "-n", "true"], check=False).returncode
    if alone:
        script = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *script]
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        script, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=600, check=False
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("SETTLED ")]
    assert told, done.stdout[-2000:] + done.stderr[-3000:]
    return dict(json.loads(told[0].removeprefix("SETTLED ")))


def test_a_round_is_asked_to_stop_and_waited_for_and_what_it_raises_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, asked = threading.Event(), threading.Event()
    assert _watched(lambda: True, stop, asked.set)
    assert not _watched(lambda: False, stop, asked.set)
    for error in (ValueError("broken"), TimeoutError("too late")):

        def fails(error: Exception = error) -> bool:
            raise error

        with pytest.raises(type(error), match=str(error)):
            _watched(fails, stop, asked.set)
    assert not asked.is_set()
    stop.set()
    began = time.monotonic()
    assert not _watched(lambda: asked.wait(300), stop, asked.set), "this one ends when it is asked to"
    assert time.monotonic() - began < 200
    over = threading.Event()
    monkeypatch.setattr(ray_engine, "LEAVE_SECONDS", 0.1)
    assert not _watched(lambda: over.wait(600), stop, asked.set), "this one does not, and is left alone"
    assert time.monotonic() - began < 300
    over.set()


def test_handlers_of_signals_stay_what_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _same_handlers():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_ray_and_a_local_worker_give_the_same_bytes_also_when_a_worker_is_killed(
    archive: Path, tmp_path: Path
) -> None:
    report = run(archive, tmp_path / "ray", kills=1)
    assert report["failed"] == 0
    assert report["killed"] == 1
    assert report["done"] == 3
    assert made(tmp_path / "ray") == by_one(archive, tmp_path / "local")


@pytest.mark.slow
def test_a_stopped_ray_says_so_and_a_local_worker_can_go_on(archive: Path, tmp_path: Path) -> None:
    report = run(archive, tmp_path / "ray", "stop")
    assert "stopped; " in report["said"]
    assert "the same command goes on" in report["said"]
    assert report["done"] < 3
    assert by_one(archive, tmp_path / "ray") == by_one(archive, tmp_path / "local")
