"""What is said of whole videos, beside slow reference code and on what is in one row only."""

from __future__ import annotations

import numpy as np
import pytest

from videoveil.attacks.pooling import pooled, with_videos
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome, Outcome


def outcome(videos: int = 6, per: int = 4, k: int = 3, seed: int = 0) -> AttributeOutcome:
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(videos), per)
    truth = rng.integers(0, 2, (videos, k)).astype(float)
    truth[0, 0], truth[1:3, 0] = np.nan, (0, 1)
    names, ids = tuple("abc"[:k]), tuple(f"v{n}" for n in range(videos))
    return AttributeOutcome(names, truth[rows], rng.random((len(rows), k)), rows, ids)


@pytest.mark.parametrize("peak", [False, True])
def test_every_video_is_a_row_by_hand(peak: bool) -> None:
    one = outcome()
    found = pooled(one, peak=peak)
    assert found.items == one.items
    assert found.names == one.names
    assert found.rows.tolist() == list(range(6))
    for video in range(6):
        for place in range(3):
            said = [s for s, r in zip(one.scores[:, place], one.rows) if r == video]
            assert found.scores[video, place] == pytest.approx(max(said) if peak else sum(said) / 4)
            assert found.truth[video, place] == pytest.approx(one.truth[4 * video, place], nan_ok=True)


def test_rows_may_come_in_any_order_and_some_videos_without_any() -> None:
    one = outcome()
    order = np.random.default_rng(1).permutation(len(one.rows))
    order = order[one.rows[order] != 4]
    mixed = AttributeOutcome(one.names, one.truth[order], one.scores[order], one.rows[order], one.items)
    for peak in (False, True):
        whole, found = pooled(one, peak=peak), pooled(mixed, peak=peak)
        assert found.rows.tolist() == [0, 1, 2, 3, 5]
        assert found.scores == pytest.approx(whole.scores[found.rows])
        assert found.items == one.items


def test_what_one_row_of_a_video_tells_is_found_by_the_peak() -> None:
    """One row in ten stands out in videos with the attribute; other rows are noise that is the same for all."""
    rng = np.random.default_rng(0)
    truth = np.arange(40) % 2.0
    scores = rng.uniform(0.4, 0.6, (40, 10))
    scores[truth == 1, rng.integers(0, 10, 20)] = 0.7
    rows = np.repeat(np.arange(40), 10)
    one = AttributeOutcome(
        ("a",), truth[rows][:, None], scores.reshape(-1, 1), rows, tuple(map(str, range(40)))
    )
    found = {name: o.measure().value for name, o in with_videos({"linear": one}).items()}
    assert list(found) == ["linear", "linear_video", "linear_peak"]
    assert found["linear_peak"] == pytest.approx(1.0)
    assert found["linear"] < 0.7  # type: ignore[operator]


def test_what_is_there_stays_and_single_rows_get_nothing_beside_them() -> None:
    one, mean = outcome(), MeanOutcome("psnr", ("v0", "v1"), np.ones(2))
    given: dict[str, Outcome] = {
        "tiny": one,
        "tiny_video": pooled(outcome(seed=1), peak=False),
        "psnr_unet": mean,
        "linear_whole": outcome(per=1),
    }
    found = with_videos(given)
    assert set(found) == {*given, "tiny_peak"}
    assert all(found[name] is given[name] for name in given)
    assert list(with_videos(found)) == list(found)
    assert with_videos({}) == {}


def test_rows_that_say_nothing_are_worth_chance() -> None:
    one = outcome()
    blank = AttributeOutcome(one.names, one.truth, np.full_like(one.scores, 0.5), one.rows, one.items)
    for found in with_videos({"linear": blank}).values():
        assert found.measure().value == pytest.approx(found.measure().chance)
