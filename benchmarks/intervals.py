"""95 % intervals: of a few repetitions, and over test items and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from videoveil.audit.draws import Drawn, Draws, Estimate, draw
from videoveil.audit.rules import Rules
from videoveil.tasks.outcomes import Outcome

DRAWS = Draws(Rules())


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and the ends of Student's 95 % interval of the mean; one value alone has no interval (NaN)."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, float("nan"), float("nan")
    reach = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return mean, mean - reach, mean + reach


def show(values: Sequence[float], scale: float = 100) -> str:
    """`85.0 [83.1, 86.9]` of shares; an interval ends where shares do."""
    mean, low, high = interval(values)
    mean, low, high = scale * mean, scale * max(low, 0.0), scale * min(high, 1.0)
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]" if len(values) > 1 else f"{mean:.1f}"


def drawn(outcomes: Sequence[Outcome], owners: Mapping[str, str] | None = None) -> Drawn:
    """The mean over seeds, and a bootstrap of it over test items and seeds; the same items, the same draws.

    owners: item → the film or the person it is of; these are drawn then, with all of their items.
    """
    return draw(outcomes, replace(DRAWS, people=owners or {}, _counts={}))[0]


def estimate(value: float, values: np.ndarray) -> Estimate:
    """A figure and the middle 95 % of its draws."""
    return DRAWS.interval(value, values)
