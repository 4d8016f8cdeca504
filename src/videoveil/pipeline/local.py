"""A corpus by processes of this machine; one that dies is replaced, and all end with the one that started them."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

from videoveil.errors import UsageError
from videoveil.pipeline.corpus import Corpus, CorpusReport, work
from videoveil.pipeline.errors import FAILED, Failed, Stopped

LOOK_SECONDS = 0.2  # between two looks at the workers
LEAVE_SECONDS = 30.0  # that a worker gets to end; joining chunks is the longest that it cannot leave

Watcher = Callable[[int, int], None]  # videos settled, videos in all


def run_local(
    corpus: Corpus,
    workers: int = 1,
    *,
    restarts: int = 100,
    progress: Watcher | None = None,
    stop: threading.Event | None = None,
) -> CorpusReport:
    """Everything that is not done yet, by so many processes; raises once more than `restarts` of them have died.

    Raises `Stopped` when `stop` is set: the chunks that are at work are left undone, what is done stays, and the same
    call goes on.
    """
    if workers < 1:
        raise UsageError(f"workers={workers}: must be at least 1")
    began, stop = time.perf_counter(), stop or threading.Event()
    ready = corpus.prepared()
    ready.tidy()
    crew = _Crew(ready, workers)
    died = 0
    try:
        while crew.busy() and not stop.is_set():
            died += crew.replace_dead()
            if died > restarts:
                raise Failed(
                    f"{corpus.destination}: {died} workers have died; what is done stays, the same command goes on"
                )
            if progress is not None:
                progress(_settled(ready), len(ready.entries))
            stop.wait(LOOK_SECONDS)
    finally:
        crew.end()
    ready.tidy()
    if _settled(ready) < len(ready.entries):
        raise ready.stopped()
    return ready.report(time.perf_counter() - began, died)


def _settled(corpus: Corpus) -> int:
    return sum(corpus.settled(entry) is not None for entry in corpus.entries)


class _Crew:
    def __init__(self, corpus: Corpus, workers: int):
        self._corpus, self._count = corpus, workers
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[int, BaseProcess] = {n: self._start(n) for n in range(workers)}

    def _start(self, number: int) -> BaseProcess:
        process = self._context.Process(
            target=_worker,
            args=(self._corpus, number, self._count),
            name=f"veil-worker-{number}",
            daemon=True,
        )
        with _no_interrupts():
            process.start()
        return process

    def busy(self) -> bool:
        """Whether somebody is, or should be, at work."""
        return any(process.exitcode != 0 for process in self._processes.values())

    def replace_dead(self) -> int:
        """How many had died."""
        dead = [n for n, process in self._processes.items() if process.exitcode not in (None, 0)]
        for number in dead:
            self._processes[number].close()
            self._processes[number] = self._start(number)
        return len(dead)

    def end(self) -> None:
        """Tell all to stop and wait for them; one that does not is killed, which costs nothing but its chunk."""
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
        deadline = time.monotonic() + LEAVE_SECONDS
        for process in self._processes.values():
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
            process.join()


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """What is started here gets no SIGINT until it has said what it does about it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _worker(corpus: Corpus, number: int, count: int) -> None:
    """A process of the crew. Ends when all is done, when it is told to (SIGTERM), and when its parent is gone.

    An interrupt from the keyboard reaches all processes of a terminal; here it is the parent that decides.
    """
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_follow_parent, args=(stop,), name="veil-parent", daemon=True).start()
    try:
        work(corpus, number, count, stop=stop)
    except Stopped:
        sys.exit(FAILED)


def _follow_parent(stop: threading.Event) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        stop.set()
