"""mp4/mov: what the header claims, read before libav sees it.

libav builds tables as large as the header says, so a file of a few hundred bytes can ask for gigabytes; and a header
can place its samples in another file. Both are refused here, from the boxes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from videoveil.errors import ContainerNotAllowed, CorruptVideo, TooManyFrames
from videoveil.media.limits import Limits
from videoveil.media.source import LocalFile

_PARENTS = frozenset(
    (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"dinf", b"edts", b"moof", b"traf", b"cmov", b"rmra")
)
_FRAGMENTS = (b"mvex", b"moof", b"mdat", b"traf", b"trun")
_DEPTH = 12
_BOXES = 1_000_000
_TRACKS = 1000
_REFERENCES = 256  # data references of one track; recorders write one


@dataclass(frozen=True)
class Box:
    kind: bytes
    start: int
    body: int
    end: int
    depth: int


@dataclass
class _Track:
    """What one `trak` claims."""

    handler: bytes = b""
    samples: int = 0
    edits: int = 1
    unit_samples: bool = False  # one tick per sample: PCM sound, which libav indexes by chunk
    elsewhere: str = ""
    chunks: int = 0
    runs: bytes = b""  # entries of (first chunk, samples in each chunk from there on, description)

    def placed(self) -> int:
        """Samples that the chunk tables give a place to."""
        runs = np.frombuffer(self.runs[: len(self.runs) // 12 * 12], ">u4").reshape(-1, 3)
        first, each = runs[:, 0].astype(np.float64), runs[:, 1].astype(np.float64)
        end = np.minimum(np.append(first[1:], self.chunks + 1), self.chunks + 1)[: len(first)]
        return int((np.maximum(0, end - first) * each).sum())

    @property
    def index_entries(self) -> int:
        """libav copies the samples once per edit."""
        return 0 if self.unit_samples and self.handler == b"soun" else self.samples * max(1, self.edits)


def check_mov(file: LocalFile, limits: Limits) -> bool:
    """Refuse headers that lie or point elsewhere; True when the file is fragmented (`moof`)."""
    tracks: list[_Track] = []
    header, fragments = False, _Fragments(file, limits)
    for box in _walk(file):
        if box.kind == b"cmov":
            raise ContainerNotAllowed(file.path, "has a compressed header (cmov), which hides what it claims")
        if box.kind == b"rmra":
            raise ContainerNotAllowed(file.path, "is a reference movie that points at other files")
        if box.kind == b"moov":
            _require_whole(file, box)
            header = True
        elif box.kind == b"trak":
            tracks.append(_Track())
            if len(tracks) > _TRACKS:
                raise CorruptVideo(file.path, f"claims more than {_TRACKS} tracks")
        elif box.kind in _FRAGMENTS:
            fragments.note(box)
        elif tracks:
            _note(file, box, tracks[-1])
    if not header:
        raise CorruptVideo(file.path, "has no header (moov box): the recording was cut off or never finished")
    fragments.end()
    for track in tracks:
        _cap(file, track.index_entries, limits)
        if track.handler == b"vide":
            if track.elsewhere:
                raise ContainerNotAllowed(
                    file.path, f"keeps its pictures in another file ({track.elsewhere})"
                )
            if track.placed() < track.samples:
                reason = f"lists {track.samples} pictures and says of only {track.placed()} where they are"
                raise CorruptVideo(file.path, reason)
    return fragments.found


class _Fragments:
    """A fragmented file is a row of pairs: a `moof` that lists samples, and the `mdat` that holds them."""

    def __init__(self, file: LocalFile, limits: Limits):
        self.found = False
        self._file, self._limits = file, limits
        self._announced = False  # by the header
        self._parts: list[bytes] = []  # of the current `moof`
        self._described = False  # the next `mdat` has its `moof`
        self._samples = 0

    def note(self, box: Box) -> None:
        if box.kind == b"mvex":
            self._announced = True
        elif box.kind == b"moof":
            _require_whole(self._file, box)
            self._close()
            self.found = self._described = True
            self._parts = [b"moof"]
        elif box.kind == b"mdat" and self.found:
            _require_whole(self._file, box)
            self._close()
            if not self._described:
                raise CorruptVideo(self._file.path, f"has data at byte {box.start} that no fragment lists")
            self._described = False
        elif box.kind in (b"traf", b"trun") and self.found:
            self._parts.append(box.kind)
            if box.kind == b"trun":
                self._samples += _number(self._file, box.body + 4)
                _cap(self._file, self._samples, self._limits)

    def end(self) -> None:
        self._close()
        if self._announced and not self.found:
            raise CorruptVideo(self._file.path, "announces fragments and has none")

    def _close(self) -> None:
        """A fragment without samples is one whose list was damaged."""
        if self._parts and not {b"traf", b"trun"} <= set(self._parts):
            raise CorruptVideo(self._file.path, "has a fragment that lists no samples")
        self._parts = []


def _note(file: LocalFile, box: Box, track: _Track) -> None:
    if box.kind == b"hdlr" and box.depth == 3:  # moov/trak/mdia/hdlr; minf may hold a second one
        track.handler = file.read_at(box.body + 8, 4)
    elif box.kind in (b"stsz", b"stz2"):
        track.samples = max(track.samples, _number(file, box.body + 8))
    elif box.kind in (b"stco", b"co64"):
        track.chunks = _number(file, box.body + 4)
    elif box.kind == b"stsc":
        length = min(12 * _number(file, box.body + 4), box.end - box.body - 8)
        track.runs = file.read_at(box.body + 8, max(0, length))
    elif box.kind == b"elst":
        track.edits = max(track.edits, _number(file, box.body + 4))
    elif box.kind == b"stts":
        track.unit_samples = _number(file, box.body + 4) == 1 and _number(file, box.body + 12) == 1
    elif box.kind == b"dref":
        track.elsewhere = _external_reference(file, box)


def _external_reference(file: LocalFile, dref: Box) -> str:
    """The first data reference without the "in this file" flag."""
    for count, entry in enumerate(_children(file, dref.body + 8, min(dref.end, file.size), dref.depth + 1)):
        if count == _REFERENCES:
            return f"more than {_REFERENCES} data references"
        flags = _number(file, entry.body)
        if not flags & 1:
            where = file.read_at(entry.body + 4, min(80, max(0, entry.end - entry.body - 4)))
            kind = entry.kind.decode("latin-1")
            return f"data reference {kind!r} {where.split(bytes(1))[0].decode('latin-1', 'replace')!r}"
    return ""


def _walk(file: LocalFile) -> Iterator[Box]:
    """Every box that matters, outer before inner, depth first."""
    stack: list[Iterator[Box]] = [_children(file, 0, file.size, 0)]
    seen = 0
    while stack:
        box = next(stack[-1], None)
        if box is None:
            stack.pop()
            continue
        seen += 1
        if seen > _BOXES:
            raise CorruptVideo(file.path, f"has more than {_BOXES} boxes")
        yield box
        if box.kind in _PARENTS:
            if box.depth >= _DEPTH:
                raise CorruptVideo(file.path, f"nests boxes more than {_DEPTH} deep at byte {box.start}")
            stack.append(_children(file, box.body, min(box.end, file.size), box.depth + 1))


def _children(file: LocalFile, position: int, end: int, depth: int) -> Iterator[Box]:
    while position + 8 <= end:
        head = file.read_at(position, 16)
        size, kind, body = int.from_bytes(head[:4], "big"), head[4:8], position + 8
        if size == 1:
            size, body = int.from_bytes(head[8:16], "big"), position + 16
        elif size == 0:
            size = end - position
        if size < body - position or not all(32 <= byte < 127 or byte == 0xA9 for byte in kind):
            return  # not a box: padding or bytes after the last one; what is missing shows by its absence
        yield Box(kind, position, body, position + size, depth)
        position += size


def _require_whole(file: LocalFile, box: Box) -> None:
    if box.end > file.size:
        name = box.kind.decode("latin-1")
        raise CorruptVideo(
            file.path, f"breaks off: box {name!r} at byte {box.start} needs {box.end - file.size} more"
        )


def _cap(file: LocalFile, samples: int, limits: Limits) -> None:
    if samples > limits.frames:
        raise TooManyFrames(file.path, f"claims {samples} samples, above the limit of {limits.frames}")
    if samples > file.size:
        raise CorruptVideo(file.path, f"claims {samples} samples in {file.size} bytes")


def _number(file: LocalFile, position: int) -> int:
    return int.from_bytes(file.read_at(position, 4), "big")
