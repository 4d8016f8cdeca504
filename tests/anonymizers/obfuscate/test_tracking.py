"""Following people: lost ones are noticed, those who leave are not taken for lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoveil.anonymizers.obfuscate.boxes import nobody
from videoveil.anonymizers.obfuscate.tracking import Followed, Tracker, Tracking, covered_share, fill_gaps
from videoveil.errors import UsageError

HEIGHT, WIDTH = 120, 160
STRICT = Tracking(max_age=None, excused=False)  # as `fail_closed` follows people


def at(x: float, y: float = 30, wide: float = 20, high: float = 50, score: float = 0.9) -> np.ndarray:
    return np.array([[x, y, x + wide, y + high, score]], np.float32)


def follow(frames: list[np.ndarray], settings: Tracking | None = None) -> list[Followed]:
    tracker = Tracker(settings)
    return [tracker.step(boxes, HEIGHT, WIDTH) for boxes in frames]


def lost(frames: list[np.ndarray], settings: Tracking | None = None) -> list[int]:
    return [i for i, step in enumerate(follow(frames, settings)) if len(step.lost)]


def test_somebody_who_moves_stays_the_same_person() -> None:
    steps = follow([at(20 + 3 * t) for t in range(12)])
    assert {step.ids for step in steps} == {(0,)}
    assert not any(len(step.lost) for step in steps)


def test_a_missing_person_is_lost_until_found_again_and_expected_on_their_way() -> None:
    frames = [at(20 + 4 * t) for t in range(8)] + [nobody()] * 3 + [at(20 + 4 * 11)]
    steps = follow(frames)
    assert [i for i, step in enumerate(steps) if len(step.lost)] == [8, 9, 10]
    for t in (8, 9, 10):
        np.testing.assert_allclose(steps[t].lost[0, :4], at(20 + 4 * t)[0, :4], atol=1e-3)
    assert steps[11].ids == (0,)


def test_the_speed_is_right_after_a_gap() -> None:
    places = [20 + 4 * t for t in range(14)]
    frames = [nobody() if t in (5, 6, 7, 12, 13) else at(x) for t, x in enumerate(places)]
    steps = follow(frames)
    for t in (12, 13):
        np.testing.assert_allclose(steps[t].lost[0, :4], at(places[t])[0, :4], atol=1e-3)


def test_a_missing_person_is_noticed_among_others() -> None:
    both = [np.concatenate([at(20), at(100)])] * 5
    assert lost([*both, at(100), *both]) == [5]


def test_nobody_is_lost_who_was_seen_too_seldom() -> None:
    assert lost([at(50), at(50), nobody(), nobody()]) == []
    assert lost([at(50), at(50), at(50), nobody(), nobody()]) == [3, 4]
    assert lost([at(50), nobody()], Tracking(min_hits=1)) == [1]


@pytest.mark.parametrize("settings", [None, STRICT])
def test_who_was_seen_too_seldom_is_counted_where_not_found(settings: Tracking | None) -> None:
    steps = follow([at(50), nobody(), at(50), *[nobody()] * 6], settings)
    assert [i for i, step in enumerate(steps) if step.fleeting] == [
        1,
        3,
        4,
        5,
        6,
    ]  # then no longer waited for
    assert not any(len(step.lost) or step.given_up or step.left for step in steps)
    assert not any(step.fleeting for step in follow([at(50)] * 3 + [nobody()] * 3, settings))


@pytest.mark.parametrize("direction", [1, -1])
def test_walking_out_at_the_side_is_not_being_lost(direction: int) -> None:
    frames = []
    for t in range(20):
        x0 = 80 + 6 * t * direction
        cut = np.clip([x0, x0 + 20], 0, WIDTH)
        gone = cut[1] - cut[0] < 4
        frames.append(nobody() if gone else np.array([[cut[0], 30, cut[1], 80, 0.9]], np.float32))
    assert len(frames[-1]) == 0
    assert lost(frames) == []


def walks_out() -> list[np.ndarray]:
    """Found as long as 12 columns are in the picture; at 152, 158 and 164 at times 12, 13 and 14."""
    places = [80 + 6 * t for t in range(20)]
    return [at(x, wide=min(20, WIDTH - x)) if x <= WIDTH - 12 else nobody() for x in places]


def test_whoever_is_not_excused_is_lost_on_the_way_out_until_expected_outside() -> None:
    excused, strict = follow(walks_out()), follow(walks_out(), STRICT)
    assert [i for i, step in enumerate(excused) if len(step.lost)] == []
    assert [i for i, step in enumerate(excused) if step.left] == [12]
    assert [i for i, step in enumerate(strict) if len(step.lost)] == [12, 13]
    assert [i for i, step in enumerate(strict) if step.left] == [14]
    assert not any(step.given_up for step in (*excused, *strict))


def test_walking_out_takes_no_longer_than_it_may_wherever_the_sides_lead() -> None:
    """Of a box that becomes narrower at both sides, as where somebody turns."""
    narrower = [np.array([[100 + 6 * t, 30, 190 - 10 * t, 80, 0.9]], np.float32) for t in range(4)]
    steps = follow([*narrower, *[nobody()] * 40], STRICT)
    wait = STRICT.exit_frames
    assert [i for i, step in enumerate(steps) if len(step.lost)] == list(range(4, 4 + wait))
    assert [i for i, step in enumerate(steps) if step.left] == [4 + wait]


def test_standing_at_the_edge_does_not_excuse_being_missed() -> None:
    cut_off = [at(60, y=70, high=50)] * 6  # feet below the lower edge, as in any close shot
    assert lost([*cut_off, nobody(), nobody()]) == [6, 7]
    jitter = [at(60, y=70 + 0.3 * (t % 2), high=50 - 0.3 * (t % 2)) for t in range(6)]
    assert lost([*jitter, nobody()]) == [6]


def test_vanishing_in_the_middle_is_being_lost_however_fast() -> None:
    assert lost([at(40 + 6 * t) for t in range(8)] + [nobody()]) == [8]


def test_a_lost_person_is_waited_for_as_long_as_told() -> None:
    frames = [at(70)] * 4 + [nobody()] * 10
    steps = follow(frames, Tracking(max_age=3))
    assert [i for i, step in enumerate(steps) if len(step.lost)] == [4, 5, 6]
    assert [i for i, step in enumerate(steps) if step.given_up] == [7]
    assert lost(frames, Tracking(max_age=None)) == list(range(4, 14))


def test_whoever_is_waited_for_without_end_is_found_where_last_seen() -> None:
    """By then constant velocity has led out of the picture."""
    frames = [at(20 + 4 * t) for t in range(8)] + [nobody()] * 60 + [at(52)] * 3
    steps = follow(frames, Tracking(max_age=None))
    assert [i for i, step in enumerate(steps) if len(step.lost)] == list(range(8, 68))
    assert [step.ids for step in steps[68:]] == [(0,)] * 3


def test_whoever_is_waited_for_without_end_stays_lost_when_expected_behind_another() -> None:
    """Where they are expected is a guess by then: they may have stopped in plain view."""
    other = at(100, wide=50, y=20, high=80)
    frames = [np.concatenate([at(20 + 4 * t), other]) for t in range(8)] + [other] * 40
    assert lost(frames, Tracking(max_age=None)) == list(range(8, 48))


def test_leaving_is_not_giving_up() -> None:
    frames = [np.array([[0, 30, 20 - 5 * t, 80, 0.9]], np.float32) for t in range(4)] + [nobody()] * 5
    assert not any(step.given_up or len(step.lost) for step in follow(frames))


def test_two_who_pass_each_other_are_not_lost() -> None:
    frames = [np.concatenate([at(20 + 4 * t, y=20), at(120 - 4 * t, y=40)]) for t in range(25)]
    assert lost(frames) == []


@given(st.lists(st.lists(st.tuples(st.integers(0, 140), st.integers(0, 90)), max_size=4), max_size=12))
@settings(max_examples=60, deadline=None)
def test_whatever_comes_every_box_gets_one_owner_and_runs_repeat(places: list[list[tuple[int, int]]]) -> None:
    frames = [np.concatenate([nobody(), *(at(x, y) for x, y in frame)]) for frame in places]
    steps = follow(frames)
    for boxes, step in zip(frames, steps):
        assert len(step.ids) == len(boxes) == len(set(step.ids))
        assert np.isfinite(step.lost).all()
        assert (step.lost[:, 2:4] >= step.lost[:, :2]).all()
    for a, b in zip(steps, follow(frames)):
        assert a.ids == b.ids
        np.testing.assert_array_equal(a.lost, b.lost)


def test_low_scores_keep_a_person_found_but_do_not_make_one() -> None:
    sure, faint = at(50, score=0.9), at(50, score=0.3)
    settings = Tracking(sure=0.6)
    assert lost([faint] * 8 + [nobody()], settings) == []
    assert lost([sure] * 3 + [faint] * 4 + [nobody()], settings) == [7]
    assert lost([faint, faint, sure, faint, sure, faint, sure, nobody()], settings) == [7]
    assert lost([faint] * 8 + [nobody()]) == [8]


def test_who_is_behind_somebody_found_is_hidden_and_not_lost() -> None:
    wide = at(100, wide=30, high=60, y=28)
    passing = [np.concatenate([at(40 + 5 * t), wide]) for t in range(10)]
    frames = [
        *passing,
        wide,
        wide,
        wide,
    ]  # expected at 90, 95, 100: half, three quarters, all behind the wide one
    assert lost(frames) == [10]
    assert lost(frames, Tracking(hidden=1.0)) == [10, 11]
    assert lost(frames, Tracking(hidden=0.4)) == []
    assert [i for i, step in enumerate(follow(frames)) if step.hidden] == [11, 12]


def test_whoever_is_not_excused_is_lost_behind_others_too() -> None:
    wide = at(100, wide=30, high=60, y=28)
    frames = [np.concatenate([at(40 + 5 * t), wide]) for t in range(14)]
    frames[11:] = [wide] * 3  # expected at 95, 100 and 105: three quarters, then all behind the wide one
    steps = follow(frames, STRICT)
    assert [i for i, step in enumerate(steps) if len(step.lost)] == [11, 12, 13]
    assert not any(step.hidden for step in steps)
    assert lost(frames) == []


def test_the_share_of_a_box_in_others_is_that_of_the_areas() -> None:
    box = np.array([0, 0, 24, 24, 1.0])
    halves = np.array([[0, 0, 12, 24, 1], [6, 0, 18, 24, 1]], np.float32)
    assert covered_share(box, halves) == pytest.approx(18 / 24)
    assert covered_share(box, nobody()) == 0
    assert covered_share(box, np.array([[-1, -1, 30, 30, 1]], np.float32)) == 1


def test_gaps_are_filled_along_the_way_and_nothing_else_changes() -> None:
    walk = [at(20 + 3 * t, score=0.9 if t < 6 else 0.5) for t in range(12)]
    holed = [*walk[:6], nobody(), nobody(), *walk[8:]]
    filled = fill_gaps(holed, HEIGHT, WIDTH)
    for t in (6, 7):
        np.testing.assert_allclose(filled[t], np.concatenate([walk[t][:, :4], [[0.5]]], 1), atol=1e-4)
    for t in (0, 5, 8, 11):
        np.testing.assert_array_equal(filled[t], holed[t])


def test_long_gaps_and_ends_are_not_filled() -> None:
    frames = [at(50)] * 4 + [nobody()] * 6 + [at(50)] + [nobody()] * 2
    assert fill_gaps(frames, HEIGHT, WIDTH, longest=5)[6].shape == (0, 5)
    assert fill_gaps(frames, HEIGHT, WIDTH, longest=6)[6].shape == (1, 5)
    assert fill_gaps(frames, HEIGHT, WIDTH, longest=6)[-1].shape == (0, 5)
    assert fill_gaps([], HEIGHT, WIDTH) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"iou": 0},
        {"iou": 1},
        {"smoothing": 0},
        {"edge": 0.5},
        {"min_hits": 0},
        {"max_age": 0},
        {"exit_frames": -1},
        {"sure": float("nan")},
        {"hidden": 0},
    ],
)
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="tracking"):
        Tracking(**bad)  # type: ignore[arg-type]
