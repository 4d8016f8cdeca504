"""The contract of everything that is learnt and scored: `task.fit(train) → fitted`, `fitted.score(test) → Score`.

A *utility* task (actions, detection, anomalies) should keep its score when videos are anonymized, an *attack* (private
attributes, identity, gait) should lose it. Both are the same kind of object, so whatever trains, scores, stores and
compares them need not know which it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from videoveil.data.records import Dataset, Item
from videoveil.errors import UsageError
from videoveil.features.store import FeatureStore, StoredItem

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.features.pixels import FrameAnonymizer, PixelVeil
    from videoveil.training.clip_batches import FramePainter

Role = Literal["utility", "attack"]
Progress = Callable[[int, int, float], None]  # step, steps in all, loss


@dataclass(frozen=True)
class Features:
    """Videos as features: one split of one dataset in a store."""

    store: FeatureStore
    dataset: str | None = None  # may be left out where the store has only one
    split: str | None = None  # None: all items

    def items(self) -> tuple[StoredItem, ...]:
        return self.store.items(self.dataset, self.split)

    def records(self) -> Dataset:
        """The whole dataset, for its vocabulary."""
        return self.store.dataset(self.dataset)

    def with_split(self, split: str | None) -> Features:
        return Features(self.store, self.dataset, split)

    def describe(self) -> dict[str, Any]:
        """For the run folder: where the data was and what it was made with."""
        return {
            "kind": "features",
            "store": str(self.store.root.resolve()),
            "dataset": self.records().name,
            "split": self.split,
            "encoder": self.store.encoder,
            "recipe": self.store.recipe.to_json(),
        }


@dataclass(frozen=True)
class Clips:
    """Videos as videos: one split of a dataset, decoded when needed, and seen through an anonymizer where one is given.

    Whatever learns from them or is scored on them sees the anonymizer's output only. `eight_bit`: rounded as a stored
    video is. `paint` covers people in whole frames as they are decoded, before anything is cut or made smaller: for
    obfuscation by boxes, whose detector needs the frame, or which knows the boxes of every frame.
    """

    dataset: Dataset
    split: str | None = None
    anonymizer: FrameAnonymizer | None = None
    eight_bit: bool = False
    paint: FramePainter | None = None

    def __post_init__(self) -> None:
        if self.eight_bit and self.anonymizer is None:
            raise UsageError("eight_bit rounds what an anonymizer gives, and there is none")

    def items(self) -> tuple[Item, ...]:
        return self.dataset.items if self.split is None else self.dataset.split(self.split)

    def records(self) -> Dataset:
        return self.dataset

    def with_split(self, split: str | None) -> Clips:
        return replace(self, split=split)

    def with_anonymizer(self, anonymizer: FrameAnonymizer | None, eight_bit: bool = False) -> Clips:
        """The same videos through another anonymizer, or through none."""
        return replace(self, anonymizer=anonymizer, eight_bit=eight_bit)

    def veil(self) -> PixelVeil | None:
        """The step between pictures and network; None where they are raw."""
        if self.anonymizer is None:
            return None
        from videoveil.features.pixels import PixelVeil

        return PixelVeil(self.anonymizer, self.eight_bit)

    def through(self) -> dict[str, Any]:
        """What the pictures go through, by hash; empty where they are raw."""
        veil = self.veil()
        found: dict[str, Any] = {} if veil is None else {"anonymizer": veil.facts()}
        return found if self.paint is None else {**found, "paint": self.paint.content_hash()}

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "clips",
            "root": str(self.dataset.root.resolve()),
            "dataset": self.dataset.name,
            "split": self.split,
            **self.through(),
        }


Source = Features | Clips


def as_features(source: Source, who: str, instead: str = "extract them first") -> Features:
    """The source, where it is one of features; `who` learns from them, and `instead` says what to do with clips."""
    if not isinstance(source, Features):
        raise UsageError(f"{who} learns from features; {instead}")
    return source


def as_clips(source: Source, who: str, instead: str = "give a dataset") -> Clips:
    """The source, where it is one of clips."""
    if not isinstance(source, Clips):
        raise UsageError(f"{who} learns from clips; {instead}")
    return source


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure, and what knowing nothing of the video would give. None where the data do not define it."""

    name: str
    value: float | None
    chance: float | None

    def to_json(self) -> dict[str, float | None]:
        return {"value": self.value, "chance": self.chance}


@dataclass(frozen=True)
class Score:
    """What a fitted task is worth on test items. The first metric is the one that tables quote."""

    task: str
    items: int
    metrics: tuple[Metric, ...]
    per_class: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    baseline: str = ""  # what the chance levels are, in words

    @property
    def headline(self) -> Metric:
        return self.metrics[0]

    def __getitem__(self, name: str) -> Metric:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(f"no metric {name!r}; there are {', '.join(metric.name for metric in self.metrics)}")

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "items": self.items,
            "headline": self.headline.name,
            "metrics": {metric.name: metric.to_json() for metric in self.metrics},
            "per_class": {name: dict(values) for name, values in self.per_class.items()},
            "baseline": self.baseline,
        }


def best_on_test(found: Sequence[Metric]) -> Metric:
    """The best of one metric over epochs, under a name that says how it was found.

    Released code prints that. It is for reading beside what was chosen without the test items, never for a choice.
    """
    best = max(found, key=lambda one: -math.inf if one.value is None else one.value)
    return Metric(f"best_selected_on_test_{best.name}", best.value, best.chance)


class Fitted(Protocol):
    """A task that has learnt."""

    def score(self, test: Any) -> Score:
        """Metrics on test items, with the chance level. Neither batch size nor order changes them."""
        ...

    def save(self, destination: str | Path) -> None: ...


class Task(Protocol):
    """Something to learn. `config` is a frozen record; the same config, data and seed give the same weights."""

    name: ClassVar[str]
    role: ClassVar[Role]

    @property
    def config(self) -> Any: ...

    def fit(
        self,
        train: Any,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> Fitted:
        """Learn. With a `run` folder a killed fit goes on where it was; a launched `fabric` shares the work out."""
        ...

    def load(self, source: str | Path) -> Fitted:
        """What a fitted task of this kind saved."""
        ...
