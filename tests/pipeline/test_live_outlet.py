"""A slow sink holds up nobody, and one that fails is told."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from videoveil.pipeline.live_outlet import Outlet


class Slow:
    """A sink that waits for a word before it writes, or fails."""

    def __init__(self, error: Exception | None = None):
        self.go, self.written, self.error = threading.Event(), list[int](), error

    def write(self, tick: int, image: np.ndarray) -> None:
        self.go.wait(300)
        if self.error is not None:
            raise self.error
        self.written.append(tick)


def outlet(sink: Any, fallen: list[BaseException]) -> Outlet:
    return Outlet(sink, 3, fallen.append)


def test_the_oldest_waiting_picture_makes_room_and_order_is_kept() -> None:
    sink, fallen, picture = Slow(), list[BaseException](), np.zeros((2, 2, 3), np.uint8)
    made = outlet(sink, fallen)
    for tick in range(20):
        made.put(tick, picture)
    sink.go.set()
    made.end()
    assert len(sink.written) + made.missed == 20
    assert sink.written == sorted(sink.written)
    assert sink.written[-3:] == [17, 18, 19]
    assert not fallen


def test_a_sink_that_fails_is_told_and_holds_up_nobody() -> None:
    broken, fallen = OSError("full"), list[BaseException]()
    sink = Slow(broken)
    made = outlet(sink, fallen)
    sink.go.set()
    began = time.monotonic()
    for tick in range(20):
        made.put(tick, np.zeros((2, 2, 3), np.uint8))
    made.end()
    assert fallen == [broken]
    assert time.monotonic() - began < 200
