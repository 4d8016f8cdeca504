"""Figures with intervals: a nested bootstrap over test items and trainings.

Every draw takes seeds with repeats, and test items with repeats, the same ones for both sides and for all attackers, so
that differences are those of the anonymizer. Where it is known who is in a video, people are drawn and all of their
videos with them: ten videos of one person tell less than ten of ten.

Shapes: S seeds, B draws, n items of g people (of g = n where nobody is known), k attributes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from videoveil.audit.rules import Rules
from videoveil.errors import UsageError
from videoveil.tasks.outcomes import AttributeOutcome, Outcome, draws_of, mean_of

TINY = 1e-6


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; None where the items do not define it."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def map(self, change: Any) -> Estimate:
        """The estimate of a falling function of the figure: the ends change places."""
        both = [None if end is None else change(end) for end in (self.high, self.low)]
        return Estimate(None if self.value is None else change(self.value), both[0], both[1])


UNKNOWN = Estimate(None)


@dataclass(frozen=True, slots=True)
class Found:
    """What one attacker (or utility) got on one side."""

    score: Estimate
    chance: float | None
    above: Estimate  # value − chance


@dataclass(frozen=True)
class Draws:
    """The choices of a bootstrap: the same for everything that is measured on the same items."""

    rules: Rules
    seed: int = 0
    people: Mapping[str, str] = field(default_factory=dict)  # item → who is in it, where that is known
    _counts: dict[tuple[str, ...], np.ndarray] = field(default_factory=dict, repr=False)

    def counts(self, items: tuple[str, ...]) -> np.ndarray:
        """(B, n) how often each item is taken."""
        if items not in self._counts:
            digest = hashlib.sha256(repr(items).encode()).digest()
            rng = np.random.default_rng([self.seed, int.from_bytes(digest[:8])])
            owners = self.owners(items)
            people = len(np.unique(owners))
            taken = rng.integers(0, people, (self.rules.resamples, people))  # (B, g)
            often = np.stack([np.bincount(row, minlength=people) for row in taken]).astype(float)
            self._counts[items] = often[:, owners]
        return self._counts[items]

    def owners(self, items: Sequence[str]) -> np.ndarray:
        """(n,) who is in each item, by number; whose nobody is known is somebody of their own."""
        places: dict[Any, int] = {}
        return np.array([places.setdefault(self._owner(item), len(places)) for item in items], dtype=np.int64)

    def _owner(self, item: str) -> tuple[bool, str]:
        return item in self.people, self.people.get(item, item)

    def seeds(self, count: int) -> np.ndarray:
        """(B, S) which seeds are taken in every draw."""
        return np.random.default_rng([self.seed, count]).integers(0, count, (self.rules.resamples, count))

    def interval(self, value: float | None, drawn: np.ndarray) -> Estimate:
        """The estimate with percentiles of its draws; where they leave it out they are widened to it."""
        known = drawn[~np.isnan(drawn)]
        if value is None or np.isnan(value):
            return Estimate(None)
        if len(known) < len(drawn) / 2:  # the items define it only now and then
            return Estimate(value)
        tail = 50 * (1 - self.rules.level)
        low, high = np.percentile(known, (tail, 100 - tail))
        return Estimate(float(value), min(float(low), float(value)), max(float(high), float(value)))


@dataclass(frozen=True)
class Drawn:
    """One attacker on one side: its figure and chance, and those of every draw."""

    value: float
    chance: float
    values: np.ndarray  # (B,)
    chances: np.ndarray  # (B,)

    @property
    def advantage(self) -> float:
        return float(advantage(np.array(self.value), np.array(self.chance)))

    def found(self, draws: Draws) -> Found:
        known = not np.isnan(self.value)
        chance = None if np.isnan(self.chance) else self.chance
        above = draws.interval(self.value - self.chance, self.values - self.chances)
        return Found(draws.interval(self.value if known else None, self.values), chance, above)


def sober(drawn: Sequence[Drawn]) -> np.ndarray:
    """(B,) how far the best one lies above chance, less what the luckiest one gains in a draw.

    To choose the best in every draw again would not do: the best of several is above each of them in draws too, so the
    lower end would rise with their number, whatever they know.
    """
    above = np.array([one.value - one.chance for one in drawn])
    gained = [one.values - one.chances - own for one, own in zip(drawn, above)]
    return np.asarray(np.fmax.reduce(above) - np.fmax.reduce(gained))


def advantage(value: np.ndarray, chance: np.ndarray) -> np.ndarray:
    return np.asarray((value - chance) / np.maximum(1 - chance, TINY))


def draw(outcomes: Sequence[Outcome], draws: Draws) -> tuple[Drawn, dict[str, Drawn]]:
    """One side of one attacker over its seeds, and every attribute by itself where it was asked for attributes."""
    items = outcomes[0].items
    if any(one.items != items for one in outcomes):
        raise UsageError("audit: an attacker was scored on other test items with another seed")
    if not len(items):
        nothing = np.full(draws.rules.resamples, np.nan)
        return Drawn(np.nan, np.nan, nothing, nothing), {}
    # the first row takes every item once: the estimate itself
    counts = np.concatenate((np.ones((1, len(items))), draws.counts(items)))
    taken = draws.seeds(len(outcomes))
    if not all(isinstance(one, AttributeOutcome) for one in outcomes):
        each = [draws_of(one, counts) for one in outcomes]
        return _over_seeds(np.stack([e[0] for e in each]), np.stack([e[1] for e in each]), taken), {}
    made = [_attribute_draws(one, counts) for one in outcomes]
    values, chances = np.stack([m[0] for m in made]), np.stack([m[1] for m in made])  # (S, 1 + B, k)
    means = [mean_of(v, c) for v, c in zip(values, chances)]
    whole = _over_seeds(np.stack([m[0] for m in means]), np.stack([m[1] for m in means]), taken)
    names = outcomes[0].names  # type: ignore[attr-defined]
    parts = {name: _over_seeds(values[:, :, i], chances[:, :, i], taken) for i, name in enumerate(names)}
    return whole, parts


def _attribute_draws(one: Any, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Average precisions and what blind answers get (1 + B, k): more than the share of positives, if items are few."""
    values, shares = one.attribute_draws(counts)
    excess = one.blind_attributes() - shares[:1]
    return values, shares + np.nan_to_num(np.maximum(excess, 0.0))


def _over_seeds(values: np.ndarray, chances: np.ndarray, taken: np.ndarray) -> Drawn:
    """values, chances (S, 1 + B), taken (B, S): means over all seeds, and in every draw over those that it takes."""
    places = np.arange(1, values.shape[1])[:, None]
    drawn = (part[taken, places].mean(1) for part in (values, chances))
    return Drawn(float(values[:, 0].mean()), float(chances[:, 0].mean()), next(drawn), next(drawn))
