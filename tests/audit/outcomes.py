"""What attackers of known strength and networks of known accuracy would say."""

from __future__ import annotations

import numpy as np

from videoveil.audit.rules import Rules
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


def right(
    share: float, count: int = 3, n: int = N, chance: float = 0.25, metric: str = "top1", letter: str = "v"
) -> list[MeanOutcome]:
    values = (np.arange(n) < share * n).astype(float)
    ids = tuple(f"{letter}{i}" for i in range(n))
    return [MeanOutcome(metric, ids, np.roll(values, k), np.full(n, chance)) for k in range(count)]
