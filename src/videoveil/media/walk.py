"""How many pictures a file stores, counted from its block headers, and whether the blocks reach to the end.

libav searches for the next readable block after damage and says nothing about those it passed over, and takes the end
of a cut file for the end of the video. Walking the headers ourselves finds both: a cut is an error here, and the
number of pictures found is held against the number that libav hands out.

Transport and program streams declare neither length nor count: a cut between two frames is, in them, simply a shorter
recording.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from videoveil.errors import CorruptVideo
from videoveil.media import sniff
from videoveil.media.sniff import Container
from videoveil.media.source import LocalFile, Watch

_WINDOW = 1 << 16


def stored_pictures(file: LocalFile, container: Container, watch: Watch) -> tuple[int, ...] | None:
    """Pictures per picture stream, in the order of the streams; None where the container does not tell."""
    walk = _WALKS.get(container)
    return walk(_Bytes(file, watch)) if walk else None


SLOWEST = 10e6  # bytes per second of the slowest disk a whole file is read from


class _Bytes:
    """Small reads through one window of the file; a walk over absurdly many tiny blocks runs out of time."""

    def __init__(self, file: LocalFile, watch: Watch):
        self.file, self.size, self.path, self._watch = file, file.size, file.path, watch
        self._start, self._window = 0, b""
        # a sound file may be large and its disk slow: the longer it is, the longer the walk may take
        self._until = time.monotonic() + watch.limit + file.size / SLOWEST

    def at(self, position: int, count: int) -> bytes:
        """`count` bytes; a file that ends before them is cut off."""
        if position + count > self.size:
            raise self.cut(position)
        offset = position - self._start
        if offset < 0 or offset + count > len(self._window):
            self.tick()
            self._start, self._window = position, self.file.read_at(position, max(count, _WINDOW))
            offset = 0
        return self._window[offset : offset + count]

    def tick(self) -> None:
        """Reading on is progress, as long as the whole walk keeps within its time."""
        if time.monotonic() < self._until:
            self._watch.progress()
        self._watch.check()

    def cut(self, position: int) -> CorruptVideo:
        return CorruptVideo(
            self.path, f"breaks off at byte {self.size}, inside what begins at byte {position}"
        )

    def damaged(self, position: int, what: str) -> CorruptVideo:
        return CorruptVideo(self.path, f"is damaged at byte {position}: {what}")


# --- Matroska ----------------------------------------------------------------------------------------------

_EBML, _SEGMENT, _TRACKS, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1654AE6B, 0x1F43B675
_TRACK, _TRACK_NUMBER, _TRACK_TYPE = 0xAE, 0xD7, 0x83
_SIMPLE_BLOCK, _GROUP, _BLOCK = 0xA3, 0xA0, 0xA1
_FILLERS = (0xEC, 0xBF)  # empty space, checksum
_TOP = frozenset((_CLUSTER, _TRACKS, 0x114D9B74, 0x1549A966, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367))
_IN_CLUSTER = frozenset((_SIMPLE_BLOCK, _GROUP, 0xE7, 0x5854, 0xA7, 0xAB, 0xAF, *_FILLERS))


def _matroska(data: _Bytes) -> tuple[int, ...]:
    kind, body, end = _element(data, 0)
    if kind != _EBML or end is None:
        raise data.damaged(0, "no EBML header")
    kind, position, segment_end = _element(data, end)
    while kind != _SEGMENT and segment_end is not None:
        kind, position, segment_end = _element(data, segment_end)
    tracks: list[int] = []
    blocks: Counter[int] = Counter()
    stop = data.size if segment_end is None else segment_end
    while position < stop:
        start = position
        kind, body, element_end = _element(data, position)
        if kind not in _TOP and kind not in _FILLERS:  # a damaged name would hide a whole cluster
            raise data.damaged(start, f"unknown element {kind:#x}")
        if kind == _CLUSTER:
            position = _cluster(data, body, element_end, blocks)
            continue
        if element_end is None:
            raise data.damaged(start, "an element of unknown size that cannot have one")
        if element_end > data.size:
            raise data.cut(start)
        if kind == _TRACKS:
            tracks += _video_tracks(data, body, element_end)
        position = element_end
    return tuple(blocks[number] for number in tracks)


def _cluster(data: _Bytes, position: int, end: int | None, blocks: Counter[int]) -> int:
    """Count the blocks of one cluster; the position after it. Live recordings leave its size open."""
    stop = data.size if end is None else end
    while position < stop:
        kind, body, child_end = _element(data, position)
        if end is None and kind in _TOP:
            return position
        if kind not in _IN_CLUSTER:
            raise data.damaged(position, f"unknown element {kind:#x} in a cluster")
        if child_end is None or (end is not None and child_end > end):
            raise data.damaged(position, "an element that does not fit into its cluster")
        if child_end > data.size:
            raise data.cut(position)
        if kind == _GROUP:
            for inner, inner_body, inner_end in _elements(data, body, child_end):
                if inner == _BLOCK:
                    _count_block(data, inner_body, inner_end, blocks)
        elif kind == _SIMPLE_BLOCK:
            _count_block(data, body, child_end, blocks)
        position = child_end
    return position


def _count_block(data: _Bytes, body: int, end: int, blocks: Counter[int]) -> None:
    number, position = _vint(data, body, keep_marker=False)
    flags = data.at(position + 2, 1)[0]
    if number is None or position + 3 > end:
        raise data.damaged(body, "a block without a track")
    laced = data.at(position + 3, 1)[0] + 1 if flags & 0x06 else 1
    blocks[number] += laced


def _video_tracks(data: _Bytes, body: int, end: int) -> list[int]:
    found = []
    for kind, track_body, track_end in _elements(data, body, end):
        if kind != _TRACK:
            continue
        fields = {
            inner: int.from_bytes(data.at(inner_body, inner_end - inner_body), "big")
            for inner, inner_body, inner_end in _elements(data, track_body, track_end)
            if inner in (_TRACK_NUMBER, _TRACK_TYPE)
        }
        if fields.get(_TRACK_TYPE) == 1:
            found.append(fields.get(_TRACK_NUMBER, 0))
    return found


def _elements(data: _Bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    while position < end:
        kind, body, child_end = _element(data, position)
        if child_end is None or child_end > end:
            raise data.damaged(position, "an element larger than the one around it")
        yield kind, body, child_end
        position = child_end


def _element(data: _Bytes, position: int) -> tuple[int, int, int | None]:
    """(id, first byte of the body, end or None when the size is left open)."""
    kind, after = _vint(data, position, keep_marker=True)
    if kind is None:
        raise data.damaged(position, "no element starts here")
    size, body = _vint(data, after, keep_marker=False)
    return kind, body, None if size is None else body + size


def _vint(data: _Bytes, position: int, *, keep_marker: bool) -> tuple[int | None, int]:
    """A variable-length number; None for an id of impossible length and for the reserved "unknown size"."""
    first = data.at(position, 1)[0]
    length = 9 - first.bit_length()
    if length > (4 if keep_marker else 8):
        if keep_marker:
            return None, position
        raise data.damaged(position, "a size of more than eight bytes")
    raw = int.from_bytes(data.at(position, length), "big")
    if keep_marker:
        return raw, position + length
    value = raw & ((1 << (7 * length)) - 1)
    return (None if value == (1 << (7 * length)) - 1 else value), position + length


# --- AVI ---------------------------------------------------------------------------------------------------


def _avi(data: _Bytes) -> tuple[int, ...]:
    """Non-empty picture chunks of every `movi` list. The index after it is not needed, so it may be cut."""
    video: list[int] = []
    chunks: Counter[int] = Counter()
    found = False
    streams = 0
    position = 0
    while position + 12 <= data.size:
        tag, size = struct.unpack("<4sI", data.at(position, 8))
        kind = data.at(position + 8, 4)
        if tag == b"RIFF":
            position += 12
        elif tag == b"LIST" and kind == b"movi":
            found = True
            end = position + 8 + size
            if size == 0:  # a recorder that was stopped never came back to write the size
                end = data.size
            if end > data.size:
                raise data.cut(position)
            _movi(data, position + 12, end, chunks)
            position = end + (end & 1)
        elif tag == b"LIST" and kind in (b"hdrl", b"strl"):
            position += 12
        else:
            if tag == b"strh":
                if kind == b"vids":
                    video.append(streams)
                streams += 1
            position += 8 + size + (size & 1)
    if not found:
        raise CorruptVideo(data.path, "has no picture data (movi list): it was cut off in the header")
    return tuple(chunks[number] for number in video)


def _movi(data: _Bytes, position: int, end: int, chunks: Counter[int]) -> None:
    while position + 8 <= end:
        tag, size = struct.unpack("<4sI", data.at(position, 8))
        if tag == b"LIST":  # 'rec ' groups
            position += 12
            continue
        if tag == b"idx1":  # an unfinished list runs into the index
            return
        if position + 8 + size > data.size:
            raise data.cut(position)
        if size and tag[:2].isdigit() and tag[2:] in (b"dc", b"db"):
            chunks[int(tag[:2])] += 1
        elif not all(32 <= byte < 127 for byte in tag):
            raise data.damaged(position, "no chunk starts here")
        position += 8 + size + (size & 1)


# --- FLV ---------------------------------------------------------------------------------------------------


def _flv(data: _Bytes) -> tuple[int, ...]:
    position = int.from_bytes(data.at(5, 4), "big") + 4
    pictures = 0
    while position < data.size:
        head = data.at(position, 11)
        kind, size = head[0] & 0x1F, int.from_bytes(head[1:4], "big")
        if kind not in (8, 9, 18):
            raise data.damaged(position, f"a tag of unknown type {head[0]}")
        if int.from_bytes(data.at(position + 11 + size, 4), "big") != 11 + size:
            raise data.damaged(position, "the size after the tag is not the one before it")
        if kind == 9 and size:
            pictures += _flv_is_picture(data.at(position + 11, min(size, 2)))
        elif kind == 18:
            _flv_declared_size(data, position + 11, size)
        position += 15 + size
    return (pictures,)


def _flv_is_picture(head: bytes) -> bool:
    if head[0] & 0x80:  # extended header: the low bits are the packet type
        return head[0] & 0x0F in (1, 3)
    if head[0] >> 4 == 5:  # a command, not a picture
        return False
    return head[0] & 0x0F not in (7, 12, 13) or (len(head) > 1 and head[1] == 1)


def _flv_declared_size(data: _Bytes, position: int, size: int) -> None:
    """`onMetaData` may tell the size of the whole file: the only sign of a cut between two tags."""
    script = data.at(position, size)
    name = script.find(b"\x00\x08filesize\x00")
    if name >= 0 and name + 19 <= size:
        declared = struct.unpack(">d", script[name + 11 : name + 19])[0]
        if declared > data.size:
            raise CorruptVideo(data.path, f"breaks off: {data.size} bytes of the {declared:.0f} it declares")


# --- Ogg ---------------------------------------------------------------------------------------------------


def _ogg(data: _Bytes) -> tuple[int, ...]:
    order: list[int] = []  # serial numbers of picture streams
    pictures: Counter[int] = Counter()
    following: dict[int, int] = {}
    ended: set[int] = set()
    position = 0
    while position < data.size:
        head = data.at(position, 27)
        if head[:4] != b"OggS":
            raise data.damaged(position, "no page starts here")
        serial, sequence = struct.unpack("<II", head[14:22])
        table = data.at(position + 27, head[26])
        body = position + 27 + len(table)
        if sequence != following.get(serial, sequence):
            raise data.damaged(position, f"page {following[serial]} is missing")
        following[serial] = sequence + 1
        if head[5] & 2 and data.at(body, 7)[:7] in (b"\x80theora", b"OVP80\x01\x01"):
            order.append(serial)
        if head[5] & 4:
            ended.add(serial)
        end = body + sum(table)
        if end > data.size:
            raise data.cut(position)
        pictures[serial] += _ogg_pictures(data, body, table, continued=bool(head[5] & 1))
        position = end
    if not ended.issuperset(order):
        raise CorruptVideo(data.path, "breaks off: the last page of the pictures is missing")
    return tuple(pictures[serial] for serial in order)


def _ogg_pictures(data: _Bytes, position: int, table: bytes, *, continued: bool) -> int:
    """Packets that begin on this page, headers left out."""
    count, size, begins = 0, 0, not continued
    for lace in table:
        size += lace
        if lace == 255:
            continue
        if begins and size and not _ogg_header(data.at(position, min(size, 5))):
            count += 1
        position, size, begins = position + size, 0, True
    if begins and size and not _ogg_header(data.at(position, 5)):  # goes on on the next page
        count += 1
    return count


def _ogg_header(head: bytes) -> bool:
    return head in (b"\x80theo", b"\x81theo", b"\x82theo", b"OVP80")


# --- GIF ---------------------------------------------------------------------------------------------------


def _gif(data: _Bytes) -> tuple[int, ...]:
    position = 13 + _gif_palette(data.at(10, 1)[0])
    pictures = 0
    while True:
        kind = data.at(position, 1)[0]
        if kind == 0x3B:
            return (pictures,)
        if kind == 0x21:
            position = _gif_blocks(data, position + 2)
        elif kind == 0x2C:
            position = _gif_blocks(data, position + 11 + _gif_palette(data.at(position + 9, 1)[0]))
            pictures += 1
        else:
            raise data.damaged(position, f"unknown block {kind:#04x}")


def _gif_palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _gif_blocks(data: _Bytes, position: int) -> int:
    while size := data.at(position, 1)[0]:
        position += 1 + size
    return position + 1


# --- containers without a count ----------------------------------------------------------------------------

_ASF_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")


def _asf(data: _Bytes) -> None:
    end = min(data.size, int.from_bytes(data.at(16, 8), "little"))
    position = 30
    while position + 24 <= end:
        guid, size = data.at(position, 16), int.from_bytes(data.at(position + 16, 8), "little")
        if guid == _ASF_FILE_PROPERTIES:
            declared = int.from_bytes(data.at(position + 40, 8), "little")
            live = int.from_bytes(data.at(position + 88, 4), "little") & 1
            if not live and declared > data.size:
                raise CorruptVideo(data.path, f"breaks off: {data.size} bytes of the {declared} it declares")
            return
        position += max(24, size)


_TS_PACKET = 188
_TS_BLOCK = 4096  # packets looked at together


def check_transport(file: LocalFile, pid: int, watch: Watch) -> None:
    """A transport stream: packets in line to the end, and a picture wherever the stream `pid` says that one starts.

    libav passes over pictures whose start is damaged without a word. Streams with other packet sizes or a lead-in are
    left to libav.
    """
    data = _Bytes(file, watch)
    if file.size < 3 * _TS_PACKET or any(data.at(i * _TS_PACKET, 1) != b"\x47" for i in range(3)):
        return
    for start in range(0, file.size - _TS_PACKET + 1, _TS_BLOCK * _TS_PACKET):
        data.tick()
        block = file.read_at(start, _TS_BLOCK * _TS_PACKET)
        rows = np.frombuffer(block, np.uint8)[: len(block) // _TS_PACKET * _TS_PACKET].reshape(-1, _TS_PACKET)
        lost = np.flatnonzero(rows[:, 0] != 0x47)
        if len(lost):
            raise data.damaged(start + int(lost[0]) * _TS_PACKET, "no packet starts here")
        pids = (rows[:, 1].astype(np.uint16) & 0x1F) << 8 | rows[:, 2]
        for row in np.flatnonzero((pids == pid) & (rows[:, 1] & 0x40 > 0) & (rows[:, 3] & 0x10 > 0)):
            body = 5 + int(rows[row, 4]) if rows[row, 3] & 0x20 else 4
            if body + 3 > _TS_PACKET or rows[row, body : body + 3].tolist() != [0, 0, 1]:
                raise data.damaged(start + int(row) * _TS_PACKET, "a picture should start here")
    rest = file.size % _TS_PACKET
    if rest and data.at(file.size - rest, 1) == b"\x47":
        raise data.cut(file.size - rest)


_WALKS: dict[Container, Callable[[_Bytes], tuple[int, ...] | None]] = {
    sniff.MATROSKA: _matroska,
    sniff.AVI: _avi,
    sniff.FLV: _flv,
    sniff.OGG: _ogg,
    sniff.GIF: _gif,
    sniff.ASF: _asf,
}
