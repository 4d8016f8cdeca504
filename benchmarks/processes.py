"""Jobs of a study in processes of their own: the most urgent first, and what a finished one makes possible joins in."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol, TypeVar


class Job(Hashable, Protocol):
    @property
    def title(self) -> str: ...


J = TypeVar("J", bound=Job)


def run(
    jobs: Iterable[J],
    work: Callable[[J], str],
    count: int,
    *,
    after: Callable[[J], Iterable[J]] = lambda job: (),
    urgency: Callable[[J], Any] = lambda job: 0,
    until: float = float("inf"),
) -> list[str]:
    """`work(job)` of every job, `count` at once, the lowest `urgency` first; prints what each says.

    `after(job)` follows one that did not fail and names jobs that are possible now; each of them is done once. Nothing
    is begun after the moment `until`. A process that dies takes the jobs that are at work along; the others are done by
    new ones. Returns what failed, in words.
    """
    failed: list[str] = []
    running: dict[Future[str], J] = {}
    waiting = sorted(jobs, key=urgency)
    known = set(waiting)
    pool, broken = _pool(count), False
    try:
        while waiting or running:
            if broken and not running:
                pool.shutdown()
                pool, broken = _pool(count), False
            while waiting and not broken and len(running) < count and time.time() < until:
                try:
                    running[pool.submit(work, waiting[0])] = waiting[0]
                except BrokenProcessPool:
                    broken = True
                else:
                    waiting.pop(0)
            if not running and not broken:
                print(*(f"not begun: {job.title}" for job in waiting), sep="\n", flush=True)
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                if error := future.exception():
                    broken |= isinstance(error, BrokenProcessPool)  # one died, and took the others along
                    failed.append(f"{job.title}: {error!r}")
                    print(f"FAILED {failed[-1]}", flush=True)
                    continue
                print(future.result(), flush=True)
                later = [one for one in after(job) if one not in known]
                known |= set(later)
                waiting = sorted([*waiting, *later], key=urgency)
    finally:
        pool.shutdown()
    return failed


def _pool(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
