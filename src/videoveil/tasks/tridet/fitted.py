"""A trained detector: what finds actions, and what is kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from videoveil.errors import CheckpointError
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.evaluation import DetectionScores, evaluate, truth_of
from videoveil.tasks.tridet.inference import detect
from videoveil.tasks.tridet.network import TriDet, from_published
from videoveil.tasks.tridet.records import Detections, DetectionVideo
from videoveil.training import checkpoints

FORMAT = "videoveil-tridet-1"


@dataclass
class FittedTriDet:
    """A network in eval mode, the names of its classes, and how it came to be."""

    network: TriDet
    classes: tuple[str, ...]
    seed: int = 0
    history: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # one record per epoch

    def __post_init__(self) -> None:
        self.network.eval()
        if len(self.classes) != self.network.classes:
            raise CheckpointError(f"{len(self.classes)} class names for {self.network.classes} outputs")

    @property
    def config(self) -> TriDetConfig:
        return self.network.config

    def detect(
        self,
        videos: Sequence[DetectionVideo],
        batch_size: int = 1,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> list[Detections]:
        """The actions in every video, in the order given; neither order nor batch size changes them."""
        return detect(self.network, videos, self.classes, batch_size=batch_size, progress=progress)

    def score(self, videos: Sequence[DetectionVideo], batch_size: int = 1) -> DetectionScores:
        """mAP on videos whose segments are known."""
        return evaluate(self.detect(videos, batch_size), truth_of(videos))

    def to(self, device: str | torch.device) -> FittedTriDet:
        self.network.to(device)
        return self

    def facts(self) -> dict[str, Any]:
        """Everything but the weights that is needed to build the detector again."""
        return {
            "width": self.network.width,
            "classes": list(self.classes),
            "config": self.config.to_json(),
            "seed": self.seed,
            "history": [dict(record) for record in self.history],
        }

    @classmethod
    def of_facts(cls, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], source: str) -> FittedTriDet:
        try:
            classes, config = tuple(facts["classes"]), TriDetConfig.from_json(facts["config"])
            network = TriDet(facts["width"], len(classes), config)
            seed, history = facts["seed"], facts["history"]
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{source}: its description is damaged ({error!r})") from error
        checkpoints.fill(network, tensors, source)
        return cls(network, classes, seed, history)

    def save(self, destination: str | Path) -> None:
        """Write the weights with everything needed to build the network again."""
        checkpoints.write(destination, FORMAT, self.network.state_dict(), self.facts())

    @classmethod
    def load(cls, source: str | Path) -> FittedTriDet:
        return cls.of_facts(*checkpoints.read(source, FORMAT), str(source))

    @classmethod
    def of_published(
        cls,
        state: Mapping[str, object],
        classes: Sequence[str],
        config: TriDetConfig | None = None,
        *,
        ema: bool = True,
    ) -> FittedTriDet:
        """A published checkpoint, already read with `weights_only=True`; its averaged weights unless told otherwise."""
        tensors = from_published(state, ema=ema)
        first = tensors.get("backbone.embd.0.conv.weight")
        if first is None or first.ndim != 3:
            raise CheckpointError(
                "no backbone.embd.0.conv.weight of three dimensions: not a TriDet checkpoint"
            )
        network = TriDet(first.shape[1], len(classes), config or TriDetConfig())
        checkpoints.fill(network, tensors, "published checkpoint")
        return cls(network, tuple(classes))
