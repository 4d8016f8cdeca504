"""Parts of a video put together again: the same pictures and times as if they had been written in one go."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoveil.errors import CorruptVideo, UsageError, WriteFailed
from videoveil.media.join import join
from videoveil.media.reader import open_video
from videoveil.media.writer import VideoWriter

UNIT = Fraction(1, 600)


def picture(number: int, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    generator = np.random.default_rng(number)
    coarse = generator.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return np.ascontiguousarray(np.kron(coarse, np.ones((size[0] // 6, size[1] // 8, 1), np.uint8)))


def write(path: Path, times: list[int], *, first: int = 0, **options: object) -> Path:
    with VideoWriter(path, width=64, height=48, time_base=UNIT, **options) as writer:  # type: ignore[arg-type]
        for place, time in enumerate(times):
            writer.write(picture(first + place), time * UNIT)
    return path


def with_sound(path: Path, seconds: int = 2) -> Path:
    with av.open(str(path), "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=10)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        audio = container.add_stream("aac", rate=16000)
        audio.layout = "mono"
        for number in range(10 * seconds):
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
        for number in range(16 * seconds):
            tone = np.sin(np.arange(1000) / 5, dtype=np.float32)[None] * 0.1
            frame = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
            frame.rate, frame.pts = 16000, 1000 * number
            container.mux(audio.encode(frame))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))
    return path


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.integers(1, 90), min_size=2, max_size=9),
    start=st.integers(0, 500),
    cut=st.data(),
)
def test_pictures_and_times_are_those_of_the_parts_wherever_the_cuts_are(
    tmp_path: Path, steps: list[int], start: int, cut: st.DataObject
) -> None:
    times = [start + int(t) for t in np.cumsum(steps)]
    cuts = sorted(cut.draw(st.sets(st.integers(1, len(times) - 1), max_size=3)))
    bounds = [0, *cuts, len(times)]
    parts = [
        write(tmp_path / f"{n}.mp4", times[a:b], first=a)
        for n, (a, b) in enumerate(itertools.pairwise(bounds))
    ]
    assert join(parts, tmp_path / "whole.mp4") == len(times)
    with open_video(tmp_path / "whole.mp4") as video:
        frames = list(video.frames())
    assert [frame.time for frame in frames] == [t * UNIT for t in times]
    seen = [image for part in parts for image in decoded(part)]
    assert all(np.array_equal(frame.image, image) for frame, image in zip(frames, seen, strict=True))


def decoded(path: Path) -> list[np.ndarray]:
    with open_video(path) as video:
        return [frame.image for frame in video.frames()]


def test_sound_comes_from_the_source_and_nothing_else_does(tmp_path: Path) -> None:
    source = with_sound(tmp_path / "source.mp4")
    times = [60 * n for n in range(20)]
    parts = [
        write(tmp_path / "a.mp4", times[:7]),
        write(tmp_path / "b.mp4", times[7:], first=7),
    ]
    join(parts, tmp_path / "whole.mp4", audio_from=source)
    with av.open(str(tmp_path / "whole.mp4")) as container, av.open(str(source)) as before:
        assert [stream.type for stream in container.streams] == ["video", "audio"]
        sizes = [packet.size for packet in container.demux(container.streams.audio[0]) if packet.size]
        wanted = [p.size for p in before.demux(before.streams.audio[0]) if p.size]
        assert sizes == wanted[1:]  # the first is the codec's run-in, before time zero
        assert "comment" not in container.metadata


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    parts = [write(tmp_path / "a.mp4", [0, 60]), write(tmp_path / "b.mp4", [120, 180], first=2)]
    for name in ("x.mp4", "y.mp4"):
        join(parts, tmp_path / name)
    assert (tmp_path / "x.mp4").read_bytes() == (tmp_path / "y.mp4").read_bytes()


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        ({"times": [30, 90]}, "does not go on"),
        ({"times": [120], "preset": "slow", "crf": 35}, "another way"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused_and_nothing_appears(
    tmp_path: Path, second: dict[str, object], problem: str
) -> None:
    parts = [write(tmp_path / "a.mp4", [0, 60]), write(tmp_path / "b.mp4", **second)]  # type: ignore[arg-type]
    with pytest.raises(CorruptVideo, match=problem):
        join(parts, tmp_path / "whole.mp4")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mp4", "b.mp4"]


def test_a_damaged_part_no_parts_and_no_place_to_write_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.mp4").write_bytes(b"nothing of a video")
    with pytest.raises(CorruptVideo, match=r"bad\.mp4"):
        join([tmp_path / "bad.mp4"], tmp_path / "whole.mp4")
    with pytest.raises(UsageError, match="no parts"):
        join([], tmp_path / "whole.mp4")
    part = write(tmp_path / "a.mp4", [0])
    with pytest.raises((WriteFailed, OSError)):
        join([part], tmp_path / "a.mp4" / "whole.mp4")
