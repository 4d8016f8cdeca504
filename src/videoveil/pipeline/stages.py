"""Threads with bounded queues between them: one falls, all stop; each knows how long it was busy.

    line = Line(stop)
    decode = line.source("decode", pictures, room=8)      # a thread that fills a queue
    check = line.stage("check", look_at, decode, room=8)
    for item in check: …                                  # the last stage runs in the caller's thread
    line.finish()

Memory is bounded by the rooms of the queues, whatever the length of what runs through.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")

PATIENCE = 0.05  # seconds between two looks at the stop flags
_END = object()


class Halted(Exception):
    """Another stage fell, or a stop was asked for; ends a stage without further word."""


class Line:
    """The stages of one run. `stop`: set by the outside to end it."""

    def __init__(self, stop: threading.Event | None = None):
        self.asked = stop or threading.Event()
        self.fallen = threading.Event()
        self.error: BaseException | None = None
        self.seconds: dict[str, float] = {}
        self._threads: list[threading.Thread] = []

    @property
    def halted(self) -> bool:
        return self.asked.is_set() or self.fallen.is_set()

    def source(self, name: str, items: Iterable[T], room: int) -> Iterator[T]:
        """A thread that draws `items` and keeps up to `room` of them ready."""
        return self._run(name, lambda: self._timed(name, iter(items)), room)

    def stage(self, name: str, work: Callable[[T], S], items: Iterator[T], room: int) -> Iterator[S]:
        """A thread that makes one thing of each that comes."""
        return self._run(name, lambda: (self._work(name, work, item) for item in items), room)

    def busy(self, name: str, work: Callable[..., S], *arguments: Any) -> S:
        """Do something in this thread, on the account of `name`."""
        began = time.perf_counter()
        try:
            return work(*arguments)
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def fall(self, error: BaseException) -> None:
        """The first error is the one that is told."""
        if self.error is None and not isinstance(error, Halted):
            self.error = error
        self.fallen.set()

    def finish(self, error: BaseException | None = None) -> None:
        """Wait for all threads to end, after stopping them if something went wrong; raises what went wrong."""
        if error is not None:
            self.fall(error)
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def _run(self, name: str, items: Callable[[], Iterator[T]], room: int) -> Iterator[T]:
        self.seconds.setdefault(name, 0.0)
        waiting: queue.Queue[Any] = queue.Queue(maxsize=room)

        def fill() -> None:
            try:
                for item in items():
                    self._put(waiting, item)
                self._put(waiting, _END)
            except BaseException as error:  # handed to the thread that finishes the line
                self.fall(error)

        thread = threading.Thread(target=fill, name=f"veil-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return self._drain(waiting)

    def _drain(self, waiting: queue.Queue[Any]) -> Generator[Any, None, None]:
        while True:
            item = self._get(waiting)
            if item is _END:
                return
            yield item

    def _timed(self, name: str, items: Iterator[T]) -> Iterator[T]:
        while True:
            item = self.busy(name, next, items, _END)
            if item is _END:
                return
            yield item

    def _work(self, name: str, work: Callable[[T], S], item: T) -> S:
        return self.busy(name, work, item)

    def _put(self, waiting: queue.Queue[Any], item: Any) -> None:
        while not self.halted:
            try:
                waiting.put(item, timeout=PATIENCE)
                return
            except queue.Full:
                continue
        raise Halted

    def _get(self, waiting: queue.Queue[Any]) -> Any:
        while not self.halted:
            try:
                return waiting.get(timeout=PATIENCE)
            except queue.Empty:
                continue
        raise Halted
