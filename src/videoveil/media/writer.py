"""H.264 in mp4 with exact times; the file appears whole or not at all.

    with VideoWriter("out.mp4", width=320, height=240, time_base=Fraction(1, 12800)) as writer:
        for frame in frames:
            writer.write(frame.image, frame.time)

Every time is kept as it is, evenly spaced or not. (mp4 knows no time below zero: a video that starts there is moved
as a whole, its sound with it, to start at zero.) Nothing of any input's tags gets into the file: none are ever handed
over, and the encoder's own note about itself is cut out. The same frames give the same bytes.

Even sizes are 4:2:0, which every browser plays. Odd sizes cannot be, since chroma would not divide; they are 4:4:4, so
that the size stays what it was. Colours are BT.709, limited range, and the file says so.
"""

from __future__ import annotations

import contextlib
import math
import sys
from array import array
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
import av.error
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from videoveil.errors import UsageError, WriteFailed
from videoveil.files import atomic_path
from videoveil.media.limits import DEFAULT, Limits
from videoveil.media.origin import LocalOrigin
from videoveil.media.sound import Sound
from videoveil.media.x264 import steady

_BT709 = 1  # matrix, primaries and transfer all have this number
_UNTOLD, _LIMITED = 0, 1  # range: planes of 4:2:0 that do not tell theirs have the limited one
_EXACT = Interpolation.ACCURATE_RND | Interpolation.BITEXACT
_MAX_TIMESCALE = 2**31 - 1
_NO_SEI = "filter_units=remove_types=6"
_FINE = 90_000  # ticks per second that the movie clock has at least


class Coding:
    """Pictures in the form in which they are coded here: 4:2:0 (4:4:4 at odd sizes), BT.709, limited range.

    Converting and scaling is one step, with the same result on every machine. One of these belongs to one thread.
    """

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.format = "yuv444p" if width % 2 or height % 2 else "yuv420p"
        self._reformatter = VideoReformatter()

    def of_image(self, image: np.ndarray) -> av.VideoFrame:
        """(h, w, 3) uint8 RGB of any size."""
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        return self._reformatter.reformat(
            frame,
            self.width,
            self.height,
            format=self.format,
            dst_colorspace=Colorspace.ITU709,
            src_color_range=ColorRange.JPEG,
            dst_color_range=ColorRange.MPEG,
            interpolation=_EXACT | self._kernel(frame.width, frame.height),
            threads=1,
        )

    def has(self, frame: av.VideoFrame) -> bool:
        """Whether a frame is in this form already, by what it says of itself."""
        form = (frame.format.name, frame.width, frame.height) == (self.format, self.width, self.height)
        return form and frame.colorspace == _BT709 and frame.color_range in (_UNTOLD, _LIMITED)

    def _kernel(self, width: int, height: int) -> Interpolation:
        """Bicubic for chroma alone; a picture is averaged to become smaller and bilinear to become larger."""
        if (width, height) == (self.width, self.height):
            return Interpolation.BICUBIC
        return Interpolation.AREA if width * height > self.width * self.height else Interpolation.BILINEAR


class VideoWriter:
    """Writes one file; use it in a `with` block. On any error inside the block the destination does not appear.

    Times given to `write` must be multiples of `time_base` and increase. `rate` is a hint for players. `audio_from`
    names the file whose sound is kept; without it the result is silent. `crf` is x264's quality (lower is better) and
    `threads` is fixed, not taken from the machine, because the bytes depend on it.
    """

    def __init__(
        self,
        destination: str | Path,
        *,
        width: int,
        height: int,
        time_base: Fraction,
        rate: Fraction | None = None,
        audio_from: str | Path | None = None,
        sample_aspect: Fraction = Fraction(1),
        crf: int = 20,
        preset: str = "veryfast",
        key_interval: int = 60,
        threads: int = 4,
        limits: Limits = DEFAULT,
    ):
        if width < 1 or height < 1 or width * height > limits.pixels:
            raise UsageError(f"{destination}: cannot write pictures of {width} × {height}")
        if time_base <= 0 or time_base.denominator > _MAX_TIMESCALE:
            raise UsageError(f"{destination}: mp4 cannot count time in units of {time_base} s")
        self.destination, self.shape, self.time_base = (
            Path(destination),
            (height, width, 3),
            Fraction(time_base),
        )
        self.frames = 0
        self._coding = Coding(width, height)
        self._rate, self._sample_aspect, self._limits = rate, sample_aspect, limits
        self._audio_from = audio_from
        # Without B-frames the stored order is the order of display: no player has anything to reorder or to cut.
        self._options = {
            "preset": preset,
            "crf": str(crf),
            "g": str(key_interval),
            "bf": "0",
            "threads": str(threads),
            "flags": "+bitexact",
            **steady(),
        }
        self._unit = Fraction(1, self.time_base.denominator)
        self._times = array("q")  # in units of `_unit`, for the final check
        self._shift: int = 0
        self._open, self._complete = False, True
        self._stack = contextlib.ExitStack()
        self._sound: Sound | None = None

    def __enter__(self) -> VideoWriter:
        try:
            with contextlib.ExitStack() as stack:
                self._temporary = stack.enter_context(atomic_path(self.destination))
                self._start(stack)
                self._stack = stack.pop_all()
        except (av.error.FFmpegError, OSError) as error:
            raise WriteFailed(self.destination, f"cannot be written: {error}") from error
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        try:
            if error is None:
                try:
                    self._finish()
                except BaseException:
                    self._stack.__exit__(*sys.exc_info())
                    raise
            self._stack.__exit__(kind, error, trace)
        except (av.error.FFmpegError, OSError) as failure:
            if error is not None:
                raise
            raise WriteFailed(self.destination, f"could not be written: {failure}") from failure

    def write(self, image: np.ndarray | av.VideoFrame, time: Fraction) -> None:
        """Append one frame, shown at `time` seconds: (H, W, 3) uint8 RGB, or a frame made by a `Coding` of this size.

        A frame is the writer's from then on: its time is set.
        """
        if not self._open:
            raise UsageError(f"{self.destination}: write() outside the writer's with block")
        self._complete = False  # until this frame is in: one that was refused spoils the file
        tick = self._check(image, Fraction(time))
        try:
            self._encode(image, tick)
        except (av.error.FFmpegError, OSError) as error:
            reason = f"frame {self.frames} could not be written: {error}"
            raise WriteFailed(self.destination, reason) from error
        self._times.append(tick)
        self.frames += 1
        self._complete = True

    def _check(self, image: np.ndarray | av.VideoFrame, time: Fraction) -> int:
        """The time in units of the track, after everything about the frame was found right."""
        if not self._fits(image):
            reason = f"frame {self.frames} is {_described(image)}; expected is uint8 {self.shape} RGB"
            raise WriteFailed(self.destination, reason)
        if (time / self.time_base).denominator != 1:
            reason = (
                f"frame {self.frames}: time {time} s is not a multiple of the time base {self.time_base} s"
            )
            raise WriteFailed(self.destination, reason)
        tick = int(time / self._unit)
        if self._times:
            tick += self._shift
            if tick <= self._times[-1]:
                last = (self._times[-1] - self._shift) * self._unit
                reason = (
                    f"frame {self.frames}: time {time} s does not come after {last} s, the time before it"
                )
                raise WriteFailed(self.destination, reason)
        elif tick < 0:
            self._shift, tick = -tick, 0
        return tick

    def _fits(self, image: np.ndarray | av.VideoFrame) -> bool:
        if isinstance(image, av.VideoFrame):
            return self._coding.has(image)
        return isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.shape == self.shape

    def _start(self, stack: contextlib.ExitStack) -> None:
        """Open the container, its streams and the encoder, and write the header."""
        height, width, _ = self.shape
        self._container = av.open(f"file:{self._temporary}", mode="w", format="mp4")
        stack.callback(self._abandon)
        rate = (self._rate or Fraction(25)).limit_denominator(100_000)
        stream = self._container.add_stream("libx264", rate=rate, options=self._options)
        context = stream.codec_context
        context.width, context.height = width, height
        context.pix_fmt = self._coding.format
        context.time_base = self._unit
        context.sample_aspect_ratio = self._sample_aspect
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED
        stream.time_base = self._unit
        self._stream = stream
        if self._audio_from is not None:
            self._sound = Sound(self._audio_from, self._container, self._limits)
            stack.callback(self._sound.close)
        self._container.container_options.update(
            fflags="+bitexact",  # no clock time, no name of the program
            movflags="+faststart",
            video_track_timescale=str(self._unit.denominator),
            movie_timescale=str(movie_timescale(self._unit, self._sound.rates if self._sound else [])),
        )
        self._container.start_encoding()
        self._filter = BitStreamFilterContext(_NO_SEI, stream)

    def _encode(self, image: np.ndarray | av.VideoFrame, tick: int) -> None:
        frame = self._coding.of_image(image) if isinstance(image, np.ndarray) else image
        frame.pts, frame.time_base = tick, self._unit
        for packet in self._stream.encode(frame):
            self._mux(packet)

    def _mux(self, packet: Packet | None) -> None:
        """Through the filter into the file, after the sound that belongs before it. None: the end."""
        for clean in self._filter.filter(packet):
            clean.stream, clean.time_base = self._stream, self._unit
            if clean.dts is not None and self._sound is not None:
                self._pump(clean.dts * self._unit)
            if not clean.duration:
                clean.duration = self._frame_duration()
            self._container.mux(clean)

    def _pump(self, time: Fraction | None) -> None:
        assert self._sound is not None
        for packet in self._sound.until(time, self._shift * self._unit):
            self._container.mux(packet)

    def _frame_duration(self) -> int:
        """How long the last frame stays: as long as the one before, or by the rate."""
        if len(self._times) > 1:
            return self._times[-1] - self._times[-2]
        return max(1, round(1 / (self._rate or 25) / self._unit))

    def _finish(self) -> None:
        """Empty the encoder, write the index, read the file back and compare."""
        if not self.frames:
            raise WriteFailed(self.destination, "no frame was written")
        if not self._complete:
            raise WriteFailed(self.destination, f"frame {self.frames} could not be written")
        for packet in self._stream.encode(None):
            self._mux(packet)
        self._mux(None)
        if self._sound is not None:
            self._pump(None)
        self._container.close()
        self._verify()

    def _verify(self) -> None:
        """The times in the finished file must be those that were given, frame by frame."""
        origin = LocalOrigin(self._temporary, self._limits, threads=1)
        try:
            index = origin.packet_index()
        finally:
            origin.close()
        written = np.frombuffer(self._times, np.int64)
        if index is None or index.time_base != self._unit or not np.array_equal(index.pts, written):
            raise WriteFailed(
                self.destination, "the file does not hold the frames and times that were written to it"
            )

    def _abandon(self) -> None:
        """Let go of the file. After success there is nothing left to do; after an error it is deleted anyway, so what
        libav has to say about closing it (the disk is still full) adds nothing."""
        with contextlib.suppress(av.error.FFmpegError, OSError):
            self._container.close()


def _described(image: object) -> str:
    """What was handed in, for messages."""
    if isinstance(image, np.ndarray):
        return f"{image.dtype} {image.shape}"
    if isinstance(image, av.VideoFrame):
        return f"{image.format.name} ({image.height}, {image.width}) of the matrix {image.colorspace}"
    return type(image).__name__


def movie_timescale(unit: Fraction, rates: Sequence[int]) -> int:
    """Ticks per second of the whole movie, given the pictures' unit of time and the rates of the sound.

    mp4 tells the start of each track on the clock of the whole movie, which so must be as fine as theirs.
    """
    scale = unit.denominator
    for rate in rates:
        if math.lcm(scale, rate) <= _MAX_TIMESCALE:
            scale = math.lcm(scale, rate)
    return scale * max(1, min(_MAX_TIMESCALE // scale, -(-_FINE // scale)))
