"""The contract of everything that is learnt and scored: `task.fit(train) → fitted`, `fitted.score(test) → Score`.

A *utility* task (actions, detection, anomalies) should keep its score when videos are anonymized, an *attack* (private
attributes, identity, gait) should lose it. Both are the same kind of object, so whatever trains, scores, stores and
compares them need not know which it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from videoveil.data.records import Dataset, Item
from videoveil.features.store import FeatureStore, StoredItem

if TYPE_CHECKING:
    from lightning.fabric import Fabric

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
    """Videos as videos: one split of a dataset, decoded when needed."""

    dataset: Dataset
    split: str | None = None

    def items(self) -> tuple[Item, ...]:
        return self.dataset.items if self.split is None else self.dataset.split(self.split)

    def records(self) -> Dataset:
        return self.dataset

    def with_split(self, split: str | None) -> Clips:
        return Clips(self.dataset, split)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "clips",
            "root": str(self.dataset.root.resolve()),
            "dataset": self.dataset.name,
            "split": self.split,
        }


Source = Features | Clips


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
