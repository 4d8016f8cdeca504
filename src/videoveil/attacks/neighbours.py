"""The nearest-neighbour attacker: no assumption about shape, the closest known rows vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from videoveil.attacks.base import Attacker, Predict
from videoveil.attacks.inputs import standard
from videoveil.attacks.targets import Data, together

BLOCK = 1024  # rows compared at once


@dataclass(frozen=True)
class NeighbourAttacker(Attacker):
    """The k nearest training rows by Euclidean distance of standardised features, weighted by 1/distance.

    k is chosen on validation data, for every attribute by itself, and the rows of that data then are neighbours too;
    `fallback` without. A row whose attribute is unknown is no neighbour for that attribute.
    """

    kind: str = "knn"
    counts: tuple[int, ...] = (1, 5, 15, 45)
    fallback: int = 15

    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        scaling = standard(data.x)
        bank = _Bank(scaling(data.x), _votes(data))
        if validation is None:
            chosen = [self.fallback] * data.columns
        else:
            tried = {k: bank.scores(scaling(validation.x), [k] * data.columns) for k in self.counts}
            chosen = _choose(tried, validation, data.columns)
            everything = together(data, validation)
            bank = _Bank(scaling(everything.x), _votes(everything))
        return lambda x: bank.scores(scaling(x), chosen), {"neighbours": chosen}


def _votes(data: Data) -> np.ndarray:
    """(n, columns): the attributes, or one-hot classes."""
    if data.classes is None:
        return data.y
    return (data.codes[:, None] == np.arange(data.columns)).astype(np.float64)


def _choose(tried: dict[int, np.ndarray], validation: Data, columns: int) -> list[int]:
    if validation.classes is not None:
        return [max(tried, key=lambda k: validation.quality(tried[k]))] * columns
    chosen = []
    for i in range(columns):
        one = Data(validation.x, validation.y[:, i : i + 1], None)
        chosen.append(max(tried, key=lambda k: one.quality(tried[k][:, i : i + 1])))
    return chosen


@dataclass(frozen=True)
class _Bank:
    """Training rows (n, d) and what they vote for (n, columns), NaN where unknown."""

    rows: np.ndarray
    votes: np.ndarray

    def scores(self, x: np.ndarray, counts: list[int]) -> np.ndarray:
        """(m, d) → (m, columns): weighted share of votes among counts[i] neighbours, for column i."""
        parts = [self._block(x[start : start + BLOCK], counts) for start in range(0, len(x), BLOCK)]
        return np.concatenate(parts) if parts else np.empty((0, self.votes.shape[1]))

    def _block(self, x: np.ndarray, counts: list[int]) -> np.ndarray:
        squares = (x**2).sum(1)[:, None] + (self.rows**2).sum(1) - 2 * x @ self.rows.T
        distance = np.sqrt(squares.clip(min=0))  # (m, n)
        found = np.empty((len(x), self.votes.shape[1]))
        known = ~np.isnan(self.votes)
        groups: dict[
            tuple[int, bytes], list[int]
        ] = {}  # columns with one k and the same known rows share neighbours
        for i, k in enumerate(counts):
            groups.setdefault((k, known[:, i].tobytes()), []).append(i)
        for (k, _), columns in groups.items():
            there = np.flatnonzero(known[:, columns[0]])
            found[:, columns] = _vote(distance[:, there], self.votes[there][:, columns], k)
        return found


def _vote(distance: np.ndarray, votes: np.ndarray, k: int) -> np.ndarray:
    """distance (m, n), votes (n, c) → (m, c)."""
    k = min(k, distance.shape[1])
    nearest = np.argpartition(distance, k - 1, axis=1)[:, :k]  # (m, k)
    near = np.take_along_axis(distance, nearest, 1)
    weight = 1 / (near + 1e-9 + 1e-3 * near.mean(1, keepdims=True))
    weight /= weight.sum(1, keepdims=True)
    return np.einsum("mk,mkc->mc", weight, votes[nearest]).clip(0, 1)  # weights add up to 1 but for rounding
