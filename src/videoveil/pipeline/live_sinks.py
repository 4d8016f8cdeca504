"""Where live pictures go: files in segments, a push to a streaming server, a preview page on this machine.

A sink is handed nothing but checked pictures, each with the number of its tick: picture n is shown n / rate seconds
after the first. Ticks may be missing where a sink could not keep up. `close` ends it well; `abandon` leaves nothing
unfinished behind.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from videoveil import files
from videoveil.errors import UsageError, WriteFailed
from videoveil.pipeline.options import Options

if TYPE_CHECKING:
    from videoveil.media.writer import VideoWriter

SEGMENT = 10.0  # seconds: what a kill can cost
LOOPBACK = "127.0.0.1"
_MUXERS = {
    "rtmp": "flv",
    "rtmps": "flv",
    "rtsp": "rtsp",
    "rtsps": "rtsp",
    "srt": "mpegts",
    "udp": "mpegts",
    "tcp": "mpegts",
}
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


class Sink(Protocol):
    """Takes checked pictures of one size at one rate."""

    name: str
    before_release: Callable[[], None]
    """Called before anything becomes final; what it raises keeps that from happening."""

    def open(self, width: int, height: int, rate: Fraction) -> None: ...

    def write(self, tick: int, image: np.ndarray) -> None:
        """One picture: (H, W, 3) uint8 RGB."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None: ...

    def facts(self) -> dict[str, Any]:
        """For the report."""
        ...


def sink_for(target: str | Path, options: Options, *, segment: float = SEGMENT) -> Sink:
    """By what a user types: a file name (segments `NAME-00000.mp4`, …), rtmp://… or rtsp://…, or 'preview:PORT'."""
    text = str(target)
    if text == "preview" or text.startswith("preview:"):
        port = text.partition(":")[2] or "0"
        if not port.isdigit() or int(port) > 65535:
            raise UsageError(f"{text}: write it as preview:PORT, such as preview:8080")
        return PreviewSink(int(port))
    if (match := _ADDRESS.match(text)) is not None:
        scheme = match[1].lower()
        if scheme not in _MUXERS:
            raise UsageError(f"{text}: cannot push there; push to {', '.join(f'{s}://' for s in _MUXERS)}")
        return PushSink(text, _MUXERS[scheme], options)
    path = Path(text)
    if path.suffix.lower() not in (".mp4", ".m4v", ".mov") or path.is_dir():
        raise UsageError(
            f"{text}: give a name that ends in .mp4, an rtmp:// or rtsp:// address, or preview:PORT"
        )
    return SegmentSink(path, options, seconds=segment)


def _nothing() -> None:
    """There is nothing to check."""


# --- files ----------------------------------------------------------------------------------------------------


class SegmentSink:
    """mp4 files of a few seconds each. A name appears when its segment is whole: a kill costs one segment at most."""

    def __init__(self, path: Path, options: Options, *, seconds: float = SEGMENT):
        if not seconds > 0:
            raise UsageError(f"segments of {seconds} s: must be above zero")
        self.name, self.path, self.options, self.seconds = str(path), path, options, seconds
        self.before_release: Callable[[], None] = _nothing
        self.written: list[str] = []
        self._segments = self._frames = 0
        self._writer: VideoWriter | None = None
        self._first = 0
        self._name = contextlib.ExitStack()

    def open(self, width: int, height: int, rate: Fraction) -> None:
        self._size, self._step = (width, height), 1 / rate
        self._length = max(1, round(self.seconds * rate))
        if not (self._claim() or self._claim()):  # a run that is just ending takes its lock along
            raise UsageError(f"{self.name}: another run writes segments of that name; choose another one")
        self._number = self._next_number()

    def _claim(self) -> bool:
        mine = self._name.enter_context(files.claim(self.path.with_name(f".{self.path.name}.live")))
        if not mine:
            self._name.close()
        return mine

    def write(self, tick: int, image: np.ndarray) -> None:
        if self._writer is not None and tick - self._first >= self._length:
            self._release()
        if self._writer is None:
            self._writer, self._first = self._new(), tick
        self._writer.write(image, (tick - self._first) * self._step)
        self._frames += 1

    def close(self) -> None:
        if self._writer is not None:
            self._release()
        self._name.close()

    def abandon(self) -> None:
        if self._writer is not None:
            stopped = UsageError("abandoned")
            self._writer.__exit__(type(stopped), stopped, None)
            self._writer = None
        self._name.close()

    def facts(self) -> dict[str, Any]:
        return {"segments": self._segments, "frames": self._frames, "last": self.written[-1:]}

    def _new(self) -> VideoWriter:
        from videoveil.media.writer import VideoWriter

        chosen: dict[str, Any] = {"threads": self.options.threads} if self.options.threads else {}
        writer = VideoWriter(
            self.path.with_name(f"{self.path.stem}-{self._number:05d}{self.path.suffix}"),
            width=self._size[0],
            height=self._size[1],
            time_base=self._step,
            rate=1 / self._step,
            crf=self.options.crf,
            preset=self.options.preset,
            limits=self.options.limits,
            **chosen,
        )
        return writer.__enter__()

    def _release(self) -> None:
        assert self._writer is not None
        try:
            self.before_release()
        except BaseException:
            self.abandon()
            raise
        writer, self._writer = self._writer, None
        writer.__exit__(None, None, None)
        self._number += 1
        self._segments += 1
        self.written = [*self.written[-99:], str(writer.destination)]  # a camera runs for months

    def _next_number(self) -> int:
        """Behind those of earlier runs: nothing is overwritten."""
        pattern = re.compile(rf"{re.escape(self.path.stem)}-(\d{{5,}}){re.escape(self.path.suffix)}")
        there = self.path.parent.iterdir() if self.path.parent.is_dir() else iter(())
        found = [int(match[1]) for one in there if (match := pattern.fullmatch(one.name))]
        return max(found, default=-1) + 1


# --- push -----------------------------------------------------------------------------------------------------


class PushSink:
    """H.264 to a streaming server. A connection that breaks is made again; what comes meanwhile is lost and counted.

    The connection lives in a process of its own (`live_push`), which is handed checked pictures and nothing else: libav
    holds up every thread of a process while it connects.
    """

    def __init__(self, address: str, muxer: str, options: Options, *, timeout: float = 10.0):
        self.name, self.muxer, self.options, self.timeout = address, muxer, options, timeout
        self.before_release: Callable[[], None] = _nothing
        self._process: subprocess.Popen[bytes] | None = None
        self._given = 0
        self._facts: dict[str, Any] = {"frames": 0, "lost": 0, "connections": 0, "problem": "no picture came"}

    def open(self, width: int, height: int, rate: Fraction) -> None:
        settings = {
            "address": self.name,
            "muxer": self.muxer,
            "width": width,
            "height": height,
            "rate": str(rate),
            "timeout": self.timeout,
            "crf": self.options.crf,
            "preset": self.options.preset,
            "threads": self.options.threads or 2,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "videoveil.pipeline.live_push", json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C is for the run, which ends this well
        )

    def write(self, tick: int, image: np.ndarray) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(tick.to_bytes(8, "big") + np.ascontiguousarray(image).tobytes())
            self._process.stdin.flush()
        except OSError as error:
            raise WriteFailed(self.name, f"the process that pushes has ended: {error.strerror}") from error
        self._given += 1

    def close(self) -> None:
        if self._process is not None:
            try:
                said, _ = self._process.communicate(timeout=self.timeout + 10)  # closes its input first
                self._facts = json.loads(said)
            except (subprocess.TimeoutExpired, ValueError):
                self._facts["problem"] = "it did not end in time"
            self.abandon()
        if not self._facts["frames"]:
            raise WriteFailed(self.name, f"nothing could be pushed there: {self._facts['problem']}")

    def abandon(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what is still in the pipe has nowhere to go
                    if pipe is not None:
                        pipe.close()

    def facts(self) -> dict[str, Any]:
        return self._facts | {"given": self._given}


# --- preview --------------------------------------------------------------------------------------------------

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Videoveil preview</title>
<meta name="viewport" content="width=device-width">
<style>body{margin:0;background:#111;color:#ccc;font:1rem system-ui;display:grid;place-items:center;min-height:100vh}
img{max-width:100vw;max-height:90vh}</style></head>
<body><main><img src="/stream" alt="The anonymized live picture"><p>Only anonymized pictures are shown here.</p></main>
</body></html>
"""


class PreviewSink:
    """A page with the live picture, for browsers on this machine only. It keeps the last picture and no other."""

    def __init__(self, port: int = 0, *, quality: int = 80):
        self.name, self.port, self.quality = f"preview:{port}", port, quality
        self.before_release: Callable[[], None] = _nothing
        self.shown = 0
        self._latest: np.ndarray | None = None
        self._changed = threading.Condition()
        self._ended = False
        self._server: ThreadingHTTPServer | None = None

    def open(self, width: int, height: int, rate: Fraction) -> None:
        try:
            self._server = _Server((LOOPBACK, self.port), _handler(self))
        except OSError as error:
            raise WriteFailed(self.name, f"port {self.port} cannot be used: {error.strerror}") from error
        self.port = self._server.server_address[1]
        self.name = f"http://{LOOPBACK}:{self.port}/"
        threading.Thread(target=self._server.serve_forever, name="veil-preview", daemon=True).start()

    def write(self, tick: int, image: np.ndarray) -> None:
        with self._changed:
            self._latest = image
            self.shown += 1
            self._changed.notify_all()

    def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        with self._changed:
            self._ended, self._latest = True, None
            self._changed.notify_all()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def facts(self) -> dict[str, Any]:
        return {"frames": self.shown}

    def jpegs(self) -> Iterator[bytes]:
        """The latest picture whenever it changes, for one viewer; a slow viewer misses some."""
        import cv2

        seen = -1
        while True:
            with self._changed:
                while not self._ended and self.shown == seen:
                    self._changed.wait(5)
                if self._ended:
                    return
                image, seen = self._latest, self.shown
            if image is not None:
                fine, data = cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, self.quality])
                if fine:
                    yield data.tobytes()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A viewer that leaves is no error."""


def _handler(sink: PreviewSink) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "videoveil", ""
        timeout = 30

        def do_GET(self) -> None:
            host = (self.headers.get("Host") or "").rpartition(":")[0]
            if host not in (LOOPBACK, "localhost"):  # another site's name that was pointed at this machine
                self.send_error(HTTPStatus.FORBIDDEN)
            elif self.path == "/":
                self._send("text/html; charset=utf-8", _PAGE.encode())
            elif self.path == "/frame.jpg":
                data = next(sink.jpegs(), b"")
                if data:
                    self._send("image/jpeg", data)
                else:
                    self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            elif self.path == "/stream":
                self._stream()
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _send(self, kind: str, data: bytes) -> None:
            self.send_response(HTTPStatus.OK)
            self._headers(kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self) -> None:
            self.send_response(HTTPStatus.OK)
            self._headers("multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            for data in sink.jpegs():
                head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
                self.wfile.write(head.encode() + data + b"\r\n")

        def _headers(self, kind: str) -> None:
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header(
                "Content-Security-Policy", "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'"
            )

        def log_message(self, format: str, *args: Any) -> None:
            """Who looks is nobody's business."""

    return Handler
