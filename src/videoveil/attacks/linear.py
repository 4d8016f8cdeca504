"""The linear attacker: logistic regression to convergence, its strength of regularisation and inputs chosen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.attacks.base import Attacker, Predict
from videoveil.attacks.inputs import ROUNDING, Scaling, standard, whitened
from videoveil.attacks.losses import loss_of, probabilities
from videoveil.attacks.targets import Data, together
from videoveil.errors import Diverged

INPUTS: dict[str, Callable[[np.ndarray], Scaling]] = {
    "standard": standard,
    "whitened": whitened,
    "whitened above rounding": functools.partial(whitened, floor=ROUNDING),
}


@dataclass(frozen=True)
class LinearAttacker(Attacker):
    """min mean loss + penalty/2·‖W‖², full batch, L-BFGS. The convex problem has one answer: no seed, no epochs.

    With validation data every attribute gets the penalty and the inputs that suit it best: standardised, whitened with
    every direction there is (which finds what was made very small), or whitened without those that are rounding; a
    class target gets one choice for all classes. It then learns from all rows. Without validation data: standardised
    inputs and `fallback`.
    """

    kind: str = "linear"
    penalties: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    fallback: float = 1e-2
    iterations: int = 200

    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        multi = data.classes is None
        if validation is None:
            chosen = [("standard", self.fallback)] * data.columns
        else:
            chosen = self._choose(data, validation, device)
        everything = together(data, validation)
        mean = everything.x.mean(0)
        weight = np.zeros((data.x.shape[1], data.columns))  # on raw features
        bias = np.zeros(data.columns)
        for name in sorted({name for name, _ in chosen}):
            penalties = tuple(sorted({penalty for other, penalty in chosen if other == name}))
            scaling = INPUTS[name](everything.x)
            for penalty, scaled, own_bias in self._path(everything, scaling, penalties, device):
                mine = [i for i, choice in enumerate(chosen) if choice == (name, penalty)]
                weight[:, mine], bias[mine] = scaling.back(scaled)[:, mine], own_bias[mine]
        facts = {"inputs": [name for name, _ in chosen], "penalty": [penalty for _, penalty in chosen]}
        return lambda x: probabilities((x - mean) @ weight + bias, multi), facts

    def _choose(self, data: Data, validation: Data, device: str) -> list[tuple[str, float]]:
        """For every column the inputs and the penalty that do best on the validation data."""
        scores: dict[tuple[str, float], np.ndarray] = {}
        mean = data.x.mean(0)
        for name, make in INPUTS.items():
            scaling = make(data.x)
            for penalty, weight, bias in self._path(data, scaling, self.penalties, device):
                values = (validation.x - mean) @ scaling.back(weight) + bias
                scores[name, penalty] = probabilities(values, data.classes is None)
        if data.classes is not None:
            best = max(scores, key=lambda choice: validation.quality(scores[choice]))
            return [best] * data.columns
        chosen = []
        for i in range(data.columns):
            one = Data(validation.x, validation.y[:, i : i + 1], None)
            chosen.append(max(scores, key=lambda choice: one.quality(scores[choice][:, i : i + 1])))
        return chosen

    def _path(
        self, data: Data, scaling: Scaling, penalties: tuple[float, ...], device: str
    ) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Weights (q, columns) and biases for every penalty, from the strongest down, each from the one before."""
        x = torch.from_numpy(scaling(data.x)).to(device)
        loss = loss_of(data, device)
        weight = torch.zeros(x.shape[1], data.columns, dtype=x.dtype, device=device, requires_grad=True)
        bias = torch.zeros(data.columns, dtype=x.dtype, device=device, requires_grad=True)
        found = []
        for penalty in sorted(penalties, reverse=True):
            self._minimise(x, loss, weight, bias, penalty)
            found.append((penalty, weight.detach().cpu().numpy().copy(), bias.detach().cpu().numpy().copy()))
        return found

    def _minimise(self, x: Tensor, loss: Any, weight: Tensor, bias: Tensor, penalty: float) -> None:
        optimizer = torch.optim.LBFGS(
            [weight, bias], max_iter=self.iterations, tolerance_grad=1e-6, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            value: Tensor = loss(F.linear(x, weight.T, bias)) + penalty / 2 * weight.square().sum()
            value.backward()
            return value

        last = optimizer.step(closure)
        if not bool(torch.isfinite(last)) or not bool(weight.isfinite().all()):
            raise Diverged(
                f"the linear attacker diverged at penalty {penalty}; look at the scale of the features"
            )
