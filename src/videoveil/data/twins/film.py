"""Plays onto disk: a video in the container and codec its dataset uses, or a photograph. Same play, same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from videoveil import files
from videoveil.data.theatre import stage
from videoveil.data.theatre.play import Play
from videoveil.media.x264 import steady


@dataclass(frozen=True, slots=True)
class Film:
    """A container and codec, with the options that make the picture good and the bytes reproducible."""

    container: str
    codec: str
    options: tuple[tuple[str, str], ...]


MP4 = Film("mp4", "libx264", (("preset", "veryfast"), ("crf", "20"), ("x264-params", "threads=1:keyint=25")))
AVI = Film("avi", "mpeg4", (("qscale:v", "2"), ("flags", "+qscale"), ("global_quality", "236"), ("g", "12")))


def shoot(play: Play, destination: Path, film: Film) -> int:
    """Write a play as a video; returns the number of frames."""
    import av
    from av.video.stream import VideoStream

    options = dict(film.options)
    if film.codec == "libx264":
        options |= steady(options.get("x264-params", ""))
    with (
        files.atomic_path(destination) as temporary,
        av.open(str(temporary), "w", format=film.container, options={"fflags": "+bitexact"}) as container,
    ):
        stream = container.add_stream(film.codec, rate=play.rate, options=options)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = play.width, play.height, "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = 1 / play.rate
        for index, image in enumerate(stage.frames(play)):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = index, 1 / play.rate
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return play.frames


def photograph(play: Play, destination: Path) -> int:
    """Write the first frame of a play as a JPEG; returns 1."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(stage.Stage(play).frame(0)))
    with files.atomic_path(destination) as temporary:
        image.save(temporary, format="JPEG", quality=92)
    return 1
