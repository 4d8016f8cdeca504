"""A corpus on a Ray cluster: the same pieces of work, spread by Ray Data over a pool of actors.

All nodes must see the sources and the destination under the same paths (a shared file system whose locks work across
nodes, such as NFS 4), and the anonymizer too. Ray starts actors that died again and gives their rows to others; the
locks of the corpus keep a piece of work from being done twice. What Ray itself gives up is taken up in the next round.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.errors import UsageError
from videoveil.pipeline.corpus import RETRY_SECONDS, Corpus, CorpusReport
from videoveil.pipeline.errors import Failed
from videoveil.pipeline.process import no_memory_dumps

Row = dict[str, Any]
CPUS = 1  # that an actor asks for
LEAVE_SECONDS = 30.0  # that a round which was asked to end is waited for


def run_ray(
    corpus: Corpus,
    workers: int = 1,
    *,
    address: str | None = None,
    gpus: float = 0.0,
    rounds: int = 100,
    stop: threading.Event | None = None,
) -> CorpusReport:
    """Everything that is not done yet, by so many actors with `gpus` each.

    address: of a cluster, such as "auto" or "ray://head:10001"; without it Ray is started on this machine. A Ray that
    is running already in this process is used as it is. Raises `Stopped` when `stop` is set: a Ray of our own is shut
    down, which ends its actors; one that was there ends with the rows that it is at.
    """
    ray = _ray()
    if workers < 1:
        raise UsageError(f"workers={workers}: must be at least 1")
    began = time.perf_counter()
    ready = corpus.prepared()
    ready.tidy()
    own = not ray.is_initialized()
    if own:
        with _same_handlers():
            ray.init(address=address, include_dashboard=False, log_to_driver=False, configure_logging=False)
    stop = stop or threading.Event()
    try:
        for _ in range(rounds):
            left = _unsettled(ready)
            if not left or stop.is_set():
                break
            mark = (
                ready.state / "stop" / secrets.token_hex(8)
            )  # of this round alone, and left behind where it was set
            if not _watched(
                partial(_round, ready, left, workers, gpus, mark), stop, partial(files.write_text, mark, "")
            ):
                stop.wait(RETRY_SECONDS)
        else:
            raise Failed(
                f"{corpus.destination}: not finished after {rounds} rounds; the same command goes on"
            )
    finally:
        if own:
            ray.shutdown()
    ready.tidy()
    if _unsettled(ready):
        ready.forgive()  # actors that were shut down were not ended by their work
        raise ready.stopped()
    return ready.report(time.perf_counter() - began)


@contextlib.contextmanager
def _same_handlers() -> Iterator[None]:
    """Ray puts a handler of its own for SIGTERM in place, which would end this process in the middle of things."""
    main = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)} if main else {}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _watched(work: Callable[[], bool], stop: threading.Event, leave: Callable[[], None]) -> bool:
    """`work` in a thread, since Ray waits for its actors and for nothing else.

    When `stop` is set, `leave` is called and the end of the work is waited for: a thread of Ray's that still asks for
    something after Ray was shut down would take the whole process along. Work that goes on too long is left alone.
    """
    found: Future[bool] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:  # raised where it is waited for
            found.set_exception(error)

    threading.Thread(target=run, name="veil-ray", daemon=True).start()
    while not stop.is_set():
        try:
            return found.result(timeout=RETRY_SECONDS)
        except TimeoutError:
            if found.done():
                return found.result()
    leave()
    with contextlib.suppress(Exception):
        found.result(timeout=LEAVE_SECONDS)
    return False


def _ray() -> Any:
    # else a round that is left alone would start another Ray, once ours is shut down
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UsageError("--engine ray needs the extra: pip install 'videoveil[ray]'") from error
    return ray


def _unsettled(corpus: Corpus) -> list[int]:
    return [n for n, entry in enumerate(corpus.entries) if corpus.settled(entry) is None]


def _round(corpus: Corpus, left: Iterable[int], workers: int, gpus: float, mark: Path) -> bool:
    """Plan, do every chunk, join; whether anything was done.

    Every step is read to its end, also when it is to stop: Ray ends its own threads then, and at no other time.
    """
    ray: Any = _ray()
    ray.data.DataContext.get_current().enable_progress_bars = False
    pool = {"concurrency": workers, "num_cpus": CPUS, "num_gpus": gpus, "fn_constructor_args": (corpus, mark)}

    def spread(rows: list[Row]) -> Any:
        return ray.data.from_items(rows, override_num_blocks=_blocks(len(rows), workers))

    videos = [{"video": number, "chunk": -1, "did": False} for number in left]
    chunks = spread(videos).flat_map(Planner, **pool).take_all()
    done = [] if mark.exists() else spread(chunks).map(Chunker, **pool).take_all()
    joined = [] if mark.exists() else spread(videos).map(Joiner, **pool).take_all()
    return any(row["did"] for row in (*chunks, *done, *joined))


def _blocks(rows: int, workers: int) -> int:
    """A block is what Ray hands out, and does again when an actor dies: small, but not thousands of them."""
    return max(1, min(rows, 64 * workers))


class _Step:
    """An actor with its own copy of the anonymizer. Where `mark` exists it begins nothing more."""

    def __init__(self, corpus: Corpus, mark: Path):
        no_memory_dumps()
        self.corpus, self.mark = corpus, mark
        self._anonymizer: Any = None

    @property
    def anonymizer(self) -> Any:
        if self._anonymizer is None:
            self._anonymizer = self.corpus.open()
        return self._anonymizer


class Planner(_Step):
    """A row per video → a row per chunk that is missing; one without any (-1) where only joining is left."""

    def __call__(self, row: Row) -> list[Row]:
        if self.mark.exists():
            return [row]
        entry = self.corpus.entries[row["video"]]
        did = self.corpus.plan_of(entry) is None and self.corpus.do_plan(entry, self.anonymizer)
        plan = self.corpus.plan_of(entry)
        if plan is None:
            return [{**row, "did": bool(did)}]
        missing = [n for n in range(plan.chunks) if not self.corpus.part(entry, n).is_file()]
        return [{**row, "chunk": n, "did": bool(did)} for n in missing or [-1]]


class Chunker(_Step):
    def __call__(self, row: Row) -> Row:
        entry = self.corpus.entries[row["video"]]
        plan = self.corpus.plan_of(entry)
        if plan is None or row["chunk"] < 0 or self.mark.exists():
            return row
        did = self.corpus.do_chunk(entry, plan, int(row["chunk"]), self.anonymizer)
        return {**row, "did": bool(did)}


class Joiner(_Step):
    def __call__(self, row: Row) -> Row:
        entry = self.corpus.entries[row["video"]]
        plan = self.corpus.plan_of(entry)
        if plan is None or self.mark.exists() or self.corpus.settled(entry) is not None:
            return row
        did = self.corpus.do_join(entry, plan)
        return {**row, "did": bool(did)}
