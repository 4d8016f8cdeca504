"""How sure a figure is: 95 % of the mean over seeds and, where the answers behind it were kept, over test items too.

Seeds alone say how much a training differs from the next one; with few test items the figure differs much more from one
choice of them to another. So items are drawn too wherever a measure kept what was said of each (`Reading.outcome`), by
the bootstrap of audits: seeds and items with repeats, and people with all of their videos where they are known.

The strongest of several attackers is chosen by the test items themselves, so some of what it finds is luck. Its figure,
and how far that lies from another one, have the interval of the attacker that was chosen. How far it lies above chance
is asked more strictly, for much follows from it (`Sample.above`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean, stdev
from typing import TYPE_CHECKING, Literal

import numpy as np

from videoveil.audit.rules import Rules

if TYPE_CHECKING:
    from videoveil.audit.draws import Drawn, Draws
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
    sober: np.ndarray | None = None  # (B,) of the best of several: what is left without luck in every draw


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    over: Over


@dataclass(frozen=True)
class Sample:
    """The answers of all seeds on the same items. They are drawn once, and figures on the same items draw alike.

    How often each draw takes each item is not kept: an evaluation has hundreds of samples, and each would hold as many
    numbers as items times draws. Whoever needs them draws them again, and gets the same.
    """

    answers: tuple[Answers, ...]

    @property
    def items(self) -> tuple[str, ...]:
        return self.answers[0].outcome.items

    @property
    def factor(self) -> float:
        return self.answers[0].factor

    @cached_property
    def drawn(self) -> Drawn:
        """As shares."""
        from videoveil.audit.draws import draw

        return draw([one.outcome for one in self.answers], _draws(self.answers[0].people))[0]

    def interval(self, value: float, drawn: np.ndarray) -> tuple[float, float] | None:
        """Of `value` by its draws; None where too few choices of items define it."""
        found = _draws().interval(value, drawn)
        return None if found.low is None or found.high is None else (found.low, found.high)

    def above(self) -> tuple[float, float] | None:
        """Of how far the figure lies above chance, in its unit; None where too few choices of items define it.

        Where the best of several was taken, the luck of the luckiest in every draw is taken off for the lower end.
        """
        one = self.drawn
        value = self.factor * (one.value - one.chance)
        plain = self.interval(value, self.factor * (one.values - one.chances))
        sober = [said.sober for said in self.answers if said.sober is not None]
        if plain is None or len(sober) < len(self.answers):
            return plain
        left = np.take_along_axis(np.stack(sober, 1), _draws().seeds(len(sober)), 1).mean(1)
        strict = self.interval(value, self.factor * left)
        return None if strict is None else (min(plain[0], strict[0]), plain[1])

    def pairs_with(self, other: Sample) -> bool:
        """Whether a draw of one is a draw of the other."""
        return self.items == other.items and len(self.answers) == len(other.answers)


def sample(answers: Sequence[Answers | None]) -> Sample | None:
    """The answers of all seeds, where all were kept and are of the same items."""
    known = tuple(one for one in answers if one is not None)
    if not known or len(known) < len(answers) or len({one.outcome.items for one in known}) > 1:
        return None
    return Sample(known)


def _draws(people: Mapping[str, str] | None = None) -> Draws:
    from videoveil.audit.draws import Draws

    return Draws(Rules(), people=people or {})


def without_luck(attackers: Sequence[Outcome], people: Mapping[str, str]) -> np.ndarray | None:
    """(B,) how far the best one lies above chance, less what the luckiest one gains in a draw; None: nobody chose."""
    from videoveil.audit.draws import draw, sober

    if len(attackers) < 2:
        return None
    draws = _draws(people)
    return sober([draw([one], draws)[0] for one in attackers])


def interval_of(values: Sequence[float], said: Sample | None) -> Interval | None:
    """Of the mean of a figure over seeds; none for a single seed, which says nothing about the next one."""
    if len(values) < 2:
        return None
    found = None if said is None else over_items_and_seeds(mean(values), said)
    return over_seeds(values) if found is None else found


def over_seeds(values: Sequence[float]) -> Interval:
    """By Student's t."""
    from scipy.stats import t

    centre = mean(values)
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return Interval(centre - half, centre + half, SEEDS)


def over_items_and_seeds(value: float, said: Sample) -> Interval | None:
    """By the bootstrap of audits; None where too few choices of items define the figure."""
    found = said.interval(value, said.factor * said.drawn.values)
    return None if found is None else Interval(*found, ITEMS)


def above_chance(
    value: float | None,
    chance: float | None,
    said: Sample | None,
    whole: tuple[float, float] | None,
) -> tuple[float, float] | None:
    """95 % of how far a figure lies above what knowing nothing gives, in its unit; None where nothing tells.

    From the answers figure and chance are drawn together, and chance is what blind answers get on so few items, as in
    audits; with a single seed these are draws of items alone. Otherwise it is the interval of the figure, `whole`.
    """
    if value is None or chance is None:
        return None
    if said is not None and not np.isnan(said.drawn.chance):
        return said.above()
    return None if whole is None else (whole[0] - chance, whole[1] - chance)
