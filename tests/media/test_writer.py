"""Writing: exact times, whole files or none, nothing of the input's tags, sound only when asked for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.errors import ContainerNotAllowed, CorruptVideo, UsageError, WriteFailed
from videoveil.files import TEMPORARY
from videoveil.media.reader import open_video, probe
from videoveil.media.writer import Coding, VideoWriter

from .make import FRAMES, add_sound, encode, picture, seen

TICK = Fraction(1, 25)


def write(
    path: Path,
    times: list[Fraction],
    *,
    size: tuple[int, int] = (96, 64),
    time_base: Fraction = TICK,
    **options: object,
) -> None:
    width, height = size
    with VideoWriter(path, width=width, height=height, time_base=time_base, **options) as writer:  # type: ignore[arg-type]
        for number, moment in enumerate(times):
            writer.write(picture(number, width, height), moment)


def leftovers(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# --- what goes in comes out ----------------------------------------------------------------------------------


def test_frames_come_back_in_order_with_their_pixels(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", [i * TICK for i in range(FRAMES)])
    with open_video(tmp_path / "a.mp4") as video:
        frames = list(video.frames())
    assert [seen(f.image) for f in frames] == list(range(FRAMES))
    assert [f.time for f in frames] == [i * TICK for i in range(FRAMES)]
    errors = [np.abs(f.image.astype(int) - picture(i)).mean() for i, f in enumerate(frames)]
    assert max(errors) < 4


@settings(max_examples=30, deadline=None)
@given(
    base=st.one_of(
        st.sampled_from(
            [Fraction(1, 25), Fraction(1001, 30000), Fraction(1, 90000), Fraction(1, 1000), Fraction(10)]
        ),
        st.fractions(Fraction(1, 100_000), Fraction(2), max_denominator=100_000).filter(lambda f: f > 0),
    ),
    first=st.integers(0, 100_000),
    gaps=st.lists(st.integers(1, 500), min_size=0, max_size=8),  # the longest stays below the limit of a day
    width=st.integers(1, 40),
    height=st.integers(1, 40),
    rate=st.none() | st.fractions(Fraction(1), Fraction(240), max_denominator=1001),
)
def test_count_times_and_size_survive_exactly(
    base: Fraction,
    first: int,
    gaps: list[int],
    width: int,
    height: int,
    rate: Fraction | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ticks = [first]
    for gap in gaps:
        ticks.append(ticks[-1] + gap)
    path = tmp_path_factory.mktemp("round") / "a.mp4"
    write(path, [t * base for t in ticks], size=(width, height), time_base=base, rate=rate)
    with open_video(path) as video:
        frames = list(video.frames())
        assert [f.time for f in frames] == [t * base for t in ticks]
        assert video.info.frames == video.count() == len(ticks)
        assert (video.info.width, video.info.height) == (width, height)
        assert all(f.image.shape == (height, width, 3) for f in frames)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts", "a.webm", "a.avi", "a.flv"])
def test_the_times_of_any_input_can_be_written(name: str, tmp_path: Path) -> None:
    codec = {"a.webm": "libvpx", "a.avi": "mpeg4"}.get(name, "libx264")
    encode(tmp_path / name, codec, rate=Fraction(30000, 1001))
    with open_video(tmp_path / name) as video:
        info = video.info
        with VideoWriter(
            tmp_path / "out.mp4",
            width=info.width,
            height=info.height,
            time_base=info.time_base,
            rate=info.rate,
        ) as writer:
            times = []
            for frame in video.frames():
                writer.write(frame.image, frame.time)
                times.append(frame.time)
    with open_video(tmp_path / "out.mp4") as video:
        assert [f.time for f in video.frames()] == times


def test_a_start_below_zero_moves_the_whole_video_to_zero(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", [(i - 7) * TICK for i in range(10)])
    with open_video(tmp_path / "a.mp4") as video:
        assert [f.time for f in video.frames()] == [i * TICK for i in range(10)]


def test_even_sizes_play_in_browsers_and_odd_sizes_stay_odd(tmp_path: Path) -> None:
    for size, pixels in (
        ((96, 64), "yuv420p"),
        ((97, 64), "yuv444p"),
        ((96, 63), "yuv444p"),
        ((1, 1), "yuv444p"),
    ):
        write(tmp_path / "a.mp4", [Fraction(0)], size=size)
        info = probe(tmp_path / "a.mp4")
        assert (info.width, info.height, info.pixel_format, info.codec) == (*size, pixels, "h264")
    data = (tmp_path / "a.mp4").read_bytes()
    assert data.find(b"moov") < data.find(b"mdat"), "a player can start before it has the whole file"


def test_colours_come_back_and_the_file_names_its_matrix(tmp_path: Path) -> None:
    for colour in (
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 255),
        (0, 0, 0),
        (128, 128, 128),
        (200, 100, 50),
    ):
        with VideoWriter(tmp_path / "a.mp4", width=32, height=32, time_base=TICK) as writer:
            writer.write(np.full((32, 32, 3), colour, np.uint8), Fraction(0))
        with open_video(tmp_path / "a.mp4") as video:
            assert np.abs(video.read([0])[0].astype(int) - colour).max() <= 3
    with av.open(str(tmp_path / "a.mp4")) as container:
        frame = next(container.decode(video=0))
        assert (frame.colorspace, frame.color_range, frame.color_primaries, frame.color_trc) == (1, 1, 1, 1)


def test_the_shape_of_pixels_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", [Fraction(0)], sample_aspect=Fraction(4, 3))
    assert probe(tmp_path / "a.mp4").sample_aspect == Fraction(4, 3)


def test_the_same_frames_give_the_same_bytes(tmp_path: Path) -> None:
    add_sound(tmp_path / "in.mov", "pcm_s16le")
    for name in ("a.mp4", "b.mp4"):
        write(tmp_path / name, [i * TICK for i in range(12)], audio_from=tmp_path / "in.mov")
        time.sleep(1.1)  # a clock time in the file would differ
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.parametrize(("width", "height"), [(96, 64), (95, 63)])
def test_frames_that_are_coded_already_give_the_bytes_of_their_pictures(
    width: int, height: int, tmp_path: Path
) -> None:
    coding = Coding(width, height)
    images = [np.ascontiguousarray(picture(number)[:height, :width]) for number in range(6)]
    for name, frames in (("image", images), ("frame", [coding.of_image(image) for image in images])):
        with VideoWriter(tmp_path / f"{name}.mp4", width=width, height=height, time_base=TICK) as writer:
            for number, frame in enumerate(frames):
                writer.write(frame, number * TICK)
    assert (tmp_path / "image.mp4").read_bytes() == (tmp_path / "frame.mp4").read_bytes()


@pytest.mark.parametrize(("width", "height"), [(40, 30), (200, 130), (96, 64)])
def test_a_picture_of_another_size_is_scaled_on_the_way(width: int, height: int) -> None:
    coding, image = Coding(96, 64), cv2.GaussianBlur(picture(5), (0, 0), 6)
    frame = coding.of_image(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA))
    assert coding.has(frame)
    assert np.abs(frame.to_ndarray(format="rgb24").astype(int) - image).mean() < 4


# --- sound and tags ------------------------------------------------------------------------------------------

SOUNDS = {
    "in.mp4": ("aac", "aac"),
    "in.mkv": ("libmp3lame", "mp3float"),
    "in.mov": ("pcm_s16le", "aac"),
    "in.avi": ("pcm_s16le", "aac"),
    "in.ts": ("aac", "aac"),
    "in.flv": ("aac", "aac"),
}


def tone(path: Path) -> tuple[str, float, float, float]:
    """Codec, start, seconds and main frequency of the sound."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        frames = list(container.decode(stream))
        samples = np.concatenate([f.to_ndarray()[0] for f in frames])
        power = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
        frequency = float(np.argmax(power)) * stream.rate / len(samples)
        return (
            stream.codec_context.name,
            float(frames[0].pts * stream.time_base),
            len(samples) / stream.rate,
            frequency,
        )


@pytest.mark.parametrize("name", SOUNDS)
def test_sound_is_kept_in_step_when_asked_for(name: str, tmp_path: Path) -> None:
    codec, expected = SOUNDS[name]
    add_sound(tmp_path / name, codec, tags=name != "in.ts")
    with open_video(tmp_path / name) as video:
        times = [frame.time for frame in video.frames()]
        info = video.info
    write(tmp_path / "out.mp4", times, time_base=info.time_base, audio_from=tmp_path / name)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio"]
    with open_video(tmp_path / "out.mp4") as video:
        assert [frame.time for frame in video.frames()] == times
    written, start, seconds, frequency = tone(tmp_path / "out.mp4")
    _, stored_start, _, _ = tone(tmp_path / name)
    assert written == expected
    assert abs(frequency - 440) < 3
    assert abs(start - max(0.0, stored_start)) < 0.03
    assert 0.95 < seconds < 1.1


def test_sound_is_dropped_unless_asked_for(tmp_path: Path) -> None:
    add_sound(tmp_path / "in.mp4", "aac")
    write(tmp_path / "out.mp4", [i * TICK for i in range(5)])
    assert not probe(tmp_path / "out.mp4").has_audio


def test_a_file_without_sound_gives_a_silent_video(tmp_path: Path) -> None:
    encode(tmp_path / "in.mp4")
    write(tmp_path / "out.mp4", [i * TICK for i in range(5)], audio_from=tmp_path / "in.mp4")
    assert not probe(tmp_path / "out.mp4").has_audio


def test_the_raw_pictures_of_the_sound_source_do_not_come_along(tmp_path: Path) -> None:
    add_sound(tmp_path / "in.mp4", "aac")
    with VideoWriter(
        tmp_path / "out.mp4", width=96, height=64, time_base=TICK, audio_from=tmp_path / "in.mp4"
    ) as writer:
        for number in range(25):
            writer.write(np.zeros((64, 96, 3), np.uint8), number * TICK)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert [stream.type for stream in container.streams] == ["video", "audio"]
        assert all(frame.to_ndarray(format="rgb24").max() < 8 for frame in container.decode(video=0))


@pytest.mark.parametrize("name", ["in.mp4", "in.mkv", "in.mov"])
def test_no_tag_of_the_input_survives(name: str, tmp_path: Path) -> None:
    add_sound(tmp_path / name, "aac", tags=True)
    assert b"SECRET" in (tmp_path / name).read_bytes()
    write(tmp_path / "out.mp4", [i * TICK for i in range(25)], audio_from=tmp_path / name)
    data = (tmp_path / "out.mp4").read_bytes()
    for trace in (b"SECRET", b"48.8577", b"2021-02", b"fra", b"x264", b"Lavf", b"chap", b"in.m"):
        assert trace not in data, trace
    assert b"\x00\x00\x00\x08ilst" in data, "the list of tags is there and empty"
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert not container.chapters()
        assert set(container.metadata) == {"major_brand", "minor_version", "compatible_brands"}
        for stream in container.streams:
            assert set(stream.metadata) == {"language", "handler_name"}
            assert stream.metadata["language"] == "und"
    header = data[data.find(b"mvhd") + 8 :]
    assert header[:8] == bytes(8), "no time of creation or change"


def test_bad_sound_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "list.m3u8").write_text("#EXTM3U\n/etc/passwd\n")
    with pytest.raises(ContainerNotAllowed):
        write(tmp_path / "out.mp4", [Fraction(0)], audio_from=tmp_path / "list.m3u8")
    add_sound(tmp_path / "in.mkv", "aac")
    (tmp_path / "cut.mp4").write_bytes(add_sound(tmp_path / "in.mp4", "aac").read_bytes()[:-50])
    with pytest.raises(CorruptVideo):
        write(tmp_path / "out.mp4", [Fraction(0)], audio_from=tmp_path / "cut.mp4")
    assert leftovers(tmp_path) == ["cut.mp4", "in.mkv", "in.mp4", "list.m3u8"]


# --- whole or not at all -------------------------------------------------------------------------------------


def test_nothing_appears_before_the_end(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", width=96, height=64, time_base=TICK) as writer:
        for number in range(80):
            writer.write(picture(number), number * TICK)
            assert not (tmp_path / "a.mp4").exists()
            assert all(TEMPORARY in name for name in leftovers(tmp_path))
    assert leftovers(tmp_path) == ["a.mp4"]


@pytest.mark.parametrize(
    "frame",
    [
        np.zeros((64, 96), np.uint8),
        np.zeros((64, 96, 4), np.uint8),
        np.zeros((96, 64, 3), np.uint8),
        np.zeros((64, 96, 3), np.float32),
        np.zeros((64, 96, 3), np.int8),
        np.zeros((1, 64, 96, 3), np.uint8),
        [[0]],
        av.VideoFrame(96, 64, "yuv420p"),  # does not say which matrix its colours have
        av.VideoFrame(96, 64, "rgb24"),
        Coding(64, 96).of_image(np.zeros((96, 64, 3), np.uint8)),
    ],
)
def test_a_frame_of_the_wrong_kind_is_an_error_and_leaves_nothing(frame: np.ndarray, tmp_path: Path) -> None:
    with (
        pytest.raises(WriteFailed, match=r"frame 3 is .*expected is uint8 \(64, 96, 3\)"),
        VideoWriter(tmp_path / "a.mp4", width=96, height=64, time_base=TICK) as writer,
    ):
        for number in range(3):
            writer.write(picture(number), number * TICK)
        writer.write(frame, 3 * TICK)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("moment", [Fraction(2, 25), Fraction(1, 25), Fraction(-1), Fraction(1, 3)])
def test_a_time_that_does_not_come_after_the_last_or_does_not_fit_is_an_error(
    moment: Fraction, tmp_path: Path
) -> None:
    with pytest.raises(WriteFailed, match="frame 3"):
        write(tmp_path / "a.mp4", [0 * TICK, 1 * TICK, 2 * TICK, moment])
    assert leftovers(tmp_path) == []


def test_a_refused_frame_spoils_the_file_even_if_the_caller_goes_on(tmp_path: Path) -> None:
    with (
        pytest.raises(WriteFailed, match="frame 1 could not be written"),
        VideoWriter(tmp_path / "a.mp4", width=96, height=64, time_base=TICK) as writer,
    ):
        writer.write(picture(0), 0 * TICK)
        with pytest.raises(WriteFailed):
            writer.write(picture(1), 0 * TICK)
    assert leftovers(tmp_path) == []


def test_no_frame_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WriteFailed, match="no frame"):
        write(tmp_path / "a.mp4", [])
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, MemoryError, OSError, SystemExit])
def test_any_error_inside_the_block_passes_through_and_leaves_nothing(
    error: type[BaseException], tmp_path: Path
) -> None:
    with pytest.raises(error), VideoWriter(tmp_path / "a.mp4", width=96, height=64, time_base=TICK) as writer:
        for number in range(70):
            writer.write(picture(number), number * TICK)
        raise error("stop")
    assert leftovers(tmp_path) == []


def test_an_earlier_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"earlier")
    with pytest.raises(WriteFailed):
        write(tmp_path / "a.mp4", [])
    assert (tmp_path / "a.mp4").read_bytes() == b"earlier"
    write(tmp_path / "a.mp4", [Fraction(0)])
    assert probe(tmp_path / "a.mp4").frames == 1


def test_wrong_settings_and_wrong_use_are_told(tmp_path: Path) -> None:
    for settings_ in (
        {"width": 0},
        {"height": 10**6},
        {"time_base": Fraction(0)},
        {"time_base": Fraction(1, 2**40)},
    ):
        arguments = {"width": 96, "height": 64, "time_base": TICK, **settings_}
        with pytest.raises(UsageError):
            VideoWriter(tmp_path / "a.mp4", **arguments)  # type: ignore[arg-type]
    writer = VideoWriter(tmp_path / "a.mp4", width=96, height=64, time_base=TICK)
    with pytest.raises(UsageError, match="with block"):
        writer.write(picture(0), Fraction(0))
    with pytest.raises(WriteFailed), VideoWriter("/proc/nowhere/a.mp4", width=96, height=64, time_base=TICK):
        pass
    assert leftovers(tmp_path) == []


CHILD = """
import resource, signal, sys
from fractions import Fraction
import numpy as np
from videoveil.errors import WriteFailed
from videoveil.media.writer import VideoWriter
path, limit = sys.argv[1], int(sys.argv[2])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
rng = np.random.default_rng(0)
try:
    with VideoWriter(path, width=128, height=96, time_base=Fraction(1, 25)) as writer:
        for number in range(200 if limit else 10**6):
            writer.write(rng.integers(0, 255, (96, 128, 3), dtype=np.uint8), Fraction(number, 25))
            if number == 100:
                print("half", flush=True)
except WriteFailed as error:
    print(error, file=sys.stderr)
    sys.exit(3)
"""


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "a.mp4"), "300000"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 3, done.stderr
    assert "could not be written" in done.stderr
    assert leftovers(tmp_path) == []


def test_after_a_kill_the_destination_does_not_exist(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "a.mp4"), "0"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"half\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert all(name.startswith(TEMPORARY) for name in leftovers(tmp_path))
