from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances

from videoveil.attacks import attacker
from videoveil.attacks.inputs import ROUNDING, whitened
from videoveil.attacks.kernel import KernelAttacker

from .synthetic import HELD_OUT, TEST, TRAIN


def test_without_limits_it_is_kernel_ridge_regression() -> None:
    """Centred targets and coordinates: the intercept that plain kernel ridge regression lacks."""
    settings = KernelAttacker(directions=(8,), widths=(1.0,), penalties=(0.3,))
    found = settings.fit(TRAIN.x, TRAIN.y).scores(TEST.x)
    scaling = whitened(TRAIN.x, 8, floor=ROUNDING)
    train, test = scaling(TRAIN.x), scaling(TEST.x)
    scale = 1 / euclidean_distances(train, squared=True).mean()

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.exp(-scale * euclidean_distances(a, b, squared=True))

    among, towards = kernel(train, train), kernel(test, train)
    column = among.mean(0)
    centred = among - column - column[:, None] + among.mean()
    centred_test = towards - towards.mean(1, keepdims=True) - column + among.mean()
    twin = KernelRidge(alpha=0.3, kernel="precomputed").fit(centred, TRAIN.y - TRAIN.y.mean(0))
    values = twin.predict(centred_test) + TRAIN.y.mean(0)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-4 * (values - 0.5))), atol=1e-5)


def test_it_finds_what_no_line_can_tell() -> None:
    reports = {
        kind: attacker(kind).fit(TRAIN.x, TRAIN.y, HELD_OUT).report(TEST.x, TEST.y)
        for kind in ("kernel", "linear")
    }
    crossed = {kind: report.attributes[1].ap for kind, report in reports.items()}  # type: ignore[union-attr]
    assert crossed["kernel"] > 0.85 > 0.65 > crossed["linear"]  # type: ignore[operator]


def test_fewer_landmarks_than_rows_still_learn_from_all_rows() -> None:
    few = KernelAttacker(landmarks=100).fit(TRAIN.x, TRAIN.y, HELD_OUT, seed=1)
    again = KernelAttacker(landmarks=100).fit(TRAIN.x, TRAIN.y, HELD_OUT, seed=1)
    np.testing.assert_array_equal(few.scores(TEST.x), again.scores(TEST.x))
    subset = KernelAttacker().fit(TRAIN.x[:100], TRAIN.y[:100], HELD_OUT)
    assert few.report(TEST.x, TEST.y).score > subset.report(TEST.x, TEST.y).score  # type: ignore[operator]


def test_what_is_unknown_has_no_say() -> None:
    y = TRAIN.y.copy()
    y[::3, 1] = np.nan
    report = attacker("kernel").fit(TRAIN.x, y, HELD_OUT).report(TEST.x, TEST.y)
    assert report.attributes[1].ap > 0.8  # type: ignore[union-attr, operator]


@pytest.mark.parametrize("count", [1, 4])
def test_scores_of_classes_are_shares(count: int) -> None:
    fitted = attacker("kernel").fit(TRAIN.x, TRAIN.identity)
    scores = fitted.scores(TEST.x[:count])
    np.testing.assert_allclose(scores.sum(1), 1)
    assert (fitted.scores(TEST.x).argmax(1) == TEST.identity).mean() > 0.5
