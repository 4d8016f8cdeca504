from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoveil.serve import limits
from videoveil.serve.limits import Full, Pace, Places, Rate


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 60), st.lists(st.floats(0, 5), max_size=200))
def test_no_minute_has_more_than_twice_the_rate(per_minute: int, pauses: list[float]) -> None:
    clock = Clock()
    rate, allowed = Rate(per_minute, clock), []
    for pause in pauses:
        clock.now += pause
        if not rate.wait("a"):
            allowed.append(clock.now)
    for start in allowed:
        # a full bucket, and what drips in during the minute
        assert sum(start <= at < start + 60 for at in allowed) <= 2 * per_minute


def test_the_wait_that_is_told_is_enough() -> None:
    clock = Clock()
    rate = Rate(3, clock)
    assert [rate.wait("a") for _ in range(3)] == [0, 0, 0]
    wait = rate.wait("a")
    assert wait > 0
    assert rate.wait("b") == 0, "others are not affected"
    clock.now += wait + 1e-6
    assert rate.wait("a") == 0


def test_asking_without_spending_changes_nothing() -> None:
    rate = Rate(1, Clock())
    assert all(rate.wait("a", spend=False) == 0 for _ in range(5))
    assert rate.wait("a") == 0
    assert rate.wait("a", spend=False) > 0


def test_memory_of_keys_is_bounded() -> None:
    rate = Rate(5, Clock())
    for number in range(limits.REMEMBERED + 50):
        rate.wait(str(number))
    assert len(rate._left) == limits.REMEMBERED


def test_places_are_counted_per_key_and_in_all_and_given_back() -> None:
    places = Places(3, 2)
    with places.take("a"), places.take("a"):
        with pytest.raises(Full), places.take("a"):
            pass
        with places.take("b"), pytest.raises(Full), places.take("c"):
            pass
        assert places.taken == 2
    assert places.taken == 0
    with pytest.raises(ZeroDivisionError), places.take("a"):
        raise ZeroDivisionError
    assert places.taken == 0


def test_a_slow_upload_runs_out_of_patience() -> None:
    clock = Clock()
    pace = Pace(1000, 10, 100, clock)
    assert pace.patience() == 10
    pace.add(20_000)
    clock.now = 15
    assert pace.patience() == 5, "it is ahead of its time"
    clock.now = 21
    assert pace.patience() < 0
    pace.add(10**9)
    clock.now = 101
    assert pace.patience() < 0, "nothing may take longer than the longest time"
