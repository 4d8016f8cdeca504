from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from videoveil.audit.scoring import (
    Draws,
    Estimate,
    Question,
    Rules,
    Sides,
    advantage,
    draw,
    question,
    verdict,
    worst,
)
from videoveil.errors import UsageError
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome

RULES = Rules(resamples=300)
N = 60
IDS = tuple(f"v{i}" for i in range(N))
TRUTH = np.stack([np.arange(N) % 2, np.arange(N) // 2 % 3 == 0], 1).astype(float)


def attacker(*strengths: float, seed: int = 0) -> AttributeOutcome:
    """Scores that know each attribute so well: 0 nothing, 1 everything."""
    rng = np.random.default_rng(seed)
    known = np.array(strengths)
    scores = known * TRUTH + (1 - known) * rng.random(TRUTH.shape)
    return AttributeOutcome(("a", "b"), TRUTH, scores, np.arange(N), IDS)


def seeds(*strengths: float, count: int = 3, first: int = 0) -> list[AttributeOutcome]:
    return [attacker(*strengths, seed=first + number) for number in range(count)]


def right(share: float, count: int = 3, n: int = N, chance: float = 0.25) -> list[MeanOutcome]:
    values = (np.arange(n) < share * n).astype(float)
    ids = tuple(f"v{i}" for i in range(n))
    return [MeanOutcome("top1", ids, np.roll(values, k), np.full(n, chance)) for k in range(count)]


def asked(sides: dict[str, Sides], role: Any = "attack", rules: Rules = RULES) -> Question:
    return question("private attributes", role, sides, rules)


# --- the bootstrap ------------------------------------------------------------------------------------------


def slow_draws(outcomes: Sequence[Any], draws: Draws) -> np.ndarray:
    """(B,): every draw written out, seed by seed."""
    found = []
    for items, taken in zip(draws.items(outcomes[0].items), draws.seeds(len(outcomes))):
        found.append(np.mean([outcomes[s].measure(items).value for s in taken]))
    return np.array(found)


@pytest.mark.parametrize("outcomes", [seeds(0.5, 0.3), right(0.7)])
def test_draws_take_seeds_and_items_with_repeats(outcomes: list[Any]) -> None:
    draws = Draws(Rules(resamples=100), 4)
    fast, _ = draw(outcomes, draws)
    assert fast.values == pytest.approx(slow_draws(outcomes, draws))
    assert fast.value == pytest.approx(np.mean([one.measure().value for one in outcomes]))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """The share of heads of a coin of ½, 40 throws: most of 100 intervals have ½ in them."""
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(100):
        values = rng.integers(0, 2, N).astype(float)
        one = MeanOutcome("top1", tuple(f"{trial} {i}" for i in range(N)), values, np.full(N, 0.5))
        found = draw([one], Draws(RULES, trial))[0].found(Draws(RULES, trial)).score
        covered += (found.low or 0) <= 0.5 <= (found.high or 0)
    assert 88 <= covered <= 100


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


def test_few_items_are_not_measured() -> None:
    found = asked({"a": (right(0.9, n=5), right(0.9, n=5))})
    assert found.verdict == "NOT MEASURABLE"
    assert "5 test items" in found.reason


def test_both_sides_must_be_scored_on_the_same_items() -> None:
    with pytest.raises(UsageError, match="same test items"):
        asked({"a": (right(0.9, n=20), right(0.9, n=21))})


# --- utilities and the verdict ------------------------------------------------------------------------------


def test_utility_is_judged_by_the_share_of_raw_that_is_kept() -> None:
    assert asked({"m": (right(0.9), right(0.85))}, "utility").verdict == "PASS"
    lost = asked({"m": (right(0.9), right(0.6))}, "utility")
    assert lost.verdict == "FAIL"
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
            Question("unasked", "attack", "", ()),
            Question("u", "utility", "top1", (), verdict=utility),
        ]
    )
    assert (found.privacy, found.utility, found.overall) == (privacy, utility, overall)
    assert len(found.reasons) == 3


def test_what_is_shown_and_not_judged_decides_nothing() -> None:
    decibel = [MeanOutcome("psnr", IDS, np.full(N, 30.0))] * 3
    found = question("reconstruction", "attack", {"unet": (decibel, decibel)}, RULES, judged=False)
    assert found.attempts[0].raw.score.value == pytest.approx(30)
    assert found.attempts[0].raw.chance is None
    assert verdict([found]).privacy == "NOT MEASURABLE"
    assert worst([found]) is None


def test_advantage_is_nothing_at_chance_and_one_at_the_top() -> None:
    assert advantage(np.array([0.3, 1.0]), np.array([0.3, 0.3])) == pytest.approx([0, 1])


def test_impossible_rules_are_refused() -> None:
    for wrong in ({"seeds": 0}, {"max_leakage": 0}, {"margin": 1}, {"level": 1.0}, {"resamples": 3}):
        with pytest.raises(UsageError):
            Rules(**wrong)
