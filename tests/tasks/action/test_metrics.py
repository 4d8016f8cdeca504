"""Accuracies and cMAP, against twins that count one video at a time, and the levels of a blind guess."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from videoveil.tasks.action.metrics import Prior, rank_of_truth, score, top
from videoveil.tasks.targets import Targets

NAMES = tuple("abcdefgh")


def right_within(row: list[float], truth: int, count: int) -> bool:
    """The slow, obvious twin: fewer than `count` other classes are at least as probable as the true one."""
    rivals = [other for other in range(len(row)) if other != truth and row[other] >= row[truth]]
    return len(rivals) < count


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.integers(2, 8), st.integers(0, 10**6), st.booleans())
def test_accuracies_equal_counting_by_hand(videos: int, classes: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(0, 3, (videos, classes)) / 3 if ties else rng.random((videos, classes))
    truth, known = rng.integers(0, classes, videos), rng.integers(0, classes, 40)
    prior = Prior.of(Targets(NAMES[:classes], known))
    found = score("action", probabilities, Targets(NAMES[:classes], truth), prior)
    rows = probabilities.tolist()
    few = min(5, classes)
    assert found.items == videos
    assert found.headline.name == "top1"
    assert found["top1"].value == pytest.approx(
        sum(right_within(r, t, 1) for r, t in zip(rows, truth)) / videos
    )
    assert found["top5"].value == pytest.approx(
        sum(right_within(r, t, few) for r, t in zip(rows, truth)) / videos
    )
    own = {
        c: [right_within(r, t, 1) for r, t in zip(rows, truth) if t == c] for c in sorted(set(truth.tolist()))
    }
    means = {c: sum(values) / len(values) for c, values in own.items()}
    assert found["mean_per_class"].value == pytest.approx(sum(means.values()) / len(means))
    assert found["mean_per_class"].chance == pytest.approx(1 / len(means))
    assert {name: row["accuracy"] for name, row in found.per_class.items()} == {
        NAMES[c]: pytest.approx(value) for c, value in means.items()
    }
    assert sum(row["videos"] or 0 for row in found.per_class.values()) == videos
    # chance: the classes that training showed most often, whatever the video
    common = sorted(range(classes), key=lambda c: (-list(known).count(c), c))
    assert found["top1"].chance == pytest.approx(sum(t == common[0] for t in truth) / videos)
    assert found["top5"].chance == pytest.approx(sum(t in common[:few] for t in truth) / videos)


def test_a_model_that_says_the_same_of_all_classes_is_never_right() -> None:
    found = score("action", np.full((6, 4), 0.25), Targets(NAMES[:4], np.arange(6) % 4), Prior((0.25,) * 4))
    assert found["top1"].value == 0
    assert rank_of_truth(np.array([[0.5, 0.5, 0.1]]), np.array([0])).tolist() == [1]
    assert rank_of_truth(np.array([[0.6, 0.5, 0.1]]), np.array([0])).tolist() == [0]


def test_the_guess_comes_from_training_not_from_the_test() -> None:
    truth = Targets(("a", "b"), np.array([1, 1, 1, 0]))
    assert score("action", np.eye(2)[truth.values], truth, Prior((0.9, 0.1)))["top1"].chance == 0.25
    assert score("action", np.eye(2)[truth.values], truth, Prior((0.1, 0.9)))["top1"].chance == 0.75


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_cmap_is_scikit_learns_over_the_tags_that_occur(
    videos: int, tags: int, seed: int, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.random((videos, tags)) < 0.3).astype(np.float32)
    values[0, 0] = 1
    scores = rng.integers(0, 4, (videos, tags)) / 4 if ties else rng.random((videos, tags))
    labels = Targets(NAMES[:tags], values)
    found = score("action", scores, labels, Prior.of(labels))
    there = [t for t in range(tags) if values[:, t].any()]
    expected = {t: average_precision_score(values[:, t], scores[:, t]) for t in there}
    assert found.headline.name == "cmap"
    assert found.headline.value == pytest.approx(np.mean(list(expected.values())))
    assert found.headline.chance == pytest.approx(np.mean([values[:, t].mean() for t in there]))
    for t in range(tags):
        ap = found.per_class[NAMES[t]]["ap"]
        assert ap == (pytest.approx(expected[t]) if t in there else None)


def test_tags_that_no_test_video_has_leave_cmap_undefined_instead_of_failing() -> None:
    labels = Targets(("a",), np.zeros((3, 1), np.float32))
    assert score("action", np.ones((3, 1)), labels, Prior((0.5,))).headline.value is None


def test_the_most_probable_names_come_first_and_the_first_of_equals_first() -> None:
    assert top([0.1, 0.4, 0.4, 0.1], NAMES[:4], 3) == [("b", 0.4), ("c", 0.4), ("a", 0.1)]
    assert len(top([0.2] * 8, NAMES)) == 5
