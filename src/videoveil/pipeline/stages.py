"""Threads with bounded queues between them: one falls, all stop; each knows how long it was busy.

    line = Line(stop)
    decode = line.source("decode", pictures, room=8)      # a thread that fills a queue
    check = line.stage("check", look_at, decode, room=8)
    for item in check: …                                  # the last stage runs in the caller's thread
    line.finish()

A stage may have several hands, threads that work on one item each; what they make comes out in the order of the items.
Memory is bounded by the rooms of the queues and the number of hands, whatever the length of what runs through.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
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
        self._counting = threading.Lock()

    @property
    def halted(self) -> bool:
        return self.asked.is_set() or self.fallen.is_set()

    def source(self, name: str, items: Iterable[T], room: int) -> Iterator[T]:
        """A thread that draws `items` and keeps up to `room` of them ready."""
        self.seconds.setdefault(name, 0.0)
        waiting: queue.Queue[Any] = queue.Queue(maxsize=room)

        def fill() -> None:
            for item in self._timed(name, iter(items)):
                self._put(waiting, item)
            self._put(waiting, _END)

        self._start(name, fill)
        return self._drain(waiting)

    def stage(
        self,
        name: str,
        work: Callable[[T], S],
        items: Iterator[T],
        room: int,
        *,
        hands: int = 1,
        begin: Callable[[], None] | None = None,
    ) -> Iterator[S]:
        """Threads, `hands` of them, that make one thing of each that comes. `begin`: first of all, in every one."""
        self.seconds.setdefault(name, 0.0)
        waiting: queue.Queue[Any] = queue.Queue(maxsize=room)
        drawing, ended = threading.Lock(), False

        def draw() -> tuple[Any, Future[S]]:
            """Whoever draws an item leaves a promise of its result, so that results keep the order of the items."""
            nonlocal ended
            with drawing:
                item, promise = _END if ended else next(items, _END), Future[S]()
                if item is not _END:
                    self._put(waiting, promise)
                elif not ended:
                    ended = True
                    self._put(waiting, _END)
                return item, promise

        def hand() -> None:
            if begin is not None:
                begin()
            while True:
                item, promise = draw()
                if item is _END:
                    return
                began = time.perf_counter()
                promise.set_result(work(item))
                self._account(name, (time.perf_counter() - began) / hands)
                del item, promise  # nothing stays in hand while waiting for the next

        for _ in range(hands):
            self._start(name, hand)
        return (self._kept(promise) for promise in self._drain(waiting))

    def busy(self, name: str, work: Callable[..., S], *arguments: Any) -> S:
        """Do something in this thread, on the account of `name`."""
        began = time.perf_counter()
        try:
            return work(*arguments)
        finally:
            self._account(name, time.perf_counter() - began)

    def _account(self, name: str, seconds: float) -> None:
        with self._counting:
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds

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

    def _start(self, name: str, fill: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                fill()
            except BaseException as error:  # handed to the thread that finishes the line
                self.fall(error)

        thread = threading.Thread(target=guarded, name=f"veil-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _kept(self, promise: Future[S]) -> S:
        while not self.halted:
            try:
                return promise.result(timeout=PATIENCE)
            except TimeoutError:
                continue
        raise Halted

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
