from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from videoveil.pipeline import stages
from videoveil.pipeline.stages import Halted, Line


def test_everything_comes_through_in_order() -> None:
    line = Line()
    doubled = line.stage("double", lambda x: 2 * x, line.source("count", range(500), 3), 2)
    assert list(doubled) == [2 * x for x in range(500)]
    line.finish()
    assert set(line.seconds) == {"count", "double"}


def test_a_fast_source_does_not_run_ahead_of_its_queue() -> None:
    drawn = 0

    def numbers() -> Iterator[int]:
        nonlocal drawn
        for number in range(1000):
            drawn += 1
            yield number

    line = Line()
    items = line.source("count", numbers(), 4)
    next(items)
    time.sleep(0.2)
    assert drawn <= 1 + 4 + 1  # taken, waiting, and one in hand
    line.fall(ValueError("enough"))
    with pytest.raises(ValueError, match="enough"):
        line.finish()


@pytest.mark.parametrize("where", ["source", "stage"])
def test_one_that_falls_stops_all_and_is_told(where: str) -> None:
    def numbers() -> Iterator[int]:
        yield from range(50)
        if where == "source":
            raise OSError("source broke")
        yield from range(50, 10**9)

    def work(number: int) -> int:
        if where == "stage" and number == 40:
            raise KeyError("stage broke")
        return number

    line = Line()
    items = line.stage("work", work, line.source("count", numbers(), 4), 4)
    with pytest.raises((OSError, KeyError), match=f"{where} broke"):
        try:
            for _ in items:
                pass
        except Halted as error:
            line.finish(error)
    assert not any(thread.is_alive() for thread in line._threads)


def test_a_stop_from_outside_ends_the_line() -> None:
    stop = threading.Event()
    line = Line(stop)
    items = line.source("count", iter(int, 1), 2)
    next(items)
    stop.set()
    with pytest.raises(Halted):
        for _ in items:
            pass
    line.finish(Halted())
    assert not any(thread.is_alive() for thread in line._threads)


def test_several_hands_work_at_the_same_time_and_keep_the_order() -> None:
    together = threading.Barrier(3, timeout=300)

    def work(number: int) -> int:
        if number < 3:
            together.wait()  # passes only if three are at work at once
        time.sleep(0.002 * (number % 4))
        return number

    line = Line()
    items = line.stage("work", work, line.source("count", range(200), 4), 4, hands=3)
    assert list(items) == list(range(200))
    line.finish()
    assert len(line._threads) == 1 + 3


def test_every_hand_begins_before_it_works() -> None:
    prepared = threading.local()
    begun = []

    def begin() -> None:
        prepared.yes = True
        begun.append(threading.get_ident())

    line = Line()
    ready = line.stage(
        "work", lambda _: prepared.yes, line.source("count", range(50), 4), 4, hands=4, begin=begin
    )
    assert all(ready)
    line.finish()
    assert len(set(begun)) == 4


@pytest.mark.parametrize("hands", [1, 2, 5])
def test_hands_do_not_run_ahead_of_their_queue(hands: int) -> None:
    drawn: list[int] = []
    line = Line()
    counted = line.source("count", iter(range(1000)), 1)
    items = line.stage("work", drawn.append, counted, 3, hands=hands)
    next(items)
    time.sleep(0.3)
    assert len(drawn) <= 1 + 3 + 1  # taken, waiting, and one whose promise finds no room
    line.fall(ValueError("enough"))
    with pytest.raises(ValueError, match="enough"):
        line.finish()


@pytest.mark.parametrize("hands", [1, 3])
def test_a_hand_that_falls_stops_all_and_nothing_after_it_comes_out(hands: int) -> None:
    def work(number: int) -> int:
        if number == 40:
            raise KeyError("hand broke")
        return number

    line, came = Line(), []
    with pytest.raises(KeyError, match="hand broke"):
        try:
            for item in line.stage("work", work, line.source("count", range(10**9), 4), 4, hands=hands):
                came.append(item)
        except Halted as error:
            line.finish(error)
    assert came == list(range(len(came)))
    assert len(came) <= 40
    assert not any(thread.is_alive() for thread in line._threads)


def test_waiting_is_not_being_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by a clock that is ahead by an hour after every wait of the source for room, whoever else is slow."""
    line, hours, put = Line(), threading.local(), Line._put
    real = time.perf_counter

    def putting(self: Line, *given: Any) -> None:
        put(self, *given)
        hours.waited = getattr(hours, "waited", 0) + 3600

    monkeypatch.setattr(stages.time, "perf_counter", lambda: real() + getattr(hours, "waited", 0))
    monkeypatch.setattr(Line, "_put", putting)
    slow = line.stage("slow", lambda x: time.sleep(0.02), line.source("count", range(10), 1), 1)
    for _ in slow:
        pass
    line.finish()
    assert 0.2 <= line.seconds["slow"] < 3600
    assert line.seconds["count"] < 3600
