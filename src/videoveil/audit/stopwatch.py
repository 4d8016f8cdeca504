"""How long an attack takes, found out by beginning it: each of its trainings is stopped once its pace is known."""

from __future__ import annotations

import time
from collections.abc import Callable

from videoveil.training.supervised import Enough

TRYING = 2.0  # seconds of steps after the first one, from which the rest of a training is reckoned


class Stopwatch:
    """A progress callback. An attack may train several networks one after the other: all of them are begun.

    `seconds` is what has passed plus what was cut off. Trainings that go by the supervised loop end where they are
    stopped and the attack goes on; from other ones `Enough` comes out.
    """

    def __init__(self, trying: float = TRYING, clock: Callable[[], float] = time.perf_counter):
        self.trying, self.clock = trying, clock
        self.began = clock()
        self.cut_off = 0.0  # seconds that the stopped trainings would have taken
        self._first: tuple[float, int] | None = None  # of the training at work: when its first step ended
        self._last = 0

    def __call__(self, done: int, total: int, value: float) -> None:
        now = self.clock()
        if self._first is None or done <= self._last:  # another training
            self._first = (now, done)
        self._last = done
        moment, step = self._first
        if now - moment >= self.trying and done > step:
            self.cut_off += (now - moment) / (done - step) * (total - done)
            self._first = None
            raise Enough

    @property
    def seconds(self) -> float:
        return self.clock() - self.began + self.cut_off

    def learnt(self) -> None:
        """Between learning and scoring: with half-trained networks there is nothing to score."""
        if self.cut_off:
            raise Enough
