"""The records that every loader returns and every later room reads.

Times in seconds are fractions, frame spans are half-open `[first, stop)` with 0-based frame numbers. A label is the
index of its name in `Dataset.classes` or `Dataset.attributes`; records carry names, so that two datasets can be joined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True)
class Segment:
    """One instance of an action in an untrimmed video, in seconds."""

    label: str
    start: Fraction
    end: Fraction


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """Frames `[first, stop)` that share a value; for anomalies `value` is the class name."""

    first: int
    stop: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class AttributeSpan:
    """Frames `[first, stop)` in which the attributes named in `values` hold the given (multi-)values."""

    first: int
    stop: int
    values: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Item:
    """One video or image with everything its dataset says about it; what it does not say is None or empty."""

    id: str  # unique in its dataset and stable across machines: the official relative name without suffix
    path: Path
    split: str  # "train", "val", "test", "unused"; "gallery" or "probe" in retrieval sets
    kind: Literal["video", "image"] = "video"
    action: str | None = None
    actions: tuple[str, ...] = ()  # multi-label sets (P-HVU)
    objects: tuple[str, ...] = ()
    scenes: tuple[str, ...] = ()
    attributes: Mapping[str, int] | None = None  # private attributes of the whole item, 0/1
    attribute_spans: tuple[AttributeSpan, ...] = ()  # private attributes frame by frame (PA-HMDB51)
    segments: tuple[Segment, ...] = ()
    anomaly: bool | None = None
    anomaly_class: str | None = None
    anomaly_spans: tuple[FrameSpan, ...] = ()
    duration: Fraction | None = None  # seconds, where the annotations state it
    rate: Fraction | None = None  # frames per second, where the annotations state it
    clip: tuple[Fraction, Fraction] | None = None  # the part of the file that is meant, in seconds
    subject: str | None = None
    gender: str | None = None
    extra: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({})
    )  # group, camera, view, condition…

    def with_split(self, split: str) -> Item:
        return replace(self, split=split)


@dataclass(frozen=True)
class Dataset:
    """All items of a dataset under one official split, with its vocabularies."""

    name: str
    root: Path
    items: tuple[Item, ...]
    classes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # "id: reason" of every item left out because skip_bad was asked for
    notes: tuple[str, ...] = ()  # oddities of the annotations that are not errors (segment beyond the end…)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def split(self, name: str) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.split == name)

    def counts(self) -> dict[str, int]:
        """Items per split."""
        return dict(Counter(item.split for item in self.items))

    def label(self, item: Item) -> int:
        """The action label of an item: its index in `classes`."""
        if item.action is None:
            raise ValueError(f"{item.id} of {self.name} has no action label")
        return self.classes.index(item.action)

    def where(self, keep: Callable[[Item], bool]) -> Dataset:
        return replace(self, items=tuple(item for item in self.items if keep(item)))
