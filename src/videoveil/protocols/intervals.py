"""How sure a figure is: 95 % of the mean over seeds and, where the answers behind it were kept, over test items too.

Seeds alone say how much a training differs from the next one; with few test items the figure differs much more from one
choice of them to another. So items are drawn too wherever a measure kept what was said of each (`Reading.outcome`), by
the bootstrap of audits: seeds and items with repeats, and people with all of their videos where they are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from videoveil.tasks.outcomes import Outcome

Over = Literal["", "seeds", "items and seeds"]  # what an interval is about; "": there is none
SEEDS: Over = "seeds"
ITEMS: Over = "items and seeds"


@dataclass(frozen=True)
class Answers:
    """What was said of every test item with one seed; `factor` takes shares to the unit of the column."""

    outcome: Outcome
    factor: float = 1.0
    people: Mapping[str, str] = field(default_factory=dict)  # item → who is in it


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    over: Over


def interval(values: Sequence[float], answers: Sequence[Answers | None] = ()) -> Interval | None:
    """Of the mean of a figure over seeds; none for a single seed, which says nothing about the next one."""
    if len(values) < 2:
        return None
    known = [one for one in answers if one is not None]
    same_items = len(known) == len(values) and len({one.outcome.items for one in known}) == 1
    found = over_items_and_seeds(mean(values), known) if same_items else None
    return over_seeds(values) if found is None else found


def over_seeds(values: Sequence[float]) -> Interval:
    """By Student's t."""
    from scipy.stats import t

    centre = mean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return Interval(centre - half, centre + half, SEEDS)


def over_items_and_seeds(value: float, answers: Sequence[Answers]) -> Interval | None:
    """By the bootstrap of audits; None where too few choices of items define the figure."""
    from videoveil.audit.draws import Draws, draw
    from videoveil.audit.rules import Rules

    factor = answers[0].factor
    draws = Draws(Rules(), people=answers[0].people)
    drawn, _ = draw([one.outcome for one in answers], draws)
    found = draws.interval(value, factor * drawn.values)
    if found.low is None or found.high is None:
        return None
    return Interval(found.low, found.high, ITEMS)
