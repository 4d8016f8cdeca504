"""Real streams on this machine for tests: a paced broadcast over HTTP or TCP, and receivers of pushed streams."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from videoveil.pipeline.report import Progress

RATE = 24
LATE = 300.0  # seconds that anything may take on a machine with much other work


def transport_stream(images: Sequence[np.ndarray], *, rate: int = RATE, sound: bool = False) -> list[bytes]:
    """mpeg-ts in pieces, one for every picture, each of them a key frame: a viewer can join anywhere."""
    buffer = io.BytesIO()
    pieces = []
    with av.open(buffer, "w", format="mpegts", container_options={"flush_packets": "1"}) as output:
        audio = output.add_stream("aac", rate=16000, layout="stereo") if sound else None
        options = {"crf": "18", "preset": "ultrafast", "tune": "zerolatency", "threads": "1", "g": "1"}
        stream = output.add_stream("libx264", rate=rate, options=options)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for number, image in enumerate(images):
            if audio is not None:
                hum = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), "fltp", "stereo")
                hum.sample_rate, hum.pts = 16000, number * 16000 // rate
                output.mux(audio.encode(hum))
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = number
            output.mux(stream.encode(frame))
            pieces.append(buffer.getvalue())
            buffer.seek(0)
            buffer.truncate()
        output.mux(stream.encode(None))
    return [piece for piece in pieces if piece]


Plan = Callable[[int, Callable[[bytes], None]], None]
"""What a broadcast sends to its nth viewer: called with n and a way to send; returning ends the stream, an
`OSError` cuts the connection."""


class Broadcast:
    """Sends a stream to whoever connects. `plan` says what each connection gets."""

    def __init__(self, plan: Plan, *, http: bool = True):
        self._plan, self._http = plan, http
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.address = f"{'http' if http else 'tcp'}://127.0.0.1:{self.port}/live.ts"
        self.viewers = 0
        self._open = True

    def __enter__(self) -> Broadcast:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._socket.close()

    def _accept(self) -> None:
        while self._open:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            viewer, self.viewers = self.viewers, self.viewers + 1
            threading.Thread(target=self._serve, args=(connection, viewer), daemon=True).start()

    def _serve(self, connection: socket.socket, viewer: int) -> None:
        with connection, contextlib.suppress(OSError):
            if self._http:
                connection.recv(65536)
                head = "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nTransfer-Encoding: chunked\r\n\r\n"
                connection.sendall(head.encode())
                self._plan(viewer, lambda data: connection.sendall(b"%x\r\n%b\r\n" % (len(data), data)))
                connection.sendall(b"0\r\n\r\n")
            else:
                self._plan(viewer, connection.sendall)


def paced(pieces: Sequence[bytes], *, rate: int = RATE, stall: tuple[int, float] | None = None) -> Plan:
    """Every piece at its time; `stall` = (before which piece, for how many seconds) nothing is sent."""

    def plan(viewer: int, send: Callable[[bytes], None]) -> None:
        start = time.monotonic()
        for number, piece in enumerate(pieces):
            if stall is not None and number == stall[0]:
                time.sleep(stall[1])
                start += stall[1]
            time.sleep(max(0.0, start + number / rate - time.monotonic()))
            send(piece)

    return plan


class Shown:
    """How many pictures a live run has shown, as it tells itself; a broadcast can wait for more."""

    def __init__(self) -> None:
        self.frames = 0
        self._more = threading.Condition()

    def __call__(self, progress: Progress) -> None:
        with self._more:
            self.frames = progress.frames
            self._more.notify_all()

    def wait(self, more: int) -> None:
        with self._more:
            wanted = self.frames + more
            self._more.wait_for(lambda: self.frames >= wanted, LATE)


def listens(port: int) -> bool:
    """Whether somebody on this machine does; to try would be to be who is listened for."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    states = {(row.split()[1].rpartition(":")[2], row.split()[3]) for row in rows}
    return (f"{port:04X}", "0A") in states


class Receiver:
    """Somebody whom a stream is pushed to: a listening libav. `images` fill while it runs."""

    def __init__(self, address: str, options: dict[str, str], container: str | None = None):
        self.address, self.images, self.times = address, [], []  # type: ignore[var-annotated]
        self.error: Exception | None = None
        self._options, self._format = options, container
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        found, end = re.search(r":(\d+)", self.address), time.monotonic() + LATE
        assert found is not None
        while not listens(int(found[1])):
            assert time.monotonic() < end, "it does not listen"
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(LATE)

    def _run(self) -> None:
        try:
            with av.open(
                self.address, format=self._format, container_options=self._options, timeout=(LATE, LATE)
            ) as container:
                for frame in self._frames(container):
                    self.images.append(frame.to_ndarray(format="rgb24"))
                    self.times.append(frame.time)
        except Exception as error:  # looked at by the test
            self.error = error

    def _frames(self, container: Any) -> Iterator[Any]:
        yield from container.decode(video=0)
