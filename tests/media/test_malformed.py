"""Hostile, damaged and odd files: right frames or the right error, in time, in memory, and no other file is touched."""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .corpus import Case, build
from .make import FRAMES, encode

SECONDS = 10.0  # of processor time, for one file
HANGS = 150.0  # seconds after which nothing more is expected; the reader itself gives up earlier
PEAK_KIB = 1 << 20
WORKER = Path(__file__).with_name("worker.py")


class Reader:
    """A child process that reads one source after another and is killed when one takes too long."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def read(self, source: str) -> dict[str, object]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(source).encode() + b"\n")
        answer = b""
        deadline = time.monotonic() + HANGS
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._child.stdout.fileno(), 1 << 16) if ready else b""
            if not piece:
                status = "did not answer in time" if not ready else f"died ({self._child.wait()})"
                self.close()
                self._start()
                return {"error": f"reader {status}", "message": "", "seconds": 0.0, "peak_kib": 0}
            answer += piece
        return json.loads(answer)

    def close(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()


class Watcher:
    """Tells (by inotify) whether any process opened a file of a folder."""

    OPENED, NON_BLOCKING = 0x20, os.O_NONBLOCK

    def __init__(self, folder: Path):
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(self.NON_BLOCKING)
        assert self._descriptor >= 0, os.strerror(ctypes.get_errno())
        assert library.inotify_add_watch(self._descriptor, os.fsencode(folder), self.OPENED) >= 0

    def opened(self) -> bool:
        try:
            return bool(os.read(self._descriptor, 1 << 16))
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("canaries")
    encode(folder / "canary.mp4")
    return folder


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, canaries: Path, listener: socket.socket) -> list[Case]:
    return build(tmp_path_factory.mktemp("corpus"), canaries, listener.getsockname()[1])


def verdict(case: Case, result: dict[str, object]) -> str | None:
    """What is wrong with the result, or None."""
    if float(result["seconds"]) > SECONDS:  # type: ignore[arg-type]
        return f"took {result['seconds']} s"
    if int(result["peak_kib"]) > PEAK_KIB:  # type: ignore[call-overload]
        return f"used {result['peak_kib']} KiB"
    if "error" in result:
        if result["error"] in case.errors:
            return None
        return f"{result['error']}: {result['message']}, expected {case.errors or 'frames'}"
    if case.frames is None:
        return f"gave {result['count']} frames, expected {case.errors}"
    return wrong_frames(case, result)


def wrong_frames(case: Case, result: dict[str, object]) -> str | None:
    levels, times = result["levels"], result["times"]
    assert isinstance(levels, list)
    assert isinstance(times, list)
    first = 0
    if "optional_first" in case.checks:  # frames before the first key frame may be missing
        first = case.frames - len(levels)  # type: ignore[operator]
        if not 0 <= first <= case.checks["optional_first"]:  # type: ignore[operator]
            return f"{len(levels)} frames of {case.frames}"
    elif len(levels) != case.frames:
        return f"{len(levels)} frames of {case.frames}"
    numbers = [round((level - 30) / 8) for level in levels]
    if case.checks.get("pixels", True) and numbers != [(first + i) % FRAMES for i in range(len(levels))]:
        return f"frames show {numbers}"
    if not result["same"]:
        return "read() and frames() give different pixels"
    if result["count"] != len(levels) or result["declared"] not in (None, len(levels)):
        return f"count() {result['count']}, info.frames {result['declared']}, frames() {len(levels)}"
    if result["indexed"] != times:
        return f"index() {result['indexed']} is not frames() {times}"
    if case.checks.get("times", times) != times:
        return f"times {times}"
    if case.checks.get("size", result["size"]) != result["size"]:
        return f"size {result['size']}"
    return wrong_turn(case, result)


def wrong_turn(case: Case, result: dict[str, object]) -> str | None:
    """The white corner of the stored picture is the upper left one; the turn is given counter-clockwise."""
    turned = {
        None: None,
        90: ("lower left", 270, [64, 96]),
        180: ("lower right", 180, [96, 64]),
        270: ("upper right", 90, [64, 96]),
        "mirror": ("upper right", 0, [96, 64]),
    }
    expected = turned[case.checks.get("turned")]  # type: ignore[index]
    found = (result["corner"], result["rotation"], result["size"])
    return None if expected in (None, found) else f"turned {found}, expected {expected}"


def test_every_malformed_or_odd_file_gives_its_frames_or_its_error_and_no_other_file_is_opened(
    cases: list[Case], canaries: Path, listener: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher, reader = Watcher(canaries), Reader()
    wrong, outcomes, peak = [], Counter[str](), 0
    try:
        for case in cases:
            result = reader.read(case.source)
            outcomes[str(result.get("error", "frames"))] += 1
            peak = max(peak, int(result["peak_kib"]))  # type: ignore[call-overload]
            if problem := verdict(case, result):
                wrong.append(f"{case.name}: {problem}")
            if watcher.opened():
                wrong.append(f"{case.name}: another file was opened")
        opened_by_us = (canaries / "canary.mp4").read_bytes()
        assert opened_by_us
        assert watcher.opened(), "the watcher must notice that a canary is opened"
    finally:
        reader.close()
        watcher.close()
    with capsys.disabled():
        print(
            f"\n{len(cases)} malformed or odd files, peak {peak // 1024} MiB: {dict(outcomes.most_common())}"
        )
    assert not wrong, "\n".join(wrong)
    assert len(cases) >= 310  # as README.md says
    assert len({case.name for case in cases}) == len(cases)
    with pytest.raises(BlockingIOError):  # nobody called
        listener.accept()


def test_each_error_type_and_the_frames_are_all_reached(cases: list[Case]) -> None:
    """The corpus is worth something only if every cause is in it."""
    expected = {error for case in cases for error in case.errors}
    assert expected >= {
        "MissingFile",
        "EmptyFile",
        "ProtocolNotAllowed",
        "ContainerNotAllowed",
        "NoVideoStream",
        "FrameTooLarge",
        "TooLong",
        "TooManyFrames",
        "UnsupportedCodec",
        "CorruptVideo",
    }
    assert sum(case.frames is not None and not case.errors for case in cases) >= 50


def test_the_corpus_reader_would_notice_wrong_frames(tmp_path: Path) -> None:
    """A reader that skips a frame, or shows another one, must not pass."""
    encode(tmp_path / "a.mp4")
    reader = Reader()
    try:
        result = reader.read(str(tmp_path / "a.mp4"))
    finally:
        reader.close()
    assert verdict(Case("right", "", frames=FRAMES), result) is None
    assert verdict(Case("too few", "", frames=FRAMES + 1), result)
    assert verdict(Case("error expected", "", ("CorruptVideo",)), result)
    swapped = list(result["levels"])  # type: ignore[call-overload]
    swapped[3], swapped[4] = swapped[4], swapped[3]
    assert verdict(Case("swapped", "", frames=FRAMES), {**result, "levels": swapped})
    assert verdict(Case("slow", "", frames=FRAMES), {**result, "seconds": SECONDS + 1})
    assert verdict(Case("large", "", frames=FRAMES), {**result, "peak_kib": PEAK_KIB + 1})
