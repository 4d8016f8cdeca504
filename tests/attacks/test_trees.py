from __future__ import annotations

import numpy as np

from videoveil.attacks.trees import TreeAttacker

from .synthetic import HELD_OUT, TEST, TRAIN, VALIDATION


def test_an_attribute_of_which_training_knows_one_value_is_that_value() -> None:
    y = TRAIN.y.copy()
    y[:, 1] = 1.0
    y[:10, 1] = np.nan
    fitted = TreeAttacker(rounds=5).fit(TRAIN.x, y, HELD_OUT)
    assert np.array_equal(fitted.scores(TEST.x)[:, 1], np.ones(len(TEST.x)))
    assert fitted.facts["rounds"][1] == 0


def test_boosting_ends_when_validation_stops_improving() -> None:
    rounds = TreeAttacker(rounds=200, rate=0.3).fit(TRAIN.x, TRAIN.y, HELD_OUT).facts["rounds"]
    assert all(count < 200 for count in rounds)
    assert TreeAttacker(rounds=7).fit(TRAIN.x, TRAIN.y).facts["rounds"] == [7, 7]


def test_validation_classes_that_training_has_not_are_passed_over() -> None:
    identity = VALIDATION.identity.copy()
    identity[:20] = 99
    seen = TRAIN.identity != 2
    fitted = TreeAttacker(rounds=5).fit(TRAIN.x[seen], TRAIN.identity[seen], (VALIDATION.x, identity))
    assert fitted.classes is not None
    assert fitted.classes.tolist() == [0, 1, 3, 4]
    assert np.allclose(fitted.scores(TEST.x).sum(1), 1)


def test_unknown_validation_values_are_passed_over() -> None:
    y_val = VALIDATION.y.copy()
    y_val[:, 0] = np.nan
    y_val[:50, 1] = np.nan
    rounds = TreeAttacker(rounds=40).fit(TRAIN.x, TRAIN.y, (VALIDATION.x, y_val)).facts["rounds"]
    assert rounds[0] == 40  # nothing to stop by
