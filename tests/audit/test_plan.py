from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from videoveil.audit.participant import Participant
from videoveil.audit.plan import RESERVE, SCORING, LeftOut, Plan, choose, cost


def somebody(name: str, role: Any = "attack", question: str = "q", strength: float = 0.5) -> Participant:
    return Participant(
        name, "", question, role, "clips", strength, lambda t, c: {}, lambda gpu: None, lambda s: ""
    )


PEOPLE = [
    somebody("useful", "utility", "u"),
    somebody("slow", strength=0.9),
    somebody("quick", strength=0.5),
    somebody("other", question="r"),
]
PRICES = {"useful": 10.0, "slow": 100.0, "quick": 10.0, "other": 20.0}
ONCE = dict.fromkeys(PRICES, 1)


def test_everybody_takes_part_where_there_is_time() -> None:
    assert choose(PEOPLE, PRICES, ONCE, 1000).chosen == ("useful", "slow", "quick", "other")


def test_those_who_find_most_per_minute_come_first_and_the_others_are_named() -> None:
    plan = choose(PEOPLE, PRICES, ONCE, 60, "1 minutes")
    assert plan.chosen == ("useful", "quick", "other")
    assert plan.left_out == (LeftOut("slow", "did not fit into 1 minutes"),)


def test_one_utility_and_one_attacker_take_part_even_where_time_is_too_short() -> None:
    assert choose(PEOPLE, PRICES, ONCE, 0).chosen == ("useful", "quick")


def test_who_learnt_from_raw_videos_alone_is_no_questions_first() -> None:
    """However cheap he is: what he does not find proves nothing."""
    old = replace(somebody("old", strength=0.1), adapts=False)
    prices, trainings = {**PRICES, "old": 1.0}, {**ONCE, "old": 1}
    assert choose([*PEOPLE, old], prices, trainings, 0).chosen == ("useful", "quick")
    assert "old" in choose([*PEOPLE, old], prices, trainings, 60).chosen
    assert choose([old], prices, trainings, 60).chosen == ("old",)


def test_what_is_done_already_costs_nothing() -> None:
    assert "slow" in choose(PEOPLE, PRICES, {**ONCE, "slow": 0}, 60).chosen


@given(
    st.dictionaries(st.sampled_from(list(PRICES)), st.floats(0.1, 100), min_size=4),
    st.floats(0, 500),
)
def test_a_plan_never_costs_more_than_the_budget_unless_it_must(
    prices: dict[str, float], budget: float
) -> None:
    plan = choose(PEOPLE, prices, ONCE, budget)
    spent = sum(prices[name] for name in plan.chosen)
    assert spent <= budget * RESERVE + 1e-9 or len(plan.chosen) <= 2
    assert {*plan.chosen, *(one.name for one in plan.left_out)} == set(PRICES)


def test_a_plan_comes_back_from_json() -> None:
    plan = Plan(("a",), (LeftOut("b", "because"),), {"a": 1.5})
    assert Plan.from_json(plan.to_json()) == plan


def test_what_is_over_at_once_is_kept() -> None:
    began = time.perf_counter()
    seconds, found = cost(lambda progress: {"a": 1}, 1.0)  # type: ignore[dict-item]
    assert found == {"a": 1}
    assert 0 <= seconds <= time.perf_counter() - began
    assert SCORING > 1


def test_a_network_that_learns_from_pictures_comes_before_others_that_find_more_per_minute() -> None:
    learner = replace(somebody("learner", strength=0.1), learns=True)
    prices, trainings = {**PRICES, "learner": 40.0}, {**ONCE, "learner": 1}
    assert choose([*PEOPLE, learner], prices, trainings, 90).chosen == ("useful", "quick", "other", "learner")
    assert "learner" not in choose([*PEOPLE, learner], prices, trainings, 60).chosen
