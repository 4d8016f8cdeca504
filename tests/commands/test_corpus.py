"""`veil corpus`: what it prints and its exit codes; workers, kills and bytes are tested in `tests/pipeline`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.commands.run import VEIL, inside
from tests.pipeline.films import coded, scenes
from tests.pipeline.test_corpus import written
from videoveil import files
from videoveil.pipeline.corpus import STATE, Corpus, CorpusReport, work
from videoveil.pipeline.manifest import read_manifest

SLOW = """
import glob
import os
import time

def anonymize(frames):
    while os.path.exists(os.environ.get("HOLD", "")) and glob.glob(f"{os.environ['PARTS']}/*/.*-{os.getpid()}-*.mp4"):
        time.sleep(0.02)
    time.sleep(0 if os.path.exists(os.environ["HURRY"]) else 0.2)
    return 1 - frames
"""


def test_an_archive_is_done_and_a_bad_video_is_named_with_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    (archive / "door").mkdir(parents=True)
    coded(archive / "door" / "a.mp4", scenes(6))
    (archive / "b.mp4").write_bytes(b"no video")
    said = inside(capsys, "corpus", archive, out, "--with", "downsample:4", code=3)
    assert "1 of 2 videos done, 6 frames in " in said
    assert "failed, b.mp4: planning: " in said
    assert (out / "door" / "a.mp4").is_file()
    assert not (out / "b.mp4").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--with", "identity"], "changes nothing"),
        (["--with", "blur", "--engine", "steam"], "must be 'local' or 'ray'"),
        (["--with", "blur", "--workers", "0"], "workers=0"),
        (["--with", "blur", "--chunk", "0"], "chunk=0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_code_2(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coded(tmp_path / "a.mp4", scenes(2))
    assert says in inside(capsys, "corpus", tmp_path, tmp_path / "out", *words, code=2)
    assert not (tmp_path / "out").exists()


# --- stopped: real processes, real signals ----------------------------------------------------------------------


class Run:
    """`veil corpus` in a process group of its own, on an anonymizer that takes its time."""

    def __init__(self, folder: Path, workers: int):
        self.archive, self.out, self.hurry = folder / "archive", folder / "out", folder / "hurry"
        self.hold = folder / "hold"
        self.archive.mkdir()
        for name in ("a", "b", "c"):
            coded(self.archive / f"{name}.mp4", scenes(64, 64, 48))
        self.model = str(folder / "slow.py")
        Path(self.model).write_text(SLOW)
        self.command = [*VEIL, "corpus", str(self.archive), str(self.out), "--with", self.model]
        self.command += ["--workers", str(workers), "--chunk", "32"]

    def start(self) -> subprocess.Popen[str]:
        """Nobody gets any further with a chunk while `hold` is there."""
        self.hold.touch()
        return subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={
                **os.environ,
                "HOLD": str(self.hold),
                "PARTS": str(self.out / STATE / "parts"),
                "HURRY": str(self.hurry),
                "OMP_NUM_THREADS": "1",
            },
        )

    def writing(self) -> list[Path]:
        """Chunks that somebody is at."""
        return written(self.out / STATE / "parts")

    def finish(self) -> CorpusReport:
        """The same once more, to its end; in this process, which has everything imported already."""
        self.hurry.touch()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HURRY", str(self.hurry))
            corpus = Corpus(read_manifest(self.archive), self.out, self.model, chunk=32).prepared()
            corpus.tidy()
            work(corpus)
        return corpus.report(1.0)


def until(there: Callable[[], object]) -> None:
    deadline = time.monotonic() + 300
    while not there():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)])
def test_a_stopped_corpus_leaves_nothing_half_written_exits_with_3_and_goes_on(
    number: signal.Signals, workers: int, tmp_path: Path
) -> None:
    """SIGINT goes to all processes at once, as a keyboard sends it."""
    run = Run(tmp_path, workers)
    process = run.start()
    until(lambda: len(run.writing()) == workers)
    children = psutil.Process(process.pid).children(recursive=True)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    run.hold.unlink()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 3, said
    assert "stopped; 0 of 3 videos are settled, the same command goes on" in said
    assert "Traceback" not in said
    until(lambda: not any(child.is_running() for child in children))
    assert run.writing() == []
    assert not list(run.out.rglob(f"{files.TEMPORARY}*"))
    state = run.out / STATE
    for path in state.glob("attempts/*/[0-9]*"):
        done = (state / "parts" / path.parent.name / f"{path.name}.mp4").exists()
        assert done or path.read_text() == "0", "to be stopped is no failed attempt"
    assert [one.frames for one in run.finish().settled if one.done] == [64, 64, 64]
    assert len(list(run.out.glob("*.mp4"))) == 3


def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    run = Run(tmp_path, 1)
    process = run.start()
    until(lambda: len(run.writing()) == 1)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    run.hold.unlink()
    process.communicate(timeout=300)
    until(lambda: not any(worker.is_running() for worker in workers))
    assert run.writing() == []
    assert [one.frames for one in run.finish().settled if one.done] == [64, 64, 64]
