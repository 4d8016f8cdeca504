"""Every choice of MGFN as one frozen record; its defaults are the published values, and the recommended variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from videoveil.errors import UsageError

Attention = Literal["glance", "focus"]
SmoothnessOn = Literal["abnormal", "all", "abnormal-joined"]
SparsityOn = Literal["abnormal", "normal"]
Pairs = Literal["videos", "released"]

HEAD = 64  # channels of one attention head, everywhere in the network


@dataclass(frozen=True, slots=True)
class Stage:
    """`depth` layers of one width with one kind of attention."""

    width: int
    depth: int
    attention: Attention


PUBLISHED_STAGES = (Stage(64, 3, "glance"), Stage(128, 3, "focus"), Stage(1024, 2, "focus"))
SMALL_STAGES = (Stage(64, 1, "glance"), Stage(64, 1, "focus"), Stage(128, 1, "focus"))


@dataclass(frozen=True, slots=True)
class MGFNConfig:
    """Network, objective and schedule. The input width and the number of crops are taken from the features."""

    # network
    stages: tuple[Stage, ...] = PUBLISHED_STAGES
    magnitude_ratio: float = 0.1  # α of the feature amplification mechanism
    # selection
    segments: int = 32  # L, training only
    top: int = 3  # k, segments that speak for their video
    selection_dropout: float = 0.7
    # objective
    smoothness_on: SmoothnessOn = "abnormal"
    sparsity_on: SparsityOn = "abnormal"
    pairs: Pairs = "videos"
    smoothness_weight: float = 8e-4
    sparsity_weight: float = 8e-3
    contrastive_weight: float = 1e-3
    inter_weight: float = 1e-3  # of the inter-class term inside the contrastive one: 1e-6 in all
    margin: float = 200.0
    # schedule
    epochs: int = 1000
    batch: int = 16  # B, videos of each class
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    shuffle: bool = True
    precision: str = "32-true"  # as Fabric names it; the objective is always computed in fp32
    checkpoint_every: int = 1  # epochs

    def __post_init__(self) -> None:
        for name, bound in (
            ("segments", 2),
            ("top", 1),
            ("epochs", 1),
            ("batch", 2),
            ("checkpoint_every", 1),
        ):
            if getattr(self, name) < bound:
                raise UsageError(f"{name}={getattr(self, name)}: must be at least {bound}")
        if self.batch % 2:
            raise UsageError(
                f"batch={self.batch}: must be even, half of a class is compared with the other half"
            )
        if not 0 <= self.selection_dropout < 1:
            raise UsageError(f"selection_dropout={self.selection_dropout}: must be in [0, 1)")
        if self.learning_rate <= 0:
            raise UsageError(f"learning_rate={self.learning_rate}: must be above 0")
        _one_of("smoothness_on", self.smoothness_on, get_args(SmoothnessOn))
        _one_of("sparsity_on", self.sparsity_on, get_args(SparsityOn))
        _one_of("pairs", self.pairs, get_args(Pairs))
        if not self.stages:
            raise UsageError("stages=(): the network needs at least one stage")
        for stage in self.stages:
            _one_of("attention", stage.attention, get_args(Attention))
            if stage.depth < 1 or stage.width < HEAD or stage.width % HEAD:
                raise UsageError(f"{stage}: depth must be at least 1 and width a multiple of {HEAD}")

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value["stages"] = [asdict(stage) for stage in self.stages]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MGFNConfig:
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise UsageError(
                f"unknown MGFN settings {', '.join(unknown)}; known are {', '.join(sorted(known))}"
            )
        given = dict(value)
        if "stages" in given:
            given["stages"] = tuple(Stage(**stage) for stage in given["stages"])
        return cls(**given)


def recommended() -> MGFNConfig:
    """What results are reported with: both regularisers on anomalous videos, each video on its own, data shuffled."""
    return MGFNConfig()


def released() -> MGFNConfig:
    """As the authors' newest public code (April 2023): smoothness on all videos, sparsity on the normal ones."""
    return MGFNConfig(smoothness_on="all", sparsity_on="normal", pairs="released", shuffle=False)


def ted_spad() -> MGFNConfig:
    """As the variant behind TeD-SPAD's numbers: smoothness runs across the borders of anomalous videos."""
    return MGFNConfig(smoothness_on="abnormal-joined", pairs="released", shuffle=False)


def small(epochs: int = 30, batch: int = 8) -> MGFNConfig:
    """The recommended objective on a network of a few hundred thousand weights, for a CPU and a small set.

    With a few dozen videos the published learning rate soon ends in one score per video, the same for all of its
    snippets (the video-level loss is then 0); a tenth of it keeps the difference between snippets.
    """
    return MGFNConfig(stages=SMALL_STAGES, epochs=epochs, batch=batch, learning_rate=1e-4)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name}={value!r}: must be one of {', '.join(known)}")
