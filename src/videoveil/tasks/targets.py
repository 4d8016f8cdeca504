"""What is to be read off an item: one class of several, or any number of tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError, UsageError

What = Literal["action", "actions", "objects", "scenes"]
WHATS = get_args(What)


@dataclass(frozen=True)
class Targets:
    """`values` is (n,) class numbers, or (n, k) of 0 and 1 where an item may have several tags."""

    names: tuple[str, ...]
    values: np.ndarray

    @property
    def several(self) -> bool:
        return self.values.ndim == 2


def vocabulary(dataset: Dataset, what: What) -> tuple[str, ...]:
    """The names a model can answer with; tags that the dataset's record does not list are those its items carry."""
    if what not in WHATS:
        raise UsageError(f"target {what!r}: choose one of {', '.join(WHATS)}")
    if what == "action" and dataset.classes:
        return dataset.classes
    if what == "action":
        return tuple(sorted({item.action for item in dataset if item.action is not None}))
    return tuple(sorted({tag for item in dataset for tag in getattr(item, what)}))


def targets(items: Sequence[Item], names: Sequence[str], what: What) -> Targets:
    """The labels of items; every item whose label is absent or unknown is listed."""
    if not names:
        raise AnnotationError(f"no item has {what} labels")
    if wrong := label_problems(items, names, what):
        raise AnnotationError(f"{len(wrong)} labels of {len(items)} items cannot be used:", wrong)
    place = {name: number for number, name in enumerate(names)}
    if what == "action":
        return Targets(tuple(names), np.array([place[str(item.action)] for item in items], dtype=np.int64))
    values = np.zeros((len(items), len(names)), dtype=np.float32)
    for row, item in enumerate(items):
        values[row, [place[tag] for tag in getattr(item, what)]] = 1
    return Targets(tuple(names), values)


def label_problems(items: Sequence[Item], names: Sequence[str], what: What) -> list[str]:
    """Every label that is absent or unknown; nothing where there are no names at all, which `targets` says itself."""
    if not names:
        return []
    known, wrong = set(names), []
    for item in items:
        if what != "action":
            unknown = [tag for tag in getattr(item, what) if tag not in known]
            wrong += [f"{item.id}: {tag!r} is not one of the {len(names)} {what}" for tag in unknown]
        elif item.action is None:
            wrong.append(f"{item.id}: no action label")
        elif item.action not in known:
            wrong.append(f"{item.id}: action {item.action!r} is not one of the {len(names)} classes")
    return wrong
