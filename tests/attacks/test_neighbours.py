from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from videoveil.attacks import attacker
from videoveil.attacks.neighbours import NeighbourAttacker

from .synthetic import HELD_OUT, TEST, TRAIN


@pytest.mark.parametrize("gaps", [False, True])
def test_scores_are_the_weighted_votes_of_the_nearest_known_rows(gaps: bool) -> None:
    y = TRAIN.y.copy()
    if gaps:
        y[::3, 1] = np.nan
    found = NeighbourAttacker(fallback=7).fit(TRAIN.x, y).scores(TEST.x[:30])
    mean, spread = TRAIN.x.mean(0), TRAIN.x.std(0)
    for i in range(2):
        known = ~np.isnan(y[:, i])
        twin = NearestNeighbors(n_neighbors=7).fit((TRAIN.x[known] - mean) / spread)
        distance, nearest = twin.kneighbors((TEST.x[:30] - mean) / spread)
        for row in range(30):
            weights = [1 / (d + 1e-9 + 1e-3 * distance[row].mean()) for d in distance[row]]
            votes = y[known, i][nearest[row]]
            slow = sum(w * v for w, v in zip(weights, votes)) / sum(weights)
            assert found[row, i] == pytest.approx(slow, abs=1e-6)


def test_a_row_that_was_trained_on_is_recognised() -> None:
    scores = NeighbourAttacker(fallback=5).fit(TRAIN.x, TRAIN.y).scores(TRAIN.x)
    assert ((scores > 0.5) == (TRAIN.y > 0)).mean() > 0.99


def test_the_number_of_neighbours_is_chosen_for_every_attribute() -> None:
    fitted = attacker("knn").fit(TRAIN.x, TRAIN.y, HELD_OUT)
    mine = [a.ap for a in fitted.report(*HELD_OUT).attributes]  # type: ignore[union-attr]
    for k in (1, 5, 15, 45):
        other = NeighbourAttacker(fallback=k).fit(TRAIN.x, TRAIN.y).report(*HELD_OUT)
        assert all(a >= b.ap - 1e-12 for a, b in zip(mine, other.attributes))  # type: ignore[union-attr, operator]


def test_fewer_rows_than_neighbours_all_vote() -> None:
    assert NeighbourAttacker().fit(TRAIN.x[:4], TRAIN.y[:4]).scores(TEST.x[:2]).shape == (2, 2)
    assert NeighbourAttacker().fit(TRAIN.x[:4], TRAIN.y[:4]).scores(TEST.x[:0]).shape == (0, 2)
