"""The kernel attacker: ridge regression in the space of a Gaussian kernel, in closed form.

What is left after directions have been erased is no longer linear, and small networks with few training rows hardly
find it. A Gaussian kernel on whitened principal directions does: on erased features it is the strongest attacker here.

Shapes: n training rows, m landmarks, q inputs, k columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from videoveil.attacks.base import Attacker, Predict
from videoveil.attacks.inputs import ROUNDING, Scaling, standard, whitened
from videoveil.attacks.targets import Data, together

DEAD = 1e-10  # of the largest eigenvalue of the kernel matrix; below it a direction is rounding
STEEPNESS = 4.0  # of the curve from regression values around 1/2 to probabilities


@dataclass(frozen=True)
class KernelAttacker(Attacker):
    """min Σ(f(x) − y)² + penalty·‖f‖² with f in the space of exp(−‖x − z‖²/(width·mean square distance)).

    Inputs (so many whitened principal directions; 0: standardised channels), width and penalty are those that do best
    on the validation data, one choice for all columns: choosing for every attribute by itself follows the noise of
    small validation sets and made a weaker attacker. Then all rows are learnt from. Without validation data the first
    of each counts. Of more than `landmarks` rows, that many (drawn from the seed) span the space in which all are
    fitted.
    """

    kind: str = "kernel"
    directions: tuple[int, ...] = (64, 32, 0)
    widths: tuple[float, ...] = (0.5, 2.0)
    penalties: tuple[float, ...] = (1e-1, 1e-2, 1.0)
    landmarks: int = 1500

    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        best = (self.directions[0], self.widths[0], self.penalties[0])
        if validation is not None:
            best = self._choose(data, validation, seed)
        directions, width, penalty = best
        everything = together(data, validation)
        (machine,) = self._machines(everything, directions, width, (penalty,), seed)
        facts = {"directions": directions, "width": width, "penalty": penalty}
        return lambda x: _probabilities(machine(x), data), facts

    def _choose(self, data: Data, validation: Data, seed: int) -> tuple[int, float, float]:
        found: dict[tuple[int, float, float], float] = {}
        for directions in self.directions:
            for width in self.widths:
                machines = self._machines(data, directions, width, self.penalties, seed)
                for penalty, machine in zip(self.penalties, machines):
                    found[directions, width, penalty] = validation.quality(machine(validation.x))
        return max(found, key=lambda choice: found[choice])

    def _machines(
        self, data: Data, directions: int, width: float, penalties: tuple[float, ...], seed: int
    ) -> list[_Machine]:
        """A machine for every penalty."""
        scaling = whitened(data.x, directions, floor=ROUNDING) if directions else standard(data.x)
        inputs = scaling(data.x)  # (n, q)
        chosen = np.random.default_rng(seed).permutation(len(inputs))[: self.landmarks]
        return _solve(
            _Space.spanned(inputs[chosen], width), scaling, inputs, _regression_targets(data), penalties
        )


@dataclass(frozen=True)
class _Space:
    """Coordinates in which the kernel between landmarks is a plain product."""

    landmarks: np.ndarray  # (m, q)
    scale: float  # of square distances
    turn: np.ndarray  # (m, r)

    @classmethod
    def spanned(cls, landmarks: np.ndarray, width: float) -> _Space:
        distances = _square_distances(landmarks, landmarks)
        scale = 1 / (width * max(float(distances.mean()), np.finfo(np.float64).tiny))
        values, vectors = scipy.linalg.eigh(np.exp(-scale * distances))
        alive = values > DEAD * values[-1]
        return cls(landmarks, scale, vectors[:, alive] / np.sqrt(values[alive]))

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """(n, q) → (n, r)"""
        coordinates: np.ndarray = np.exp(-self.scale * _square_distances(inputs, self.landmarks)) @ self.turn
        return coordinates


@dataclass(frozen=True)
class _Machine:
    space: _Space
    scaling: Scaling
    weight: np.ndarray  # (r, k)
    mean: np.ndarray  # (k,)
    centre: np.ndarray  # (r,)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Raw features (m, d) → regression values (m, k)."""
        values: np.ndarray = (self.space(self.scaling(x)) - self.centre) @ self.weight + self.mean
        return values


def _solve(
    space: _Space, scaling: Scaling, inputs: np.ndarray, y: np.ndarray, penalties: tuple[float, ...]
) -> list[_Machine]:
    """A machine for every penalty; inputs (n, q), y (n, k)."""
    coordinates = space(inputs)
    centre, mean = coordinates.mean(0), y.mean(0)
    coordinates = coordinates - centre
    gram, product = coordinates.T @ coordinates, coordinates.T @ (y - mean)
    found = []
    for penalty in penalties:
        held = gram + penalty * np.eye(len(gram))
        weight = scipy.linalg.solve(held, product, assume_a="pos", overwrite_a=True)
        found.append(_Machine(space, scaling, weight, mean, centre))
    return found


def _regression_targets(data: Data) -> np.ndarray:
    """(n, k): attributes, what is unknown as the mean of what is known; or one-hot classes."""
    if data.classes is not None:
        return (data.codes[:, None] == np.arange(data.columns)).astype(np.float64)
    known = ~np.isnan(data.y)
    means = np.where(known, data.y, 0).sum(0) / known.sum(0)
    return np.where(known, data.y, means)


def _probabilities(values: np.ndarray, data: Data) -> np.ndarray:
    """Regression values (m, k) → (0, 1), in the same order; of classes, with sum 1."""
    if data.classes is None:
        return 1 / (1 + np.exp(-STEEPNESS * (values - 0.5)))
    raised = np.exp(STEEPNESS * (values - values.max(1, keepdims=True)))
    shares: np.ndarray = raised / raised.sum(1, keepdims=True)
    return shares


def _square_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n, q), (m, q) → (n, m), never below 0."""
    products = a @ b.T
    found: np.ndarray = np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * products
    return found.clip(min=0)
