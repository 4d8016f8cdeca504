"""Video as a stream of frames in exact time, from files that nobody vouches for.

    with open_video("walk.mp4") as video:
        for frame in video.frames():          # never more than a few pictures in memory
            use(frame.image, frame.time)
        clip = video.read([0, 8, 16, 24])     # (4, H, W, 3), decoded from the nearest key frames

What is an error and what is not
    A file that breaks off, a packet or picture that is marked as damaged, a decoder error, or fewer pictures than the
    file stores is `CorruptVideo`: frames are never silently missing. Read without complaint are: bytes after the end,
    a missing duration, a missing index, a wrong name, and a broadcast (mpeg-ts, mpeg-ps) that was joined in the middle
    of a group of pictures, which starts at its first key frame. A live stream loses data on the way; its damaged
    pictures are left out.

    No reader can know what a file does not tell. A broadcast has no length, so when it is cut between two pictures it
    is a shorter one. Damage to an edit list, to the blocks of a GIF or to the packet headers of an ASF file can hide
    pictures; damage inside coded pictures that the decoder does not notice (most codecs carry no checksum) gives wrong
    pixels.

Times are those of the file: they need not start at zero or be evenly spaced. Damaged or odd files may even repeat a
time or step back; frames always come in the order of display.

A `Video` belongs to one thread; several may be open on the same file. Decoding releases the interpreter lock.
"""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
import numpy as np

from videoveil.errors import CorruptVideo, ProtocolNotAllowed, UsageError
from videoveil.media.decode import Decoder, Picture
from videoveil.media.demux import SECOND
from videoveil.media.index import FrameIndex, index_from_times
from videoveil.media.limits import DEFAULT, Limits
from videoveil.media.origin import LiveOrigin, LocalOrigin, Origin
from videoveil.media.pixels import Orientation, RgbConverter, orientation
from videoveil.media.runs import NotThere, RandomReader, Run


@dataclass(frozen=True)
class VideoInfo:
    """What a video is, as it will be read. Sizes are those after rotation."""

    width: int
    height: int
    rotation: int
    """Degrees clockwise that were applied to the stored pictures: 0, 90, 180 or 270."""
    rate: Fraction | None
    """Average frames per second."""
    time_base: Fraction
    """Every time is a multiple of this."""
    duration: Fraction | None
    """Seconds, as declared."""
    frames: int | None
    """Exact; None for live streams and for files whose frames can be counted only by decoding (`Video.count`)."""
    codec: str
    container: str
    pixel_format: str
    has_audio: bool
    sample_aspect: Fraction = Fraction(1)
    """Width of one pixel over its height."""


@dataclass(frozen=True)
class Frame:
    """One picture: its number, its time in seconds, and (H, W, 3) uint8 RGB."""

    index: int
    time: Fraction
    image: np.ndarray


@dataclass(frozen=True)
class Decoded:
    """One picture as the decoder gives it, in whatever form it is stored, and how it is turned for display."""

    index: int
    time: Fraction
    picture: av.VideoFrame
    turn: Orientation


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_NETWORK = re.compile(r"(rtsps?|rtmp[st]?|https?|udp|rtp|srt|tcp)://", re.IGNORECASE)
_CAMERAS = 81  # major device number of video capture devices


def open_video(
    source: str | Path, *, limits: Limits = DEFAULT, stream: bool = False, threads: int = 1
) -> Video:
    """Open a local file; with `stream=True` also a network address (rtsp, rtmp, http(s), udp, srt …) or a camera.

    The container is told by its content and the first picture is decoded, so a file that opens is a video.
    `threads` are the decoder's; the pixels do not depend on them.
    """
    if threads < 1:
        raise UsageError(f"threads={threads}: must be at least 1")
    if isinstance(source, str) and _SCHEME.match(source) and not _exists(source):
        if not (stream and _NETWORK.match(source)):
            fix = (
                "give an address of a network stream" if stream else "give a local file, or ask for a stream"
            )
            raise ProtocolNotAllowed(source, f"this kind of address is not read; {fix}")
        return Video(LiveOrigin(source, limits, threads, None))
    if stream and _is_camera(source):
        return Video(LiveOrigin(str(source), limits, threads, "v4l2"))
    return Video(LocalOrigin(source, limits, threads))


def probe(source: str | Path, *, limits: Limits = DEFAULT) -> VideoInfo:
    """What a file is; the first picture is decoded, the others are only counted."""
    with open_video(source, limits=limits) as video:
        return video.info


class Video:
    """An open video; use it in a `with` block."""

    def __init__(self, origin: Origin):
        self._origin = origin
        self._convert = RgbConverter()
        self._index: FrameIndex | None = None
        self._settled: array[int] | None = None  # the times of a run from start to end
        self._index_failed = False
        self._random: RandomReader | None = None
        self._info: VideoInfo | None = None
        try:
            self._opening: Run | None = Run(origin)
            self._time_base = self._opening.decoder.time_base
            first = self._opening.peek()
        except BaseException:
            origin.close()
            raise
        self._turn = orientation(first.frame)
        self._shape = _shown_shape(first, self._turn)
        origin.doubtful = first.frame.interlaced_frame  # the two fields may be stored as two packets
        self._facts = _facts(origin, self._opening.decoder, first, self._turn)

    def __enter__(self) -> Video:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._opening is not None:
            self._opening.close()
            self._opening = None
        if self._random is not None:
            self._random.close()
            self._random = None
        self._origin.close()

    @property
    def info(self) -> VideoInfo:
        """The first access counts the frames of a file (it is demuxed once, not decoded)."""
        if self._info is None:
            index = None if isinstance(self._origin, LiveOrigin) else self._packet_index()
            self._info = replace(self._facts, frames=None if index is None else len(index.pts))
        return self._info

    def count(self) -> int:
        """The exact number of frames, from packets where they tell it, else by decoding once."""
        return len(self._frame_index().pts)

    def index(self) -> np.ndarray:
        """(frames,) int64: time of each frame in units of `info.time_base`. Eight bytes per frame."""
        return self._frame_index().pts

    def frames(self, start: int = 0, stop: int | None = None, step: int = 1) -> Iterator[Frame]:
        """Frames `start`, `start + step`, … below `stop`, one at a time.

        Run to the end, this finds out whether the whole file is sound. Each call starts anew; a live stream can be
        read once.
        """
        for one in self.decoded(start, stop, step):
            yield Frame(one.index, one.time, self._convert(one.picture, one.turn))

    def decoded(self, start: int = 0, stop: int | None = None, step: int = 1) -> Iterator[Decoded]:
        """As `frames`, before anything is made of the pictures: for those who want another form or size than RGB."""
        if start < 0 or step < 1 or (stop is not None and stop < 0):
            raise UsageError(f"frames(start={start}, stop={stop}, step={step}): start, stop ≥ 0 and step ≥ 1")
        if (
            start
            and not isinstance(self._origin, LiveOrigin)
            and (index := self._packet_index())
            and len(index.keys)
        ):
            numbered = self._from_key(index, start)
        else:
            numbered = self._from_start()
        for number, picture in numbered:
            if stop is not None and number >= stop:
                numbered.close()
                return
            if number >= start and (number - start) % step == 0:
                yield Decoded(number, picture.pts * self._time_base, picture.frame, self._turn)

    def read(self, indices: Sequence[int]) -> np.ndarray:
        """The frames with these numbers as (len(indices), H, W, 3) uint8 RGB; any order, repeats allowed.

        Decodes from the nearest key frame before each run of wanted frames.
        """
        wanted = np.asarray(indices)
        if wanted.size and (wanted.ndim != 1 or wanted.dtype.kind not in "iu"):
            raise UsageError(
                f"{self._origin.path}: frame numbers must be a list of integers, got {indices!r}"
            )
        out = np.empty((wanted.size, *self._shape, 3), np.uint8)
        if not wanted.size:
            return out
        index = self._frame_index()
        if int(wanted.min()) < 0 or int(wanted.max()) >= len(index.pts):
            bad = int(wanted.min()) if int(wanted.min()) < 0 else int(wanted.max())
            raise UsageError(
                f"{self._origin.path}: frame {bad} asked for, there are frames 0 to {len(index.pts) - 1}"
            )
        numbers, places = np.unique(wanted, return_inverse=True)
        for position, picture in enumerate(self._pick(index, [int(n) for n in numbers])):
            out[places == position] = self._convert(picture.frame, self._turn)
        return out

    # --- how frames are reached ---

    def _from_start(self) -> Generator[tuple[int, Picture], None, None]:
        """Every picture with its number. A run to the end also settles the times, whatever the packets said."""
        run, self._opening = self._opening or Run(self._origin), None
        times = array("q")
        endless = isinstance(self._origin, LiveOrigin)
        try:
            for number, picture in enumerate(run):
                if not endless:
                    times.append(picture.pts)
                yield number, picture
        finally:
            run.close()
        if not endless:
            self._settle(times)

    def _from_key(self, index: FrameIndex, start: int) -> Generator[tuple[int, Picture], None, None]:
        """As `_from_start`, but beginning at a key frame before `start`."""
        number = start
        reader = RandomReader(self._origin.decoder(), index)
        try:
            for number in range(start, len(index.pts)):
                yield number, reader.picture(number)
            return
        except NotThere:
            self._distrust()
        finally:
            reader.close()
        for late, picture in self._from_start():
            if late >= number:
                yield late, picture

    def _pick(self, index: FrameIndex, numbers: list[int]) -> Iterator[Picture]:
        """The pictures with these numbers (increasing)."""
        done = 0
        if len(index.keys):
            if self._random is None:
                decoder = self._opening.decoder if self._opening is not None else self._origin.decoder()
                self._opening, self._random = None, RandomReader(decoder, index)
            try:
                for number in numbers:
                    picture = self._random.picture(number)
                    done += 1
                    yield picture
                return
            except NotThere:
                self._distrust()
        pictures = self._from_start()
        for number, picture in pictures:
            if done < len(numbers) and number == numbers[done]:
                done += 1
                yield picture
            if done == len(numbers):
                pictures.close()
                return
        raise CorruptVideo(self._origin.path, f"ends before frame {numbers[done]}")

    def _packet_index(self) -> FrameIndex | None:
        """The index from packets alone; None when only decoding can tell."""
        if self._index is None and not self._index_failed:
            self._index = self._origin.packet_index()
            self._index_failed = self._index is None
            if self._settled is not None:
                self._settle(self._settled)
        return self._index

    def _frame_index(self) -> FrameIndex:
        if isinstance(self._origin, LiveOrigin):
            raise UsageError(f"{self._origin.path}: a live stream has no frame numbers; use frames()")
        if self._packet_index() is None:
            for _ in self._from_start():
                pass
        assert self._index is not None
        return self._index

    def _settle(self, times: array[int]) -> None:
        """Hold the index against the times of a complete run, and replace it where they differ."""
        self._settled = times
        known = self._index is not None and np.array_equal(self._index.pts, times)
        if not known and (self._index is not None or self._index_failed):
            self._distrust()
            self._index = index_from_times(times, self._time_base)

    def _distrust(self) -> None:
        """Searching did not give what the packets promised: from now on everything is read from the start."""
        if self._random is not None:
            self._random.close()
            self._random = None
        self._index, self._index_failed = None, True


def _facts(origin: Origin, decoder: Decoder, first: Picture, turn: Orientation) -> VideoInfo:
    stream, container = decoder.stream, decoder.container
    height, width = _shown_shape(first, turn)
    duration = None
    if stream.duration is not None:
        duration = stream.duration * decoder.time_base
    elif container.duration is not None:
        duration = Fraction(container.duration, SECOND)
    aspect = stream.sample_aspect_ratio or Fraction(1)
    return VideoInfo(
        width=width,
        height=height,
        rotation=turn.rotation,
        rate=stream.average_rate or stream.guessed_rate,
        time_base=decoder.time_base,
        duration=duration,
        frames=None,
        codec=decoder.codec,
        container=origin.kind.name if origin.kind else container.format.name,
        pixel_format=first.frame.format.name,
        has_audio=bool(container.streams.audio),
        sample_aspect=1 / aspect if turn.transpose else aspect,
    )


def _shown_shape(picture: Picture, turn: Orientation) -> tuple[int, int]:
    shape = (picture.frame.height, picture.frame.width)
    return shape[::-1] if turn.transpose else shape


def _exists(source: str) -> bool:
    try:
        return Path(source).exists()
    except (OSError, ValueError):
        return False


def _is_camera(source: str | Path) -> bool:
    try:
        mode = Path(source).stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISCHR(mode.st_mode) and os.major(mode.st_rdev) == _CAMERAS
