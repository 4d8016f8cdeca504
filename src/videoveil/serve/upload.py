"""How the body of a request becomes a file: piece by piece, held to a size and a pace, its content looked at early.

Either the body is the video, or it is a form (multipart) with the video in it. A form is taken apart as it arrives:
nothing of it is kept anywhere but in the folder of its job. The name that a client gives its file is not even read.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from videoveil.errors import ContainerNotAllowed
from videoveil.media.sniff import HEAD, sniff
from videoveil.serve.disk import on_disk
from videoveil.serve.limits import Pace

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

PIECE = 1 << 20  # bytes that are written at once
LONGEST_FIELD = 256
MOST_PARTS = 8
DRAIN_BYTES, DRAIN_SECONDS = 8 << 20, 2.0


class Refused(Exception):
    """An upload that is not taken: the status and the words of the answer."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status, self.words = status, words


@dataclass
class Sink:
    """The file that an upload is written to. Looks at the first bytes before any of them is written."""

    path: Path
    limit: int
    size: int = 0
    _pending: bytearray = field(default_factory=bytearray)
    _known: bool = False
    _handle: int = -1

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self.limit:
            raise Refused(413, f"the video has more than the {self.limit} bytes that are taken")
        self._pending += data
        if not self._known and len(self._pending) >= HEAD:
            self._look()

    async def flush(self, *, last: bool = False) -> None:
        """Write what has gathered, if it is worth it."""
        if last and not self._known:
            self._look()
        if self._known and self._pending and (last or len(self._pending) >= PIECE):
            data, self._pending = self._pending, bytearray()
            await on_disk(self._write, data)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _look(self) -> None:
        if not self._pending:
            raise Refused(400, "the video is empty")
        try:
            sniff(bytes(self._pending[:HEAD]), "the video")
        except ContainerNotAllowed as error:
            raise Refused(415, str(error)) from None
        self._known = True

    def _write(self, data: bytearray) -> None:
        try:
            if self._handle < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                self._handle = os.open(self.path, flags, 0o600)
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            words = os.strerror(error.errno or errno.EIO)
            raise Refused(507, f"the video cannot be stored: {words}") from None


@dataclass
class Received:
    """What came with a video."""

    size: int
    fields: dict[str, str]


async def receive(request: Request, path: Path, limit: int, pace: Pace) -> Received:
    """Store the video of a request at `path`. Raises `Refused`; ClientDisconnect when the client is gone."""
    sink = Sink(path, limit)
    try:
        form = _form(request, sink)
        async for piece in _pieces(request, pace):
            if form is None:
                sink.feed(piece)
            else:
                form.feed(piece)
            await sink.flush()
        fields = form.finish() if form is not None else {}
        await sink.flush(last=True)
        return Received(sink.size, fields)
    finally:
        sink.close()


async def _pieces(request: Request, pace: Pace) -> AsyncIterator[bytes]:
    """The body as it arrives; too slow is refused."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(max(pace.patience(), 0)):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Refused(408, "the upload is too slow") from None
        pace.add(len(piece))
        if pace.patience() <= 0:
            raise Refused(408, "the upload is too slow")
        yield piece


async def drain(request: Request) -> None:
    """Take a little of what the client still sends, so that it gets to read the answer instead of a reset."""
    left = DRAIN_BYTES
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for piece in request.stream():
                left -= len(piece)
                if left < 0:
                    return
    except (TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: the stream was read to its end
        return


# --- forms --------------------------------------------------------------------------------------------------


def _form(request: Request, sink: Sink) -> Form | None:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":  # whatever else it is called (curl calls any body a form) is looked at
        return None
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise Refused(400, "the form does not say what its parts are separated by")
    return Form(boundary, sink)


class Form:
    """A multipart form as it arrives: one part `video`, and short ones such as `model`."""

    def __init__(self, boundary: bytes, sink: Sink):
        self._sink = sink
        self._header, self._value = bytearray(), bytearray()
        self._name, self._text = "", bytearray()
        self._fields: dict[str, str] = {}
        self._parts, self._videos, self._ended = 0, 0, False
        callbacks: MultipartCallbacks = {
            "on_part_begin": self._begin,
            "on_header_begin": self._header_begin,
            "on_header_field": lambda data, start, end: self._grow(self._header, data[start:end]),
            "on_header_value": lambda data, start, end: self._grow(self._value, data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }
        self._parser = MultipartParser(boundary, callbacks)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except MultipartParseError:
            raise Refused(400, "the form is damaged") from None

    def finish(self) -> dict[str, str]:
        if not self._ended:
            raise Refused(400, "the form breaks off")
        if self._videos != 1:
            raise Refused(400, "the form must have one part named 'video'")
        return self._fields

    def _begin(self) -> None:
        self._parts += 1
        self._name = ""
        if self._parts > MOST_PARTS:
            raise Refused(400, "the form has too many parts")

    def _header_begin(self) -> None:
        self._header, self._value = bytearray(), bytearray()

    def _grow(self, to: bytearray, data: bytes) -> None:
        to += data
        if len(to) > 4096:
            raise Refused(400, "the form has a header that is too long")

    def _header_end(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            kind, options = parse_options_header(bytes(self._value))
            if kind == b"form-data":
                self._name = options.get(b"name", b"").decode("ascii", "replace")

    def _headers_finished(self) -> None:
        self._text = bytearray()
        if self._name == "video":
            self._videos += 1
            if self._videos > 1:
                raise Refused(400, "the form has more than one video")
        elif self._name not in ("model", "audio") or self._name in self._fields:
            raise Refused(400, "the form may have the parts 'video', 'model' and 'audio', each once")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._name == "video":
            self._sink.feed(data[start:end])
            return
        self._text += data[start:end]
        if len(self._text) > LONGEST_FIELD:
            raise Refused(400, "a part of the form is too long")

    def _part_end(self) -> None:
        if self._name != "video":
            self._fields[self._name] = self._text.decode("utf-8", "replace")

    def _end(self) -> None:
        self._ended = True
