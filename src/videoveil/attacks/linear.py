"""The linear attacker: logistic regression to convergence, its strength of regularisation and inputs chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.attacks.base import Attacker, Predict
from videoveil.attacks.inputs import Scaling, standard, whitened
from videoveil.attacks.losses import loss_of, probabilities
from videoveil.attacks.targets import Data
from videoveil.errors import Diverged


@dataclass(frozen=True)
class LinearAttacker(Attacker):
    """min mean loss + penalty/2·‖W‖², full batch, L-BFGS. The convex problem has one answer: no seed, no epochs.

    With validation data every attribute gets the penalty and the inputs (standardised or whitened) that suit it best;
    a class target gets one choice for all classes. Without, standardised inputs and `fallback`.
    """

    kind: str = "linear"
    penalties: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    fallback: float = 1e-2
    iterations: int = 200

    def train(
        self, data: Data, validation: Data | None, seed: int, device: str
    ) -> tuple[Predict, dict[str, Any]]:
        penalties = (self.fallback,) if validation is None else self.penalties
        candidates = {"standard": standard(data.x)}
        if validation is not None:
            candidates["whitened"] = whitened(data.x)
        tried: list[tuple[str, float, np.ndarray, np.ndarray]] = []
        for name, scaling in candidates.items():
            for penalty, weight, bias in self._path(data, scaling, penalties, device):
                tried.append((name, penalty, scaling.back(weight), bias))
        mean, multi = data.x.mean(0), data.classes is None
        chosen = _choose(tried, validation, mean, multi)
        weight = np.stack(
            [tried[c][2][:, i] for i, c in enumerate(chosen)], 1
        )  # (d, columns), on raw features
        bias = np.array([tried[c][3][i] for i, c in enumerate(chosen)])
        facts = {"inputs": [tried[c][0] for c in chosen], "penalty": [tried[c][1] for c in chosen]}
        return lambda x: probabilities((x - mean) @ weight + bias, multi), facts

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


def _choose(
    tried: list[tuple[str, float, np.ndarray, np.ndarray]],
    validation: Data | None,
    mean: np.ndarray,
    multi: bool,
) -> list[int]:
    """For every column the candidate that does best on the validation data; the first one where there is none."""
    columns = tried[0][2].shape[1]
    if validation is None:
        return [0] * columns
    scores = [probabilities((validation.x - mean) @ weight + bias, multi) for _, _, weight, bias in tried]
    if not multi:
        return [int(np.argmax([validation.quality(s) for s in scores]))] * columns
    singles = [Data(validation.x, validation.y[:, i : i + 1], None) for i in range(columns)]
    return [int(np.argmax([one.quality(s[:, i : i + 1]) for s in scores])) for i, one in enumerate(singles)]
