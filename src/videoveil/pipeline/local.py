"""A corpus by processes of this machine; one that dies is replaced."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from videoveil.errors import UsageError
from videoveil.pipeline.corpus import Corpus, CorpusReport, work
from videoveil.pipeline.errors import Failed

LOOK_SECONDS = 0.2  # between two looks at the workers

Watcher = Callable[[int, int], None]  # videos settled, videos in all


def run_local(
    corpus: Corpus, workers: int = 1, *, restarts: int = 100, progress: Watcher | None = None
) -> CorpusReport:
    """Everything that is not done yet, by so many processes; raises once more than `restarts` of them have died."""
    if workers < 1:
        raise UsageError(f"workers={workers}: must be at least 1")
    began = time.perf_counter()
    ready = corpus.prepared()
    ready.tidy()
    crew = _Crew(ready, workers)
    died = 0
    try:
        while crew.busy():
            died += crew.replace_dead()
            if died > restarts:
                raise Failed(
                    f"{corpus.destination}: {died} workers have died; what is done stays, the same command goes on"
                )
            if progress is not None:
                progress(_settled(ready), len(ready.entries))
            time.sleep(LOOK_SECONDS)
    finally:
        crew.end()
    ready.tidy()
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
            target=work, args=(self._corpus, number, self._count), name=f"veil-worker-{number}", daemon=True
        )
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
        for process in self._processes.values():
            if process.is_alive():
                process.terminate()
        for process in self._processes.values():
            process.join()
