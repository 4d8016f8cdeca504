"""The way of a job through a real server, and who may see it."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.running import ANNA, BERT, LATE, SECRET, Server, with_sound
from videoveil.media.reader import probe
from videoveil.pipeline import canaries
from videoveil.report import page


@pytest.fixture(scope="module")
def done(server: Server, walk: Path) -> str:
    job = server.accepted(walk)
    assert server.ended(job)["state"] == "done"
    return job


def test_a_video_goes_in_and_comes_out_anonymized(server: Server, done: str, tmp_path: Path) -> None:
    answer = server.ask("GET", f"/api/jobs/{done}/video")
    assert (answer.status, answer.headers["content-type"]) == (200, "video/mp4")
    path = tmp_path / "got.mp4"
    path.write_bytes(answer.body)
    info = probe(path)
    assert (info.width, info.height, info.frames, info.codec) == (96, 64, 12, "h264")
    assert canaries.find(path, SECRET) == []


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "video/mp4", "text/plain", ""])
def test_a_body_is_taken_whatever_it_is_called(server: Server, walk: Path, kind: str) -> None:
    """`curl --data-binary`, as docs/service.md has it, calls a body a form."""
    headers = {"Content-Type": kind} if kind else {}
    answer = server.ask("POST", "/api/jobs?model=black", walk.read_bytes(), headers=headers)
    assert answer.status == 201, answer
    assert server.ended(answer.json["id"])["state"] == "done"


def test_the_raw_upload_is_gone_when_the_job_has_ended(server: Server, walk: Path) -> None:
    assert canaries.find(walk, SECRET) == list(range(12)), "the film that is sent is full of canaries"
    job = server.accepted(walk, "black")
    assert server.ended(job)["state"] == "done"
    names = sorted(path.name for path in (server.data / "jobs" / job).iterdir())
    assert names == ["job.json", "report.json", "video.mp4"]
    assert server.leaks() == {}


def test_parts_of_the_video_can_be_asked_for(server: Server, done: str) -> None:
    whole = server.ask("GET", f"/api/jobs/{done}/video").body
    part = server.ask("GET", f"/api/jobs/{done}/video", headers={"Range": "bytes=10-19"})
    assert (part.status, part.body) == (206, whole[10:20])


def test_the_report_says_what_was_done_and_names_no_path(server: Server, done: str) -> None:
    report = server.ask("GET", f"/api/jobs/{done}/report")
    facts = report.json
    assert facts["run"]["frames"] == 12
    assert facts["run"]["black_frames"] == 0
    assert len(facts["run"]["anonymizer"]) == 64
    assert facts["anomaly"] == {"configured": False, "reason": "no anomaly model is configured"}
    html = server.ask("GET", f"/api/jobs/{done}/report.html")
    page.check(html.body.decode(), "report")
    assert "script" not in html.headers["content-security-policy"]
    for body in (report.body, html.body):
        assert str(server.data).encode() not in body


def events(server: Server, job: str, told: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    """All that is said of a job until it ends, each given to `told` as it comes."""
    said = []
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, LATE)) as connection:
        connection.request("GET", f"/api/jobs/{job}/events", headers={"Authorization": f"Bearer {ANNA}"})
        stream = connection.getresponse()
        assert stream.headers["content-type"].startswith("text/event-stream")
        event = ""
        for line in stream:
            kind, _, value = line.decode().strip().partition(": ")
            event = value if kind == "event" else event
            if (kind, event) == ("data", "job"):
                said.append(json.loads(value))
                told(said[-1])
    return said


def test_progress_comes_as_events_and_ends_with_the_job(server: Server, long_walk: Path) -> None:
    with contextlib.ExitStack() as held:
        held.enter_context(server.held())
        job = server.accepted(long_walk, "held")
        said = events(server, job, lambda now: now["progress"] and held.close())
    states = [one["state"] for one in said]
    assert states[-1] == "done"
    assert states == sorted(states, key=["queued", "running", "done"].index)
    frames = [one["progress"]["frames"] for one in said if one["progress"]]
    assert frames == sorted(frames)
    assert frames
    assert all({"fps", "remaining", "total"} <= one["progress"].keys() for one in said if one["progress"])


@pytest.mark.parametrize("token", [None, "", "wrong-0123456789abcdef", ANNA[:-1], ANNA + "x"])
@pytest.mark.parametrize(
    "path",
    ["/api/models", "/api/jobs", "/api/jobs/" + "0" * 32, "/api/jobs/" + "0" * 32 + "/video", "/metrics"],
)
def test_without_a_token_nothing_is_told(server: Server, token: str | None, path: str) -> None:
    answer = server.ask("GET", path, token=token, address="127.7.0.1")
    assert answer.status in (401, 429)  # 429: so many wrong ones came before, from this address
    assert answer.status == 429 or answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("way", ["", "/video", "/report", "/report.html", "/anomaly", "/events"])
def test_another_token_does_not_see_the_job(server: Server, done: str, way: str) -> None:
    assert server.ask("GET", f"/api/jobs/{done}{way}", token=BERT).status == 404
    assert server.ask("GET", f"/api/jobs/{done}{way}", token=ANNA).status == 200


def test_another_token_cannot_delete_or_list_the_job(server: Server, done: str) -> None:
    assert server.ask("DELETE", f"/api/jobs/{done}", token=BERT).status == 404
    assert done not in [job["id"] for job in server.ask("GET", "/api/jobs", token=BERT).json["jobs"]]
    assert done in [job["id"] for job in server.ask("GET", "/api/jobs").json["jobs"]]
    assert "owner" not in server.job(done)


@pytest.mark.parametrize(
    "job", ["0" * 32, "..", "%2e%2e%2f%2e%2e", "..%2fjobs", "x", "0" * 31 + "%00", "%0a"]
)
@pytest.mark.parametrize("way", ["", "/video"])
def test_names_that_are_no_job_are_not_found(server: Server, job: str, way: str) -> None:
    assert server.ask("GET", f"/api/jobs/{job}{way}").status == 404


def test_a_deleted_job_is_gone_from_the_disk(server: Server, walk: Path) -> None:
    job = server.accepted(walk)
    server.ended(job)
    assert server.ask("DELETE", f"/api/jobs/{job}").status == 204
    assert server.ask("GET", f"/api/jobs/{job}").status == 404
    assert not [path for path in server.data.rglob("*") if job in str(path)]


def test_a_job_at_work_can_be_deleted(server: Server, long_walk: Path) -> None:
    with server.held():
        job = server.accepted(long_walk, "held")
        server.in_state(job, ("running",))
        assert server.ask("DELETE", f"/api/jobs/{job}").status == 204
    assert not [path for path in server.data.rglob("*") if job in str(path)]
    assert server.leaks() == {}
    next_one = server.accepted(long_walk, "black")  # the place is free again
    server.in_state(next_one, ("running", "done"))
    server.ask("DELETE", f"/api/jobs/{next_one}")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A short line, a model that is not there, and one that can be held up."""
    folder = tmp_path_factory.mktemp("narrow")
    models = (("gone", str(folder / "no" / "model")), ("held", "faulty held"), ("blur", "blur"))
    limits = {"queue": 3, "queue_per_token": 2}
    with Server(folder / "data", limits, models=models, faults=True) as running:
        yield running


def test_results_of_a_job_that_failed_do_not_exist(narrow: Server, walk: Path) -> None:
    job = narrow.accepted(walk, "gone")
    end = narrow.ended(job)
    assert end["state"] == "failed"
    assert "no such folder" in end["reason"]
    for way in ("/video", "/report", "/report.html", "/anomaly"):
        assert narrow.ask("GET", f"/api/jobs/{job}{way}").status == 404
    assert narrow.leaks() == {}
    assert narrow.ended(narrow.accepted(walk))["state"] == "done", "others are not affected"


def test_sound_is_dropped_unless_it_is_asked_for(server: Server, walk: Path, tmp_path: Path) -> None:
    path = with_sound(walk, tmp_path / "sound.mp4")
    for more, heard in (("", False), ("&audio=true", True)):
        job = server.upload(path.read_bytes(), more=more).json["id"]
        assert server.ended(job)["state"] == "done"
        got = tmp_path / "got.mp4"
        got.write_bytes(server.ask("GET", f"/api/jobs/{job}/video").body)
        assert probe(got).has_audio is heard


def test_health_needs_no_token_and_tells_nothing_else(server: Server) -> None:
    answer = server.ask("GET", "/health", token=None)
    assert (answer.status, answer.json) == (200, {"ok": True, "problems": []})


def test_metrics_are_prometheus_text(server: Server, done: str) -> None:
    answer = server.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    values = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    assert values['veil_jobs_ended_total{state="done"}'] >= 1
    assert values["veil_frames_total"] >= 12
    assert values["veil_workers_ready"] == 1
    assert done not in answer.body.decode()


def test_openapi_describes_every_route(server: Server) -> None:
    paths = server.ask("GET", "/openapi.json", token=None).json["paths"]
    job = "/api/jobs/{job}"
    assert set(paths) == {
        "/api/models",
        "/api/jobs",
        job,
        *(f"{job}/{way}" for way in ("events", "video", "report", "report.html", "anomaly")),
        "/health",
        "/metrics",
    }
    assert set(paths["/api/jobs"]["post"]["requestBody"]["content"]) == {
        "application/octet-stream",
        "multipart/form-data",
    }
    assert {"400", "401", "408", "413", "415", "422", "429", "503", "507"} <= set(
        paths["/api/jobs"]["post"]["responses"]
    )


def test_every_answer_has_a_strict_policy(server: Server, done: str) -> None:
    for path in ("/", "/static/page.js", "/api/jobs", f"/api/jobs/{done}/video", "/nowhere"):
        headers = server.ask("GET", path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_foreign_names_and_pages_are_refused(server: Server, walk: Path) -> None:
    assert server.ask("GET", "/api/jobs", headers={"Host": "evil.example"}).status == 421
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        answer = server.ask("POST", "/api/jobs?model=blur", walk.read_bytes(), headers=headers)
        assert answer.status == 403
    assert server.ask("GET", "/api/jobs", headers={"Host": f"localhost:{server.port}"}).status == 200


def test_a_full_queue_refuses_and_keeps_what_it_has(narrow: Server, walk: Path, long_walk: Path) -> None:
    before = len(list((narrow.data / "jobs").iterdir()))
    with narrow.held():
        busy = narrow.accepted(long_walk, "held")
        narrow.in_state(busy, ("running",))
        waiting = [narrow.accepted(walk) for _ in range(2)]
        assert narrow.upload(walk.read_bytes()).status == 503
        waiting_for_bert = narrow.accepted(walk, token=BERT)
        assert narrow.upload(walk.read_bytes(), token=BERT).status == 503
        assert len(list((narrow.data / "jobs").iterdir())) == before + 4
        assert narrow.job(waiting[1])["place"] == 1
        narrow.ask("DELETE", f"/api/jobs/{busy}")
    assert [narrow.ended(job)["state"] for job in waiting] == ["done", "done"]
    assert narrow.ended(waiting_for_bert, BERT)["state"] == "done"


def test_a_full_disk_refuses_uploads_and_is_not_healthy(tmp_path: Path, walk: Path) -> None:
    with Server(tmp_path / "data", {"least_disk": 2**60}, workers=False) as server:
        assert server.ask("GET", "/health").json["problems"][-1] == "the disk is full"
        assert server.upload(walk.read_bytes()).status == 507
        assert not list((server.data / "jobs").iterdir())
