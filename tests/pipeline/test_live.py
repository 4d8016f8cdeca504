"""Live pictures: real streams over HTTP, TCP, RTMP and RTSP on this machine."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from tests.pipeline.films import scenes
from tests.pipeline.streams import LATE, RATE, Broadcast, Receiver, Shown, paced, transport_stream
from tests.ports import free_port
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.errors import MissingFile, ProtocolNotAllowed, UsageError, WriteFailed
from videoveil.media.reader import open_video
from videoveil.pipeline.canaries import find_all, mark, read
from videoveil.pipeline.live import STALLED, anonymize_stream
from videoveil.pipeline.live_report import LiveOptions
from videoveil.pipeline.live_sinks import PreviewSink, PushSink, SegmentSink, sink_for
from videoveil.pipeline.live_source import address_of
from videoveil.pipeline.options import Options
from videoveil.pipeline.report import Progress

SECRET = 31
OPTIONS = Options(threads=1, engine="torch", device="cpu")
SIZE = (64, 48)


@pytest.fixture(scope="module")
def pieces() -> list[bytes]:
    """Two and a half seconds of raw pictures with canaries."""
    return transport_stream([mark(image, n, SECRET) for n, image in enumerate(scenes(60, *SIZE))])


def live(**changes: Any) -> LiveOptions:
    """Whoever is about lateness says what is late; nothing else fails because this machine is busy."""
    return LiveOptions(**{"latency": 60.0, "patience": 0, "stall": LATE, "segment": 1.0} | changes)


LATE_TICKS = 3 * RATE  # more than a clock may be behind, and a last picture stays for half a second


def brightness(folder: Path) -> list[float]:
    """Mean of every picture of all segments, in order; checks that their times are those of the rate."""
    levels = []
    for path in sorted(folder.glob("*.mp4")):
        with open_video(path) as video:
            frames = list(video.frames())
            assert [frame.time for frame in frames] == [Fraction(n, RATE) for n in range(len(frames))]
            levels += [float(frame.image.mean()) for frame in frames]
    return levels


def test_a_stream_becomes_whole_segments_without_a_raw_picture(tmp_path: Path, pieces: list[bytes]) -> None:
    with Broadcast(paced(pieces[:36])) as broadcast:
        report = anonymize_stream(
            broadcast.address, tmp_path / "cam.mp4", open_anonymizer("blur"), OPTIONS, live()
        )
    assert report.exit_code == 0, str(report)
    assert (report.ended, report.connections, report.failed_frames) == ("the source ended", 1, 0)
    assert report.arrived == 36
    assert report.fresh + report.dropped <= 36
    assert report.frames == report.fresh + report.repeated + report.black_frames
    assert report.latency_max <= 60
    names = [path.name for path in sorted(tmp_path.iterdir())]
    assert names == [f"cam-{n:05d}.mp4" for n in range(len(names))]
    assert len(brightness(tmp_path)) == report.frames
    assert find_all(tmp_path, SECRET) == {}
    told = f"cam.mp4: segments {len(names)}, frames {report.frames}, last {tmp_path / names[-1]}"
    assert str(report).endswith(told)


def test_a_second_run_goes_on_numbering(tmp_path: Path) -> None:
    (tmp_path / "cam-00007.mp4").write_bytes(b"of an earlier run")
    sink = SegmentSink(tmp_path / "cam.mp4", OPTIONS, seconds=1)
    sink.open(*SIZE, Fraction(5))
    for tick in range(11):
        sink.write(tick, scenes(1, *SIZE)[0])
    assert sorted(p.name for p in tmp_path.glob("cam*")) == [f"cam-0000{n}.mp4" for n in (7, 8, 9)]
    sink.abandon()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"cam-0000{n}.mp4" for n in (7, 8, 9)]


def test_two_runs_do_not_write_segments_of_one_name(tmp_path: Path) -> None:
    first, second = (SegmentSink(tmp_path / "cam.mp4", OPTIONS, seconds=1) for _ in range(2))
    first.open(*SIZE, Fraction(5))
    with pytest.raises(UsageError, match=r"cam\.mp4: another run writes segments of that name"):
        second.open(*SIZE, Fraction(5))
    first.write(0, scenes(1, *SIZE)[0])
    first.close()
    second.open(*SIZE, Fraction(5))
    second.write(0, scenes(1, *SIZE)[0])
    second.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cam-00000.mp4", "cam-00001.mp4"]


def test_a_stall_is_black_and_the_output_keeps_its_rate(tmp_path: Path, pieces: list[bytes]) -> None:
    shown = Shown()

    def plan(viewer: int, send: Callable[[bytes], None]) -> None:
        paced(pieces[:30])(viewer, send)
        shown.wait(1)  # however slowly it starts
        shown.wait(LATE_TICKS)
        paced(pieces[30:48])(viewer, send)

    with Broadcast(plan, http=False) as broadcast:
        report = anonymize_stream(
            broadcast.address,
            tmp_path / "cam.mp4",
            open_anonymizer("blur"),
            OPTIONS,
            live(latency=0.5, segment=LATE),
            progress=shown,
        )
    with open_video(tmp_path / "cam-00000.mp4") as video:
        found = [(frame.time * RATE, float(frame.image.mean())) for frame in video.frames()]
    ticks, levels = [tick for tick, _ in found], [level for _, level in found]
    assert len(levels) == report.frames - report.not_written
    assert all(tick.denominator == 1 for tick in ticks)
    assert 0 <= report.frames + report.skipped - (ticks[-1] + 1) <= report.not_written
    assert report.black_frames >= RATE / 2
    assert any(span.reason == STALLED and span.stop - span.first >= RATE / 2 for span in report.black)
    assert 0 <= report.black_frames - sum(level < 3 for level in levels) <= report.not_written
    assert report.repeated >= 1
    assert report.frames + report.skipped >= RATE * 2, "the stall was not left out"
    assert find_all(tmp_path, SECRET) == {}


def test_a_lost_connection_is_made_again(tmp_path: Path, pieces: list[bytes]) -> None:
    shown, stop = Shown(), threading.Event()

    def plan(viewer: int, send: Callable[[bytes], None]) -> None:
        if viewer == 1:
            shown.wait(LATE_TICKS)
        if viewer == 2:  # who comes a third time has seen the second to its end
            stop.set()
        paced(pieces[:24])(viewer, send)
        raise OSError("cut")

    with Broadcast(plan) as broadcast:
        report = anonymize_stream(
            broadcast.address,
            tmp_path / "cam.mp4",
            open_anonymizer("blur"),
            OPTIONS,
            live(patience=None, latency=0.5),
            progress=shown,
            stop=stop,
        )
    assert report.connections >= 2
    assert report.lost >= 2
    assert report.arrived > 24
    assert (report.ended, report.error, report.failed_frames) == ("stopped", "", 0)
    assert report.black_frames > 0
    assert find_all(tmp_path, SECRET) == {}


class Slow(Classical):
    """Takes its time."""

    kind = "slow"

    def transform_frames(self, frames: torch.Tensor) -> torch.Tensor:
        time.sleep(0.25)
        return torch.zeros_like(frames) + 90

    def settings(self) -> Mapping[str, Any]:
        return {}


def test_a_slow_anonymizer_drops_the_oldest_and_stays_within_the_latency(
    tmp_path: Path, pieces: list[bytes]
) -> None:
    with Broadcast(paced(pieces)) as broadcast:
        report = anonymize_stream(broadcast.address, tmp_path / "cam.mp4", Slow(), OPTIONS, live(latency=0.6))
    assert report.dropped > 20
    assert 0 < report.fresh < 30
    assert report.latency_max <= 0.6
    assert report.exit_code == 0


def test_a_source_whose_pictures_were_all_too_late_ends_the_run(tmp_path: Path, pieces: list[bytes]) -> None:
    """Nothing was ever shown, and nothing will be: waiting for a first picture would be for ever."""
    with Broadcast(paced(pieces[:36])) as broadcast:
        report = anonymize_stream(
            broadcast.address, tmp_path / "cam.mp4", open_anonymizer("black"), OPTIONS, live(latency=1e-6)
        )
    assert report.arrived == report.dropped == 36
    assert (report.ended, report.exit_code, report.frames) == ("no picture came", 3, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_camera_is_looked_at_in_the_size_of_training_by_default(
    tmp_path: Path, pieces: list[bytes]
) -> None:
    network = pixel(UNet(width=4), size=24)
    for inner, seen, warned in ((None, [24, 32], False), (0, [48, 64], True)):
        with Broadcast(paced(pieces[:36])) as broadcast:
            options = replace(OPTIONS, inner=inner)
            report = anonymize_stream(broadcast.address, tmp_path / "cam.mp4", network, options, live())
        assert report.engine["pictures"] == seen
        assert report.failed_frames == 0
        assert bool(report.notes) == warned
        assert ("--inner 32" in str(report)) == warned
    assert find_all(tmp_path, SECRET) == {}


def test_it_ends_after_its_time_or_when_stopped(tmp_path: Path, pieces: list[bytes]) -> None:
    with Broadcast(paced(pieces)) as broadcast:
        report = anonymize_stream(
            broadcast.address, tmp_path / "a.mp4", open_anonymizer("black"), OPTIONS, live(duration=0.5)
        )
        assert (report.ended, report.exit_code) == ("the time is over", 0)
        assert 0 < report.frames <= RATE // 2 + 1
        stop, told = threading.Event(), list[Progress]()

        def tell(progress: Progress) -> None:
            told.append(progress)
            stop.set()

        report = anonymize_stream(
            broadcast.address,
            tmp_path / "b.mp4",
            open_anonymizer("black"),
            OPTIONS,
            live(patience=None),
            stop=stop,
            progress=tell,
        )
        assert (report.ended, report.exit_code) == ("stopped", 3)
        assert report.to_json()["exit_code"] == 3
        assert 0 < told[-1].frames <= report.frames


def test_another_size_and_rate_are_made(tmp_path: Path, pieces: list[bytes]) -> None:
    shown = Shown()

    def plan(viewer: int, send: Callable[[bytes], None]) -> None:
        """The second half once the first has been shown: a slow start would give the clock all pictures at once."""
        paced(pieces[:40])(viewer, send)
        shown.wait(41)
        paced(pieces[40:])(viewer, send)

    with Broadcast(plan) as broadcast:
        report = anonymize_stream(
            broadcast.address,
            tmp_path / "cam.mp4",
            open_anonymizer("downsample:8"),
            Options(size=(32, 40), threads=1),
            live(rate=Fraction(60000, 1001)),
            progress=shown,
        )
    assert (report.width, report.height, report.rate) == (40, 32, "60000/1001")
    assert report.repeated > 0
    with open_video(tmp_path / "cam-00000.mp4") as video:
        assert (video.info.width, video.info.height) == (40, 32)
        assert [f.time for f in video.frames()][:3] == [Fraction(1001 * n, 60000) for n in range(3)]


PUSHES = {
    "rtmp": ("rtmp://127.0.0.1:{}/live/cam", {"listen": "1", "timeout": "300"}, "live_flv"),
    "rtsp": ("rtsp://127.0.0.1:{}/cam", {"rtsp_flags": "listen", "listen_timeout": "300"}, "rtsp"),
    "tcp": ("tcp://127.0.0.1:{}", {"listen": "1"}, "mpegts"),
}


@pytest.mark.parametrize("kind", list(PUSHES))
def test_checked_pictures_are_pushed(pieces: list[bytes], kind: str) -> None:
    address, options, container = PUSHES[kind]
    address = address.format(free_port())
    given = f"{address}?listen=1" if kind == "tcp" else address
    with Broadcast(paced(pieces)) as broadcast, Receiver(given, options, container) as receiver:
        report = anonymize_stream(broadcast.address, address, open_anonymizer("blur"), OPTIONS, live())
        assert report.sinks[address]["frames"] > 20, str(report)
        assert report.exit_code == 0
    assert len(receiver.images) > 10, receiver.error
    assert receiver.images[0].shape == (48, 64, 3)
    assert {read(image, SECRET) for image in receiver.images} == {None}
    assert max(float(image.mean()) for image in receiver.images) > 40, "pictures, not black"


def test_a_push_that_nobody_takes_fails_and_another_sink_goes_on(tmp_path: Path, pieces: list[bytes]) -> None:
    nowhere = f"rtmp://127.0.0.1:{free_port()}/live/x"
    with (
        Broadcast(paced(pieces[:36])) as broadcast,
        pytest.raises(WriteFailed, match="nothing could be pushed"),
    ):
        anonymize_stream(
            broadcast.address, [nowhere, tmp_path / "cam.mp4"], open_anonymizer("blur"), OPTIONS, live()
        )
    assert len(list(tmp_path.glob("cam-*.mp4"))) >= 1


def test_the_preview_page_shows_checked_pictures_to_this_machine_only(pieces: list[bytes]) -> None:
    sink = PreviewSink()
    seen: dict[str, Any] = {}
    looked = threading.Event()

    def plan(number: int, send: Callable[[bytes], None]) -> None:
        paced(pieces)(number, send)
        looked.wait(LATE)

    def look() -> None:
        try:
            ask()
        finally:
            looked.set()

    def ask() -> None:
        while not sink.shown:
            time.sleep(0.05)
        with urllib.request.urlopen(sink.name, timeout=LATE) as page:
            seen["page"] = page.read().decode()
        with urllib.request.urlopen(f"{sink.name}frame.jpg", timeout=LATE) as picture:
            seen["frame"] = picture.read()
            seen["cache"] = picture.headers["Cache-Control"]
        with urllib.request.urlopen(f"{sink.name}stream", timeout=LATE) as stream:
            seen["stream"] = stream.read(20_000)
        try:
            urllib.request.urlopen(urllib.request.Request(sink.name, headers={"Host": "evil.example:80"}))
        except urllib.error.HTTPError as error:
            seen["host"] = error.code
        try:
            urllib.request.urlopen(f"{sink.name}../etc/passwd")
        except urllib.error.HTTPError as error:
            seen["other"] = error.code

    viewer = threading.Thread(target=look)
    viewer.start()
    with Broadcast(plan) as broadcast:
        report = anonymize_stream(broadcast.address, sink, open_anonymizer("blur"), OPTIONS, live())
    viewer.join(LATE)
    assert report.sinks[sink.name]["frames"] == report.frames
    assert "/stream" in seen["page"]
    assert (seen["host"], seen["other"], seen["cache"]) == (403, 404, "no-store")
    picture = cv2.imdecode(np.frombuffer(seen["frame"], np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (48, 64, 3)
    assert read(np.ascontiguousarray(picture[:, :, ::-1]), SECRET) is None
    assert seen["stream"].startswith(b"--frame\r\nContent-Type: image/jpeg\r\n")
    with pytest.raises(OSError):
        urllib.request.urlopen(sink.name, timeout=60)


def test_a_source_that_is_not_there_is_an_error_or_a_report(tmp_path: Path) -> None:
    black = open_anonymizer("black")
    with pytest.raises(MissingFile, match="/dev/video63"):
        anonymize_stream(63, tmp_path / "a.mp4", black, OPTIONS, live())
    with pytest.raises(ProtocolNotAllowed, match="concat"):
        anonymize_stream("concat:a|b", tmp_path / "a.mp4", black, OPTIONS, live())
    report = anonymize_stream(
        f"http://127.0.0.1:{free_port()}/x", tmp_path / "a.mp4", black, OPTIONS, live(patience=1.0)
    )
    assert (report.exit_code, report.frames) == (3, 0)
    assert "cannot be reached" in report.error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("a/cam.mp4", SegmentSink),
        ("rtmp://x/y", PushSink),
        ("rtsp://x/y", PushSink),
        ("preview:80", PreviewSink),
    ],
)
def test_sinks_by_name(target: str, kind: type) -> None:
    assert isinstance(sink_for(target, OPTIONS), kind)


@pytest.mark.parametrize("target", ["cam.avi", "ftp://x/y", "preview:abc", "preview:99999", "."])
def test_what_is_no_sink_is_refused(target: str) -> None:
    with pytest.raises(UsageError):
        sink_for(target, OPTIONS)


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for wrong in (
        {"latency": 0},
        {"rate": Fraction(1000)},
        {"duration": -1},
        {"patience": -1},
        {"segment": 0},
    ):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            LiveOptions(**wrong)  # type: ignore[arg-type]
    (tmp_path / "film.mp4").write_bytes(b"x")
    with pytest.raises(UsageError, match="veil anonymize"):
        address_of(str(tmp_path / "film.mp4"))
    assert address_of(2) == address_of("2") == "/dev/video2"
    for source, sink, anonymizer, options in (
        ("http://x/", [], "black", OPTIONS),
        ("http://x/", "a.mp4", "identity", OPTIONS),
        ("http://x/", "a.mp4", "black", Options(audio=True)),
    ):
        with pytest.raises(UsageError):
            anonymize_stream(source, sink, open_anonymizer(anonymizer), options)
