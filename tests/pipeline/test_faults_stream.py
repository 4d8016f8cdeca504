"""Whatever goes wrong with a live stream: no raw frame anywhere, failed pictures black, the right exit code.

What can be brought about inside a process is, with the real command; signals and full disks get a process of their own.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.pipeline.faults import FAULTS, FRAMES, SECRET, SIZE, Fault, Scene, marked, register, with_turn
from tests.pipeline.streams import Broadcast
from videoveil import files
from videoveil.cli import main
from videoveil.media.reader import open_video
from videoveil.media.writer import VideoWriter
from videoveil.pipeline.canaries import find

CODES = {  # where a stream differs from a file
    "truncated input": (0, 3),  # a stream that ends early may just have ended
}
FAILING = [  # pictures fail, the stream goes on, and they are black
    name
    for name, fault in FAULTS.items()
    if fault.code == 3 and not fault.send and fault.source.__name__ == "plain"
]
OWN_PROCESS = ("full disk", "read-only output", "SIGKILL", "SIGTERM", "SIGINT")
RATE = 60  # pictures per second of the output: a film of 1.2 s is over in half
LIVE = ("--latency", "300", "--stall", "300", "--patience", "0", "--segment", "300", "--rate", str(RATE))
HERE = ("--engine", "torch", "--device", "cpu")


def as_stream(source: Path) -> bytes:
    """All streams of a file as fragmented mp4, which can be sent; what cannot be read is where it breaks off."""
    made = io.BytesIO()
    options = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
    with (
        av.open(str(source)) as reader,
        av.open(made, "w", format="mp4", container_options=options) as writer,
    ):
        targets = {stream.index: writer.add_stream_from_template(stream) for stream in reader.streams}
        with contextlib.suppress(av.error.FFmpegError):
            for packet in reader.demux():
                if packet.dts is not None:
                    packet.stream = targets[packet.stream.index]
                    writer.mux(packet)
    with av.open(str(source)) as reader:
        turned = next(reader.decode(video=0)).rotation
    return with_turn(made.getvalue()) if turned else made.getvalue()


def sent(data: bytes, *, hold: float = 0.0) -> Callable[[int, Callable[[bytes], None]], None]:
    """In pieces within a moment; `hold`: the connection then stays open without a word."""

    def plan(viewer: int, send: Callable[[bytes], None]) -> None:
        for place in range(0, len(data), max(1, len(data) // 10)):
            send(data[place : place + max(1, len(data) // 10)])
            time.sleep(0.02)
        time.sleep(hold)

    return plan


@contextlib.contextmanager
def on_air(fault: Fault, folder: Path) -> Iterator[tuple[Scene, tuple[str, ...]]]:
    """The fault's input as a live stream, and the command that reads it."""
    with fault.at(folder) as scene:
        data = as_stream(folder / "raw" / "film.mp4") if fault.name != "truncated input" else cut(folder)
        with Broadcast(sent(data)) as broadcast:
            target = str(scene.out / "cam.mp4")
            words = ("live", broadcast.address, "--to", target, "--with", scene.model, *LIVE, *HERE)
            yield (
                scene,
                words if "--audio" in fault.options else (*words, *fault.options),
            )  # live has no sound


def cut(folder: Path) -> bytes:
    from tests.pipeline.faults import plain

    data = as_stream(plain(folder / "raw" / "whole.mp4"))
    return data[: len(data) * 6 // 10]


def veil(scene: Scene, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    """The command, here or in a process of its own; what it says is in the scene's log."""
    if scene.fault.name in OWN_PROCESS:
        return scene.veil(*arguments)
    register()
    monkeypatch.setattr(sys, "argv", ["veil", *arguments])
    monkeypatch.setenv("TMPDIR", str(scene.folder / "tmp"))
    with scene.log.open("w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def written(folder: Path) -> Path:
    """A file by the writer of segments: its header helps to read what a killed one leaves."""
    path = folder / "like.mp4"
    with VideoWriter(path, width=SIZE[0], height=SIZE[1], time_base=Fraction(1, RATE)) as writer:
        writer.write(np.zeros((SIZE[1], SIZE[0], 3), np.uint8), Fraction(0))
    return path


def levels(path: Path) -> list[float]:
    with open_video(path) as video:
        return [float(frame.image.mean()) for frame in video.frames()]


@pytest.mark.parametrize("name", FAULTS)
def test_no_fault_lets_a_raw_frame_out_of_a_stream(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    with on_air(fault, tmp_path) as (scene, arguments):
        code = veil(scene, arguments, monkeypatch)
        said = scene.harmless(code, CODES.get(name, (fault.code,)), like=written(tmp_path))
        if name in ("NaN", "changed weights", "wrong weights", "full disk", "read-only output", "SIGKILL"):
            assert scene.results() == []
        else:
            assert [path.name for path in scene.results()] == ["cam-00000.mp4"], said


@pytest.mark.parametrize("name", ["exception", "raw frame", "half a raw frame", "nothing"])
def test_a_failed_picture_of_a_stream_is_black_and_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_air(FAULTS[name], tmp_path) as (scene, arguments):
        assert veil(scene, arguments, monkeypatch) == 3
        seen = levels(scene.out / "cam-00000.mp4")
        assert min(seen[:8]) > 20, "before the fault there are pictures"
        assert min(seen) < 3, "then there is black"
        assert "failed" in scene.log.read_text()


def test_the_matrix_has_all_that_can_go_wrong() -> None:
    assert len(FAULTS) >= 14
    assert {"NaN", "exception", "changed weights", "raw frame"} <= set(FAILING)


def test_the_canaries_would_be_found_in_what_a_killed_writer_leaves(tmp_path: Path) -> None:
    """The search is worth something: raw frames in an unfinished temporary file are seen."""
    images = marked()
    size = {"width": SIZE[0], "height": SIZE[1]}
    with VideoWriter(tmp_path / "a.mp4", **size, time_base=Fraction(1, 25), crf=4) as writer:
        for number in range(8 * FRAMES):  # enough to leave the buffers
            writer.write(images[number % FRAMES], Fraction(number, 25))
        (temporary,) = tmp_path.glob(f"{files.TEMPORARY}*")
        left = tmp_path / "left.mp4"
        left.write_bytes(temporary.read_bytes())
    assert find(left, SECRET) == []
    assert len(find(left, SECRET, like=tmp_path / "a.mp4")) > FRAMES // 2


def test_a_stream_that_carries_canaries_is_read_with_them(tmp_path: Path) -> None:
    """The input of the matrix is what it should be."""
    with (
        on_air(FAULTS["SIGTERM"], tmp_path) as (_, arguments),
        open_video(arguments[1], stream=True) as video,
    ):
        images = [frame.image for frame in video.frames()]
    (tmp_path / "spill").write_bytes(b"".join(image.tobytes() for image in images))
    assert find(tmp_path / "spill", SECRET) == list(range(FRAMES))
