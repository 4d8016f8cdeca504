"""Small videos with known content: frame `i` has the mean grey `level(i)`, so that one can ask which frame was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from videoveil.media.x264 import steady

FRAMES = 24
# Good quality, and key frames only where a test asks for them: frames that differ in grey would else all be key frames.
_MPEG = {"sc_threshold": "1000000000", "qmin": "2", "qmax": "4"}
SETTINGS = {
    "libx264": {"sc_threshold": "0"},
    "mpeg4": _MPEG,
    "mpeg2video": _MPEG,
    "flv": _MPEG,
    "wmv2": _MPEG,
}


def level(number: int) -> int:
    return 30 + 8 * (number % FRAMES)


def picture(number: int, width: int = 96, height: int = 64, *, texture: float = 12.0) -> np.ndarray:
    """(H, W, 3) grey with a moving texture of mean zero: enough to give every frame some bytes."""
    noise = np.roll(np.random.default_rng(0).normal(0.0, 1.0, (height, width)), number, axis=1) * texture
    noise -= noise.mean()
    grey = np.clip(np.round(level(number) + noise), 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def seen(image: np.ndarray) -> int:
    """The number of the frame that `image` shows."""
    return round((float(image.mean()) - 30) / 8)


def encode(
    path: Path,
    codec: str = "libx264",
    *,
    images: Iterable[np.ndarray] | None = None,
    count: int = FRAMES,
    size: tuple[int, int] = (96, 64),
    pix_fmt: str = "yuv420p",
    options: dict[str, str] | None = None,
    container: str | None = None,
    container_options: dict[str, str] | None = None,
    rate: Fraction | int = 25,
    times: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    stamp: Callable[[int], int] | None = None,
    texture: float = 12.0,
    prepare: Callable[[av.video.stream.VideoStream], None] | None = None,
) -> Path:
    """Encode frames. `times` are theirs, in `time_base`; `stamp` rewrites the times of packets, to forge odd ones."""
    width, height = size
    pictures = (
        images if images is not None else (picture(i, width, height, texture=texture) for i in range(count))
    )
    with av.open(str(path), "w", format=container, container_options=container_options or {}) as output:
        settings = {"threads": "1", **SETTINGS.get(codec, {}), **(options or {})}
        if codec == "libx264":  # the same file every time, so that what a test says of it is so every time
            settings |= steady(settings.get("x264-params", ""))
        stream = output.add_stream(codec, rate=rate, options=settings)
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        if time_base is not None:
            stream.codec_context.time_base = time_base
        if prepare is not None:
            prepare(stream)
        packets = []
        for number, image in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(image, format="rgba" if image.shape[2] == 4 else "rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[number], time_base
            packets += stream.encode(frame)
        packets += stream.encode(None)
        for packet in packets:
            if stamp is not None and packet.pts is not None:
                # Muxers insist on increasing decoding times before the display times; only the latter are stored.
                packet.pts, packet.dts = stamp(packet.pts), packet.pts - 10_000
            output.mux(packet)
    return path


def add_sound(
    path: Path, codec: str, *, video: str | None = "libx264", rate: int = 48000, tags: bool = False
) -> Path:
    """One second of a 440 Hz tone, with pictures unless `video` is None."""
    with av.open(str(path), "w") as output:
        if tags:
            output.metadata.update(
                title="SECRET title",
                comment="SECRET comment",
                location="+48.8577+002.2950/SECRET",
                creation_time="2021-02-03T04:05:06Z",
                artist="SECRET artist",
            )
        pictures = None
        if video is not None:
            pictures = output.add_stream(video, rate=25, options=steady() if video == "libx264" else {})
            pictures.width, pictures.height, pictures.pix_fmt = 96, 64, "yuv420p"
            if tags:
                pictures.metadata["title"] = "SECRET pictures"
        sound = output.add_stream(codec, rate=rate)
        sound.layout = "stereo"
        if tags:
            sound.metadata.update(title="SECRET sound", language="fra")
            output.set_chapters(
                [
                    {
                        "id": 0,
                        "start": 0,
                        "end": 500,
                        "time_base": Fraction(1, 1000),
                        "metadata": {"title": "SECRET"},
                    }
                ]
            )
        tone = (np.sin(2 * np.pi * 440 * np.arange(rate) / rate) * 12000).astype(np.int16)
        for number in range(25):
            if pictures is not None:
                output.mux(pictures.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
            piece = np.repeat(tone[number * rate // 25 : (number + 1) * rate // 25], 2)[None]
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(piece), format="s16", layout="stereo")
            frame.rate, frame.pts, frame.time_base = rate, number * rate // 25, Fraction(1, rate)
            output.mux(sound.encode(frame))
        for stream in output.streams:
            output.mux(stream.encode(None))
    return path


def with_hidden_pictures(source: Path, target: Path) -> Path:
    """The VP8 file `source` with every fourth picture stored a second time, not to be shown."""
    with av.open(str(source)) as read, av.open(str(target), "w") as output:
        stream = output.add_stream_from_template(read.streams.video[0], opaque=True)
        stored = [packet for packet in read.demux(read.streams.video[0]) if packet.size]
        for number, packet in enumerate(stored):
            data = bytes(packet)
            copies = [data, bytes((data[0] & ~0x10,)) + data[1:]] if number % 4 == 1 else [data]
            for shift, copy in enumerate(copies):
                written = av.Packet(copy)
                written.pts = written.dts = packet.pts + shift
                written.time_base, written.is_keyframe, written.stream = (
                    packet.time_base,
                    packet.is_keyframe,
                    stream,
                )
                output.mux(written)
    return target
