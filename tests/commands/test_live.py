"""`veil live`, and `veil anonymize` of a stream: options that reach it, and how it ends.

What live pictures go through is tested in `tests/pipeline`, and so are signals and faults of `veil live`.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.run import inside
from tests.pipeline.faults import Child
from tests.pipeline.films import coded, scenes
from tests.pipeline.streams import LATE, Broadcast, paced, transport_stream
from videoveil import files
from videoveil.media.reader import open_video
from videoveil.pipeline.live import STALLED


@pytest.fixture
def held() -> Iterator[tuple[Broadcast, threading.Event]]:
    """A stream of a few seconds that then stays open without a word, and whether it is so far."""
    pieces, silent, over = transport_stream(scenes(60, 64, 48)), threading.Event(), threading.Event()

    def plan(viewer: int, send: Callable[[bytes], None]) -> None:
        paced(pieces)(viewer, send)
        silent.set()
        over.wait(LATE)

    with Broadcast(plan) as broadcast:
        yield broadcast, silent
        over.set()


def rests(process: Child) -> int:
    """How often the thread of its clock has slept: once before every tick, unless it is late."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


@pytest.mark.parametrize(
    ("latency", "number", "black"), [("0.5", signal.SIGTERM, {STALLED}), ("300", signal.SIGINT, set())]
)
def test_latency_reaches_the_stream_of_anonymize_and_stopping_it_closes_its_files_and_exits_with_3(
    held: tuple[Broadcast, threading.Event],
    latency: str,
    number: signal.Signals,
    black: set[str],
    tmp_path: Path,
) -> None:
    """A silent source is black after the latency, and the last picture until then."""
    broadcast, silent = held
    log, arguments = tmp_path / "said.json", ("anonymize", broadcast.address, str(tmp_path / "cam.mp4"))
    process = Child((*arguments, "--with", "blur", "--latency", latency, "--json"), {}, log)
    assert silent.wait(LATE)
    end = time.monotonic() + LATE
    while not list(tmp_path.glob(f"{files.TEMPORARY}*.mp4")):
        assert time.monotonic() < end, "no output was begun"
        time.sleep(0.02)
    wanted = rests(process) + 60
    time.sleep(1.5)
    while rests(process) < wanted:
        assert time.monotonic() < end, "its clock does not tick"
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(LATE) == 3, log.read_text()
    said = json.loads(log.read_text())
    assert (said["ended"], said["exit_code"], said["failed_frames"]) == ("stopped", 3, 0)
    assert {span["reason"] for span in said["black"]} == black
    assert [path.name for path in tmp_path.glob("*.mp4")] == ["cam-00000.mp4"]
    with open_video(tmp_path / "cam-00000.mp4") as video:
        assert sum(1 for _ in video.frames()) == said["frames"]


def test_latency_is_refused_where_there_is_no_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film = coded(tmp_path / "film.mp4", scenes(2))
    for source in (film, tmp_path):
        said = inside(
            capsys, "anonymize", source, tmp_path / "out", "--with", "blur", "--latency", "0.5", code=2
        )
        assert f"--latency 0.5: is for cameras and streams, and {source} is none" in said
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rate", "fast"], "--rate 'fast': write it as 25"),
        (["--latency", "0"], "latency=0.0: must be seconds above zero"),
        (["--with", "identity"], "identity"),
    ],
)
def test_what_makes_no_sense_is_refused_with_code_2(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = ["live", "http://127.0.0.1:9/", "--to", tmp_path / "cam.mp4", "--with", "blur"]
    assert says in inside(capsys, *live, *words, code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_camera_that_is_not_there_is_told_in_json_and_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    live = ["live", "63", "--to", tmp_path / "cam.mp4", "--with", "black", "--json", "--report", report]
    said = inside(capsys, *live, code=2)
    assert json.loads(report.read_text())["kind"] == "MissingFile"
    assert json.JSONDecoder().raw_decode(said)[0] == json.loads(report.read_text())
    assert "veil: MissingFile: /dev/video63" in said
