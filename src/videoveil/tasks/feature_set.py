"""Clip features of many videos as one matrix, checked: what a probe trains and is scored on.

Shapes: M clips of n videos, width d.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from videoveil.data.records import Item
from videoveil.errors import BadItems, StoreError
from videoveil.tasks.base import Features


@dataclass(frozen=True)
class FeatureSet:
    """Rows `offsets[i]` to `offsets[i + 1]` are the clips of item i, in time."""

    items: tuple[Item, ...]
    rows: np.ndarray  # (M, d) float32
    offsets: np.ndarray  # (n + 1,) int64

    def __len__(self) -> int:
        return len(self.items)

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def counts(self) -> np.ndarray:
        """Clips of every item, (n,)."""
        return np.diff(self.offsets)

    def fingerprint(self) -> str:
        """Changes with every bit of the features and with every item."""
        digest = hashlib.sha256(repr([item.id for item in self.items]).encode())
        digest.update(self.offsets.tobytes())
        digest.update(np.ascontiguousarray(self.rows).data)
        return digest.hexdigest()


def feature_problems(features: np.ndarray, width: int | None) -> list[str]:
    """What keeps the clip features of one video from being used."""
    if features.ndim != 2 or features.dtype.kind != "f":
        return [f"features are {features.dtype} {features.shape}, not numbers of shape (clips, width)"]
    if 0 in features.shape:
        return [f"no features, shape {features.shape}"]
    found = []
    if width is not None and features.shape[1] != width:
        found.append(f"features are {features.shape[1]} wide instead of {width}")
    bad = np.flatnonzero(~np.isfinite(features).all(1))
    if len(bad):
        found.append(f"{len(bad)} of {len(features)} clips have NaN or infinite values, first {bad[0]}")
    return found


def load(source: Features, width: int | None = None, *, also: Sequence[str] = ()) -> FeatureSet:
    """All items of a source, ordered by id; otherwise `BadItems` with every offender.

    Without `width` the most common one is taken to be right. `also` is what else is wrong with the items, listed with
    the rest.
    """
    stored = sorted(source.items(), key=lambda entry: entry.item.id)
    if not stored:
        there = ", ".join(f"{name} {count}" for name, count in source.records().counts().items())
        raise BadItems(
            f"{source.store.root}: no items in split {source.split!r}; there are {there or 'none'}"
        )
    arrays: list[np.ndarray] = []
    wrong: list[str] = list(also)
    unreadable: set[str] = set()
    for entry in stored:
        try:
            arrays.append(source.store.read(entry).clip)
        except StoreError as error:
            arrays.append(np.zeros((0, 0), dtype=np.float32))
            wrong.append(f"{entry.item.id}: {error}")
            unreadable.add(entry.item.id)
    expected = width or _most_common([a.shape[1] for a in arrays if a.ndim == 2 and len(a)])
    for entry, array in zip(stored, arrays):
        if entry.item.id not in unreadable:
            wrong += [f"{entry.item.id}: {problem}" for problem in feature_problems(array, expected)]
    if wrong:
        raise BadItems(f"{source.store.root}: {len(wrong)} problems with {len(stored)} items:", wrong)
    offsets = np.concatenate(([0], np.cumsum([len(array) for array in arrays]))).astype(np.int64)
    rows = np.concatenate(arrays).astype(np.float32, copy=False)
    return FeatureSet(tuple(entry.item for entry in stored), rows, offsets)


def _most_common(values: list[int]) -> int | None:
    return Counter(values).most_common(1)[0][0] if values else None
