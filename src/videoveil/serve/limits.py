"""How often and how many: token buckets and counted places, both of bounded size."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REMEMBERED = 10_000  # keys; who was not seen for longest is forgotten, which only ever gives a full bucket


class Rate:
    """At most `per_minute` per key, all at once if the minute before was quiet."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic):
        self.per_minute, self._clock = per_minute, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key → what is left, as of when

    def wait(self, key: str, *, spend: bool = True) -> float:
        """Seconds until `key` may again; 0: now, and that is counted if `spend`."""
        now = self._clock()
        left, since = self._left.pop(key, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - since) * self.per_minute / 60)
        allowed = left >= 1
        self._left[key] = (left - 1 if allowed and spend else left, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self.per_minute


class Full(Exception):
    """No place is left."""


class Places:
    """Places that are taken for a while: so many in all, and so many per key."""

    def __init__(self, total: int, per_key: int):
        self.total, self.per_key = total, per_key
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        return self._taken.total()

    def of(self, key: str) -> int:
        return self._taken[key]

    def full(self, key: str) -> bool:
        return self.taken >= self.total or self._taken[key] >= self.per_key

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        if self.full(key):
            raise Full
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            if not self._taken[key]:
                del self._taken[key]


class Pace:
    """Whether something that arrives in pieces arrives fast enough, and in time."""

    def __init__(self, least: int, grace: float, seconds: float, clock: Callable[[], float] = time.monotonic):
        self.least, self.grace, self.seconds, self._clock = least, grace, seconds, clock
        self._begun, self._bytes = clock(), 0

    def add(self, count: int) -> None:
        self._bytes += count

    def patience(self) -> float:
        """Seconds to wait for the next piece; 0 or less: it is too slow by now.

        After `grace`, the average since the beginning must be at least `least` bytes per second. Until when that holds
        without another byte is known in advance, so one deadline per piece is enough.
        """
        spent = self._clock() - self._begun
        due = max(self.grace, self._bytes / self.least)
        return min(due, self.seconds) - spent
