"""Task heads for latent training: first taught on raw features, then trained with the anonymizer, by L_T alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from videoveil.errors import UsageError
from videoveil.tasks.action.probe import ActionProbe, ProbeConfig
from videoveil.tasks.action.probe import recommended as probe
from videoveil.tasks.anomaly import AnomalyDetection
from videoveil.tasks.base import Features
from videoveil.tasks.detection import ActionDetection, thumos14
from videoveil.tasks.mgfn import MGFNConfig
from videoveil.tasks.mgfn import recommended as mgfn
from videoveil.tasks.tridet import TriDetConfig
from videoveil.tasks.tridet.optimise import parameter_groups

TASKS = ("action", "detection", "anomaly")


@dataclass(frozen=True)
class HeadSettings:
    """How every task's head is built and first taught; later its rate and weight decay come from here too."""

    action: ProbeConfig = field(default_factory=probe)
    detection: TriDetConfig = field(default_factory=thumos14)
    anomaly: MGFNConfig = field(default_factory=mgfn)
    cut: bool = False  # detection annotations outside their video are cut, not refused

    def task(self, name: str) -> Any:
        """The task that teaches a head."""
        if name == "action":
            return ActionProbe(self.action)
        if name == "detection":
            return ActionDetection(self.detection, self.cut)
        if name == "anomaly":
            return AnomalyDetection(self.anomaly)
        raise UsageError(f"no task {name!r} to train for; there are {', '.join(TASKS)}")


def raw_heads(
    sources: Mapping[str, Features],
    settings: HeadSettings,
    *,
    run: Path | None = None,
    seed: int = 0,
    device: str = "auto",
) -> dict[str, nn.Module]:
    """A head for every task, taught on raw features as the task itself would; killed runs go on in `run`/TASK."""
    heads = {}
    for name, source in sources.items():
        folder = None if run is None else run / name
        fitted = settings.task(name).fit(source, run=folder, seed=seed, device=device)
        heads[name] = trainable(_network(name, fitted))
    return heads


def _network(name: str, fitted: Any) -> nn.Module:
    network: nn.Module = {
        "action": lambda: fitted.layer,
        "detection": lambda: fitted.detector.network,
        "anomaly": lambda: fitted.model.network,
    }[name]()
    return network


def trainable(network: nn.Module) -> nn.Module:
    """A copy that learns."""
    return copy.deepcopy(network).requires_grad_(True).train()


def head_groups(
    heads: Mapping[str, nn.Module], settings: HeadSettings, rate: float, weight_decay: float
) -> list[dict[str, Any]]:
    """Optimiser groups: the action head as the anonymizer, detector and anomaly head with the rates of their recipes.

    The detector's own schedule and averaged weights are for what is tested; this head only passes gradients on, and
    evaluation teaches fresh ones.
    """
    groups: list[dict[str, Any]] = []
    for name, head in heads.items():
        own = dict(head.named_parameters())
        if name == "detection":
            config = settings.detection
            decaying, plain = parameter_groups(head)
            for names, decay in ((decaying, config.weight_decay), (plain, 0.0)):
                params = [own[n] for n in names]
                groups.append({"params": params, "lr": config.learning_rate, "weight_decay": decay})
        elif name == "anomaly":
            config_ = settings.anomaly
            rate_, decay_ = config_.learning_rate, config_.weight_decay
            groups.append({"params": list(own.values()), "lr": rate_, "weight_decay": decay_})
        else:
            groups.append({"params": list(own.values()), "lr": rate, "weight_decay": weight_decay})
    return groups
