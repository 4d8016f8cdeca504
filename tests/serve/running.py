"""Servers in processes of their own, a client without a library, and small films to send."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.pipeline.faults import HOLD
from tests.ports import free_port
from videoveil.data.theatre import cast, playwright, stage
from videoveil.media.writer import VideoWriter
from videoveil.pipeline import canaries

ANNA, BERT = "anna-0123456789abcdef", "bert-0123456789abcdef"
SECRET = 77
ROOT = Path(__file__).parents[2]
FAULTY = Path(__file__).parent / "faulty"
MODELS = (("blur", "blur"), ("black", "black"), ("held", "faulty held"))
LATE = 300.0  # seconds that anything may take on a machine with much other work


def film(path: Path, frames: int = 12, width: int = 96, height: int = 64) -> Path:
    """Somebody walks, and every frame carries its canary."""
    play = playwright.trimmed(
        "serve", action="walk", person=cast.identity(0, 3), width=width, height=height, frames=24
    )
    theatre, tick = stage.Stage(play), Fraction(1, 25)
    drawn = [theatre.frame(number) for number in range(min(frames, 24))]  # drawing is what takes time
    with VideoWriter(path, width=width, height=height, time_base=tick, rate=Fraction(25)) as writer:
        for number in range(frames):
            writer.write(canaries.mark(drawn[number % len(drawn)], number, SECRET), number * tick)
    return path


def with_sound(source: Path, destination: Path) -> Path:
    """The same pictures with a second of silence beside them."""
    with av.open(str(source)) as film_in, av.open(str(destination), "w") as film_out:
        picture = film_in.streams.video[0]
        copy = film_out.add_stream_from_template(picture)
        audio = film_out.add_stream("aac", rate=16000, layout="mono")
        for packet in film_in.demux(picture):
            if packet.dts is not None:
                packet.stream = copy
                film_out.mux(packet)
        for number in range(8):
            silence = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            silence.rate, silence.pts = 16000, number * 1024
            film_out.mux(audio.encode(silence))
        film_out.mux(audio.encode(None))
    return destination


def noise(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).tobytes()


@dataclass
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A service on a free port. `faults`: models from tests/serve/faulty are known to it.

    How long a client may take is bounded in `test_slowness` only: elsewhere a busy machine must not cost a request.
    """

    data: Path
    settings: dict[str, Any] = field(default_factory=dict)
    tokens: tuple[str, ...] = (ANNA, BERT)
    workers: bool = True
    """Wait until there are workers; without, only until it answers."""
    models: tuple[tuple[str, str], ...] = MODELS[:2]
    faults: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    log: Path = field(init=False)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.log = self.data.with_name(f"{self.data.name}.log")
        self.port = free_port()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Server:
        given = {
            "data": str(self.data),
            "models": self.models,
            "tokens": self.tokens,
            "port": self.port,
            "engine": "torch",
            "device": "cpu",
            "threads": 1,
            "least_disk": 1,
            "requests_per_minute": 100_000,
            "uploads_per_minute": 100_000,
            "queue": 1000,
            "queue_per_token": 1000,
            "header_seconds": LATE,
            "grace": LATE,
            "send_seconds": LATE,
            **self.settings,
        }
        path = [str(FAULTY)] if self.faults else []
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([*path, str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "TMPDIR": str(self._temporary()),
            HOLD: str(self._hold),
            **self.environment,
        }
        with open(self.log, "ab") as log:
            command = [sys.executable, "-m", "tests.serve.run", json.dumps(given)]
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self.until(self._ready, LATE, "the server is ready")
        return self

    def _temporary(self) -> Path:
        folder = self.data.with_name(f"{self.data.name}.tmp")
        folder.mkdir(exist_ok=True)
        return folder

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("GET", "/health").status == 200 or not self.workers
        except (OSError, http.client.HTTPException):
            return False

    @property
    def _hold(self) -> Path:
        return self.data.with_name(f"{self.data.name}.hold")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile a job of the faulty models `slow` and `held` stays at work, however slow the others are."""
        self._hold.touch()
        try:
            yield
        finally:
            self._hold.unlink()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(LATE)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(LATE)

    # --- a client ---

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        token: str | None = ANNA,
        headers: dict[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> Answer:
        """`address`: of the client; all of 127.0.0.0/8 is this machine."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, LATE, source_address=(address, 0))
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        try:
            # refused before all of it was sent, the answer is there all the same
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body, sent)
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def upload(self, body: bytes, model: str = "blur", token: str | None = ANNA, more: str = "") -> Answer:
        kind = {"Content-Type": "application/octet-stream"}
        return self.ask("POST", f"/api/jobs?model={model}{more}", body, token, kind)

    def accepted(self, path: Path, model: str = "blur", token: str = ANNA) -> str:
        answer = self.upload(path.read_bytes(), model, token)
        assert answer.status == 201, answer
        return str(answer.json["id"])

    def job(self, job: str, token: str = ANNA) -> dict[str, Any]:
        answer = self.ask("GET", f"/api/jobs/{job}", token=token)
        assert answer.status == 200, answer
        return dict(answer.json)

    def ended(self, job: str, token: str = ANNA) -> dict[str, Any]:
        return self.in_state(job, ("done", "failed"), token)

    def in_state(self, job: str, states: tuple[str, ...], token: str = ANNA) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            now = self.job(job, token)
            return now if now["state"] in states else None

        return dict(self.until(there, LATE, f"job is {states}"))

    def until(self, there: Any, seconds: float, words: str) -> Any:
        end = time.monotonic() + seconds
        while not (found := there()):
            assert time.monotonic() < end, f"not in {seconds} s: {words}\n{self.log.read_text()[-2000:]}"
            time.sleep(0.05)
        return found

    # --- what is on the disk ---

    def files(self) -> Iterator[Path]:
        """`rglob` would fail where a folder is deleted meanwhile."""
        yield from (Path(at, name) for at, _, names in os.walk(self.data) for name in names)

    def leaks(self, secret: int = SECRET) -> dict[str, list[int]]:
        """Files with raw frames in them: below the data folder, in the temporary folder, and the log."""
        found: dict[str, list[int]] = {}
        for place in (self.data, self._temporary(), self.log):
            found |= canaries.find_all(place, secret)
        return found
