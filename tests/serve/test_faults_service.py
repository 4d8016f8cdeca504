"""Whatever goes wrong in the service: no raw frame in a file, answer or log, and a job that says how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.pipeline.faults import FAULTS, SECRET, Fault, full_disk, plain, read_only
from tests.serve.running import LATE, Server
from videoveil.pipeline import canaries

BY_MODEL = [fault for fault in FAULTS.values() if fault.model != "blur" and fault.send is None]
MODELS = [fault for fault in BY_MODEL if fault.output is not full_disk]
INPUTS = [fault for fault in FAULTS.values() if fault.model == "blur" and fault.output is not read_only]
WAYS = ("", "/video", "/report", "/report.html", "/anomaly", "/events")


def name(fault: Fault) -> str:
    return fault.name.replace(" ", "-")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose models are all broken, each in its way, but for one."""
    folder = tmp_path_factory.mktemp("faulty")
    models = [("blur", "blur"), ("slow", "faulty slow")]
    for fault in MODELS:
        place = folder / name(fault)
        place.mkdir()
        models.append((name(fault), fault.model if isinstance(fault.model, str) else fault.model(place)))
    with Server(folder / "data", {"tries": 2}, models=tuple(models), faults=True) as running:
        yield running


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = plain(tmp_path_factory.mktemp("film") / "film.mp4")
    assert len(canaries.find(path, SECRET)) == 30
    return path


def check_answers(server: Server, job: str, tmp_path: Path) -> None:
    """Nothing raw in whatever the owner of a job can get."""
    for number, way in enumerate(WAYS):
        path = tmp_path / f"answer-{number}"
        path.write_bytes(server.ask("GET", f"/api/jobs/{job}{way}").body)
        assert canaries.find(path, SECRET) == [], way


@pytest.mark.parametrize("fault", MODELS, ids=name)
def test_a_broken_model_gives_nothing_out(faulty: Server, film: Path, fault: Fault, tmp_path: Path) -> None:
    job = faulty.accepted(film, name(fault))
    end = faulty.ended(job)
    assert end["state"] == "failed"
    assert end["reason"]
    assert len(end["reason"]) < 700
    assert faulty.ask("GET", f"/api/jobs/{job}/video").status == 404
    assert [path.name for path in (faulty.data / "jobs" / job).iterdir()] == ["job.json"]
    check_answers(faulty, job, tmp_path)
    assert faulty.leaks(SECRET) == {}


@pytest.mark.parametrize("fault", INPUTS, ids=name)
def test_odd_inputs_come_out_anonymized_or_not_at_all(faulty: Server, fault: Fault, tmp_path: Path) -> None:
    path = fault.source(tmp_path / "film.mp4")
    answer = faulty.upload(path.read_bytes(), "blur", more="&audio=true" if fault.options else "")
    if answer.status == 201:
        job = answer.json["id"]
        end = faulty.ended(job)
        assert end["state"] == ("done" if fault.released else "failed"), end
        check_answers(faulty, job, tmp_path)
    else:
        assert answer.status == 422
        assert not fault.released
        assert answer.json["detail"].startswith("the video: ")
    assert faulty.leaks(SECRET) == {}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_a_worker_that_is_ended_by_a_signal_leaves_nothing(
    faulty: Server, film: Path, number: signal.Signals, tmp_path: Path
) -> None:
    with faulty.held():
        job = begun(faulty, film)
        (worker,) = foreman(faulty).children()
        os.kill(worker.pid, number)
        end = faulty.ended(job)
    assert end["state"] == "failed"
    assert f"signal {int(number)}" in end["reason"]
    check_answers(faulty, job, tmp_path)
    assert faulty.leaks(SECRET) == {}
    assert not list(Path.cwd().glob("core*"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_ended_by_a_signal_leaves_no_raw_frame_behind_its_restart(
    faulty: Server, film: Path, number: signal.Signals, tmp_path: Path
) -> None:
    with faulty.held():
        job = begun(faulty, film)
        assert faulty.process is not None
        faulty.process.send_signal(number)
        faulty.process.wait(LATE)
    raw = {str(faulty.data / "jobs" / job / "upload")}
    assert set(faulty.leaks(SECRET)) <= raw, "the upload waits for the restart, and nothing else"
    faulty.start()
    assert faulty.ended(job)["state"] == "done"
    check_answers(faulty, job, tmp_path)
    assert faulty.leaks(SECRET) == {}


def begun(server: Server, film: Path) -> str:
    """A job in the middle of its work: it has begun to write."""
    job = server.accepted(film, "slow")
    place = server.data / "jobs" / job
    server.until(lambda: list(place.glob(".veil-tmp-*.mp4")), LATE, "it has begun to write")
    return job


def foreman(server: Server) -> psutil.Process:
    assert server.process is not None
    (found,) = psutil.Process(server.process.pid).children()
    return found


def test_a_worker_without_room_to_write_fails_its_job(film: Path, tmp_path: Path) -> None:
    settings = {"VEIL_TEST_SMALL": "2048"}
    with Server(
        tmp_path / "data", models=(("soft", "downsample:2"),), faults=True, environment=settings
    ) as server:
        job = server.accepted(film, "soft")
        end = server.ended(job)
        assert end["state"] == "failed"
        assert "written" in end["reason"]
        assert [path.name for path in (server.data / "jobs" / job).iterdir()] == ["job.json"]
        assert server.leaks(SECRET) == {}


def test_a_worker_without_memory_refuses_or_fails_and_the_service_goes_on(film: Path, tmp_path: Path) -> None:
    with Server(tmp_path / "data", {"memory": 1 << 20}) as server:
        for _ in range(2):
            answer = server.upload(film.read_bytes())
            assert answer.status in (201, 422, 500), answer
            if answer.status == 201:
                assert server.ended(answer.json["id"])["state"] == "failed"
        assert server.ask("GET", "/health").status == 200
        assert server.leaks(SECRET) == {}


def mounted(folder: Path) -> bool:
    """A small disk of its own."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    if not mounted(folder):
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_up_at_work_fails_the_job(film: Path, small_disk: Path) -> None:
    models = (("slow", "faulty slow"), ("blur", "blur"))
    with Server(small_disk / "data", models=models, faults=True) as server:
        server.log = small_disk.parent / "server.log"
        with server.held():
            job = begun(server, film)
            fill(small_disk / "filler")
        end = server.ended(job)
        assert end["state"] == "failed"
        assert not (server.data / "jobs" / job / "upload").exists()
        assert server.leaks(SECRET) == {}
        (small_disk / "filler").unlink()
        assert server.ended(server.accepted(film, "blur"))["state"] == "done"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give processes a file system of their own")
def test_workers_that_cannot_write_at_all_refuse_the_upload(film: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Server(data, faults=True, environment={"VEIL_TEST_READ_ONLY": str(data)}) as server:
        answer = server.upload(film.read_bytes())
        assert answer.status == 500
        assert "OSError" in answer.json["detail"]
        assert not list((data / "jobs").iterdir())
        assert server.leaks(SECRET) == {}


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as handle:
        for size in (4096, 1):
            try:
                while True:
                    handle.write(b"x" * size)
            except OSError:
                continue
