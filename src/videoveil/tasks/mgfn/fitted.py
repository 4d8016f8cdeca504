"""A trained MGFN: what scores videos, and what is kept on disk (safetensors, never pickle)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from videoveil import files
from videoveil.encoders.checkpoints import read_safetensors
from videoveil.errors import CheckpointError
from videoveil.tasks.mgfn.config import MGFNConfig
from videoveil.tasks.mgfn.evaluation import AnomalyReport, evaluate
from videoveil.tasks.mgfn.inference import snippet_scores
from videoveil.tasks.mgfn.network import MGFN, from_state
from videoveil.tasks.mgfn.videos import AnomalyVideo, Inspector

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
        write_tensors(
            destination,
            self.network.state_dict(),
            {
                "format": FORMAT,
                "config": self.config.to_json(),
                "seed": self.seed,
                "history": [dict(record) for record in self.history],
            },
        )

    @classmethod
    def load(cls, source: str | Path) -> FittedMGFN:
        tensors, facts = read_tensors(source, FORMAT)
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


def write_tensors(destination: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """One file, whole or absent: tensors, and the rest as JSON in its metadata."""
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    with files.atomic_path(destination) as temporary:
        save_file(plain, temporary, metadata={"facts": json.dumps(dict(facts), sort_keys=True)})


def read_tensors(source: str | Path, expected_format: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; any other file is refused."""
    tensors, metadata = read_safetensors(source)
    try:
        facts = json.loads(metadata["facts"])
        found = facts["format"]
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(f"{source}: not a file of format {expected_format} ({error!r})") from error
    if found != expected_format:
        raise CheckpointError(f"{source}: format {found!r}, expected {expected_format!r}")
    return dict(tensors), facts
