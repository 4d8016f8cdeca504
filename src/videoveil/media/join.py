"""One video from parts of it that were written one by one, without coding anything again.

    join(["part-0.mp4", "part-1.mp4"], "whole.mp4", audio_from="source.mp4")

The parts are files of `VideoWriter` with equal settings whose times follow each other. Their packets are put one after
the other; the result appears whole or not at all, and is read back before it does.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import av.error
import numpy as np
from av.container import InputContainer, OutputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from videoveil.errors import CorruptVideo, UsageError, WriteFailed
from videoveil.files import atomic_path
from videoveil.media.limits import DEFAULT, Limits
from videoveil.media.origin import LocalOrigin
from videoveil.media.sound import Sound
from videoveil.media.writer import movie_timescale


def join(
    parts: Sequence[str | Path],
    destination: str | Path,
    *,
    audio_from: str | Path | None = None,
    shift: Fraction = Fraction(0),
    limits: Limits = DEFAULT,
) -> int:
    """Put `parts` together and give the number of frames.

    audio_from: the file whose sound is kept. shift: how much later than there the pictures are, in seconds.
    """
    if not parts:
        raise UsageError(f"{destination}: there are no parts to join")
    try:
        with atomic_path(destination) as temporary, contextlib.ExitStack() as stack:
            joiner = _Joiner(temporary, parts[0], stack, audio_from, shift, limits)
            for part in parts:
                joiner.append(part)
            joiner.finish(Path(destination))
        return len(joiner.times)
    except (av.error.FFmpegError, OSError) as error:
        raise WriteFailed(destination, f"could not be written: {error}") from error


class _Joiner:
    def __init__(
        self,
        temporary: Path,
        first: str | Path,
        stack: contextlib.ExitStack,
        audio_from: str | Path | None,
        shift: Fraction,
        limits: Limits,
    ):
        self.temporary, self.shift, self.limits = temporary, shift, limits
        self.times = array("q")
        self.output: OutputContainer = av.open(f"file:{temporary}", mode="w", format="mp4")
        stack.callback(self._abandon)
        with _opened(first) as (_, model):
            self.unit = Fraction(model.time_base or 0)
            self.coded = _coding(model)
            self.stream = self.output.add_stream_from_template(model)
        self.stream.time_base = self.unit
        self.sound = None if audio_from is None else Sound(audio_from, self.output, limits)
        if self.sound is not None:
            stack.callback(self.sound.close)
        rates = self.sound.rates if self.sound else []
        self.output.container_options.update(
            fflags="+bitexact",
            movflags="+faststart",
            video_track_timescale=str(self.unit.denominator),
            movie_timescale=str(movie_timescale(self.unit, rates)),
        )
        self.output.start_encoding()

    def append(self, part: str | Path) -> None:
        with _opened(part) as (container, stream):
            if _coding(stream) != self.coded or stream.time_base != self.unit:
                raise CorruptVideo(part, "was coded in another way than the part before it; make it again")
            for packet in _packets(container, stream):
                if packet.pts is None or (self.times and packet.pts <= self.times[-1]):
                    last = self.times[-1] * self.unit if self.times else None
                    raise CorruptVideo(part, f"does not go on where the part before it ends ({last} s)")
                self._pump(packet.pts * self.unit)
                self.times.append(packet.pts)
                packet.stream = self.stream
                self.output.mux(packet)

    def finish(self, destination: Path) -> None:
        """The rest of the sound, the index; then the file is read back and compared."""
        self._pump(None)
        self.output.close()
        origin = LocalOrigin(self.temporary, self.limits, threads=1)
        try:
            index = origin.packet_index()
        finally:
            origin.close()
        written = np.frombuffer(self.times, np.int64)
        if index is None or index.time_base != self.unit or not np.array_equal(index.pts, written):
            raise WriteFailed(destination, "the file does not hold the frames and times of its parts")

    def _pump(self, time: Fraction | None) -> None:
        if self.sound is not None:
            for packet in self.sound.until(time, self.shift):
                self.output.mux(packet)

    def _abandon(self) -> None:
        with contextlib.suppress(av.error.FFmpegError, OSError):
            self.output.close()


@contextlib.contextmanager
def _opened(part: str | Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    try:
        container = av.open(f"file:{part}", format="mp4")
    except av.error.FFmpegError as error:
        raise CorruptVideo(part, f"is no part of a video: {error}") from error
    with container:
        if len(container.streams) != 1 or not container.streams.video:
            raise CorruptVideo(part, "has other streams than the one with pictures")
        yield container, container.streams.video[0]


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[Packet]:
    for packet in container.demux(stream):
        if packet.size:
            yield packet


def _coding(stream: VideoStream) -> tuple[object, ...]:
    context = stream.codec_context
    return context.name, context.width, context.height, context.pix_fmt, bytes(context.extradata or b"")
