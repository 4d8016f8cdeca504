from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from videoveil import devices
from videoveil.audit.plan import SCORING, cost
from videoveil.audit.stopwatch import Stopwatch
from videoveil.training.supervised import Batch, Batches, Enough, Loop, Schedule, cross_entropy


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_training_is_stopped_once_its_cost_is_known() -> None:
    clock, steps = Clock(), []
    watch = Stopwatch(2.0, clock)
    clock.now = 5.0  # setting up
    with pytest.raises(Enough):
        for step in range(1, 101):
            clock.now += 1.0
            steps.append(step)
            watch(step, 100, 0.0)
    assert len(steps) == 3
    assert watch.seconds == 5 + 100


def test_every_training_of_an_attack_is_reckoned() -> None:
    clock = Clock()
    watch = Stopwatch(2.0, clock)
    for total, pace in ((100, 1.0), (100, 3.0), (40, 0.5)):
        with pytest.raises(Enough):
            for step in range(1, total + 1):
                clock.now += pace
                watch(step, total, 0.0)
    clock.now += 7.0  # something beside them
    assert watch.seconds == 100 + 300 + 20 + 7
    with pytest.raises(Enough):
        watch.learnt()


def test_a_training_that_ends_by_itself_counts_as_it_was() -> None:
    clock = Clock()
    watch = Stopwatch(2.0, clock)
    for step in (1, 2):
        clock.now += 0.5
        watch(step, 2, 0.0)
    with pytest.raises(Enough):
        for step in range(1, 11):
            clock.now += 2.0
            watch(step, 10, 0.0)
    assert watch.seconds == 1 + 20


class Rows(Batches):
    """Two classes of points, one batch after the other."""

    steps = 25

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        for _ in range(self.steps):
            yield Batch(torch.randn(8, 4), torch.arange(8) % 2, 8, ())


def one_training(watch: Stopwatch, clock: Clock, epochs: int) -> list[dict[str, float]]:
    def tell(done: int, total: int, value: float) -> None:
        clock.now += 1.0
        watch(done, total, value)

    schedule = Schedule(epochs=epochs, batch=8, learning_rate=0.1)
    fabric = devices.make_fabric("cpu", "32-true")
    return Loop(nn.Linear(4, 2), Rows(), cross_entropy, schedule, 0, fabric, None, progress=tell).run()


def test_the_supervised_loop_ends_where_it_is_stopped_and_what_follows_goes_on() -> None:
    clock = Clock()
    watch = Stopwatch(2.0, clock)
    assert one_training(watch, clock, 4) == []
    assert one_training(watch, clock, 2) == []
    assert clock.now == 6  # three steps of each
    assert watch.seconds == 4 * 25 + 2 * 25


def test_what_half_trained_networks_say_is_never_an_answer() -> None:
    clock = Clock()

    def attack(progress):  # type: ignore[no-untyped-def]
        for step in range(1, 4):
            clock.now += 1
            try:
                progress(step, 1000, 0.0)
            except Enough:
                break
        return {"somebody": np.zeros(3)}

    seconds, found = cost(attack, trying=0.0)
    assert found is None
    assert seconds > 0
    assert SCORING > 1
