"""Scores of attackers against scikit-learn, their chance levels, and what is left undefined."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from videoveil.attacks.metrics import attribute_report, average_precision, class_report, f1
from videoveil.errors import UsageError

VISPR_TEST_RATES = (0.4726, 0.4644, 0.3490, 0.2908, 0.0548, 0.0316, 0.0711)


def drawn(seed: int, count: int, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = (rng.random(count) < 0.3).astype(float)
    scores = rng.random(count)
    return truth, np.round(scores, 1) if ties else scores


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), ties=st.booleans())
@settings(max_examples=150, deadline=None)
def test_average_precision_is_scikit_learns(seed: int, count: int, ties: bool) -> None:
    truth, scores = drawn(seed, count, ties)
    found = average_precision(truth, scores)
    if truth.any():
        assert found == pytest.approx(reference.average_precision_score(truth, scores), abs=1e-12)
    else:
        assert found is None


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_f1_is_scikit_learns(seed: int, count: int) -> None:
    truth, scores = drawn(seed, count, ties=True)
    said = scores > 0.5
    if truth.any() or said.any():
        assert f1(truth, said) == pytest.approx(reference.f1_score(truth, said, zero_division=0), abs=1e-12)
    else:
        assert f1(truth, said) is None


def test_golden_average_precision() -> None:
    assert average_precision(np.array([1, 0, 1, 0]), np.array([0.9, 0.8, 0.7, 0.1])) == pytest.approx(
        (1 + 2 / 3) / 2
    )


def test_a_constant_predictor_scores_the_positive_rate() -> None:
    """24.8 % with the rates of VISPR's test images."""
    truth = np.stack([np.arange(10_000) < 10_000 * rate for rate in VISPR_TEST_RATES], 1).astype(float)
    found = attribute_report(truth, np.full(truth.shape, 0.3))
    assert found.cmap == pytest.approx(np.mean(VISPR_TEST_RATES), abs=1e-4)
    assert found.cmap == pytest.approx(0.248, abs=1e-3)
    assert found.chance == pytest.approx(found.cmap)


def test_a_predictor_that_knows_nothing_but_is_never_twice_the_same_scores_it_too() -> None:
    """Ties do not decide it: whoever adds noise gets the positive rate as well, up to luck."""
    dice = np.random.default_rng(5)
    truth = np.stack([np.arange(8000) < 8000 * rate for rate in VISPR_TEST_RATES], 1).astype(float)
    found = attribute_report(truth, 0.3 + 0.1 * dice.standard_normal(truth.shape))
    assert found.cmap == pytest.approx(0.248, abs=0.01)


def test_attribute_report_is_the_mean_over_attributes_of_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    truth, scores = (rng.random((200, 4)) < 0.4).astype(float), rng.random((200, 4))
    found = attribute_report(truth, scores, ["a", "b", "c", "d"])
    assert found.cmap == pytest.approx(reference.average_precision_score(truth, scores, average="macro"))
    assert found.f1 == pytest.approx(reference.f1_score(truth, scores > 0.5, average="macro"))
    everything = reference.f1_score(truth, np.ones_like(truth), average="macro")
    assert found.f1_chance == pytest.approx(everything)
    assert [a.name for a in found.attributes] == ["a", "b", "c", "d"]
    assert found.score == found.cmap


def test_unknown_values_are_left_out_of_their_attribute_only() -> None:
    rng = np.random.default_rng(1)
    truth, scores = (rng.random((100, 2)) < 0.4).astype(float), rng.random((100, 2))
    gaps = truth.copy()
    gaps[:40, 1] = np.nan
    found = attribute_report(gaps, scores)
    assert found.attributes[0].ap == pytest.approx(
        reference.average_precision_score(truth[:, 0], scores[:, 0])
    )
    assert found.attributes[1].ap == pytest.approx(
        reference.average_precision_score(truth[40:, 1], scores[40:, 1])
    )
    assert [a.known for a in found.attributes] == [100, 60]


def test_an_attribute_without_positives_has_no_score_and_no_part_in_the_mean() -> None:
    truth = np.array([[0.0, 1.0, np.nan], [0.0, 0.0, np.nan]])
    found = attribute_report(truth, np.array([[0.2, 0.9, 0.1], [0.1, 0.1, 0.1]]))
    assert [a.ap for a in found.attributes] == [None, 1.0, None]
    assert found.cmap == 1.0
    assert found.chance == 0.5
    nothing = attribute_report(truth[:, :1], np.zeros((2, 1)))
    assert (nothing.cmap, nothing.chance) == (None, None)


@given(seed=st.integers(0, 10**5), classes=st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_class_report_is_scikit_learns(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.concatenate((np.arange(classes), rng.integers(0, classes, 40))).astype(float)
    scores = rng.random((len(truth), classes))
    found = class_report(truth, scores, np.arange(classes, dtype=float))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one_hot = truth[:, None] == np.arange(classes)
        assert found.macro_ap == pytest.approx(
            reference.average_precision_score(one_hot, scores, average="macro")
        )
    assert found.accuracy == pytest.approx(reference.accuracy_score(truth, scores.argmax(1)))
    assert found.chance == pytest.approx(1 / classes)
    assert found.accuracy_chance == pytest.approx(one_hot.mean(0).max())


def test_classes_may_have_any_numbers_and_unknown_ones_do_not_count() -> None:
    truth = np.array([7.0, 3.0, 7.0, -1.0, np.nan])
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4], [1, 0], [1, 0]])
    found = class_report(truth, scores, np.array([3.0, 7.0]))
    assert (found.rows, found.classes) == (3, 2)
    assert found.accuracy == pytest.approx(2 / 3)


def test_a_class_the_attacker_never_saw_counts_as_missed() -> None:
    truth = np.array([0.0, 1.0, 5.0, 5.0])
    scores = np.array([[1, 0], [0, 1], [1, 0], [0.5, 0.5]])
    found = class_report(truth, scores, np.array([0.0, 1.0]))
    assert found.accuracy == 0.5
    assert found.classes == 3
    assert found.macro_ap == pytest.approx((0.5 + 1 + 0.5) / 3)


def test_misuse_is_named() -> None:
    ones = np.ones((3, 2))
    for call, message in (
        (lambda: attribute_report(ones, ones[:2]), "of one shape"),
        (lambda: attribute_report(ones, ones * np.nan), "NaN"),
        (lambda: attribute_report(ones, ones, ["a"]), "1 names for 2"),
        (lambda: class_report(np.zeros(3), ones, np.arange(3.0)), r"\(3, 3\)"),
        (lambda: class_report(np.full(3, -1.0), ones, np.arange(2.0)), "no row has a known class"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
