"""How old live pictures are; real sources are tested in `test_live`."""

from __future__ import annotations

import itertools
import threading

import pytest

from videoveil.pipeline.live_source import Lag


def test_pictures_that_come_in_a_heap_are_as_old_as_their_times_say() -> None:
    lag = Lag()
    for number in range(20):  # one second of pictures, all at time 100
        lag.arrived(100.0, number / 20)
    assert lag.came(19 / 20) == pytest.approx(100.0)
    assert lag.came(0.0) == pytest.approx(100.0 - 19 / 20)
    lag.arrived(105.0, 1.0)  # held up for five seconds
    assert lag.came(1.0) == pytest.approx(100.05)
    lag.arrived(106.0, 0.0)  # a new clock
    assert lag.came(0.0) == pytest.approx(106.0)
    for second in range(1, 100):  # a clock that is 1 % slow is followed
        lag.arrived(106.0 + second * 1.01, float(second))
    assert lag.came(99.0) > 106 + 99 * 1.01 - 0.2


def test_one_thread_may_ask_when_a_picture_came_while_another_one_tells() -> None:
    lag, over, wrong = Lag(), threading.Event(), list[Exception]()
    lag.arrived(0.0, 0.0)

    def tell() -> None:
        for number in itertools.count(1):
            if over.is_set():
                return
            lag.arrived(
                float(number), float(number)
            )  # all came equally quick: one takes the place of another

    def ask() -> None:
        try:
            for _ in range(500_000):
                lag.came(0.0)
        except IndexError as error:
            wrong.append(error)
        over.set()

    threads = [threading.Thread(target=work, daemon=True) for work in (tell, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
