"""MLP attackers as the papers have them, on tensors that stay in memory."""

from __future__ import annotations

import copy
import itertools
import math
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.attacks.base import Attacker, Predict
from videoveil.attacks.inputs import standard
from videoveil.attacks.losses import attribute_loss, class_loss, probabilities, targets_of
from videoveil.attacks.targets import Data
from videoveil.encoders.base import seeded
from videoveil.errors import Diverged, UsageError

SMALLEST_RATE = 1e-12
CHUNK = 8192  # rows scored at once
_INITIALISING = threading.Lock()


@dataclass(frozen=True)
class MLPAttacker(Attacker):
    """Linear layers with ReLU between them, Adam, mini-batches of standardised features.

    `hidden`: widths between input and output, 0 standing for the width of the features. `plateau`: after an epoch
    whose mean loss is not the lowest so far the learning rate is multiplied by it (1: never); training ends when the
    rate is below 1e-12. `patience`: with validation data, end after so many epochs without a better one. `bounded`:
    outputs have length 1 before the loss, as in the published code; a weak attacker, for comparison only.
    """

    kind: str
    hidden: tuple[int, ...]
    rate: float
    epochs: int
    plateau: float = 1.0
    batch: int = 256
    patience: int | None = None
    bounded: bool = False

    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        if self.bounded and data.classes is not None:
            raise UsageError(f"{self.kind}: bounded outputs are defined for attributes only")
        scaling = standard(data.x)
        with _INITIALISING, seeded(seed):  # the seed goes through torch's one global generator
            network = self.network(data.x.shape[1], data.columns).to(device)
        run = _Run(self, network, data, torch.Generator().manual_seed(seed))
        inputs = _tensor(scaling(data.x), device)
        held_out = None if validation is None else (validation, _tensor(scaling(validation.x), device))
        facts = run.go(inputs, targets_of(data, device, torch.float32), held_out)
        multi = data.classes is None

        def predict(x: np.ndarray) -> np.ndarray:
            return _scores(network, _tensor(scaling(x), device), multi, self.bounded)

        return predict, facts

    def network(self, width: int, columns: int) -> nn.Sequential:
        widths = [width, *(size or width for size in self.hidden), columns]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers[:-1])


@dataclass
class _Run:
    """One training; ends with the weights of the best epoch on the validation data, or of the last one."""

    settings: MLPAttacker
    network: nn.Sequential
    data: Data
    generator: torch.Generator
    best: float = -math.inf
    best_epoch: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)

    def go(self, x: Tensor, y: Tensor, validation: tuple[Data, Tensor] | None) -> dict[str, Any]:
        settings = self.settings
        optimizer = torch.optim.Adam(self.network.parameters(), settings.rate, fused=True)
        lowest, rate, epoch = math.inf, settings.rate, 0
        for epoch in range(1, settings.epochs + 1):
            loss = self._epoch(optimizer, x, y, epoch)
            if validation is not None:
                self._judge(validation, epoch)
                if settings.patience is not None and epoch - self.best_epoch >= settings.patience:
                    break
            if loss < lowest:
                lowest = loss
                continue
            rate *= settings.plateau
            for group in optimizer.param_groups:
                group["lr"] = rate
            if rate < SMALLEST_RATE:
                break
        if self.best_state:
            self.network.load_state_dict(self.best_state)
        chosen = self.best_epoch if validation is not None else epoch
        return {
            "epochs": epoch,
            "epoch": chosen,
            "loss": lowest,
            "validation": self.best if validation else None,
        }

    def _epoch(self, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, epoch: int) -> float:
        order = torch.randperm(len(x), generator=self.generator).to(x.device)
        total = torch.zeros((), device=x.device)
        each = attribute_loss if self.data.classes is None else class_loss
        for rows in order.split(self.settings.batch):
            optimizer.zero_grad(set_to_none=True)
            loss = each(_outputs(self.network, x[rows], self.settings.bounded), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows)
        mean = float(total) / len(x)
        if not math.isfinite(mean):
            raise Diverged(
                f"attacker {self.settings.kind} diverged in epoch {epoch} (loss {mean}); lower its rate"
            )
        return mean

    def _judge(self, validation: tuple[Data, Tensor], epoch: int) -> None:
        data, x = validation
        multi = data.classes is None
        quality = data.quality(_scores(self.network, x, multi, self.settings.bounded))
        if quality > self.best:
            self.best, self.best_epoch = quality, epoch
            self.best_state = copy.deepcopy(self.network.state_dict())


def _outputs(network: nn.Module, x: Tensor, bounded: bool) -> Tensor:
    logits: Tensor = network(x)
    return F.normalize(logits, dim=1) if bounded else logits


@torch.inference_mode()
def _scores(network: nn.Module, x: Tensor, multi: bool, bounded: bool) -> np.ndarray:
    rows = [_outputs(network, part, bounded).double().cpu().numpy() for part in x.split(CHUNK)]
    return probabilities(np.concatenate(rows), multi)


def _tensor(x: np.ndarray, device: str) -> Tensor:
    return torch.from_numpy(x.astype(np.float32)).to(device)


MLP2 = MLPAttacker("mlp2", hidden=(0,), rate=1e-3, epochs=100, plateau=0.2)
MLP5 = MLPAttacker("mlp5", hidden=(2048, 1028, 1028, 512), rate=1e-4, epochs=50)
RELEASED = MLPAttacker("released", hidden=(0,), rate=1e-3, epochs=100, plateau=0.2, bounded=True)
