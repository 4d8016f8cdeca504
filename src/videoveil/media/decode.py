"""Packets and pictures of one run over a container, each one checked."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import av
import av.error
from av.container import InputContainer
from av.packet import Packet

from videoveil.errors import CorruptVideo, FrameTooLarge, TooLong, TooManyFrames
from videoveil.media.demux import check_pixels, decoder_pixels, picture_stream, translated
from videoveil.media.limits import Limits
from videoveil.media.packets import Expectation
from videoveil.media.source import Watch


@dataclass(frozen=True)
class Picture:
    """A decoded picture and its time in units of the stream's time base."""

    pts: int
    frame: av.VideoFrame


class Decoder:
    """Decodes the picture stream of `container` and owns it. All other streams are skipped by the demuxer.

    `endless` marks a live stream: it is not held to a length, and its damaged pictures are left out, since losses on
    the way are normal there. `by_order` is for containers that store no display times (AVI): pictures then take the
    times of their packets in order.
    """

    def __init__(
        self,
        path: str,
        container: InputContainer,
        limits: Limits,
        watch: Watch,
        *,
        threads: int = 1,
        by_order: bool = False,
        endless: bool = False,
    ):
        self.path, self.container, self.limits, self.watch = path, container, limits, watch
        self._endless = endless
        self.stream = picture_stream(path, container, limits)
        for other in container.streams:
            if other.index != self.stream.index:
                other.discard = av.stream.Discard.all
        context = self.stream.codec_context
        context.thread_count = threads
        context.thread_type = "AUTO" if threads > 1 else "NONE"
        context.options = {"max_pixels": decoder_pixels(limits)}
        self.codec = context.codec.canonical_name
        self.time_base = self.stream.time_base or Fraction(1, av.time_base)
        self.reorders = bool(context.has_b_frames)
        self.by_order = by_order and self.reorders
        step = _ticks_per_frame(self.stream.average_rate, self.time_base)
        self._clock = _Clock(step, self.by_order)
        self._size: tuple[int, int] | None = None
        self._last: int | None = None

    def close(self) -> None:
        self.container.close()

    def seconds(self, pts: int | None) -> str:
        """For messages."""
        return "the start" if pts is None else f"{float(pts * self.time_base):.3f} s"

    def packets(self) -> Iterator[Packet]:
        """Stored packets in stored order; empty ones and libav's closing dummies left out."""
        with translated(self.path, f"breaks after {self.seconds(self._last)}"):
            for packet in self.container.demux(self.stream):
                self.watch.progress()
                if packet.size:
                    yield packet
                    self.watch.progress()  # the time the caller took is not ours
                else:
                    del packet

    def seek(self, pts: int) -> None:
        """To a key frame at or before `pts`, as far as the container can tell."""
        with translated(self.path, f"cannot be searched at {self.seconds(pts)}"):
            self.watch.progress()
            self.container.seek(pts, stream=self.stream, backward=True)
        self._clock.reset()

    def pictures(self, expectation: Expectation) -> Iterator[Picture]:
        """Pictures in display order from the current position to the end; `expectation` sees every packet."""
        first: int | None = None
        count = 0
        for frame in self._frames(expectation):
            pts = self._clock.time(frame)
            if frame.is_corrupt and (self._endless or expectation.before_start(pts)):
                continue
            self._check_frame(frame, pts)
            self._last = pts
            first = pts if first is None else first
            count += 1
            if not self._endless:
                self._check_length(count, pts - first)
            yield Picture(pts, frame)
            self.watch.progress()

    def note(self, packet: Packet, expectation: Expectation) -> bool:
        """Tell `expectation` of a packet; True when a picture must come of it. Damage after the start is an error."""
        pts = None if self.by_order else packet.pts  # libav's guesses for AVI are not display times
        view = memoryview(packet)
        ends = bytes((view[0], view[-1]))
        shown = expectation.shown(pts, packet.size, packet.is_keyframe, packet.is_discard, ends)
        if packet.is_corrupt and not self._endless and not expectation.before_start(pts):
            raise CorruptVideo(self.path, f"breaks off or is damaged after {self.seconds(self._last)}")
        return shown

    def _frames(self, expectation: Expectation) -> Iterator[av.VideoFrame]:
        for packet in self.packets():
            self.note(packet, expectation)
            if not expectation.started:
                continue
            self._clock.packet(packet.dts)
            leading = not self.by_order and expectation.before_start(packet.pts)
            yield from self._decode(packet, tolerant=leading or self._endless)
        yield from self._decode(None, tolerant=self._endless)

    def _decode(self, packet: Packet | None, *, tolerant: bool) -> list[av.VideoFrame]:
        context = self.stream.codec_context
        sized = context.width * context.height > 0
        try:
            with translated(self.path, f"does not decode after {self.seconds(self._last)}"):
                frames = context.decode(packet)
        except CorruptVideo as error:
            if tolerant:
                return []
            if (
                sized and context.width * context.height == 0
            ):  # the decoder forgets the size when it is above the limit
                reason = f"a picture after {self.seconds(self._last)} is above the limit of {self.limits.pixels} pixels"
                raise FrameTooLarge(self.path, reason) from error
            raise
        except av.error.EOFError:  # flushed twice: nothing more to come
            return []
        self.watch.check()
        return frames

    def _check_frame(self, frame: av.VideoFrame, pts: int) -> None:
        if frame.is_corrupt:
            raise CorruptVideo(self.path, f"the picture at {self.seconds(pts)} is damaged")
        size = (frame.width, frame.height)
        if size == self._size:
            return
        check_pixels(self.path, *size, self.limits)
        needed = frame.width * frame.height * (3 + (frame.format.padded_bits_per_pixel + 7) // 8)
        if needed > self.limits.frame_bytes:
            limit = self.limits.frame_bytes
            raise FrameTooLarge(self.path, f"a picture needs {needed} bytes, above the limit of {limit}")
        if self._size is not None:
            was, now = ("{} × {}".format(*s) for s in (self._size, size))
            raise CorruptVideo(
                self.path, f"the picture size changes from {was} to {now} at {self.seconds(pts)}"
            )
        self._size = size

    def _check_length(self, count: int, ticks: int) -> None:
        if count > self.limits.frames:
            raise TooManyFrames(self.path, f"has more frames than the limit of {self.limits.frames}")
        if ticks * self.time_base > self.limits.duration:
            raise TooLong(self.path, f"lasts longer than the limit of {self.limits.duration} s")


class _Clock:
    """The time of each picture: its own, else that of its packet in order, else one frame after the last."""

    def __init__(self, step: int, by_order: bool):
        self._step, self._by_order = step, by_order
        self.reset()

    def reset(self) -> None:
        self._waiting: list[int] = []
        self._last: int | None = None

    def packet(self, dts: int | None) -> None:
        if self._by_order and dts is not None:
            heapq.heappush(self._waiting, dts)

    def time(self, frame: av.VideoFrame) -> int:
        if self._by_order:
            pts = heapq.heappop(self._waiting) if self._waiting else None
        else:
            pts = frame.pts if frame.pts is not None else frame.dts
        if pts is None:
            pts = 0 if self._last is None else self._last + self._step
        self._last = pts
        return pts


def _ticks_per_frame(rate: Fraction | None, time_base: Fraction) -> int:
    return max(1, round(1 / (rate * time_base))) if rate else 1
