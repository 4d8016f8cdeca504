"""Areas under the curves: golden values, slow twins, scikit-learn as the reference, ties and edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from videoveil.tasks.metrics import average_precision, pr_auc, roc_auc

TRUTH = np.array([0, 0, 1, 1, 0, 1])
SCORES = np.array([0.1, 0.4, 0.35, 0.8, 0.4, 0.4])

# few distinct values, so that ties are common
rated = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6)), min_size=2, max_size=40)


def split(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    truth, scores = (np.array(column) for column in zip(*pairs))
    return truth, scores / 7


def test_golden_areas() -> None:
    assert roc_auc(TRUTH, SCORES) == pytest.approx(0.666667, abs=1e-6)
    assert pr_auc(TRUTH, SCORES) == pytest.approx(0.766667, abs=1e-6)
    assert average_precision(TRUTH, SCORES) == pytest.approx(
        reference.average_precision_score(TRUTH, SCORES), abs=1e-12
    )
    assert average_precision(TRUTH, SCORES) != pytest.approx(0.766667, abs=1e-3)


@settings(max_examples=150, deadline=None)
@given(rated)
def test_roc_is_the_chance_that_an_abnormal_frame_scores_higher(pairs: list[tuple[int, int]]) -> None:
    truth, scores = split(pairs)
    ups, downs = scores[truth == 1], scores[truth == 0]
    if len(ups) == 0 or len(downs) == 0:
        assert roc_auc(truth, scores) is None
        return
    wins = [1.0 if u > d else 0.5 if u == d else 0.0 for u in ups for d in downs]
    assert roc_auc(truth, scores) == pytest.approx(sum(wins) / len(wins), abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(rated)
def test_precision_recall_areas_equal_slow_twins(pairs: list[tuple[int, int]]) -> None:
    truth, scores = split(pairs)
    if not truth.any():
        assert pr_auc(truth, scores) is None
        assert average_precision(truth, scores) is None
        return
    recall, precision, trapezoids, steps = 0.0, 1.0, 0.0, 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        hit = scores >= threshold
        now_precision, now_recall = truth[hit].mean(), truth[hit].sum() / truth.sum()
        trapezoids += (now_recall - recall) * (precision + now_precision) / 2
        steps += (now_recall - recall) * now_precision
        recall, precision = now_recall, now_precision
    assert pr_auc(truth, scores) == pytest.approx(trapezoids, abs=1e-12)
    assert average_precision(truth, scores) == pytest.approx(steps, abs=1e-12)


def test_a_large_vector_agrees_with_scikit_learn() -> None:
    random = np.random.default_rng(0)
    truth = (random.random(50_000) < 0.08).astype(np.float32)
    scores = (random.random(50_000) + 0.2 * truth).astype(np.float32).round(3)
    precision, recall, _ = reference.precision_recall_curve(truth, scores)
    assert roc_auc(truth, scores) == pytest.approx(reference.roc_auc_score(truth, scores), abs=1e-9)
    assert pr_auc(truth, scores) == pytest.approx(reference.auc(recall, precision), abs=1e-9)
    expected = reference.average_precision_score(truth, scores)
    assert average_precision(truth, scores) == pytest.approx(expected, abs=1e-9)


def test_the_order_of_frames_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(6)
    for area in (roc_auc, pr_auc, average_precision):
        assert area(TRUTH, SCORES) == area(TRUTH[order], SCORES[order])


def test_a_constant_score_is_chance() -> None:
    truth = np.array([1, 0, 0, 0])
    assert roc_auc(truth, np.full(4, 0.3)) == 0.5
    assert average_precision(truth, np.full(4, 0.3)) == 0.25


def test_lengths_and_numbers_are_checked() -> None:
    with pytest.raises(ValueError, match="one length"):
        roc_auc(TRUTH, SCORES[:5])
    with pytest.raises(ValueError, match="finite"):
        pr_auc(TRUTH, np.full(6, np.nan))
