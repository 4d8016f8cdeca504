"""A second reader, for checking: PyAV as it comes, none of the code that anonymization itself reads with.

It tells everything that is in a file beside its pictures (streams, tags, chapters, notes of the encoder, boxes, bytes
that belong to nothing) and gives the pictures with their times, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import av
import av.error
import numpy as np
from av.stream import Disposition

from videoveil.errors import CorruptVideo, EmptyFile, MissingFile, NoVideoStream

BROKEN = (av.error.FFmpegError, ValueError, EOFError)
X264 = bytes.fromhex("dc45e9bde6d948b7962cd820d923eeef")  # marks the note that x264 writes about its settings
SEI = {"h264": (6,), "hevc": (39, 40)}  # unit types that carry messages
USER_DATA = {4: "registered user data (captions and the like)", 5: "free user data"}
INSIDE = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"udta", b"moof", b"traf", b"mvex", b"ilst", b"dinf")
HIDING = (b"uuid", b"loci", b"\xa9xyz", b"XMP_", b"xml ", b"gps ", b"GPS ")


@dataclass(frozen=True)
class Shown:
    """A picture as it is to be shown: (H, W, 3) uint8 RGB, and its time in seconds."""

    time: Fraction
    image: np.ndarray


class Reader:
    """One run over a file; use it in a `with` block. `packets` and `notes` are complete when `pictures` has ended."""

    def __init__(self, path: str | Path):
        self.path = str(path)
        if not Path(path).is_file():
            raise MissingFile(path, "does not exist or is not a regular file")
        if not os.path.getsize(path):  # noqa: PTH202
            raise EmptyFile(path, "has no bytes")
        try:
            # 'file:' keeps a name with a colon from being taken for a protocol; playlists may reach nothing else
            self.container = av.open(
                f"file:{self.path}",
                metadata_errors="replace",
                container_options={"protocol_whitelist": "file", "enable_drefs": "0"},
            )
        except BROKEN as error:
            raise CorruptVideo(path, f"cannot be opened: {_words(error)}") from error
        moving = [s for s in self.container.streams.video if not s.disposition & Disposition.attached_pic]
        if not moving or moving[0].codec_context is None:
            self.container.close()
            raise NoVideoStream(path, "has no moving pictures that can be decoded")
        self.stream = next((s for s in moving if s.disposition & Disposition.default), moving[0])
        self.stream.codec_context.thread_type = "NONE"
        self.time_base = Fraction(self.stream.time_base or Fraction(1, av.time_base))
        self.codec = self.stream.codec_context.codec.canonical_name
        self.format = self.container.format.name
        self.packet_bytes = 0
        self.notes: set[str] = set()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.container.close()

    # --- what is in the file ----------------------------------------------------------------------------------

    def streams(self) -> list[str]:
        """What each stream is, in words: "video", "audio", "cover picture", "subtitle", "data", "attachment"."""
        return [
            "cover picture" if stream.disposition & Disposition.attached_pic else stream.type or "unknown"
            for stream in self.container.streams
        ]

    def tags(self) -> dict[str, str]:
        """All tags; those of a stream are named "stream 0: title"."""
        found = {str(key): str(value) for key, value in self.container.metadata.items()}
        for stream in self.container.streams:
            for key, value in stream.metadata.items():
                found[f"stream {stream.index}: {key}"] = str(value)
        return found

    def chapters(self) -> int:
        return len(self.container.chapters())

    # --- pictures ---------------------------------------------------------------------------------------------

    def pictures(self) -> Iterator[Shown]:
        """Every picture in order of display. Anything that does not decode is `CorruptVideo`."""
        sei = _SeiReader(self.codec, self.stream.codec_context.extradata)
        count = 0
        try:
            for packet in self.container.demux():
                self.packet_bytes += packet.size
                if packet.stream.index != self.stream.index:
                    continue
                if packet.is_corrupt:
                    raise CorruptVideo(self.path, f"is damaged after {count} pictures")
                if packet.size:
                    self.notes |= sei.notes(bytes(packet))
                for frame in self.stream.codec_context.decode(packet if packet.size else None):
                    yield self._shown(frame, count)
                    count += 1
        except BROKEN as error:
            if isinstance(error, CorruptVideo):
                raise
            raise CorruptVideo(self.path, f"breaks after {count} pictures: {_words(error)}") from error

    def _shown(self, frame: av.VideoFrame, count: int) -> Shown:
        if frame.is_corrupt:
            raise CorruptVideo(self.path, f"picture {count} is damaged")
        if frame.pts is None:
            raise CorruptVideo(self.path, f"picture {count} has no time")
        base = Fraction(frame.time_base or self.time_base)
        turned = np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90) % 4)
        return Shown(frame.pts * base, np.ascontiguousarray(turned))


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


class _SeiReader:
    """Messages between the coded pictures of H.264 and HEVC."""

    def __init__(self, codec: str, extradata: Any):
        self.types = SEI.get(codec, ())
        self.hevc = codec == "hevc"
        extra = bytes(extradata or b"")
        # The first byte is 1 where lengths stand before the units instead of start codes.
        place = 21 if self.hevc else 4
        self.length = (extra[place] & 3) + 1 if len(extra) > place and extra[0] == 1 else 0

    def notes(self, data: bytes) -> set[str]:
        if not self.types:
            return set()
        found: set[str] = set()
        for unit in self._units(data):
            if not unit:
                continue
            kind = (unit[0] >> 1) & 63 if self.hevc else unit[0] & 31
            if kind in self.types:
                found |= _messages(unit[2 if self.hevc else 1 :].replace(b"\0\0\3", b"\0\0"))
        return found

    def _units(self, data: bytes) -> Iterator[bytes]:
        # some files say that lengths stand there, and have start codes; decoders take both
        if not self.length or data.startswith(b"\0\0\0\1"):
            yield from data.split(b"\0\0\1")
            return
        place = 0
        while place + self.length <= len(data):
            size = int.from_bytes(data[place : place + self.length], "big")
            place += self.length
            yield data[place : place + size]
            place += size


def _messages(body: bytes) -> set[str]:
    """What the messages of one unit are, as far as they can hold anything about people or places."""
    found, place = set(), 0
    while place + 2 < len(body):
        kind, place = _number(body, place)
        size, place = _number(body, place)
        text = body[place : place + size]
        if kind in USER_DATA:
            found.add("x264's settings" if kind == 5 and text.startswith(X264) else USER_DATA[kind])
        place += size
    return found


def _number(body: bytes, place: int) -> tuple[int, int]:
    total = 0
    while place < len(body) and body[place] == 255:
        total, place = total + 255, place + 1
    return total + (body[place] if place < len(body) else 0), place + 1


# --- boxes of mp4 and mov -----------------------------------------------------------------------------------


@dataclass
class Boxes:
    """What an mp4 has beside its streams."""

    hidden: list[str]  # places in which anything can be stored
    media: int = 0  # bytes of all mdat boxes
    known: bool = True  # False: not mp4, or the boxes do not add up


def look_at_boxes(path: str | Path) -> Boxes:
    """Walk the boxes of a file; user data, maps of places and filled "free" space are named."""
    found = Boxes([])
    size = Path(path).stat().st_size
    with open(path, "rb") as handle:
        handle.seek(4)
        if handle.read(4) not in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip", b"styp"):
            found.known = False
            return found
        end = _walk(handle, 0, size, (), found)
        if end != size:
            found.hidden.append(f"{size - end} bytes after the last box")
    return found


def _walk(handle: BinaryIO, start: int, stop: int, path: tuple[bytes, ...], found: Boxes) -> int:
    """Boxes between two places; gives the place behind the last whole one."""
    place = start
    while place + 8 <= stop:
        handle.seek(place)
        head = handle.read(16)
        size, kind, lead = int.from_bytes(head[:4], "big"), head[4:8], 8
        if size == 1:
            size, lead = int.from_bytes(head[8:16], "big"), 16
        elif size == 0:
            size = stop - place
        if size < lead or place + size > stop:
            return place
        _look(handle, place + lead, place + size, (*path, kind), found)
        place += size
    return place


def _look(handle: BinaryIO, start: int, stop: int, path: tuple[bytes, ...], found: Boxes) -> None:
    kind, name = path[-1], "/".join(part.decode("latin-1") for part in path)
    if kind == b"mdat":
        found.media += stop - start
    elif kind in (b"free", b"skip", b"wide"):
        if _filled(handle, start, stop):
            found.hidden.append(f"{stop - start} bytes in {name}")
    elif kind in HIDING:
        found.hidden.append(name)
    elif kind == b"meta" and b"udta" in path:
        # a version, a handler, and a list of tags, each of which must be the name of the program
        _walk(handle, start + 4, stop, path, found)
    elif kind in INSIDE:
        _walk(handle, start, stop, path, found)
    elif b"udta" in path and kind not in (b"hdlr", b"\xa9too"):
        found.hidden.append(name)


def _filled(handle: BinaryIO, start: int, stop: int) -> bool:
    handle.seek(start)
    while start < stop:
        piece = handle.read(min(1 << 16, stop - start))
        if not piece:
            return False
        if piece.strip(b"\0"):
            return True
        start += len(piece)
    return False
