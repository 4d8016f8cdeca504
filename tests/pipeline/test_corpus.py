"""Many videos by many workers: every result once, the same bytes whoever made it, whatever dies."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import threading
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.test_records import leave_behind
from videoveil import files
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.errors import UsageError
from videoveil.media.reader import open_video
from videoveil.media.writer import VideoWriter
from videoveil.pipeline.corpus import STATE, Corpus, bounds, work
from videoveil.pipeline.local import run_local
from videoveil.pipeline.manifest import Entry, read_manifest
from videoveil.pipeline.options import Options


def film(path: Path, frames: int, seed: int = 0, size: tuple[int, int] = (48, 64)) -> Path:
    """Noise that moves, at uneven times."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 256, (size[0] // 4, size[1] // 4, 3), dtype=np.uint8)
    picture = np.kron(coarse, np.ones((4, 4, 1), np.uint8))
    path.parent.mkdir(parents=True, exist_ok=True)
    clock = 0
    with VideoWriter(path, width=size[1], height=size[0], time_base=Fraction(1, 600)) as writer:
        for number in range(frames):
            writer.write(np.ascontiguousarray(np.roll(picture, number, 1)), Fraction(clock, 600))
            clock += 20 + number % 3
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for number, frames in enumerate((25, 7, 60)):
        film(tmp_path / "archive" / f"camera{number % 2}" / f"{number}.mp4", frames, number)
    return tmp_path / "archive"


def made(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*.mp4"))
        if STATE not in p.parts
    }


def of(archive: Path, out: Path, model: str = "downsample:4", **changes: object) -> Corpus:
    return Corpus(read_manifest(archive), out, model, chunk=20, **changes)  # type: ignore[arg-type]


@given(frames=st.integers(1, 10_000), length=st.integers(1, 5_000))
def test_chunks_cover_every_frame_once_and_none_is_longer_than_asked(frames: int, length: int) -> None:
    found = bounds(frames, length)
    sizes = [b - a for a, b in itertools.pairwise(found)]
    assert (found[0], found[-1]) == (0, frames)
    assert min(sizes) >= 1
    assert max(sizes) <= length
    assert max(sizes) - min(sizes) <= 1


def test_frames_and_times_are_those_of_the_input_across_the_seams(archive: Path, tmp_path: Path) -> None:
    corpus = of(archive, tmp_path / "out").prepared()
    work(corpus)
    report = corpus.report(1.0)
    assert not report.failed
    assert [one.chunks for one in report.settled] == [2, 3, 1]
    for entry in corpus.entries:
        with open_video(entry.source) as raw, open_video(tmp_path / "out" / entry.name) as veiled:
            pairs = list(zip(raw.frames(), veiled.frames(), strict=True))
        assert [a.time for a, _ in pairs] == [b.time for _, b in pairs]
        assert all(np.abs(a.image.astype(int) - b.image).mean() > 1 for a, b in pairs)
    assert not list((tmp_path / "out" / STATE).rglob("parts/*/*"))


def test_a_chunk_is_seen_only_once_everything_that_joining_needs_is_there(
    archive: Path, tmp_path: Path
) -> None:
    """Another worker may join at the moment that the last chunk appears, or the one who made it may die then."""
    corpus = of(archive, tmp_path / "out").prepared()
    entry, anonymizer = corpus.entries[1], corpus.open()
    corpus.do_plan(entry, anonymizer)
    plan = corpus.plan_of(entry)
    assert plan is not None
    over, seen, bare = threading.Event(), set[Path](), set[Path]()

    def watch() -> None:
        while not over.is_set():
            for part in {corpus.part(entry, n) for n in range(plan.chunks)} - seen:
                if part.is_file():
                    seen.add(part)
                    bare.update({part} if not part.with_suffix(".json").is_file() else ())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    for number in range(plan.chunks):
        assert corpus.do_chunk(entry, plan, number, anonymizer)
        while corpus.part(entry, number) not in seen:
            assert thread.is_alive()
            time.sleep(0.001)
    over.set()
    thread.join()
    assert len(seen) == plan.chunks > 1
    assert not bare


def test_the_first_reason_for_a_failure_stays(archive: Path, tmp_path: Path) -> None:
    class Overtaken(Corpus):
        """While this worker is at a chunk, another one fails at the same video and takes its folders away."""

        def _chunk(self, entry: Entry, *_: object) -> bool:
            self._fail(entry, "chunk 1: the disk is full")
            raise FileNotFoundError(str(self.part(entry, 0)))

    corpus = Overtaken(read_manifest(archive), tmp_path / "out", "downsample:4", chunk=20).prepared()
    work(corpus)
    assert {one.reason for one in corpus.report(1.0).failed} == {"chunk 1: the disk is full"}


def test_no_chunk_of_a_settled_video_stays(archive: Path, tmp_path: Path) -> None:
    class Overtaken(Corpus):
        """While this worker is at a chunk, another one fails at the same video."""

        def _chunk(self, entry: Entry, *rest: Any) -> bool:
            self._fail(entry, "chunk 1: the disk is full")
            return super()._chunk(entry, *rest)

    corpus = Overtaken(read_manifest(archive), tmp_path / "out", "downsample:4", chunk=20).prepared()
    work(corpus)
    assert {one.reason for one in corpus.report(1.0).failed} == {"chunk 1: the disk is full"}
    assert not list(corpus.state.glob("parts/*/*"))
    (corpus.state / "parts" / corpus.entries[0].id).mkdir(
        parents=True
    )  # its worker was killed before it removed it
    corpus.tidy()
    assert not list(corpus.state.glob("parts/*"))


def test_told_to_stop_when_everything_is_done_a_corpus_says_so(archive: Path, tmp_path: Path) -> None:
    stop = threading.Event()

    def tell(settled: int, total: int) -> None:
        if settled == total:
            stop.set()

    report = run_local(of(archive, tmp_path / "out"), 1, progress=tell, stop=stop)
    assert (report.exit_code, len(report.settled)) == (0, 3)


def by_one(archive: Path, out: Path, model: str = "downsample:4") -> dict[str, bytes]:
    """What a single worker makes of it, in this process."""
    corpus = of(archive, out, model).prepared()
    work(corpus)
    assert not corpus.report(1.0).failed
    return made(out)


def test_two_workers_give_the_same_bytes_as_one(archive: Path, tmp_path: Path) -> None:
    report = run_local(of(archive, tmp_path / "two"), 2)
    assert report.exit_code == 0
    assert len(made(tmp_path / "two")) == 3
    assert made(tmp_path / "two") == by_one(archive, tmp_path / "one")


HELD = """
import glob
import os
import time

def anonymize(frames):
    while os.path.exists(os.environ["HOLD"]) and glob.glob(f"{os.environ['PARTS']}/*/.*-{os.getpid()}-*.mp4"):
        time.sleep(0.02)
    return 1 - frames
"""


def test_workers_killed_in_the_middle_of_a_chunk_lose_nothing_and_do_nothing_twice(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3, 6):
        film(archive / f"{number}.mp4", 40, number)
    model, hold = tmp_path / "held.py", tmp_path / "hold"
    model.write_text(HELD)
    hold.touch()  # who writes a chunk gets no further before it is over with the killing
    monkeypatch.setenv("HOLD", str(hold))
    monkeypatch.setenv("PARTS", str(tmp_path / "wild" / STATE / "parts"))
    over, killed = threading.Event(), set[int]()
    thread = threading.Thread(
        target=kill_writers, args=(tmp_path / "wild" / STATE / "parts", 2, over, killed, hold)
    )
    thread.start()
    try:
        report = run_local(of(archive, tmp_path / "wild", str(model), attempts=20), 2)
    finally:
        over.set()
        thread.join()
    assert report.restarts == len(killed) == 2
    assert not report.failed
    assert len(report.settled) == 6
    assert made(tmp_path / "wild") == by_one(archive, tmp_path / "calm", str(model))
    assert not list((tmp_path / "wild").rglob(f"{files.TEMPORARY}*"))


def written(parts: Path) -> list[Path]:
    """Chunks that somebody is at; folders of settled videos disappear meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return list(parts.glob(f"*/{files.TEMPORARY}*.mp4"))
    return []


def kill_writers(parts: Path, times: int, over: threading.Event, killed: set[int], hold: Path) -> None:
    """End so many of our children, each while it writes a chunk: its number is in the name of what it writes."""
    while not over.is_set() and len(killed) < times:
        for path in written(parts):
            pid = int(path.name.removeprefix(files.TEMPORARY).split("-")[1])
            ours = {child.pid for child in psutil.Process().children()}
            if pid in ours - killed and len(killed) < times:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.01)
    hold.unlink()


def test_a_finished_corpus_is_not_done_again_and_a_new_video_is_added(archive: Path, tmp_path: Path) -> None:
    by_one(archive, tmp_path / "out")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.mp4")}
    film(archive / "new.mp4", 5, 9)
    report = run_local(of(archive, tmp_path / "out"), 1)
    assert len(report.settled) == 4
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())


def test_what_a_killed_joiner_left_beside_the_results_is_swept_up(archive: Path, tmp_path: Path) -> None:
    leave_behind(tmp_path / "out" / "camera0" / "0.mp4")
    corpus = of(archive, tmp_path / "out").prepared()
    assert list((tmp_path / "out").rglob(f"{files.TEMPORARY}*.mp4"))
    corpus.tidy()
    assert not list((tmp_path / "out").rglob(f"{files.TEMPORARY}*"))


def test_a_broken_video_fails_by_name_and_the_others_are_done(archive: Path, tmp_path: Path) -> None:
    whole = (archive / "camera0" / "2.mp4").read_bytes()
    (archive / "camera0" / "2.mp4").write_bytes(whole[: len(whole) // 2])
    (archive / "empty.mp4").touch()
    corpus = of(archive, tmp_path / "out").prepared()
    work(corpus)
    report = corpus.report(1.0)
    assert sorted(one.name for one in report.failed) == ["camera0/2.mp4", "empty.mp4"]
    assert report.exit_code == 3
    assert sorted(made(tmp_path / "out")) == ["camera0/0.mp4", "camera1/1.mp4"]
    assert "no bytes" in str(report) or "empty" in str(report)


def test_a_chunk_that_ends_its_workers_is_given_up_after_so_many(archive: Path, tmp_path: Path) -> None:
    corpus = of(archive, tmp_path / "out", attempts=3).prepared()
    poisoned = corpus.entries[0]
    for _ in range(3):  # what three killed workers leave
        count = corpus.state / "attempts" / poisoned.id / "0"
        before = int(count.read_text()) if count.is_file() else 0
        files.write_text(count, str(before + 1))
    work(corpus)
    (failed,) = corpus.report(1.0).failed
    assert failed.reason == "chunk 0 ended its worker 3 times"


def test_a_destination_begun_with_another_anonymizer_or_options_is_refused(
    archive: Path, tmp_path: Path
) -> None:
    of(archive, tmp_path / "out").prepared()
    for other in (
        Corpus(read_manifest(archive), tmp_path / "out", "black", chunk=20),
        of(archive, tmp_path / "out", options=Options(crf=30)),
    ):
        with pytest.raises(UsageError, match="another anonymizer or other options"):
            other.prepared()


def test_a_corpus_looks_at_the_size_of_training_and_refuses_to_go_on_at_another(
    archive: Path, tmp_path: Path
) -> None:
    """Every worker opens the model for itself: the default must be the same for all of them."""
    model = tmp_path / "model"
    pixel(UNet(width=4), size=24).save_pretrained(model)

    def corpus(name: str, inner: int | None) -> Corpus:
        options = Options(engine="torch", inner=inner)
        return Corpus(read_manifest(archive)[1:2], tmp_path / name, str(model), options, chunk=20)

    for name, inner in (("unset", None), ("named", 32), ("all", 0)):
        work(corpus(name, inner).prepared())
    found = {name: made(tmp_path / name) for name in ("unset", "named", "all")}
    assert found["unset"] == found["named"] != found["all"]
    assert len(found["unset"]) == 1
    with pytest.raises(UsageError, match="other options"):
        corpus("unset", 0).prepared()
    shutil.rmtree(model)
    pixel(UNet(width=4), size=32).save_pretrained(model)
    with pytest.raises(UsageError, match="other options"):
        corpus("unset", None).prepared()
    corpus("all", 0).prepared()  # every pixel is every pixel


def test_a_source_that_changes_meanwhile_fails(archive: Path, tmp_path: Path) -> None:
    corpus = of(archive, tmp_path / "out").prepared()
    entry, anonymizer = corpus.entries[0], corpus.open()
    assert corpus.do_plan(entry, anonymizer)
    os.utime(entry.source, ns=(1, 1))
    plan = corpus.plan_of(entry)
    assert plan is not None
    assert corpus.do_chunk(entry, plan, 0, anonymizer)
    found = corpus.settled(entry)
    assert found is not None
    assert "was changed" in found.reason
    assert not made(tmp_path / "out")


def test_an_anonymizer_that_changes_nothing_and_partial_results_are_refused(
    archive: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="changes nothing"):
        Corpus(read_manifest(archive), tmp_path / "out", "identity").prepared()
    with pytest.raises(UsageError, match="whole results only"):
        of(archive, tmp_path / "out", options=Options(keep_partial=True))
    with pytest.raises(UsageError, match="at least 1"):
        of(archive, tmp_path / "out", attempts=0)
