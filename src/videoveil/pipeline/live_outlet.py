"""A thread before each sink of a live run."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import numpy as np

from videoveil.pipeline.live_sinks import Sink

PATIENCE = 0.05  # seconds between two tries to hand over


class Outlet:
    """A thread before a sink, so that a slow one holds up nobody; the oldest waiting picture makes room."""

    def __init__(self, sink: Sink, room: int, fall: Callable[[BaseException], None]):
        self.sink, self.fall, self.missed = sink, fall, 0
        self._waiting: queue.Queue[tuple[int, np.ndarray] | None] = queue.Queue(room)
        self._thread = threading.Thread(target=self._run, name="veil-sink", daemon=True)
        self._thread.start()

    def put(self, tick: int, image: np.ndarray) -> None:
        while True:
            try:
                self._waiting.put_nowait((tick, image))
                return
            except queue.Full:
                try:
                    self._waiting.get_nowait()
                    self.missed += 1
                except queue.Empty:
                    continue

    def end(self) -> None:
        while self._thread.is_alive():
            try:
                self._waiting.put(None, timeout=PATIENCE)
                break
            except queue.Full:
                continue
        self._thread.join()

    def _run(self) -> None:
        try:
            while (item := self._waiting.get()) is not None:
                self.sink.write(*item)
        except BaseException as error:
            self.fall(error)
