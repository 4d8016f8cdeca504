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
    for items, taken in zip(draws.items(outcomes[0].items), draws.seeds(len(outcomes))):
        found.append(np.mean([outcomes[s].measure(items).value for s in taken]))
    return np.array(found)


@pytest.mark.parametrize("outcomes", [seeds(0.5, 0.3), right(0.7)])
def test_draws_take_seeds_and_items_with_repeats(outcomes: list[Any]) -> None:
    draws = Draws(Rules(resamples=100), 4)
    fast, _ = draw(outcomes, draws)
    assert fast.values == pytest.approx(slow_draws(outcomes, draws))
    assert fast.value == pytest.approx(np.mean([one.measure().value for one in outcomes]))


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
