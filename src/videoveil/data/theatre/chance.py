"""Named randomness: every draw comes from a generator that is a pure function of its key.

The same key gives the same draws in any process, in any order, on any number of workers.
"""

from __future__ import annotations

import hashlib

import numpy as np

Key = tuple[str | int, ...]


def generator(*key: str | int) -> np.random.Generator:
    """A generator seeded by the key alone."""
    digest = hashlib.sha256("\x1f".join(f"{type(k).__name__}:{k}" for k in key).encode()).digest()
    return np.random.Generator(np.random.PCG64(np.frombuffer(digest[:16], dtype=np.uint64)))


def between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(rng.uniform(low, high))


def pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


def coin(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)
