"""A trained MGFN: what scores videos, and what is kept on disk (safetensors, never pickle)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from videoveil.tasks.mgfn.config import MGFNConfig
from videoveil.tasks.mgfn.evaluation import AnomalyReport, evaluate
from videoveil.tasks.mgfn.inference import snippet_scores
from videoveil.tasks.mgfn.network import MGFN, from_state
from videoveil.tasks.mgfn.videos import AnomalyVideo, Inspector
from videoveil.training import checkpoints

FORMAT = "videoveil-mgfn-1"


@dataclass
class FittedMGFN:
    """A network in eval mode with how it came to be."""

    network: MGFN
    config: MGFNConfig
    seed: int
    history: Sequence[Mapping[str, Any]] = field(default_factory=tuple)  # one record per epoch

    def __post_init__(self) -> None:
        self.network.eval()

    def scores(self, videos: Iterable[AnomalyVideo]) -> dict[str, np.ndarray]:
        """id → (T,) snippet scores in [0, 1]. Nothing is given out if any video cannot be used; all such are listed."""
        inspector = Inspector(width=self.network.width, any_length=True)
        found: dict[str, np.ndarray] = {}
        for video in videos:
            if inspector.admit(video):
                found[video.id] = snippet_scores(self.network, video.by_crop())
        inspector.settle("anomaly scores")
        return found

    def score(self, videos: Iterable[AnomalyVideo], *, allow_length_mismatch: bool = False) -> AnomalyReport:
        """Frame-level areas on test videos, with the chance levels. `videos` is gone through twice."""
        videos = videos if isinstance(videos, Sequence) else list(videos)
        return evaluate(self.scores(videos), videos, allow_length_mismatch=allow_length_mismatch)

    def to(self, device: str | torch.device) -> FittedMGFN:
        self.network.to(device)
        return self

    def summary(self) -> dict[str, float | None]:
        """What the evaluations during training say; see `summarise`."""
        return summarise([record["test"] for record in self.history if "test" in record])

    def save(self, destination: str | Path) -> None:
        """Write the weights with everything needed to build the network again."""
        facts = {
            "config": self.config.to_json(),
            "seed": self.seed,
            "history": [dict(record) for record in self.history],
        }
        checkpoints.write(destination, FORMAT, self.network.state_dict(), facts)

    @classmethod
    def load(cls, source: str | Path) -> FittedMGFN:
        tensors, facts = checkpoints.read(source, FORMAT)
        config = MGFNConfig.from_json(facts["config"])
        return cls(from_state(tensors, config, str(source)), config, facts["seed"], facts["history"])


def summarise(evaluations: Sequence[Mapping[str, float]], last: int = 10) -> dict[str, float | None]:
    """Of every measure (ROC-AUC, PR-AUC, AP): the last evaluation, the mean of the last ten, and the best.

    The best one is chosen on the test videos. The literature prints it; its name here says what it is.
    """
    if not evaluations:
        return {}
    found: dict[str, float | None] = {}
    for name in evaluations[-1]:
        values = [evaluation[name] for evaluation in evaluations]
        recent = values[-last:]
        found[f"{name}_last"] = values[-1]
        found[f"{name}_mean_of_last_{last}"] = sum(recent) / len(recent)
        found[f"{name}_best_selected_on_test"] = max(values)
    return found
