"""Inputs by the statistics of the training features: a rescaled feature must not blind an attacker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SMALL = 1e-12  # of the largest; below it a channel or direction does not vary
ROUNDING = 1e-5  # of the largest; below it a direction of float32 features is mostly rounding


@dataclass(frozen=True, slots=True)
class Scaling:
    """x (n, d) → ((x − mean)·scale) @ rotation, (n, q) float64."""

    mean: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    rotation: np.ndarray | None = None  # (d, q)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = (x - self.mean) * self.scale
        return scaled if self.rotation is None else scaled @ self.rotation

    def back(self, weight: np.ndarray) -> np.ndarray:
        """Weights (q, k) on scaled inputs → the same (d, k) on x − mean."""
        rotated = weight if self.rotation is None else self.rotation @ weight
        return self.scale[:, None] * rotated


def standard(x: np.ndarray) -> Scaling:
    """Every channel to mean 0 and standard deviation 1; a constant channel to 0."""
    return Scaling(x.mean(0), _inverse(x.std(0)))


def whitened(
    x: np.ndarray, directions: int | None = None, *, unit: bool = True, floor: float = SMALL
) -> Scaling:
    """Principal directions of the standardised channels, by falling variance, each to standard deviation 1.

    Also undoes a shrinking of directions that are spread over channels, which `standard` cannot see. `unit=False`
    leaves the variances as they are. Directions that spread less than `floor` of the widest are left out: with
    `ROUNDING` those that float32 cannot tell from noise, where something may be left of what was erased, or nothing.
    """
    first = standard(x)
    scaled = first(x)
    variance, vectors = np.linalg.eigh(scaled.T @ scaled / len(x))
    variance, vectors = variance[::-1].clip(min=0), vectors[:, ::-1]
    keep = slice(None, directions)
    spread = np.sqrt(variance[keep])
    factor = _inverse(spread, floor) if unit else np.ones_like(spread)
    return Scaling(first.mean, first.scale, vectors[:, keep] * factor)


def _inverse(spread: np.ndarray, floor: float = SMALL) -> np.ndarray:
    """1/spread, 0 where there is none; rounding makes a constant channel spread a little."""
    alive = spread > floor * max(float(spread.max(initial=0.0)), np.finfo(np.float64).tiny)
    return np.where(alive, 1 / np.where(alive, spread, 1.0), 0.0)
