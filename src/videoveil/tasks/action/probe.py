"""The linear probe: one linear layer on frozen clip features, five evenly spaced clips of a video averaged.

Shapes: M clips of n videos, width d, C classes or k tags.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import devices
from videoveil.errors import CheckpointError, UsageError
from videoveil.media.sampling import cached_equidistant
from videoveil.tasks import feature_set, settings
from videoveil.tasks.action.metrics import Prior, score
from videoveil.tasks.base import Features, Progress, Role, Score, as_features
from videoveil.tasks.feature_set import FeatureSet
from videoveil.tasks.targets import Targets, What, label_problems, targets, vocabulary
from videoveil.training import checkpoints, seeds
from videoveil.training.supervised import (
    Batch,
    Batches,
    Loop,
    Optimizer,
    Schedule,
    binary_cross_entropy,
    cross_entropy,
)

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FORMAT = "videoveil-probe-1"
MODEL = "model.safetensors"
REFERENCE = 256  # the width that the learning rate was chosen at


@dataclass(frozen=True, kw_only=True)
class ProbeConfig(Schedule):
    """One random clip per video and epoch.

    `standardise` trains on features brought to mean 0 and one variance by the training set and folds that into the
    layer afterwards: still one linear layer, but its learning rate suits features of any scale and width. On a twin
    that no result is reported on, plain gradient descent then did better than AdamW (88.5 % against 80 to 82 %), which
    makes as much of directions with hardly any variance as of the others.
    """

    target: What = "action"
    clips: int = 5  # of a test video, averaged
    standardise: bool = True
    epochs: int = 100
    batch: int = 64
    optimizer: Optimizer = "sgd"
    learning_rate: float = 0.05
    weight_decay: float = 1e-2
    checkpoint_every: int = 25

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clips < 1:
            raise UsageError(f"clips={self.clips}: must be at least 1")


def recommended() -> ProbeConfig:
    """Enough steps for a few hundred videos as for many thousand."""
    return ProbeConfig()


def paper() -> ProbeConfig:
    """SPLAVU's probe: a plain layer, batches of 512, 50 epochs."""
    return ProbeConfig(
        standardise=False, epochs=50, batch=512, optimizer="adamw", learning_rate=1e-3, weight_decay=1e-4
    )


@dataclass(frozen=True)
class ActionProbe:
    """Actions (or tags) from features by one linear layer."""

    config: ProbeConfig = field(default_factory=recommended)
    name: ClassVar[str] = "action"
    role: ClassVar[Role] = "utility"

    def fit(
        self,
        train: Features,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedProbe:
        train = as_features(train, "a probe", "extract them first, or train a network on the clips")
        names = vocabulary(train.records(), self.config.target)
        items = [entry.item for entry in train.items()]
        data = feature_set.load(train, also=label_problems(items, names, self.config.target))
        labels = targets(data.items, names, self.config.target)
        return fit(
            data, labels, self.config, run=run, seed=seed, device=device, progress=progress, fabric=fabric
        )

    def load(self, source: str | Path) -> FittedProbe:
        return FittedProbe.load(source)


def fit(
    data: FeatureSet,
    labels: Targets,
    config: ProbeConfig | None = None,
    *,
    run: Path | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    fabric: Fabric | None = None,
) -> FittedProbe:
    """Train a linear layer on the clips of `data`."""
    config = config or recommended()
    fabric = fabric or devices.make_fabric(device, config.precision)
    rows = torch.from_numpy(data.rows)
    centre, scale = _standard(rows) if config.standardise else (torch.zeros(()), torch.ones(()))
    batches = _Rows((rows - centre) / scale, labels, data, config.batch, seed)
    network = _layer(data.width, len(labels.names), seed)
    loop = Loop(
        network,
        batches,
        binary_cross_entropy if labels.several else cross_entropy,
        config,
        seed,
        fabric,
        run,
        identity={
            "data": data.fingerprint(),
            "labels": _fingerprint(labels),
            "target": config.target,
            "standardise": config.standardise,
        },
        progress=progress,
        what="the probe",
    )
    history = loop.run()
    with torch.no_grad():  # (W/σ)·x + (b − (W/σ)·μ)
        weight = network.weight.cpu() / scale
        layer = _blank(data.width, len(labels.names))
        layer.weight.copy_(weight)
        layer.bias.copy_(network.bias.cpu() - (weight * centre).sum(1))
    fitted = FittedProbe(layer, labels.names, Prior.of(labels), config, seed, tuple(history))
    if run is not None and fabric.is_global_zero:
        fitted.save(run / MODEL)
    return fitted


def _standard(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and scale of every dimension: what remains has as large a norm as 256 dimensions of variance 1.

    So the steepest direction does not depend on the width. A dimension that never changes is left where it is.
    """
    deviation, mean = torch.std_mean(rows.double(), 0, correction=0)
    scale = torch.where(deviation > 1e-6, deviation, 1.0) * math.sqrt(rows.shape[1] / REFERENCE)
    return mean.float(), scale.float()


def _blank(width: int, outputs: int) -> nn.Linear:
    """A layer to be filled: torch's own start would draw from the caller's random numbers."""
    return nn.utils.skip_init(nn.Linear, width, outputs)


def _layer(width: int, outputs: int, seed: int) -> nn.Linear:
    layer = _blank(width, outputs)
    with torch.no_grad():
        layer.weight.normal_(std=0.01, generator=seeds.generator(seed, "probe"))
        layer.bias.zero_()
    return layer


def _fingerprint(labels: Targets) -> str:
    import hashlib

    return hashlib.sha256(repr(labels.names).encode() + labels.values.tobytes()).hexdigest()


class _Rows(Batches):
    """One random clip of every video per epoch, from a matrix that stays on the device."""

    def __init__(self, rows: Tensor, labels: Targets, data: FeatureSet, batch: int, seed: int):
        self.rows, self.batch, self.seed = rows, batch, seed
        self.values = torch.from_numpy(labels.values)
        self.first, self.counts = data.offsets[:-1], data.counts()
        self.ids = [item.id for item in data.items]
        self.steps = -(-len(data) // batch)

    def _resident(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Everything on the device, moved there once."""
        if self.rows.device.type != device.type:
            self.rows, self.values = self.rows.to(device), self.values.to(device)
        return self.rows, self.values

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        rng = seeds.rng(self.seed, "clips", number)
        order = rng.permutation(len(self.ids))
        chosen = self.first + (rng.random(len(self.ids)) * self.counts).astype(np.int64)
        rows, values = self._resident(device)
        for step in range(self.steps):
            whole = order[step * self.batch : (step + 1) * self.batch]
            mine = whole[rank::ranks]
            yield Batch(
                rows[torch.from_numpy(chosen[mine]).to(device)],
                values[torch.from_numpy(mine).to(device)],
                len(whole),
                tuple(self.ids[i] for i in mine[:8]),
            )


@dataclass
class FittedProbe:
    """A linear layer with the names of its outputs and how it came to be."""

    layer: nn.Linear
    names: tuple[str, ...]
    prior: Prior
    config: ProbeConfig
    seed: int = 0
    history: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        self.layer.eval().requires_grad_(False)

    @torch.inference_mode()
    def clip_probabilities(self, rows: np.ndarray) -> np.ndarray:
        """(M, d) → (M, C) softmax, or (M, k) sigmoid of tags; in double, so that no batching can be seen in them."""
        weight, bias = self.layer.weight.double().cpu(), self.layer.bias.double().cpu()
        logits = nn.functional.linear(torch.from_numpy(rows).double(), weight, bias)
        found = logits.softmax(1) if self.config.target == "action" else logits.sigmoid()
        return np.asarray(found.numpy())

    def probabilities(self, data: FeatureSet) -> np.ndarray:
        """(n, C): the mean over evenly spaced clips of every video."""
        found = np.zeros((len(data), len(self.names)))
        for i, (first, count) in enumerate(zip(data.offsets, data.counts())):
            chosen = [int(first) + place for place in cached_equidistant(int(count), self.config.clips)]
            found[i] = self.clip_probabilities(data.rows[chosen]).mean(0)
        return found

    def score(self, test: Features) -> Score:
        """Top-1, top-5 and mean per class, or cMAP of tags."""
        wrong = label_problems([entry.item for entry in test.items()], self.names, self.config.target)
        data = feature_set.load(test, self.layer.in_features, also=wrong)
        labels = targets(data.items, self.names, self.config.target)
        return score(ActionProbe.name, self.probabilities(data), labels, self.prior)

    def save(self, destination: str | Path) -> None:
        facts = {
            "names": list(self.names),
            "prior": list(self.prior.shares),
            "config": settings.to_json(self.config),
            "seed": self.seed,
            "history": [dict(record) for record in self.history],
        }
        checkpoints.write(destination, FORMAT, self.layer.state_dict(), facts)

    @classmethod
    def load(cls, source: str | Path) -> FittedProbe:
        tensors, facts = checkpoints.read(source, FORMAT)
        try:
            names, prior = tuple(facts["names"]), Prior(tuple(facts["prior"]))
            config = settings.from_json(ProbeConfig, facts["config"])
            seed, history, width = facts["seed"], facts["history"], tensors["weight"].shape[1]
        except (KeyError, TypeError, IndexError) as error:
            raise CheckpointError(f"{source}: its description is damaged ({error!r})") from error
        layer = _blank(width, len(names))
        checkpoints.fill(layer, tensors, str(source))
        return cls(layer, names, prior, config, seed, history)
