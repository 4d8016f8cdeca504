"""The process that pushes live pictures to a streaming server: checked pictures in on its input, H.264 out.

On its input, for every picture: the number of its tick (8 bytes, big-endian), then its RGB bytes. It ends with its
input, and says on its output how it went. When its parent is killed, its input ends too.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from fractions import Fraction
from typing import Any, BinaryIO

import av
import av.error
import numpy as np

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a push is tried again
ERRORS = (av.error.FFmpegError, OSError, ValueError)


class Pusher:
    """One address. What cannot be sent is lost and counted; nothing here waits for the server but libav itself."""

    def __init__(self, settings: dict[str, Any]):
        self.settings = settings
        self.size, self.rate = (settings["width"], settings["height"]), Fraction(settings["rate"])
        self.sent = self.lost = self.connections = 0
        self.problem = ""
        self._container: Any = None
        self._stream: Any = None
        self._wait, self._again = FIRST_WAIT, 0.0

    def write(self, tick: int, image: np.ndarray) -> None:
        """(H, W, 3) uint8 RGB."""
        if self._container is None and not self._connect():
            self.lost += 1
            return
        frame = av.VideoFrame.from_ndarray(image, format="rgb24")
        frame.pts, frame.time_base = tick, 1 / self.rate
        try:
            self._container.mux(self._stream.encode(frame))
        except ERRORS as error:
            self._broke(error)
            self.lost += 1
            return
        self.sent += 1

    def close(self) -> None:
        if self._container is None:
            return
        try:
            self._container.mux(self._stream.encode(None))
            self._container.close()
        except ERRORS as error:
            self.problem = _words(error)

    def facts(self) -> dict[str, Any]:
        return {
            "frames": self.sent,
            "lost": self.lost,
            "connections": self.connections,
            "problem": self.problem,
        }

    def _connect(self) -> bool:
        if time.monotonic() < self._again:
            return False
        timeout = self.settings["timeout"]
        options = {"fflags": "+bitexact"}
        if self.settings["muxer"] == "rtsp":
            options["rtsp_transport"] = "tcp"
        else:
            options["rw_timeout"] = str(round(timeout * 1_000_000))
        try:
            container = av.open(
                self.settings["address"],
                "w",
                format=self.settings["muxer"],
                container_options=options,
                timeout=timeout,
            )
            self._stream = container.add_stream("libx264", rate=self.rate, options=self._coding())
            context = self._stream.codec_context
            context.width, context.height = self.size
            context.pix_fmt = "yuv444p" if self.size[0] % 2 or self.size[1] % 2 else "yuv420p"
            context.time_base = 1 / self.rate
            container.start_encoding()
        except ERRORS as error:
            self._broke(error)
            return False
        self._container, self._wait = container, FIRST_WAIT
        self.connections += 1
        return True

    def _coding(self) -> dict[str, str]:
        """No look-ahead and no reordering: a picture leaves when it comes."""
        return {
            "preset": self.settings["preset"],
            "tune": "zerolatency",
            "crf": str(self.settings["crf"]),
            "g": str(max(1, round(2 * self.rate))),
            "threads": str(self.settings["threads"]),
            "flags": "+bitexact",
        }

    def _broke(self, error: Exception) -> None:
        self.problem = _words(error)
        if self._container is not None:
            with contextlib.suppress(*ERRORS):  # it is broken already
                self._container.close()
            self._container = None
        self._again = time.monotonic() + self._wait
        self._wait = min(2 * self._wait, LONGEST_WAIT)


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def run(settings: dict[str, Any], pictures: BinaryIO) -> dict[str, Any]:
    """All pictures until the input ends."""
    pusher = Pusher(settings)
    size = settings["width"] * settings["height"] * 3
    while len(head := pictures.read(8)) == 8 and len(data := pictures.read(size)) == size:
        image = np.frombuffer(data, np.uint8).reshape(settings["height"], settings["width"], 3)
        pusher.write(int.from_bytes(head, "big"), image)
    pusher.close()
    return pusher.facts()


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]), sys.stdin.buffer)))
