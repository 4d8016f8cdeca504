"""Reading: every container, exact time, random access, limits, streams."""

from __future__ import annotations

import contextlib
import functools
import gc
import http.server
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from videoveil.errors import (
    ContainerNotAllowed,
    CorruptVideo,
    DecodeTimeout,
    FileTooLarge,
    FrameTooLarge,
    MediaError,
    MissingFile,
    ProtocolNotAllowed,
    TooLong,
    TooManyFrames,
    UsageError,
)
from videoveil.media.limits import Limits
from videoveil.media.pixels import RgbConverter
from videoveil.media.reader import Frame, VideoInfo, open_video, probe

from .make import FRAMES, add_sound, encode, picture, seen

# name, codec, options of the encoder, whether single frames are reached without decoding from the start
OPEN_GOP = "open-gop=1:keyint=8:min-keyint=8:scenecut=0:bframes=3:b-adapt=0"
FORMATS = {
    "b-frames.mp4": ("libx264", {"bf": "3", "g": "8"}, True),
    "open-gop.mp4": ("libx264", {"x264-params": OPEN_GOP}, True),
    "moving-refresh.mp4": ("libx264", {"x264-params": "intra-refresh=1:keyint=8:bframes=0"}, False),
    "open-gop-hevc.mp4": (
        "libx265",
        {"x265-params": "log-level=none:keyint=8:open-gop=1:bframes=3:pools=1"},
        True,
    ),
    "mpeg4-b.mp4": ("mpeg4", {"bf": "2", "g": "8"}, True),
    "b-frames.mov": ("libx264", {"bf": "3", "g": "8"}, True),
    "b-frames.mkv": ("libx264", {"bf": "3", "g": "8"}, True),
    "open-gop.mkv": ("libx264", {"x264-params": OPEN_GOP}, True),
    "mpeg2.mkv": ("mpeg2video", {"bf": "2", "g": "8"}, True),
    "vp8.webm": ("libvpx", {"g": "8", "deadline": "realtime"}, True),
    "vp8-hidden.webm": (
        "libvpx",
        {"g": "16", "auto-alt-ref": "1", "lag-in-frames": "12", "cpu-used": "5"},
        True,
    ),
    "vp9.webm": ("libvpx-vp9", {"g": "8", "auto-alt-ref": "1", "lag-in-frames": "12", "cpu-used": "8"}, True),
    "mpeg4.avi": ("mpeg4", {"g": "8"}, True),
    "mpeg4-b.avi": ("mpeg4", {"bf": "2", "g": "8"}, False),
    "b-frames.avi": ("libx264", {"bf": "3", "g": "8"}, False),
    "mjpeg.avi": ("mjpeg", {}, True),
    "b-frames.ts": ("libx264", {"bf": "3", "g": "8"}, True),
    "open-gop.ts": ("libx264", {"x264-params": OPEN_GOP}, True),
    "mpeg2.ts": ("mpeg2video", {"bf": "2", "g": "8"}, True),
    "mpeg2.mpg": ("mpeg2video", {"bf": "2", "g": "8"}, False),
    "h264.flv": ("libx264", {"bf": "2", "g": "8"}, True),
    "flv1.flv": ("flv", {"g": "8"}, True),
    "vp8.ogv": ("libvpx", {"g": "8", "deadline": "realtime"}, True),
    "wmv2.wmv": ("wmv2", {"g": "8"}, True),
    "grey.gif": ("gif", {}, True),
    "ffv1.mkv": ("ffv1", {}, True),
    "png.mov": ("png", {}, True),
}
INTRA = ("mjpeg.avi", "ffv1.mkv", "png.mov")
MUXERS = {"mpg": "mpeg", "ogv": "ogg", "wmv": "asf"}
PIXELS = {"grey.gif": "gray", "mjpeg.avi": "yuvj420p", "png.mov": "rgb24"}


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("videos")
    for name, (codec, options, _) in FORMATS.items():
        encode(
            folder / name,
            codec,
            options=options,
            container=MUXERS.get(name.split(".")[-1]),
            count=40,
            pix_fmt=PIXELS.get(name, "yuv420p"),
        )
    return {name: folder / name for name in FORMATS}


@pytest.mark.parametrize("name", FORMATS)
def test_random_access_gives_the_same_bytes_as_reading_through(name: str, videos: dict[str, Path]) -> None:
    with open_video(videos[name]) as video:
        frames = list(video.frames())
        assert [frame.index for frame in frames] == list(range(40))
        assert video.count() == video.info.frames == 40
        assert [int(pts) * video.info.time_base for pts in video.index()] == [frame.time for frame in frames]
        rng = np.random.default_rng(0)
        for _ in range(8):
            wanted = rng.integers(0, 40, rng.integers(1, 7))
            got = video.read([int(w) for w in wanted])
            assert got.shape == (len(wanted), 64, 96, 3)
            assert all((got[i] == frames[w].image).all() for i, w in enumerate(wanted))
        for number in range(40):
            assert (video.read([number])[0] == frames[number].image).all()
        keys = len(video._frame_index().keys)
        assert bool(keys) == FORMATS[name][2], "reached by searching, or only from the start"
        assert keys <= 10 or name in INTRA, "frames that refer to others are what makes this a test"


@pytest.mark.parametrize("name", FORMATS)
def test_reading_may_start_anywhere(name: str, videos: dict[str, Path]) -> None:
    with open_video(videos[name]) as video:
        frames = list(video.frames())
        for start, stop, step in (
            (13, None, 1),
            (9, 31, 4),
            (0, 12, 5),
            (39, None, 1),
            (40, None, 1),
            (5, 5, 1),
        ):
            part = list(video.frames(start, stop, step))
            assert [f.index for f in part] == list(range(start, 40 if stop is None else stop, step))
            assert all(
                (f.image == frames[f.index].image).all() and f.time == frames[f.index].time for f in part
            )


@pytest.mark.parametrize("name", ["b-frames.mp4", "mjpeg.avi", "png.mov"])
def test_decoded_pictures_are_those_that_the_frames_are_made_of(name: str, videos: dict[str, Path]) -> None:
    convert = RgbConverter()
    with open_video(videos[name]) as video:
        for start, stop, step in ((0, None, 1), (9, 31, 4)):
            pairs = zip(video.frames(start, stop, step), video.decoded(start, stop, step), strict=True)
            for frame, one in pairs:
                assert (one.index, one.time) == (frame.index, frame.time)
                assert one.picture.format.name == video.info.pixel_format
                assert (convert(one.picture, one.turn) == frame.image).all()


def test_frames_are_the_ones_that_were_encoded_in_order(videos: dict[str, Path]) -> None:
    with open_video(videos["b-frames.mp4"]) as video:
        assert [seen(f.image) for f in video.frames()] == [i % FRAMES for i in range(40)]


def test_random_access_decodes_only_from_the_key_frame_before(
    videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from videoveil.media import decode

    decoded: list[int] = []
    checked = decode.Decoder._check_frame
    monkeypatch.setattr(
        decode.Decoder,
        "_check_frame",
        lambda self, frame, pts: (decoded.append(pts), checked(self, frame, pts))[1],
    )
    with open_video(videos["b-frames.mp4"]) as video:
        step = int(video.index()[1] - video.index()[0])
        decoded.clear()
        video.read([35, 33, 35])
        assert [pts // step for pts in decoded][:4] == [32, 33, 34, 35]
        assert len(decoded) <= 4 + 3  # the decoder may have a few more ready
        decoded.clear()
        video.read([37])  # goes on from where it is
        assert decoded[-1] // step >= 37
        assert min(decoded) // step >= 36


def test_a_frame_is_contiguous_rgb_bytes_of_its_own(videos: dict[str, Path]) -> None:
    with open_video(videos["b-frames.mp4"]) as video:
        first, second = itertools.islice(video.frames(), 2)
        assert isinstance(first, Frame)
        assert first.image.dtype == np.uint8
        assert first.image.shape == (64, 96, 3)
        assert first.image.flags.c_contiguous
        before = second.image.copy()
        first.image[:] = 0
        assert (second.image == before).all()


@pytest.mark.parametrize("name", ["b-frames.mp4", "vp9.webm", "mpeg4-b.avi"])
def test_pixels_do_not_depend_on_the_number_of_threads(name: str, videos: dict[str, Path]) -> None:
    runs = []
    for threads in (1, 2, 5):
        with open_video(videos[name], threads=threads) as video:
            runs.append(np.stack([f.image for f in video.frames()]))
            assert (video.read([30, 7]) == runs[0][[30, 7]]).all()
    assert (runs[0] == runs[1]).all()
    assert (runs[0] == runs[2]).all()


def test_two_videos_and_two_runs_do_not_disturb_each_other(videos: dict[str, Path]) -> None:
    with open_video(videos["b-frames.mp4"]) as video, open_video(videos["b-frames.mp4"]) as other:
        for a, b, c in zip(video.frames(), other.frames(), video.frames()):
            assert (a.image == b.image).all()
            assert (a.image == c.image).all()
            assert (video.read([a.index])[0] == a.image).all()


def test_uneven_times_are_kept_exactly(tmp_path: Path) -> None:
    times = [0, 7, 8, 100, 333, 334, 1000]
    encode(tmp_path / "a.mp4", count=7, times=times, time_base=Fraction(1, 3000), options={"bf": "2"})
    with open_video(tmp_path / "a.mp4") as video:
        assert [frame.time for frame in video.frames()] == [Fraction(t, 3000) for t in times]
        assert [seen(frame.image) for frame in video.frames()] == list(range(7))


def test_times_before_the_edit_list_starts_are_not_shown(tmp_path: Path) -> None:
    """A cut without re-coding keeps the frames from the key frame on and hides those before the cut."""
    encode(tmp_path / "a.mp4", options={"g": "12", "bf": "0"})
    with av.open(str(tmp_path / "a.mp4")) as source, av.open(str(tmp_path / "b.mp4"), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0], opaque=True)
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.pts, packet.dts = packet.pts - 5 * 512, packet.dts - 5 * 512
                packet.stream = stream
                target.mux(packet)
    with open_video(tmp_path / "b.mp4") as video:
        frames = list(video.frames())
        assert [seen(f.image) for f in frames] == list(range(5, FRAMES))
        assert video.count() == video.info.frames == FRAMES - 5
        assert (video.read([0, 3])[1] == frames[3].image).all()


def test_a_recording_that_begins_inside_a_group_starts_at_its_first_key_frame(tmp_path: Path) -> None:
    encode(tmp_path / "a.ts", options={"g": "8", "bf": "0", "x264-params": "scenecut=0"})
    data = (tmp_path / "a.ts").read_bytes()
    with av.open(str(tmp_path / "a.ts")) as source:
        third = [p.pos for p in source.demux(source.streams.video[0]) if p.size][3]
    header = data[: 188 * 3]  # tables
    (tmp_path / "b.ts").write_bytes(header + data[third:])
    with open_video(tmp_path / "b.ts") as video:
        assert [seen(f.image) for f in video.frames()] == list(range(8, FRAMES))
        assert video.count() == FRAMES - 8
        assert seen(video.read([2])[0]) == 10


def test_info_tells_what_will_be_read(tmp_path: Path) -> None:
    encode(tmp_path / "a.mp4", rate=Fraction(30000, 1001), prepare=lambda s: s.set_display_rotation(90))
    info = probe(tmp_path / "a.mp4")
    assert isinstance(info, VideoInfo)
    assert (info.width, info.height, info.rotation) == (64, 96, 270)
    assert info.rate == Fraction(30000, 1001)
    assert info.time_base == Fraction(1, 30000)
    assert info.duration == Fraction(FRAMES * 1001, 30000)
    assert (info.frames, info.codec, info.container) == (FRAMES, "h264", "mov")
    assert (info.pixel_format, info.has_audio) == ("yuv420p", False)
    add_sound(tmp_path / "b.mkv", "aac")
    assert probe(tmp_path / "b.mkv").has_audio


def test_colours_of_every_matrix_and_range_come_out_right(tmp_path: Path) -> None:
    colours = [
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 255),
        (0, 0, 0),
        (128, 128, 128),
        (200, 100, 50),
    ]
    for number, colour in enumerate(colours):
        image = np.full((64, 96, 3), colour, np.uint8)
        for matrix, full in itertools.product(("ITU601", "ITU709"), (False, True)):
            tag = {"ITU601": 6, "ITU709": 1}[matrix]
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
                format="yuv444p",
                dst_colorspace=matrix,
                src_color_range="JPEG",
                dst_color_range="JPEG" if full else "MPEG",
            )
            path = tmp_path / f"{number}-{matrix}-{full}.mkv"
            with av.open(str(path), "w") as output:
                stream = output.add_stream("ffv1", rate=25)
                stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv444p"
                stream.codec_context.colorspace, stream.codec_context.color_range = tag, 2 if full else 1
                output.mux(stream.encode(frame))
                output.mux(stream.encode(None))
            with open_video(path) as video:
                found = video.read([0])[0][32, 48].astype(int)
            assert np.abs(found - colour).max() <= 2, (colour, matrix, full, found)


def test_transparent_pictures_lie_on_black(tmp_path: Path) -> None:
    image = np.zeros((64, 96, 4), np.uint8)
    image[..., 0], image[:, :48, 3], image[:, 48:, 3] = 200, 255, 128
    encode(tmp_path / "a.mov", "png", images=[image], pix_fmt="rgba")
    with open_video(tmp_path / "a.mov") as video:
        shown = video.read([0])[0]
    assert (shown[:, :48] == (200, 0, 0)).all()
    assert (shown[:, 48:] == (100, 0, 0)).all()


# --- wrong use -----------------------------------------------------------------------------------------------


def test_frames_that_do_not_exist_are_an_error(videos: dict[str, Path]) -> None:
    with open_video(videos["b-frames.mp4"]) as video:
        for wrong in ([40], [-1], [0, 1000]):
            with pytest.raises(UsageError, match="there are frames 0 to 39"):
                video.read(wrong)
        with pytest.raises(UsageError, match="integers"):
            video.read([0.5])  # type: ignore[list-item]
        with pytest.raises(UsageError):
            next(video.frames(-1))
        with pytest.raises(UsageError):
            next(video.frames(0, None, 0))
        assert video.read([]).shape == (0, 64, 96, 3)


def test_a_closed_video_says_so(videos: dict[str, Path]) -> None:
    video = open_video(videos["b-frames.mp4"])
    video.close()
    video.close()
    with pytest.raises(UsageError, match="closed"):
        video.count()


def test_an_abandoned_run_lets_go_of_everything(videos: dict[str, Path]) -> None:
    gc.collect()  # what earlier tests left open must not be let go of meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(30):
        with open_video(videos["b-frames.mp4"]) as video:
            next(video.frames(20))
            next(video.frames())
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- limits --------------------------------------------------------------------------------------------------


def test_each_limit_has_its_own_error(videos: dict[str, Path]) -> None:
    path = videos["b-frames.mp4"]
    for limits, error in (
        (Limits(bytes=1000), FileTooLarge),
        (Limits(duration=1), TooLong),
        (Limits(frames=39), TooManyFrames),
        (Limits(pixels=96 * 64 - 1), FrameTooLarge),
        (Limits(frame_bytes=96 * 64 * 4), FrameTooLarge),
        (Limits(stall=1e-9), DecodeTimeout),
    ):
        with pytest.raises(error) as caught, open_video(path, limits=limits) as video:
            list(video.frames())
        assert str(path) in str(caught.value)
    fits = Limits(bytes=10**6, duration=2, frames=40, pixels=96 * 64, frame_bytes=96 * 64 * 5)
    with open_video(path, limits=fits) as video:
        assert sum(1 for _ in video.frames()) == 40


@pytest.mark.parametrize("name", ["b-frames.ts", "b-frames.mkv", "mpeg2.mpg", "h264.flv"])
def test_limits_hold_while_decoding_where_nothing_is_declared(name: str, videos: dict[str, Path]) -> None:
    with pytest.raises(TooManyFrames), open_video(videos[name], limits=Limits(frames=20)) as video:
        list(video.frames())
    with pytest.raises(FrameTooLarge):
        open_video(videos[name], limits=Limits(pixels=1000))


def test_limits_below_zero_are_refused() -> None:
    with pytest.raises(UsageError, match="frames"):
        Limits(frames=0)


def test_a_picture_that_grows_on_the_way_is_an_error(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.ts"), "w") as output:
        stream = output.add_mux_stream("h264", rate=25)
        for part, (width, height) in enumerate(((96, 64), (192, 128))):
            coder = av.CodecContext.create("libx264", "w")
            coder.width, coder.height, coder.pix_fmt = width, height, "yuv420p"
            coder.time_base, coder.framerate = Fraction(1, 25), Fraction(25)
            coder.options = {"tune": "zerolatency"}
            for number in range(8):
                frame = av.VideoFrame.from_ndarray(picture(number, width, height), format="rgb24")
                frame.pts, frame.time_base = 8 * part + number, Fraction(1, 25)
                for packet in coder.encode(frame):
                    packet.stream = stream
                    output.mux(packet)
    changes = "size changes from 96 × 64 to 192 × 128"
    with pytest.raises(CorruptVideo, match=changes), open_video(tmp_path / "a.ts") as video:
        list(video.frames())
    with (
        pytest.raises(FrameTooLarge),
        open_video(tmp_path / "a.ts", limits=Limits(pixels=100 * 100)) as video,
    ):
        list(video.frames())


# --- sources -------------------------------------------------------------------------------------------------


def test_addresses_are_read_only_when_a_stream_is_asked_for(tmp_path: Path) -> None:
    for address in ("http://127.0.0.1:9/a.mp4", "rtsp://x/y", "concat:a|b", "file:a.mp4", "https://a/b.m3u8"):
        with pytest.raises(ProtocolNotAllowed):
            open_video(address)
    for address in (
        "concat:a|b",
        "file:a.mp4",
        "file:///etc/passwd",
        "subfile:a",
        "lavfi:testsrc",
        "ftp://a/b",
    ):
        with pytest.raises(ProtocolNotAllowed):
            open_video(address, stream=True)
    encode(tmp_path / "clip:1.mp4", count=2)
    with open_video(str(tmp_path / "clip:1.mp4")) as video:
        assert video.count() == 2
    with contextlib.chdir(tmp_path), open_video("clip:1.mp4") as video:
        assert video.count() == 2


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_stream_is_read_once_frame_by_frame(tmp_path: Path) -> None:
    encode(tmp_path / "a.ts", options={"bf": "2"})
    with served(tmp_path) as address, open_video(f"{address}/a.ts", stream=True) as video:
        assert video.info.frames is None
        assert [seen(f.image) for f in video.frames()] == list(range(FRAMES))
        for ask in (video.count, lambda: video.read([0]), lambda: next(video.frames())):
            with pytest.raises(UsageError):
                ask()


def test_a_playlist_from_the_network_cannot_reach_local_files(tmp_path: Path) -> None:
    encode(tmp_path / "secret.ts")
    for target in (f"file://{tmp_path}/secret.ts", f"{tmp_path}/secret.ts", f"concat:{tmp_path}/secret.ts"):
        text = f"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{target}\n#EXT-X-ENDLIST\n"
        (tmp_path / "list.m3u8").write_text(text)
        folder = tmp_path / "served"
        folder.mkdir(exist_ok=True)
        (folder / "list.m3u8").write_text(text)
        with served(folder) as address, pytest.raises(MediaError):
            open_video(f"{address}/list.m3u8", stream=True, limits=Limits(stall=5))
    (folder / "open.ts").write_bytes((tmp_path / "secret.ts").read_bytes())
    (folder / "list.m3u8").write_text(text.replace(target, "open.ts"))  # what is served beside it may be read
    with served(folder) as address, open_video(f"{address}/list.m3u8", stream=True) as video:
        assert [seen(f.image) for f in video.frames()] == list(range(FRAMES))


def test_a_stream_that_is_not_there_or_never_speaks_is_an_error(tmp_path: Path) -> None:
    with served(tmp_path) as address, pytest.raises(MissingFile):
        open_video(f"{address}/nothing.mp4", stream=True)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(DecodeTimeout):
            open_video(f"http://127.0.0.1:{port}/a.ts", stream=True, limits=Limits(stall=0.5))
    with pytest.raises(MissingFile):
        open_video(f"http://127.0.0.1:{port}/a.ts", stream=True)


def test_a_stream_that_falls_silent_is_an_error(tmp_path: Path) -> None:
    data = encode(tmp_path / "a.ts", count=200, options={"bf": "0", "g": "8"}).read_bytes()

    def speak(server: socket.socket, stop: threading.Event) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(
                b"HTTP/1.0 200 OK\r\nContent-Type: video/mp2t\r\n\r\n" + data[: len(data) // 188 // 2 * 188]
            )
            stop.wait()

    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=speak, args=(server, stop), daemon=True)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.getsockname()[1]}/a.ts"
            with (
                pytest.raises(DecodeTimeout),
                open_video(address, stream=True, limits=Limits(stall=1.0)) as video,
            ):
                list(video.frames())
        finally:
            stop.set()
            thread.join()


def test_a_device_that_is_no_camera_is_no_stream() -> None:
    with pytest.raises(MissingFile):
        open_video("/dev/zero", stream=True)


def test_text_is_refused_with_its_kind_named(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("#EXTM3U\n/etc/passwd\n")
    with pytest.raises(ContainerNotAllowed, match="m3u8 playlist"):
        open_video(tmp_path / "a.mp4")


# --- memory --------------------------------------------------------------------------------------------------

MEASURE = """
import sys
from videoveil.media.reader import open_video
with open_video(sys.argv[1]) as video:
    count = sum(1 for _ in video.frames())
    video.read([0, count - 1])
print(count, int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]))
"""


def peak_kib(path: Path) -> tuple[int, int]:
    """Frames read and peak memory of a process that reads a video through."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    count, peak = done.stdout.split()
    return int(count), int(peak)


def test_memory_does_not_grow_with_the_length_of_a_video(tmp_path: Path) -> None:
    """A hundred times as many frames of 110 KiB each: all of them together would be 300 MiB."""
    size, fast = (256, 144), {"preset": "ultrafast", "g": "25"}
    pictures = [picture(i, *size) for i in range(30)]
    encode(tmp_path / "short.mp4", images=pictures, size=size, options=fast)
    encode(
        tmp_path / "long.mp4",
        images=itertools.islice(itertools.cycle(pictures), 3000),
        size=size,
        options=fast,
    )
    (short, little), (long, much) = peak_kib(tmp_path / "short.mp4"), peak_kib(tmp_path / "long.mp4")
    assert (short, long) == (30, 3000)
    assert much - little < 20 * 1024


def test_8k_pictures_are_refused_unless_they_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "8k.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 7680, 4320, "yuv420p"
        container.mux(stream.encode(av.VideoFrame(7680, 4320, "yuv420p")))
        container.mux(stream.encode(None))
    with pytest.raises(FrameTooLarge, match="7680"):
        open_video(path)
    with open_video(path, limits=Limits(pixels=7680 * 4320)) as video:
        assert (video.info.width, video.info.height) == (7680, 4320)
