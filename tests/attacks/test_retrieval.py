from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.attacks.retrieval import (
    blind,
    bridge,
    cosine,
    discriminant,
    equal_error,
    hits,
    learn,
    precisions,
    precisions_by_chance,
)
from videoveil.errors import UsageError


def slow_cosine(u: np.ndarray, v: np.ndarray) -> float:
    length = math.sqrt(sum(a * a for a in u)) * math.sqrt(sum(b * b for b in v))
    return sum(a * b for a, b in zip(u, v)) / length if length else 0.0


def slow_hits(likeness: np.ndarray, same: np.ndarray, allowed: np.ndarray) -> list[float]:
    """One probe after the other, one gallery row after the other."""
    found = []
    for i in range(len(likeness)):
        best, right, tied = -math.inf, 0, 0
        for j in range(likeness.shape[1]):
            if not allowed[i, j]:
                continue
            if likeness[i, j] > best:
                best, right, tied = likeness[i, j], 0, 0
            if likeness[i, j] == best:
                tied += 1
                right += int(same[i, j])
        found.append(right / tied)
    return found


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 99]),
)
def test_hits_are_those_of_the_slow_search(p: int, g: int, people: int, seed: int, values: int) -> None:
    """With few values there are ties."""
    rng = np.random.default_rng(seed)
    likeness = rng.integers(values, size=(p, g)) / 7
    same = rng.integers(people, size=p)[:, None] == rng.integers(people, size=g)[None, :]
    allowed = rng.random((p, g)) < 0.7
    allowed[:, rng.integers(g)] = True
    assert hits(likeness, same, allowed).tolist() == pytest.approx(slow_hits(likeness, same, allowed))
    everything = np.ones_like(same)
    assert hits(likeness, same).tolist() == pytest.approx(slow_hits(likeness, same, everything))
    assert blind(same, allowed).tolist() == pytest.approx(
        [sum(s and a for s, a in zip(*rows)) / sum(rows[1]) for rows in zip(same, allowed)]
    )


def test_cosine_is_that_of_the_slow_sum_and_zeros_are_like_nothing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 5)), rng.normal(size=(3, 5))
    y[1] = 0
    expected = [[slow_cosine(u, v) for v in y] for u in x]
    assert cosine(x, y) == pytest.approx(np.array(expected))
    assert cosine(7 * x, 0.1 * y) == pytest.approx(np.array(expected))


def test_features_that_say_nothing_are_worth_a_blind_guess_in_any_order_of_the_gallery() -> None:
    people = np.array([0, 0, 0, 1, 2, 2])
    same = np.array([0, 1, 2])[:, None] == people
    likeness = cosine(np.ones((3, 4)), np.ones((6, 4)))
    assert hits(likeness, same).tolist() == pytest.approx([3 / 6, 1 / 6, 2 / 6])
    assert blind(same).tolist() == pytest.approx([3 / 6, 1 / 6, 2 / 6])


def people_in_noise(
    seed: int, names: range, walks: int = 8, width: int = 30
) -> tuple[np.ndarray, np.ndarray]:
    """Each person is a small vector in the first 10 channels, under loud noise in the last 20."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.array(names), walks)
    faces = np.stack([np.random.default_rng(1000 + n).normal(size=10) for n in names])
    x = 0.3 * rng.normal(size=(len(who), width))
    x[:, :10] += faces[who - names.start]
    x[:, 10:] += 20 * rng.normal(size=(len(who), width - 10))
    return x, who


def found(x: np.ndarray, y: np.ndarray, people: np.ndarray, others: np.ndarray) -> float:
    return float(hits(cosine(x, y), people[:, None] == others[None, :]).mean())


@pytest.mark.parametrize("directions", [None, 5])
def test_a_learnt_likeness_finds_people_it_was_not_learnt_on(directions: int | None) -> None:
    x, people = people_in_noise(0, range(0, 20))
    probe, asked = people_in_noise(1, range(20, 30))
    gallery, known = people_in_noise(2, range(20, 30))
    learnt = discriminant(x, people, 0.01, directions)
    assert found(probe, gallery, asked, known) < 0.4
    assert found(learnt(probe), learnt(gallery), asked, known) > 0.9


def test_rescaling_and_turning_the_features_blinds_cosine_and_not_what_learns() -> None:
    rng = np.random.default_rng(5)
    turn = np.linalg.qr(rng.normal(size=(30, 30)))[0] * np.exp(rng.normal(size=30))
    x, people = (part for part in people_in_noise(0, range(0, 20)))
    probe, asked = people_in_noise(1, range(20, 30))
    gallery, known = people_in_noise(2, range(20, 30))
    learnt = discriminant(x @ turn, people, 1e-4)
    assert found(learnt(probe @ turn), learnt(gallery @ turn), asked, known) > 0.9


def test_the_discriminant_makes_what_varies_inside_a_person_round() -> None:
    x, people = people_in_noise(0, range(0, 20))
    z = discriminant(x, people, 1e-9)(x)
    around = np.concatenate([z[people == one] - z[people == one].mean(0) for one in range(20)])
    covariance = around.T @ around / (len(x) - 20)
    assert covariance == pytest.approx(np.eye(30), abs=1e-6)
    means = np.stack([z[people == one].mean(0) for one in range(20)])
    spread = np.diag(np.cov(means.T))
    assert (np.diff(spread) < 1e-9).all()  # by falling share
    assert spread[0] > 5


def test_shrinkage_and_directions_are_chosen_by_the_trials() -> None:
    x, people = people_in_noise(0, range(0, 6))
    seen = []

    def trial(projection: object) -> float:
        seen.append(projection)
        return float(len(seen) == 4)  # the fourth candidate does best

    rows = people < 3
    learnt, facts = learn(x, people, [(rows, trial)])
    assert facts == {"shrinkage": 1e-3, "directions": 5}
    assert learnt.matrix.shape == (30, 5)
    assert np.array_equal(learnt.matrix, discriminant(x, people, 1e-3, 5).matrix)
    again = learn(x, people, [])[1]
    assert again == {"shrinkage": 1e-4, "directions": None}


def test_what_cannot_be_searched_is_named() -> None:
    same = np.ones((2, 3), dtype=bool)
    with pytest.raises(UsageError, match=r"not \(2, 3\) and \(2, 4\)"):
        cosine(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(UsageError, match=r"1 of 2 probes have nothing"):
        hits(np.ones((2, 3)), same, np.array([[True, False, False], [False] * 3]))
    with pytest.raises(UsageError, match="NaN"):
        hits(np.full((2, 3), np.nan), same)
    with pytest.raises(UsageError, match="one shape"):
        hits(np.ones((2, 2)), same)
    with pytest.raises(UsageError, match="one shape"):
        blind(same, np.ones((2, 2), dtype=bool))
    with pytest.raises(UsageError, match="4 videos of 4 people"):
        discriminant(np.ones((4, 2)), np.arange(4), 0.1)
    with pytest.raises(UsageError, match="shrinkage=0"):
        discriminant(np.ones((4, 2)), np.array([0, 0, 1, 1]), 0)


def slow_precision(likeness: list[float], same: list[bool]) -> float:
    """The mean over all orders that agree with the likeness."""
    found = []
    for order in itertools.permutations(range(len(same))):
        ordered = [likeness[i] for i in order]
        if ordered != sorted(ordered, reverse=True):
            continue
        right, total = 0, 0.0
        for place, i in enumerate(order):
            if same[i]:
                right += 1
                total += right / (place + 1)
        found.append(total / right)
    return sum(found) / len(found)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
def test_average_precision_with_ties_is_the_mean_over_all_orders(rows: list[tuple[int, bool]]) -> None:
    likeness, same = [float(a) for a, _ in rows], [b for _, b in rows]
    same[0] = True
    found = precisions(np.array([likeness]), np.array([same]))
    assert found[0] == pytest.approx(slow_precision(likeness, same))
    assert precisions_by_chance(np.array([same]))[0] == pytest.approx(slow_precision([0.0] * len(same), same))


def test_the_chance_of_average_precision_is_above_the_share_of_right_rows() -> None:
    same = np.zeros((1, 20), dtype=bool)
    same[0, 3] = True
    assert precisions_by_chance(same)[0] == pytest.approx(sum(1 / i for i in range(1, 21)) / 20)
    with pytest.raises(UsageError, match="nobody of their person"):
        precisions(np.zeros((1, 3)), np.zeros((1, 3), dtype=bool))


def test_the_equal_error_rate_is_where_both_errors_meet() -> None:
    truth = np.array([1, 1, 0, 1, 0, 0], dtype=float)
    assert equal_error(truth, np.arange(6.0)[::-1]) == pytest.approx(1 / 3)
    assert equal_error(truth, truth) == 0.0
    assert equal_error(truth, -truth) == pytest.approx(1.0)
    assert equal_error(truth, np.zeros(6)) == pytest.approx(0.5)
    assert equal_error(np.ones(3), np.zeros(3)) is None
    rng = np.random.default_rng(0)
    many = (rng.random(4000) < 0.3).astype(float)
    scores = rng.normal(size=4000) + many
    slow = min((abs(miss - wrong), (miss + wrong) / 2) for miss, wrong in errors(many, scores))
    assert equal_error(many, scores) == pytest.approx(slow[1], abs=2e-3)


def errors(truth: np.ndarray, scores: np.ndarray) -> list[tuple[float, float]]:
    """Share of same ones missed and of others let through at every tenth threshold."""
    same, other = scores[truth > 0], scores[truth == 0]
    return [(float((same < t).mean()), float((other >= t).mean())) for t in np.sort(scores)[::10]]


def test_a_bridge_learns_the_way_back_and_says_the_mean_where_there_is_none() -> None:
    rng = np.random.default_rng(0)
    raw, turn = rng.normal(size=(60, 5)), rng.normal(size=(5, 7))
    people = np.repeat(np.arange(12), 5)
    found = bridge(raw @ turn + 3.0, raw, people)
    others = rng.normal(size=(20, 5))
    assert np.allclose(found(others @ turn + 3.0), others, atol=0.05)
    nothing = bridge(np.ones((60, 7)), raw, people)
    assert np.allclose(nothing(np.ones((2, 7))), raw.mean(0))
