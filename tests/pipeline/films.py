"""Small films for the tests of the pipeline: scenes of the theatre, coded as a test wants them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

from videoveil.anonymizers.obfuscate import STRONG, WholeBlur
from videoveil.data.theatre import cast, playwright, stage

SIZE = (96, 64)


@functools.cache
def scene(frame: int, width: int = SIZE[0], height: int = SIZE[1]) -> np.ndarray:
    """One frame of somebody who walks; frames of any number."""
    play = playwright.trimmed(
        "film", action="walk", person=cast.identity(0, 5), width=width, height=height, frames=4000
    )
    return stage.Stage(play).frame(frame)


def scenes(count: int, width: int = SIZE[0], height: int = SIZE[1]) -> list[np.ndarray]:
    return [scene(number, width, height) for number in range(count)]


def blurred(images: Sequence[np.ndarray]) -> list[np.ndarray]:
    batch = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    return list(WholeBlur(STRONG)(batch).permute(0, 2, 3, 1).contiguous().numpy())


def coded(
    path: Path,
    images: Sequence[np.ndarray],
    *,
    container: str = "mp4",
    codec: str = "libx264",
    crf: int = 20,
    times: Sequence[int] | None = None,
    time_base: Fraction = Fraction(1, 25),
    sound: bool = False,
    sound_first: bool = False,
    tags: dict[str, str] | None = None,
    prepare: Callable[[Any, Any], None] | None = None,
    keys: int = 12,
) -> Path:
    """A file with these pictures; without a word about the program that wrote it."""
    with av.open(str(path), "w", format=container, container_options={"fflags": "+bitexact"}) as output:
        output.metadata.update(tags or {})
        audio = output.add_stream("aac", rate=16000, layout="stereo") if sound and sound_first else None
        options = {
            "crf": str(crf),
            "preset": "veryfast",
            "threads": "1",
            "flags": "+bitexact",
            "g": str(keys),
        }
        stream = output.add_stream(codec, rate=25, options=options)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = time_base
        if sound and audio is None:
            audio = output.add_stream("aac", rate=16000, layout="stereo")
        if prepare is not None:
            prepare(output, stream)
        for number, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = (number if times is None else times[number]), time_base
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
        if audio is not None:
            for number in range(10):
                hum = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), "fltp", "stereo")
                hum.sample_rate, hum.pts, hum.time_base = 16000, number * 1024, Fraction(1, 16000)
                output.mux(audio.encode(hum))
            output.mux(audio.encode(None))
    return path
