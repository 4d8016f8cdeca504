from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.attacks.metrics import attribute_report
from videoveil.errors import StoreError, UsageError
from videoveil.tasks import outcomes
from videoveil.tasks.metrics import roc_auc
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome, Measure, Outcome, RankOutcome


def attributes(n: int = 12, per: int = 3, k: int = 3, seed: int = 0, levels: int = 6) -> AttributeOutcome:
    """Few levels of scores, so that there are ties; some truths unknown."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(n), per))
    truth = rng.integers(0, 2, (n * per, k)).astype(float)
    truth[rng.random(truth.shape) < 0.1] = np.nan
    scores = rng.integers(0, levels, truth.shape) / levels
    return AttributeOutcome(
        tuple(f"a{i}" for i in range(k)), truth, scores, rows, tuple(f"v{i}" for i in range(n))
    )


def some(which: str) -> AttributeOutcome | MeanOutcome | RankOutcome:
    many = attributes()
    if which == "attributes":
        return many
    if which == "mean":
        return MeanOutcome("psnr", many.items, np.random.default_rng(0).random(12))
    return RankOutcome(many.truth[:, 0], many.scores[:, 0], many.rows, many.items)


def written_out(rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Every row of every chosen item, as often as it was chosen: the slow twin of weights."""
    return np.concatenate([np.flatnonzero(rows == item) for item in chosen] or [np.zeros(0, int)])


choices = st.lists(st.integers(0, 11), min_size=1, max_size=30).map(np.array)


@settings(max_examples=60, deadline=None)
@given(choices, st.integers(0, 5))
def test_cmap_of_a_choice_is_that_of_its_rows_written_out(chosen: np.ndarray, seed: int) -> None:
    one = attributes(seed=seed)
    rows = written_out(one.rows, chosen)
    slow = attribute_report(one.truth[rows], one.scores[rows], one.names)
    fast = one.measure(chosen)
    assert fast.value == (None if slow.cmap is None else pytest.approx(slow.cmap, abs=1e-12))
    assert fast.chance == (None if slow.cmap is None else pytest.approx(slow.chance, abs=1e-12))
    for name, expected in zip(one.names, slow.attributes):
        found = one.attributes(chosen)[name]
        assert found.value == (None if expected.ap is None else pytest.approx(expected.ap, abs=1e-12))


@settings(max_examples=60, deadline=None)
@given(choices, st.integers(0, 5))
def test_auc_of_a_choice_is_that_of_its_rows_written_out(chosen: np.ndarray, seed: int) -> None:
    many = attributes(seed=seed)
    one = RankOutcome(many.truth[:, 0], many.scores[:, 0], many.rows, many.items)
    rows = written_out(one.rows, chosen)
    rows = rows[~np.isnan(one.truth[rows])]
    slow = roc_auc(one.truth[rows], one.scores[rows])
    assert one.measure(chosen).value == (None if slow is None else pytest.approx(slow, abs=1e-12))


@given(choices)
def test_mean_of_a_choice_counts_repeats(chosen: np.ndarray) -> None:
    values, chances = np.arange(12) / 7, np.linspace(0, 1, 12)
    one = MeanOutcome("top1", tuple("abcdefghijkl"), values, chances)
    found = one.measure(chosen)
    assert found.value == pytest.approx(values[chosen].mean())
    assert found.chance == pytest.approx(chances[chosen].mean())


def test_without_a_choice_all_items_count_once() -> None:
    one = attributes()
    assert one.measure() == one.measure(np.arange(12))
    assert one.measure().value == pytest.approx(attribute_report(one.truth, one.scores).cmap)
    assert MeanOutcome("psnr", ("a",), np.array([30.0])).measure() == Measure(30.0, None)


def test_what_the_items_do_not_define_is_none() -> None:
    one = AttributeOutcome(("a",), np.zeros((4, 1)), np.ones((4, 1)), np.arange(4), tuple("wxyz"))
    assert one.measure() == Measure(None, None)
    assert one.attributes()["a"] == Measure(None, 0.0)
    rank = RankOutcome(np.ones(4), np.arange(4.0), np.arange(4), tuple("wxyz"))
    assert rank.measure() == Measure(None, None)
    assert rank.measure(np.array([], dtype=int)) == Measure(None, None)
    assert MeanOutcome("top1", (), np.zeros(0)).measure() == Measure(None, None)


def test_blind_answers_are_worth_more_than_the_share_of_positives_where_items_are_few() -> None:
    rng = np.random.default_rng(0)
    for n in (12, 400):
        truth = (np.arange(n) % 4 == 0).astype(float)[:, None]
        one = AttributeOutcome(("a",), truth, rng.random((n, 1)), np.arange(n), tuple(map(str, range(n))))
        slow = [
            attribute_report(truth, np.random.default_rng(i).random((n, 1))).cmap or 0.0 for i in range(2000)
        ]
        assert one.blind(draws=2000) == pytest.approx(np.mean(slow), abs=0.01)
        assert (one.blind() or 0) > 0.25
    assert (one.blind() or 0) < 0.27


def test_a_thousand_draws_of_a_usual_test_set_take_about_a_second() -> None:
    one = attributes(n=200, per=5, k=7, levels=1000)
    rng = np.random.default_rng(0)
    began = time.process_time()
    counts = np.stack([outcomes.weights(rng.integers(0, 200, 200), 200) for _ in range(1000)])
    outcomes.draws_of(one, counts)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("which", ["attributes", "mean", "rank"])
def test_many_draws_at_once_are_each_as_if_alone(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "PIECE", 50)  # in several pieces
    one = some(which)
    rng = np.random.default_rng(1)
    chosen = [rng.integers(0, 12, 4) for _ in range(40)]
    values, chances = outcomes.draws_of(one, np.stack([outcomes.weights(c, 12) for c in chosen]))
    alone = [one.measure(c) for c in chosen]
    assert [None if np.isnan(v) else v for v in values] == [m.value for m in alone]
    assert [None if np.isnan(c) else c for c in chances] == [m.chance for m in alone]


def test_an_outcome_that_only_measures_can_be_drawn_from_too() -> None:
    class Plain:
        metric, items = "top1", tuple("abc")

        def measure(self, chosen: np.ndarray | None = None) -> Measure:
            taken = np.arange(3) if chosen is None else chosen
            return Measure(float(taken.mean()) if len(taken) else None, None)

    values, chances = outcomes.draws_of(Plain(), np.array([[1.0, 0, 2], [0, 0, 0]]))
    assert values[0] == pytest.approx(4 / 3)
    assert np.isnan(values[1])
    assert np.isnan(chances).all()


@pytest.mark.parametrize("which", ["attributes", "mean", "rank"])
def test_outcomes_come_back_from_a_file_bit_for_bit(which: str, tmp_path: Path) -> None:
    one = some(which)
    assert isinstance(one, Outcome)
    outcomes.save(tmp_path / "o.npz", {"somebody": one, "again": one})
    back = outcomes.load(tmp_path / "o.npz")
    assert list(back) == ["somebody", "again"]
    chosen = np.array([3, 3, 5, 7, 0])
    assert back["again"].measure(chosen) == one.measure(chosen)
    assert back["again"].items == one.items
    assert back["again"].metric == one.metric


def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "o.npz").write_bytes(b"PK\x03\x04 half of it")
    with pytest.raises(StoreError, match="delete it"):
        outcomes.load(tmp_path / "o.npz")


def test_impossible_answers_are_refused() -> None:
    with pytest.raises(UsageError, match="NaN"):
        MeanOutcome("top1", ("a",), np.array([np.nan]))
    with pytest.raises(UsageError, match="indices"):
        attributes().measure(np.array([12]))
    with pytest.raises(UsageError, match="outside"):
        RankOutcome(np.zeros(1), np.zeros(1), np.array([3]), ("a",))
    with pytest.raises(UsageError, match="NaN"):
        RankOutcome(np.zeros(1), np.array([np.nan]), np.array([0]), ("a",))
