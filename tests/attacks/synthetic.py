"""Features that hide attributes in known ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WIDTH = 24


@dataclass(frozen=True)
class Rows:
    """Features (n, d), linear and crossed (not linear) attributes (n, 2), and a class (n,)."""

    x: np.ndarray
    y: np.ndarray
    identity: np.ndarray


def rows(count: int, seed: int, noise: float = 0.5) -> Rows:
    """Attribute 0 is a direction of the features, attribute 1 the sign of a product of two: no line can tell it."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(count, 6))
    mixing = np.random.default_rng(99).normal(size=(6, WIDTH))
    x = hidden @ mixing + noise * rng.normal(size=(count, WIDTH))
    y = np.stack((hidden[:, 0] > 0.7, hidden[:, 1] * hidden[:, 2] > 0), 1).astype(np.float64)
    return Rows(x, y, hidden[:, :5].argmax(1).astype(np.float64))


TRAIN, VALIDATION, TEST = rows(500, 0), rows(200, 1), rows(400, 2)
HELD_OUT = (VALIDATION.x, VALIDATION.y)
