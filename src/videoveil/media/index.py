"""Where every frame of a file lies in time, and from which key frames it can be reached."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from videoveil.errors import CorruptVideo
from videoveil.media.decode import Decoder
from videoveil.media.packets import Expectation
from videoveil.media.source import LocalFile

_REORDERING = 32  # how far a codec may show a picture from where it is stored; none goes beyond


@dataclass(frozen=True)
class FrameIndex:
    """Frames in display order. `keys` are the frames (by number) where decoding may start; empty: only at the start."""

    pts: np.ndarray  # (frames,) int64, units of the time base
    time_base: Fraction
    keys: np.ndarray  # (keys,) int64, increasing
    key_seek: np.ndarray  # (keys,) int64, the timestamp that leads the demuxer there
    key_size: np.ndarray  # (keys,) int64, bytes of the packet, to recognise it

    def key_before(self, frame: int) -> int:
        """Position in `keys` of the last key frame at or before `frame`; -1 if there is none."""
        return int(np.searchsorted(self.keys, frame, side="right")) - 1

    def key_at(self, pts: int, size: int) -> int | None:
        """The number of the key frame that is shown at `pts` and stored in `size` bytes."""
        frame = int(np.searchsorted(self.pts, pts))
        if frame == len(self.pts) or self.pts[frame] != pts:
            return None
        key = self.key_before(frame)
        known = key >= 0 and self.keys[key] == frame and self.key_size[key] == size
        return frame if known else None


def build_index(
    decoder: Decoder, expectation: Expectation, *, searchable: bool, by_dts: bool, margin: int
) -> FrameIndex | None:
    """Demux all packets of `decoder` without decoding; None when the packets do not tell the frames reliably.

    Reliable means: every shown packet has a display time, no two the same, none before its decoding time, in an order
    that the codec can have stored them in, and the codec gives one picture per packet. Where only the order of packets
    tells the time (AVI with reordering), or the container is not `searchable`, there are no keys. `by_dts`: the demuxer
    searches by decoding time, not display time; `margin`: how far before a key frame it must aim to land before it.
    """
    pts, keys, seek, sizes = (array("q") for _ in range(4))
    reliable = True
    for packet in decoder.packets():
        if not decoder.note(packet, expectation):
            continue
        time = packet.dts if decoder.by_order else packet.pts
        if time is None or (packet.dts is not None and time < packet.dts):
            reliable = False
            continue
        pts.append(time)
        if packet.is_keyframe and searchable and not decoder.by_order:
            keys.append(time)
            sizes.append(packet.size)
            seek.append((packet.dts if by_dts and packet.dts is not None else time) - margin)
    stored = np.array(pts, np.int64)
    times = np.sort(stored)
    if not reliable or expectation.doubtful or not len(times) or (np.diff(times) <= 0).any():
        return None
    if not _plausible_order(stored, reorders=decoder.reorders):
        return None
    key_pts, key_seek, key_size = (np.array(column, np.int64) for column in (keys, seek, sizes))
    order = np.argsort(key_pts, kind="stable")
    numbers = np.searchsorted(times, key_pts[order])
    return FrameIndex(times, decoder.time_base, numbers, key_seek[order], key_size[order])


def _plausible_order(stored: np.ndarray, *, reorders: bool) -> bool:
    """Decoders do not look at times, so the stored order must be one that the codec can have put the pictures in."""
    shifts = np.abs(np.argsort(stored) - np.arange(len(stored)))
    return int(shifts.max(initial=0)) <= (_REORDERING if reorders else 0)


def index_from_times(times: array[int], time_base: Fraction) -> FrameIndex:
    """The index of a file that had to be decoded to be counted: frames are reached only from the start."""
    none = np.empty(0, np.int64)
    return FrameIndex(
        np.frombuffer(times, dtype=np.int64).copy() if times else none, time_base, none, none, none
    )


def check_samples(file: LocalFile, decoder: Decoder) -> None:
    """mp4/mov: every sample that the table lists must lie inside the file."""
    for entry in decoder.stream.index_entries:
        if entry.pos + entry.size > file.size:
            at = decoder.seconds(entry.timestamp)
            reason = (
                f"breaks off at byte {file.size}: the picture at {at} ends at byte {entry.pos + entry.size}"
            )
            raise CorruptVideo(file.path, reason)


def check_stored(decoder: Decoder, stored: int, listed: int | None) -> None:
    """All pictures that the container lists must have come out of it."""
    if listed is not None and stored < listed:
        raise CorruptVideo(
            decoder.path, f"is damaged: only {stored} of {listed} stored pictures can be found"
        )


def listed_samples(decoder: Decoder) -> int:
    """mp4/mov: samples with data in the table."""
    return sum(1 for entry in decoder.stream.index_entries if entry.size)
