from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from videoveil.attacks import linear
from videoveil.attacks.inputs import standard
from videoveil.attacks.linear import LinearAttacker

from .synthetic import HELD_OUT, TEST, TRAIN, VALIDATION


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - TRAIN.x.mean(0)) / TRAIN.x.std(0)


@pytest.mark.parametrize("penalty", [1e-3, 1e-2, 1.0])
def test_it_is_scikit_learns_logistic_regression(penalty: float) -> None:
    fitted = LinearAttacker(fallback=penalty / 2).fit(TRAIN.x, TRAIN.y)
    for i in range(2):
        # the mean loss over both attributes halves each one's weight against the penalty
        twin = LogisticRegression(C=1 / (penalty * len(TRAIN.x)), tol=1e-8, max_iter=1000)
        twin.fit(standardised(TRAIN.x), TRAIN.y[:, i])
        expected = twin.predict_proba(standardised(TEST.x))[:, 1]
        assert np.abs(fitted.scores(TEST.x)[:, i] - expected).max() < 2e-3


def test_classes_are_scikit_learns_too() -> None:
    fitted = LinearAttacker(fallback=1e-2).fit(TRAIN.x, TRAIN.identity)
    twin = LogisticRegression(C=1 / (1e-2 * len(TRAIN.x)), tol=1e-8, max_iter=1000)
    twin.fit(standardised(TRAIN.x), TRAIN.identity)
    assert np.abs(fitted.scores(TEST.x) - twin.predict_proba(standardised(TEST.x))).max() < 2e-3


def test_penalty_and_inputs_are_those_that_do_best_on_validation() -> None:
    penalties = (1e-4, 1e-2, 1.0)
    fitted = LinearAttacker(penalties=penalties).fit(TRAIN.x, TRAIN.y, HELD_OUT)
    found = [a.ap for a in fitted.report(*HELD_OUT).attributes]  # type: ignore[union-attr]
    for penalty in penalties:
        other = LinearAttacker(fallback=penalty).fit(TRAIN.x, TRAIN.y).report(VALIDATION.x, VALIDATION.y)
        # the attribute that a line can tell
        assert found[0] >= other.attributes[0].ap - 2e-3  # type: ignore[operator, union-attr]
    assert len(fitted.facts["penalty"]) == 2


def test_once_everything_is_chosen_validation_rows_are_learnt_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "INPUTS", {"standard": standard})
    chosen = LinearAttacker(penalties=(0.1,)).fit(TRAIN.x, TRAIN.y, HELD_OUT)
    x, y = np.concatenate((TRAIN.x, VALIDATION.x)), np.concatenate((TRAIN.y, VALIDATION.y))
    plain = LinearAttacker(fallback=0.1).fit(x, y)
    np.testing.assert_allclose(chosen.scores(TEST.x), plain.scores(TEST.x), atol=1e-5)
