"""A server that is killed and started again: what was accepted is done, or fails with a reason; nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.serve.running import ANNA, BERT, LATE, MODELS, Server
from videoveil.serve.store import JOURNAL, UPLOAD


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Killed and started again by every test here; a job may be begun twice."""
    folder = tmp_path_factory.mktemp("restarted")
    with Server(folder / "data", {"tries": 2}, models=MODELS, faults=True) as running:
        yield running


def journal(server: Server, job: str) -> dict[str, object]:
    return dict(json.loads((server.data / "jobs" / job / JOURNAL).read_text()))


def workers(server: Server) -> list[psutil.Process]:
    assert server.process is not None
    return psutil.Process(server.process.pid).children(recursive=True)


def test_queued_and_running_jobs_are_done_after_a_kill(server: Server, walk: Path, long_walk: Path) -> None:
    there = {path.name for path in (server.data / "jobs").iterdir()}
    before = server.accepted(walk, "black")
    server.ended(before)
    with server.held():
        running = server.accepted(long_walk, "held")
        server.in_state(running, ("running",))
        waiting = [server.accepted(walk), server.accepted(walk, token=BERT)]
        half = _half_an_upload(server, walk)
        old = workers(server)
        server.kill()
        _, alive = psutil.wait_procs(old, LATE)
    assert alive == [], "workers end with their server"
    states = [journal(server, job)["state"] for job in (running, *waiting)]
    assert states == ["running", "queued", "queued"]
    server.start()
    assert server.ended(running)["state"] == "done"
    assert server.job(running)["tries"] == 2
    assert server.ended(waiting[0])["state"] == "done"
    assert server.ended(waiting[1], BERT)["state"] == "done"
    assert server.ask("GET", f"/api/jobs/{waiting[1]}", token=ANNA).status == 404, "owners are kept"
    assert server.ask("GET", f"/api/jobs/{before}/video").status == 200
    kept = {path.name for path in (server.data / "jobs").iterdir()}
    assert kept == there | {before, running, *waiting}, "the upload that never finished is gone"
    half.close()
    assert server.leaks() == {}


def _half_an_upload(server: Server, walk: Path) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", server.port))
    head = f"POST /api/jobs?model=blur HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ANNA}\r\n"
    there = len(list((server.data / "jobs").iterdir()))
    peer.sendall(f"{head}Content-Length: 3000000\r\n\r\n".encode() + walk.read_bytes() + bytes(2 << 20))
    server.until(lambda: len(list((server.data / "jobs").iterdir())) > there, LATE, "the upload begins")
    return peer


def test_a_job_that_is_interrupted_every_time_fails_in_the_end(server: Server, long_walk: Path) -> None:
    with server.held():
        job = server.accepted(long_walk, "held")
        for _ in range(2):
            server.in_state(job, ("running",))
            server.kill()
            server.start()
        end = server.ended(job)
    assert end["state"] == "failed"
    assert "the server was stopped" in end["reason"]
    assert not (server.data / "jobs" / job / UPLOAD).exists()
    assert server.leaks() == {}


def test_a_server_that_is_told_to_stop_costs_a_job_no_try(server: Server, long_walk: Path) -> None:
    with server.held():
        job = server.accepted(long_walk, "held")
        server.in_state(job, ("running",))
        server.stop()
    assert server.process is not None
    assert server.process.returncode == 0
    assert journal(server, job)["state"] == "queued"
    assert journal(server, job)["tries"] == 0
    server.start()
    assert server.ended(job)["state"] == "done"
    assert server.job(job)["tries"] == 1


def test_a_killed_worker_fails_its_job_and_no_other(server: Server, walk: Path, long_walk: Path) -> None:
    with server.held():
        job = server.accepted(long_walk, "held")
        other = server.accepted(walk)
        server.in_state(job, ("running",))
        foreman = workers(server)[0]
        (worker,) = server.until(foreman.children, LATE, "there is a worker")
        os.kill(worker.pid, signal.SIGKILL)
        end = server.ended(job)
        assert end["state"] == "failed"
        assert "signal 9" in end["reason"]
        assert server.ended(other)["state"] == "done"
        # and without the process that makes workers: the job is done by the next one
        job = server.accepted(long_walk, "held")
        server.in_state(job, ("running",))
        foreman.kill()
    assert server.ended(job)["state"] == "done"
    assert server.job(job)["tries"] == 2
    assert server.leaks() == {}


def test_results_and_waiting_jobs_expire(tmp_path: Path, walk: Path) -> None:
    with Server(tmp_path / "data", {"keep": 3600.0}) as server:
        began = time.time()
        job = server.accepted(walk)
        end = server.ended(job)
        assert end["state"] == "done"
        assert began < end["deleted_at"] - 3600 < time.time()
        server.stop()
        server.settings = {"keep": 1.0, "sweep": 0.2}
        server.start()
        server.until(lambda: server.ask("GET", f"/api/jobs/{job}").status == 404, LATE, "it is deleted")
        server.until(lambda: [path.name for path in server.files()] == ["lock"], LATE, "its files are too")
