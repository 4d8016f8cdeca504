from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit.outcomes import IDS, RULES, N, attacker, right, seeds
from videoveil.audit.draws import UNKNOWN, Estimate
from videoveil.audit.rules import Rules
from videoveil.audit.scoring import Question, Sides, among, question, to_json, verdict, witnesses
from videoveil.errors import UsageError
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome, Outcome, RankOutcome


def asked(sides: dict[str, Sides], role: Any = "attack", rules: Rules = RULES) -> Question:
    return question("private attributes", role, sides, rules)


# --- seeds and draws ------------------------------------------------------------------------------------------


def test_seeds_that_differ_widen_the_interval() -> None:
    alike = asked({"a": (right(0.7), right(0.7))}).raw
    apart = [*right(0.5, 1), *right(0.7, 1), *right(0.9, 1)]
    wide = asked({"a": (apart, apart)}).raw
    assert (wide.high or 0) - (wide.low or 0) > 1.5 * ((alike.high or 0) - (alike.low or 0))


def test_the_same_draws_give_the_same_numbers() -> None:
    sides: dict[str, Sides] = {"a": (seeds(0.8, 0.8), seeds(0.4, 0.2, first=5))}
    assert asked(sides) == asked(sides)


# --- attackers ----------------------------------------------------------------------------------------------


def test_nothing_hidden_is_leakage_one_without_doubt() -> None:
    found = asked({"a": (seeds(0.8, 0.8), seeds(0.8, 0.8))})
    assert found.leakage == Estimate(1.0, 1.0, 1.0)
    assert found.reduction == Estimate(0.0, 0.0, 0.0)
    assert found.verdict == "FAIL"


def test_everything_hidden_passes() -> None:
    found = asked({"a": (seeds(1, 1), seeds(0, 0, first=7))})
    assert found.verdict == "PASS"
    assert abs(found.leakage.value or 0) < 0.15
    assert (found.relative.value or 0) < (found.reduction.value or 0)  # part of a score is chance


def test_leakage_is_the_ratio_of_advantages_by_hand() -> None:
    raw, veiled = right(0.85), right(0.55)
    found = asked({"a": (raw, veiled)})
    before, after = (np.mean([one.measure().value for one in side]) for side in (raw, veiled))
    expected = float((after - 0.25) / (before - 0.25))
    assert found.leakage.value == pytest.approx(expected)
    assert found.relative.value == pytest.approx(1 - after / before)
    assert found.reduction.value == pytest.approx(1 - expected)


def test_the_worst_attacker_counts() -> None:
    found = asked(
        {
            "weak": (seeds(0.3, 0.3), seeds(0.1, 0.1, first=3)),
            "strong": (seeds(0.9, 0.9), seeds(0.4, 0.4, first=3)),
        }
    )
    assert found.strongest == found.strongest_raw == "strong"
    alone = asked({"strong": (seeds(0.9, 0.9), seeds(0.4, 0.4, first=3))})
    assert (found.leakage.value or 0) == pytest.approx(alone.leakage.value)


def test_an_attacker_that_does_not_beat_chance_on_raw_videos_is_void_and_says_so() -> None:
    found = asked(
        {
            "blind": (seeds(0, 0), seeds(0, 0, first=9)),
            "strong": (seeds(0.9, 0.9), seeds(0.1, 0.1, first=3)),
        }
    )
    blind = next(one for one in found.attempts if one.name == "blind")
    assert "does not beat chance by 2 points" in blind.void
    assert found.strongest == "strong"


def test_an_attacker_that_finds_something_in_anonymized_videos_counts_whatever_it_found_in_raw_ones() -> None:
    found = asked(
        {
            "odd": (seeds(0, 0), seeds(0.9, 0.9)),
            "usual": (seeds(0.9, 0.9), seeds(0, 0, first=3)),
        }
    )
    assert found.strongest == "odd"
    assert found.verdict == "FAIL"


def test_where_all_attackers_are_void_nothing_is_said() -> None:
    found = asked({"a": (seeds(0, 0), seeds(0, 0, first=9)), "b": (seeds(0, 0), seeds(0, 0, first=5))})
    assert found.verdict == "NOT MEASURABLE"
    assert found.leakage.value is None
    assert "no attacker could show anything" in found.reason
    assert verdict([found]).privacy == "NOT MEASURABLE"


def test_doubt_counts_against_privacy() -> None:
    raw, veiled = right(0.9, n=24), right(0.5, n=24)
    found = asked({"a": (raw, veiled)})
    assert (found.leakage.value or 1) < 0.5 < (found.leakage.high or 0)
    assert found.verdict == "FAIL"
    assert "has not been shown" in found.reason


def test_one_attribute_that_is_told_completely_fails_though_the_mean_passes() -> None:
    rules = Rules(resamples=300, max_leakage=0.75)
    found = asked({"a": (seeds(1, 1), seeds(1, 0, first=4))}, rules=rules)
    assert (found.leakage.high or 1) <= 0.75
    assert found.verdict == "FAIL"
    assert "of a alone" in found.reason
    assert {part.name: round(part.leakage.value or 0) for part in found.parts} == {"a": 1, "b": 0}


def rare(raw: float, veiled: float, seed: int, n: int = 96, positives: int = 8) -> Sides:
    """Ten attributes of which one is rare: how well it is told on either side; of the others nothing is left."""
    rng = np.random.default_rng(seed)
    ids = tuple(f"{seed} {i}" for i in range(n))
    truth = (rng.random((n, 10)) < 0.4).astype(float)
    truth[:, 0] = rng.permutation(n) < positives
    names = ("rare", *(f"usual {i}" for i in range(9)))

    def side(own: float, others: float) -> list[Outcome]:
        known = np.array([own] + [others] * 9)
        made = known * truth + (1 - known) * rng.random(truth.shape)
        return [AttributeOutcome(names, truth, made, np.arange(n), ids)] * 2

    return side(raw, 0.9), side(veiled, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_an_attribute_whose_estimate_is_over_the_limit_holds_pass_back(seed: int) -> None:
    """Eight positives that leak fully, but so few that the lower end may be anywhere."""
    found = asked({"a": rare(0.35, 0.35, seed)})
    part = next(one for one in found.parts if one.name == "rare")
    assert (found.leakage.high or 1) < RULES.max_leakage < (part.leakage.value or 0)
    assert found.verdict == "FAIL"
    assert "of rare alone a finds" in found.reason


def test_an_estimate_over_the_limit_whose_lower_end_is_below_has_not_been_shown_to_be_within_it() -> None:
    found = asked({"a": rare(0.45, 0.3, 3)})
    part = next(one for one in found.parts if one.name == "rare")
    assert (part.leakage.low or 0) < RULES.max_leakage < (part.leakage.value or 0)
    assert (found.leakage.high or 1) <= RULES.max_leakage
    assert found.verdict == "FAIL"
    assert "of rare alone" in found.reason
    assert "has not been shown" in found.reason


def test_an_attribute_that_is_shown_to_leak_is_named_before_one_that_may() -> None:
    sides = rare(0.45, 0.3, 3)
    told = [one.scores.copy() for one in sides[1]]  # type: ignore[attr-defined]
    for scores in told:
        scores[:, 1] = sides[0][0].scores[:, 1]  # type: ignore[attr-defined]
    veiled = [
        AttributeOutcome(one.names, one.truth, scores, one.rows, one.items)  # type: ignore[attr-defined]
        for one, scores in zip(sides[1], told)
    ]
    found = asked({"a": (sides[0], veiled)})
    assert "of usual 0 alone" in found.reason
    assert "are allowed of any" in found.reason


def test_a_single_attribute_is_not_told_beside_its_own_average() -> None:
    def single(strength: float, seed: int) -> list[AttributeOutcome]:
        both = attacker(strength, 0.0, seed=seed)
        return [AttributeOutcome(("a",), both.truth[:, :1], both.scores[:, :1], both.rows, both.items)] * 2

    found = asked({"x": (single(0.9, 0), single(0.22, 1))})
    assert (found.leakage.low or 0) < RULES.max_leakage < (found.leakage.value or 0)
    assert found.verdict == "FAIL"
    assert "has not been shown" in found.reason
    assert "alone" not in found.reason


def test_attributes_that_nobody_finds_on_either_side_are_named() -> None:
    found = asked({"x": (seeds(1, 0), seeds(0, 0, first=7)), "y": (seeds(0.9, 0), seeds(0, 0, first=9))})
    assert [part.name for part in found.parts] == ["a"]
    assert found.unproven == ("b",)
    assert to_json(found)["unproven"] == ("b",)
    assert asked({"x": (seeds(1, 0), seeds(0, 1, first=7))}).unproven == ()  # found in anonymized ones
    nobody = asked({"x": (seeds(0, 0), seeds(0, 0, first=9))})
    assert (nobody.verdict, nobody.unproven) == ("NOT MEASURABLE", ("a", "b"))


def test_an_attribute_that_is_shown_to_leak_fails_though_the_mean_proves_nothing() -> None:
    """One of twelve is told completely; over the mean of all, the margin is not reached."""
    truth = np.random.default_rng(0).integers(0, 2, (N, 12)).astype(float)
    names = tuple("abcdefghijkl")
    scores = np.full(truth.shape, 0.5)
    scores[:, 3] = truth[:, 3]
    side = [AttributeOutcome(names, truth, scores, np.arange(N), IDS)] * 2
    found = asked({"x": (side, side)}, rules=Rules(resamples=300, margin=0.1))
    assert found.attempts[0].void
    assert found.verdict == "FAIL"
    assert "of d alone x finds 100 %" in found.reason
    assert len(found.unproven) == 11


# --- what is compared with what -----------------------------------------------------------------------------


def pairs_told(share: float, letter: str = "v") -> list[RankOutcome]:
    """ROC-AUC of about that much over pairs of every item."""
    truth = np.tile([0.0, 1.0], N)
    order = np.random.default_rng(5).random(2 * N)
    scores = np.where(np.arange(2 * N) < (2 * share - 1) * 2 * N, truth + 1, order)
    ids = tuple(f"{letter}{i}" for i in range(N))
    return [RankOutcome(truth, scores, np.repeat(np.arange(N), 2), ids)] * 3


RANK1: Sides = (right(0.5, chance=0.02, metric="rank1"), right(0.4, chance=0.02, metric="rank1"))
AUC: Sides = (pairs_told(0.97), pairs_told(0.6))


def test_another_metric_does_not_lower_what_leaks_by_the_first() -> None:
    alone = asked({"rank1_cosine": RANK1})
    both = asked({"auc_cosine": AUC, "rank1_cosine": RANK1})
    assert alone.verdict == both.verdict == "FAIL"
    assert both.leakage.value == alone.leakage.value == pytest.approx(0.79, abs=0.01)
    assert (both.leakage.low or 0) >= (alone.leakage.low or 0)
    assert (both.leakage.high or 0) >= (alone.leakage.high or 0)


def test_the_group_that_leaks_most_gives_all_figures() -> None:
    found = asked({"auc_cosine": AUC, "rank1_cosine": RANK1, "rank1_lda": RANK1})
    alone = asked({"rank1_cosine": RANK1, "rank1_lda": RANK1})
    assert (found.metric, found.strongest, found.strongest_raw) == ("rank1", "rank1_cosine", "rank1_cosine")
    for name in ("raw", "anonymized", "chance", "kept", "relative", "above"):
        assert getattr(found, name) == getattr(alone, name)
    assert [(one.metric, one.strongest) for one in found.groups] == [
        ("rank1", "rank1_cosine"),
        ("auc", "auc_cosine"),
    ]
    assert found.groups[1].leakage == asked({"auc_cosine": AUC}).leakage


def test_every_way_of_walking_is_compared_with_itself() -> None:
    """The same metric on other test items: who walks as in the gallery is found easily, in a coat hardly."""
    usual: Sides = (right(1.0, letter="nm"), right(0.5, letter="nm"))
    coat: Sides = (right(0.5, letter="cl"), right(0.45, letter="cl"))
    found = asked({"cosine_nm": usual, "cosine_cl": coat})
    assert found.strongest == "cosine_cl"
    assert found.leakage.value == pytest.approx(0.8, abs=0.01)
    assert found.verdict == "FAIL"


def test_attackers_that_measure_the_same_share_the_best_on_raw_videos() -> None:
    found = asked({"weak": (right(0.5), right(0.45)), "strong": (right(1.0), right(0.4))})
    assert (found.strongest_raw, found.strongest) == ("strong", "weak")
    assert found.leakage.value == pytest.approx((0.45 - 0.25) / 0.75)
    assert len(found.groups) == 1


def test_a_group_in_which_nobody_proves_anything_does_not_count() -> None:
    void: Sides = (right(0.26, metric="map"), right(0.26, metric="map"))
    alone, both = asked({"a": RANK1}), asked({"v": void, "a": RANK1})
    assert next(one for one in both.attempts if one.name == "v").void
    assert (both.leakage, both.groups, both.metric) == (alone.leakage, alone.groups, "rank1")


def test_doubt_about_a_group_that_does_not_decide_counts_and_is_named() -> None:
    sure: Sides = (right(1.0, n=400, letter="s"), right(0.55, n=400, letter="s"))
    vague: Sides = (right(0.8, n=14, letter="d"), right(0.4, n=14, letter="d"))
    assert asked({"sure": sure}).verdict == "PASS"
    found = asked({"sure": sure, "vague": vague})
    assert (found.strongest, found.verdict) == ("sure", "FAIL")
    assert "most doubt is left by vague" in found.reason


def test_utilities_are_compared_whatever_they_measure() -> None:
    found = asked({"a": (right(0.9), right(0.5)), "b": (pairs_told(0.97), pairs_told(0.97))}, "utility")
    assert (found.strongest, found.groups, found.unproven) == ("b", (), ())


FEW = Rules(resamples=100)
SMALL = 12
bits = st.lists(st.integers(0, 1), min_size=SMALL, max_size=SMALL)


def small(metric: str, letter: str, values: Sequence[int], chance: float = 0.1) -> list[Outcome]:
    ids = tuple(f"{letter}{i}" for i in range(SMALL))
    truth = np.array(values, dtype=float)
    if metric == "auc":  # of two rows per item the second is the true one: told apart or not
        scores = np.stack([np.full(SMALL, 0.5), truth], 1).ravel()
        return [RankOutcome(np.tile([0.0, 1.0], SMALL), scores, np.repeat(np.arange(SMALL), 2), ids)]
    return [MeanOutcome(metric, ids, truth, np.full(SMALL, chance))]


attempt = st.tuples(st.sampled_from(["rank1", "map", "auc"]), st.sampled_from(["nm", "cl"]), bits, bits)


def made(attempts: Sequence[tuple[str, str, list[int], list[int]]]) -> Question:
    sides: dict[str, Sides] = {
        f"{place}": (small(metric, letter, raw), small(metric, letter, veiled))
        for place, (metric, letter, raw, veiled) in enumerate(attempts)
    }
    return asked(sides, rules=FEW)


def not_lower(after: Question, before: Question) -> None:
    """Among more attackers luck counts for more, so that nothing may be shown any more; then nothing passes either."""
    if after.leakage.value is None:
        assert after.verdict != "PASS"
        return
    for end in ("value", "low", "high"):
        first = getattr(before.leakage, end)
        assert first is None or getattr(after.leakage, end) >= first


@settings(max_examples=60, deadline=None)
@given(st.lists(attempt, min_size=1, max_size=4), attempt)
def test_an_attempt_that_measures_something_else_never_lowers_the_leakage(
    first: list[tuple[str, str, list[int], list[int]]], new: tuple[str, str, list[int], list[int]]
) -> None:
    others = [one for one in first if one[:2] != new[:2]]
    if others:
        not_lower(made([*others, new]), made(others))


@settings(max_examples=60, deadline=None)
@given(st.lists(attempt, min_size=1, max_size=4), bits, bits)
def test_an_attempt_that_finds_no_more_in_raw_videos_never_lowers_the_leakage(
    first: list[tuple[str, str, list[int], list[int]]], fewer: list[int], veiled: list[int]
) -> None:
    metric, letter, raw, _ = first[0]
    if made(first[:1]).attempts[0].void:
        return
    new = (metric, letter, [a * b for a, b in zip(raw, fewer)], veiled)
    not_lower(made([*first, new]), made(first))


@pytest.mark.parametrize("judged", [True, False])
def test_few_items_are_not_measured_and_have_no_figure(judged: bool) -> None:
    few: Sides = (right(0.9, n=5), right(0.9, n=5))
    found = question("private attributes", "attack", {"a": few}, RULES, judged=judged)
    assert found.verdict == "NOT MEASURABLE"
    assert "5 test items" in found.attempts[0].void
    assert found.attempts[0].raw.score == found.attempts[0].anonymized.score == UNKNOWN


def test_items_of_which_nothing_is_known_are_no_test_items() -> None:
    ids = tuple(f"v{i}" for i in range(200))
    truth = np.full((200, 1), np.nan)
    truth[:8, 0] = np.arange(8) % 2
    side = [AttributeOutcome(("a",), truth, np.nan_to_num(truth), np.arange(200), ids)] * 2
    found = asked({"x": (side, side)})
    assert (found.attempts[0].items, found.verdict) == (8, "NOT MEASURABLE")
    assert "8 test items" in found.reason


# --- luck, and attackers who are too weak -------------------------------------------------------------------


def blind(number: int, world: int, columns: int = 1, n: int = 40) -> Sides:
    """Somebody who knows nothing of the videos of a world, raw or black, with three trainings that say alike."""
    rng = np.random.default_rng([world, number])
    truth = (
        np.random.default_rng(world).permuted(np.tile(np.arange(n) % 2, (columns, 1)), axis=1).T.astype(float)
    )
    ids, names = tuple(f"{world} {i}" for i in range(n)), tuple(f"a{i}" for i in range(columns))
    usual = rng.random(truth.shape)
    raw = [
        AttributeOutcome(names, truth, usual + 0.3 * rng.random(truth.shape), np.arange(n), ids)
        for _ in range(3)
    ]
    return raw, [AttributeOutcome(names, truth, np.zeros(truth.shape), np.arange(n), ids)] * 3


@pytest.mark.parametrize("columns", [1, 5])
def test_of_many_who_know_nothing_the_luckiest_proves_nothing(columns: int) -> None:
    worlds = 20
    alone = [
        any(not asked({"a": blind(who, world, columns)}).attempts[0].void for who in range(20))
        for world in range(worlds)
    ]
    assert sum(alone) > 5  # each by itself: somebody is always lucky
    together = [asked({str(who): blind(who, world, columns) for who in range(20)}) for world in range(worlds)]
    assert sum(one.verdict != "NOT MEASURABLE" for one in together) <= 2
    assert sum(len(one.parts) for one in together) <= 0.1 * worlds * columns
    assert any("once luck is taken off" in one.reason for one in together)


def test_who_knows_something_counts_among_many_who_know_nothing() -> None:
    crowd = {f"blind {n}": (seeds(0, 0, first=10 * n), seeds(0, 0, first=500 + n)) for n in range(20)}
    found = asked({**crowd, "strong": (seeds(0.8, 0.8), seeds(0.1, 0.1, first=3))})
    assert found.strongest_raw == "strong"
    assert [part.name for part in found.parts] == ["a", "b"]
    leaks = asked({**crowd, "strong": (seeds(0.8, 0.8), seeds(0.8, 0.8))})
    assert leaks.verdict == "FAIL"


def test_an_attribute_that_only_the_luckiest_finds_is_unproven() -> None:
    world = next(
        w for w in range(50) if any(not asked({"a": blind(k, w)}).attempts[0].void for k in range(20))
    )
    found = asked({str(who): blind(who, world) for who in range(20)})
    assert (found.parts, found.unproven) == ((), ("a0",))


def test_from_what_so_weak_attackers_do_not_find_nothing_follows() -> None:
    """They surely beat chance on raw videos, and find a tenth of what could be known."""
    found = asked({"a": (right(0.325, n=2000), right(0.255, n=2000))})
    assert not found.attempts[0].void
    assert (found.leakage.high or 1) <= RULES.max_leakage
    assert found.verdict == "NOT MEASURABLE"
    assert "less than 20 % of what could be known in raw videos" in found.reason
    assert (
        asked({"a": (right(0.325, n=2000), right(0.32, n=2000))}).verdict == "FAIL"
    )  # a leak is one all the same
    lenient = Rules(resamples=300, least_found=0.05)
    assert asked({"a": (right(0.325, n=2000), right(0.255, n=2000))}, rules=lenient).verdict == "PASS"


def without(side: Sequence[Outcome], column: int) -> list[Outcome]:
    """The same answers, blind for one attribute."""
    made: list[Outcome] = []
    for one in side:
        assert isinstance(one, AttributeOutcome)
        scores = one.scores.copy()
        scores[:, column] = 0.0
        made.append(AttributeOutcome(one.names, one.truth, scores, one.rows, one.items))
    return made


def test_a_pass_names_the_attributes_that_it_does_not_vouch_for() -> None:
    told = []
    for world in range(12):
        raw, veiled = rare(0.6, 0.15, world)
        found = asked({"a": (without(raw, 2), without(veiled, 2))})
        part = next(one for one in found.parts if one.name == "rare")
        if found.verdict == "PASS" and (part.leakage.high or 0) > RULES.max_leakage:
            told.append(found.reason)
    assert told
    for reason in told:
        assert re.search(r"of rare\b.* that holds by the estimate only", reason)
        assert "of usual 1 nothing is known" in reason


def test_every_attribute_has_witnesses_of_its_own() -> None:
    both = {"x/one": (seeds(1, 0.1), seeds(0, 0, first=9)), "y/two": (seeds(0.9, 1), seeds(0, 0, first=5))}
    found = asked(both)
    assert {part.name: part.witnesses for part in found.parts} == {"a": ("x/one", "y/two"), "b": ("y/two",)}
    assert among(("x/one", "y/two"), {"y"}) == ("y/two",)


def test_both_sides_must_be_scored_on_the_same_items() -> None:
    with pytest.raises(UsageError, match="same test items"):
        asked({"a": (right(0.9, n=20), right(0.9, n=21))})


# --- utilities and the verdict ------------------------------------------------------------------------------


def test_utility_is_judged_by_the_share_of_raw_that_is_kept() -> None:
    assert asked({"m": (right(0.9), right(0.85))}, "utility").verdict == "PASS"
    lost = asked({"m": (right(0.9), right(0.6))}, "utility")
    assert lost.verdict == "FAIL"
    assert "keeps 67 %" in lost.reason
    assert "54 % of what that was above chance" in lost.reason  # (.6 − .25) ÷ (.9 − .25)
    assert lost.kept.value == pytest.approx(0.6 / 0.9, abs=0.01)
    gone = asked({"m": (right(0.9), right(0.25))}, "utility")
    assert "does not clearly beat chance" in gone.reason


def test_utility_that_nobody_shows_on_raw_videos_is_not_measurable() -> None:
    assert asked({"m": (right(0.26), right(0.26))}, "utility").verdict == "NOT MEASURABLE"


def test_the_best_model_of_either_side_counts_for_utility() -> None:
    found = asked({"old": (right(0.9), right(0.3)), "new": (right(0.88), right(0.86))}, "utility")
    assert (found.strongest_raw, found.strongest) == ("old", "new")
    assert found.verdict == "PASS"


@pytest.mark.parametrize(
    ("privacy", "utility", "overall"),
    [
        ("PASS", "PASS", "PASS"),
        ("PASS", "FAIL", "FAIL"),
        ("FAIL", "NOT MEASURABLE", "FAIL"),
        ("PASS", "NOT MEASURABLE", "NOT MEASURABLE"),
    ],
)
def test_the_verdict_is_the_worse_of_both(privacy: Any, utility: Any, overall: str) -> None:
    found = verdict(
        [
            Question("q", "attack", "cmap", (), verdict=privacy),
            Question("unasked", "attack", "", (), possible=False),
            Question("u", "utility", "top1", (), verdict=utility),
        ]
    )
    assert (found.privacy, found.utility, found.overall) == (privacy, utility, overall)
    assert len(found.reasons) == 3


def test_what_could_be_asked_and_was_not_measured_holds_privacy_back() -> None:
    attributes = Question("private attributes", "attack", "", (), reason="nobody fitted")
    walks = Question("who is walking", "attack", "top1", (), verdict="PASS", reason="little is left")
    actions = Question("actions", "utility", "top1", (), verdict="PASS")
    unseen = Question("unusual events", "utility", "auc", ())
    found = verdict([attributes, walks, actions, unseen])
    assert (found.privacy, found.utility) == ("NOT MEASURABLE", "PASS")
    assert "privacy, private attributes: NOT MEASURABLE: nobody fitted; this holds PASS back" in found.reasons
    assert sum("holds PASS back" in reason for reason in found.reasons) == 1


def test_what_the_data_do_not_allow_to_ask_does_not_hold_privacy_back() -> None:
    attributes = Question("private attributes", "attack", "cmap", (), verdict="PASS")
    walks = Question("who is walking", "attack", "", (), reason="no walks", possible=False)
    found = verdict([attributes, walks])
    assert found.privacy == "PASS"
    assert "PASS says nothing about it" in found.reasons[1]
    assert verdict([walks]).privacy == "NOT MEASURABLE"


def test_what_fails_fails_whatever_else_was_not_measured() -> None:
    leaks = Question("who it is", "attack", "rank1", (), verdict="FAIL")
    found = verdict([Question("private attributes", "attack", "", ()), leaks])
    assert found.privacy == "FAIL"
    assert not any("holds PASS back" in reason for reason in found.reasons)


def test_what_is_shown_and_not_judged_decides_nothing() -> None:
    decibel = [MeanOutcome("psnr", IDS, np.full(N, 30.0))] * 3
    found = question("reconstruction", "attack", {"unet": (decibel, decibel)}, RULES, judged=False)
    assert found.attempts[0].raw.score.value == pytest.approx(30)
    assert found.attempts[0].raw.chance is None
    assert verdict([found]).privacy == "NOT MEASURABLE"


def test_who_finds_little_in_raw_videos_where_others_find_much_is_no_witness() -> None:
    """An encoder that was blinded, and a network that is as weak on raw videos as on anonymized ones."""
    weak = seeds(0.12, 0.12, first=3)
    found = asked({"features/kernel": (seeds(1, 1), seeds(0, 0, first=9)), "frames/tiny": (weak, weak)})
    assert not next(one for one in found.attempts if one.name == "frames/tiny").void
    assert witnesses(found, {"frames"}) == ()
    strong = seeds(0.9, 0.9, first=3)
    found = asked({"features/kernel": (seeds(1, 1), seeds(0, 0, first=9)), "frames/tiny": (strong, weak)})
    assert witnesses(found, {"frames"}) == ("frames/tiny",)
    assert witnesses(found, {"clips"}) == ()
