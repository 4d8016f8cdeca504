"""Many jobs, rude clients, and a server that is killed on the way: what becomes of every job?

    python -m benchmarks.service --jobs 500 --clients 8 --kills 2

Clients hold different tokens. They upload a small film, some of them break off in the middle of the upload or hang up
before the answer, some watch the progress and hang up. The server is killed (SIGKILL) and started again while all of
this goes on. In the end every job that was accepted must be done or have failed with a reason, its result must be the
one of its own film, and no token may see another's job.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from videoveil.data.theatre import cast, playwright, stage
from videoveil.media.reader import probe
from videoveil.media.writer import VideoWriter

RUDE = 0.25  # share of the visits in which a client does not behave


@dataclass
class Told:
    """What the clients saw."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    accepted: dict[str, tuple[str, int]] = field(default_factory=dict)  # job → token, frames of its film
    events: Counter[str] = field(default_factory=Counter)

    def count(self, what: str) -> None:
        with self.lock:
            self.events[what] += 1


def film(path: Path, frames: int) -> Path:
    """A film that is known again by its number of frames."""
    play = playwright.trimmed(
        "bench", action="walk", person=cast.identity(0, 2), width=96, height=64, frames=frames
    )
    tick = Fraction(1, 25)
    with VideoWriter(path, width=96, height=64, time_base=tick, rate=Fraction(25), threads=1) as writer:
        for number, image in enumerate(stage.frames(play)):
            writer.write(np.ascontiguousarray(image), number * tick)
    return path


class Server:
    """`veil serve` in a process of its own."""

    def __init__(self, folder: Path, tokens: list[str], jobs: int):
        self.folder, self.jobs = folder, jobs
        (folder / "tokens").write_text("\n".join(tokens))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "videoveil.cli",
            "serve",
            "--model",
            "blur",
            "--model",
            "downsample:8",
        ]
        command += ["--data", str(self.folder / "data"), "--port", str(self.port), "--jobs", str(self.jobs)]
        command += ["--tokens", str(self.folder / "tokens"), "--queue", "2000", "--engine", "torch"]
        command += ["--requests-per-minute", "1000000", "--uploads-per-minute", "1000000", "--threads", "1"]
        with open(self.folder / "log", "ab") as log:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while True:
            try:
                if self.ask("GET", "/health", "")[0] == 200:
                    return
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit((self.folder / "log").read_text()) from None
            time.sleep(0.1)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait()

    def ask(self, method: str, path: str, token: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def visit(server: Server, token: str, films: dict[int, bytes], told: Told, chance: random.Random) -> None:
    """One upload, well-behaved or not."""
    frames = chance.choice(list(films))
    body, model = films[frames], chance.choice(("blur", "downsample:8"))
    path = f"/api/jobs?model={model}"
    if chance.random() < RUDE:
        rude(server, token, path, body, told, chance)
        return
    status, answer = server.ask("POST", path, token, body)
    if status != 201:
        told.count(f"refused {status}")
        return
    job = json.loads(answer)["id"]
    with told.lock:
        told.accepted[job] = (token, frames)
        told.events["accepted"] += 1
    if chance.random() < 0.5:
        peek(server, token, job, told, chance)


def rude(server: Server, token: str, path: str, body: bytes, told: Told, chance: random.Random) -> None:
    """Break off somewhere in the upload, or hang up before the answer."""
    sent = chance.choice((0, len(body) // 3, len(body) - 1, len(body)))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:sent])
        time.sleep(chance.random() * 0.1)
    told.count("hung up after the upload" if sent == len(body) else "broke off")


def peek(server: Server, token: str, job: str, told: Told, chance: random.Random) -> None:
    """Look at the progress for a moment and hang up."""
    head = f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.sendall(head.encode())
        peer.settimeout(chance.random() + 0.05)
        with contextlib.suppress(TimeoutError):
            peer.recv(4096)
    told.count("peeked")


def client(server: Server, token: str, films: dict[int, bytes], told: Told, jobs: int, seed: int) -> None:
    """Until its share of jobs is accepted. Whatever happens to the connection, it comes back."""
    chance = random.Random(seed)
    while sum(owner == token for owner, _ in list(told.accepted.values())) < jobs:
        try:
            visit(server, token, films, told, chance)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            told.count("connection lost")
            time.sleep(0.2)


def run(folder: Path, jobs: int, clients: int, kills: int, at_once: int, seed: int) -> dict[str, Any]:
    tokens = [f"client-{number:03}-{seed:016}" for number in range(clients)]
    films = {frames: film(folder / f"{frames}.mp4", frames).read_bytes() for frames in (8, 11, 14, 17)}
    server, told, began = Server(folder, tokens, at_once), Told(), time.monotonic()
    server.start()
    shares = [jobs // clients + (number < jobs % clients) for number in range(clients)]
    threads = [
        threading.Thread(target=client, args=(server, token, films, told, share, seed + number))
        for number, (token, share) in enumerate(zip(tokens, shares))
    ]
    for thread in threads:
        thread.start()
    for number in range(kills):
        while len(told.accepted) < jobs * (number + 1) // (kills + 1):
            time.sleep(0.01)
        server.kill()
        told.count("server killed")
        server.start()
    for thread in threads:
        thread.join()
    uploaded = time.monotonic() - began
    ends = settle(server, tokens)
    seconds = time.monotonic() - began
    found = check(server, told, ends, tokens, folder)
    server.stop()
    return {
        "jobs": jobs,
        "clients": clients,
        "kills": kills,
        "at_once": at_once,
        "seconds": round(seconds, 1),
        "upload_seconds": round(uploaded, 1),
        "jobs_per_second": round(len(ends) / seconds, 2),
        "clients_saw": dict(sorted(told.events.items())),
        **found,
    }


def settle(server: Server, tokens: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Wait until no job of anybody is left to do; job → owner and what became of it."""
    while True:
        found = {}
        for token in tokens:
            status, body = server.ask("GET", "/api/jobs", token)
            assert status == 200, body
            for job in json.loads(body)["jobs"]:
                assert job["id"] not in found, "one job is listed for two tokens"
                found[job["id"]] = (token, job)
        if all(job["state"] in ("done", "failed") for _, job in found.values()):
            return found
        time.sleep(0.5)


def check(
    server: Server, told: Told, ends: dict[str, tuple[str, dict[str, Any]]], tokens: list[str], folder: Path
) -> dict[str, Any]:
    """Every promise, job by job."""
    wrong: Counter[str] = Counter()
    got = folder / "got.mp4"
    for job, (owner, frames) in told.accepted.items():
        if job not in ends:
            wrong["lost"] += 1
            continue
        token, end = ends[job]
        wrong["of another owner"] += token != owner
        wrong["failed without a reason"] += end["state"] == "failed" and not end["reason"]
        if end["state"] == "done":
            status, body = server.ask("GET", f"/api/jobs/{job}/video", owner)
            got.write_bytes(body)
            wrong["without a result"] += status != 200
            wrong["with another film's result"] += status == 200 and probe(got).frames != frames
        other = tokens[(tokens.index(owner) + 1) % len(tokens)]
        if other != owner:
            for way in ("", "/video", "/report", "/events"):
                wrong["served to another token"] += (
                    server.ask("GET", f"/api/jobs/{job}{way}", other)[0] != 404
                )
    wrong["raw uploads left"] += len(list((folder / "data" / "jobs").glob("*/upload")))
    states = Counter(end["state"] for _, end in ends.values())
    reasons = Counter(end["reason"] for _, end in ends.values() if end["reason"])
    tried = Counter(str(end["tries"]) for _, end in ends.values())
    return {
        "accepted_and_told": len(told.accepted),
        "ended": dict(states),
        "tries": dict(tried),
        "reasons": dict(reasons),
        "wrong": {what: number for what, number in wrong.items() if number},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="veil-service-") as folder:
        result = run(Path(folder), given.jobs, given.clients, given.kills, given.at_once, given.seed)
    print(json.dumps(result, indent=1))
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
