from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.audit.outcomes import RULES, N, right, seeds
from videoveil.audit.draws import Draws, advantage, draw
from videoveil.audit.rules import Rules
from videoveil.tasks.outcomes import MeanOutcome


def slow_draws(outcomes: Sequence[Any], draws: Draws) -> np.ndarray:
    """(B,): every draw written out, seed by seed."""
    found = []
    for often, taken in zip(draws.counts(outcomes[0].items), draws.seeds(len(outcomes))):
        items = np.repeat(np.arange(len(often)), often.astype(int))
        found.append(np.mean([outcomes[s].measure(items).value for s in taken]))
    return np.array(found)


@pytest.mark.parametrize("outcomes", [seeds(0.5, 0.3), right(0.7)])
def test_draws_take_seeds_and_items_with_repeats(outcomes: list[Any]) -> None:
    draws = Draws(Rules(resamples=100), 4)
    fast, _ = draw(outcomes, draws)
    assert fast.values == pytest.approx(slow_draws(outcomes, draws))
    assert fast.value == pytest.approx(np.mean([one.measure().value for one in outcomes]))


def test_people_are_drawn_with_all_of_their_videos() -> None:
    items = tuple(f"v{i}" for i in range(12))
    people = {
        item: f"p{i // 3}" for i, item in enumerate(items[:9])
    }  # of the last three nobody knows who it is
    counts = Draws(RULES, people=people).counts(items)
    together = counts[:, :9].reshape(len(counts), 3, 3)
    assert (together == together[:, :, :1]).all()
    drawn = np.concatenate((together[:, :, 0], counts[:, 9:]), 1)
    assert (drawn.sum(1) == 6).all()  # three people, and three videos that stand for themselves
    assert (np.diff(counts[:, 9:]) != 0).any()


def test_many_videos_of_few_people_leave_as_much_doubt_as_few_videos() -> None:
    """Heads or tails by person, ten videos of each of eight people: most intervals must have ½ in them."""
    rng = np.random.default_rng(0)
    ids = tuple(f"v{i}" for i in range(80))
    people = {item: f"p{i // 10}" for i, item in enumerate(ids)}
    covered = {"people": 0, "videos": 0}
    for trial in range(100):
        values = np.repeat(rng.integers(0, 2, 8), 10).astype(float)
        one = MeanOutcome("top1", ids, values, np.full(80, 0.5))
        for kind, known in (("people", people), ("videos", {})):
            draws = Draws(RULES, trial, known)
            found = draw([one], draws)[0].found(draws).score
            covered[kind] += (found.low or 0) <= 0.5 <= (found.high or 0)
    assert covered["people"] >= 85
    assert covered["videos"] <= 60  # what it would be if videos were drawn


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """The share of heads of a coin of ½, 40 throws: most of 100 intervals have ½ in them."""
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(100):
        values = rng.integers(0, 2, N).astype(float)
        one = MeanOutcome("top1", tuple(f"{trial} {i}" for i in range(N)), values, np.full(N, 0.5))
        found = draw([one], Draws(RULES, trial))[0].found(Draws(RULES, trial)).score
        covered += (found.low or 0) <= 0.5 <= (found.high or 0)
    assert 88 <= covered <= 100


def test_advantage_is_nothing_at_chance_and_one_at_the_top() -> None:
    assert advantage(np.array([0.3, 1.0]), np.array([0.3, 0.3])) == pytest.approx([0, 1])
