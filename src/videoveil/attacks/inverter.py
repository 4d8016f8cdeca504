"""From a feature back to a small picture: a linear map, and a decoder network that goes on from it.

Shapes: m rows of width d, pictures of side s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from videoveil.attacks.fidelity import psnr
from videoveil.attacks.inputs import ROUNDING, Scaling, whitened
from videoveil.encoders.base import seeded
from videoveil.training import seeds
from videoveil.training.supervised import Batch, Batches, Judge

SMALLEST = 4  # side of the decoder's first map
CHUNK = 256  # rows that are drawn at once
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


class Inverter(Protocol):
    """Features (m, d) float64 → pictures (m, 3, s, s) in [0, 1]."""

    def __call__(self, x: np.ndarray) -> Tensor: ...


@dataclass(frozen=True)
class LinearInverter:
    """Ridge regression on whitened features; the mean picture where they say nothing."""

    scaling: Scaling
    matrix: np.ndarray  # (q, 3·s·s)
    mean: np.ndarray  # (3·s·s,)
    size: int

    def __call__(self, x: np.ndarray) -> Tensor:
        rows = self.scaling(x.astype(np.float64)) @ self.matrix + self.mean
        return torch.from_numpy(rows).float().clamp(0, 1).reshape(-1, 3, self.size, self.size)


def linear_inverter(x: np.ndarray, pictures: Tensor, held_out: tuple[np.ndarray, Tensor]) -> LinearInverter:
    """The ridge whose strength does best, in decibels, on held-out rows; learnt on x (m, d), pictures (m, 3, s, s)."""
    # directions that float32 cannot tell from rounding are left out; the others are made equally loud
    scaling = whitened(x.astype(np.float64), floor=ROUNDING)
    rows, size = scaling(x.astype(np.float64)), pictures.shape[-1]
    truth = pictures.flatten(1).double().numpy()
    mean = truth.mean(0)
    gram, right = rows.T @ rows / len(rows), rows.T @ (truth - mean) / len(rows)
    made = [
        LinearInverter(scaling, np.linalg.solve(gram + ridge * np.eye(len(gram)), right), mean, size)
        for ridge in RIDGES
    ]
    worth = [float(psnr(one(held_out[0]), held_out[1]).mean()) for one in made]
    return made[int(np.argmax(worth))]


class Decoder(nn.Module):
    """(m, q) → (m, 3, s, s): a small map, doubled until it is a picture, added to what a linear map draws.

    Before it has learnt, it is the linear map that it is given; of features that say nothing that is the mean picture.
    """

    def __init__(self, linear: LinearInverter, width: int, seed: int = 0):
        super().__init__()
        size, (inputs, outputs) = linear.size, linear.matrix.shape
        doublings = int(math.log2(size // SMALLEST))
        with seeded(seed):
            first = width * 2**doublings
            layers: list[nn.Module] = [
                nn.Linear(inputs, first * SMALLEST**2),
                nn.Unflatten(1, (first, SMALLEST, SMALLEST)),
            ]
            for level in range(doublings, 0, -1):
                into, out = width * 2**level, width * 2 ** (level - 1)
                layers += [
                    nn.SiLU(),
                    nn.Upsample(scale_factor=2, mode="nearest"),
                    nn.Conv2d(into, out, 3, padding=1),
                    nn.GroupNorm(1, out),
                ]
            last = nn.Conv2d(width, 3, 3, padding=1)
            self.layers = nn.Sequential(*layers, nn.SiLU(), last)
            self.linear = nn.Linear(inputs, outputs)
        assert last.bias is not None
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        with torch.no_grad():
            self.linear.weight.copy_(torch.from_numpy(linear.matrix.T))
            self.linear.bias.copy_(torch.from_numpy(linear.mean))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.layers(x)
        return self.linear(x).reshape(made.shape) + made


@dataclass(frozen=True)
class NetworkInverter:
    """A decoder with the scaling of its inputs."""

    scaling: Scaling
    network: Decoder

    @torch.no_grad()
    def __call__(self, x: np.ndarray) -> Tensor:
        device = next(self.network.parameters()).device
        rows = torch.from_numpy(self.scaling(x.astype(np.float64)).astype(np.float32))
        return torch.cat([self.network(part.to(device)).cpu().clamp(0, 1) for part in rows.split(CHUNK)])


class RowBatches(Batches):
    """Rows and their pictures in an order of their own in every epoch."""

    def __init__(self, rows: Tensor, pictures: Tensor, batch: int, seed: int):
        self.rows, self.pictures, self.batch, self.seed = rows, pictures, batch, seed
        self.steps = -(-len(rows) // batch)

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        order = torch.from_numpy(seeds.rng(self.seed, "order", number).permutation(len(self.rows)))
        for whole in order.split(self.batch):
            mine, total = whole[rank::ranks], float(len(whole))
            if not len(mine):  # fewer rows than processes: this one looks at a row that counts for nothing
                mine, total = whole[:1], math.inf
            yield Batch(self.rows[mine].to(device), self.pictures[mine].to(device), total)


@dataclass
class Nearest(Judge):
    """Chooses the epoch by the PSNR of held-out rows; the network as it began is among the candidates."""

    rows: Tensor  # (m, q)
    truth: Tensor  # (m, 3, s, s)
    best: float = -math.inf
    state: dict[str, Tensor] = field(default_factory=dict)

    @torch.no_grad()
    def look(self, network: nn.Module, epoch: int) -> dict[str, float]:
        device = next(network.parameters()).device
        made = torch.cat([network(part.to(device)).cpu().clamp(0, 1) for part in self.rows.split(CHUNK)])
        value = float(psnr(made, self.truth).mean())
        if value > self.best:
            self.best = value
            self.state = {name: t.detach().cpu().clone() for name, t in network.state_dict().items()}
        return {"validation": value}

    def tensors(self) -> dict[str, Tensor]:
        return self.state

    def restore(self, tensors: Mapping[str, Tensor], history: Sequence[Mapping[str, float]]) -> None:
        self.state = dict(tensors)
        self.best = max([self.best, *(record["validation"] for record in history)])


def squared_error(made: Tensor, truth: Tensor) -> Tensor:
    """(B, 3, s, s) twice → (B,)."""
    return (made - truth).square().flatten(1).mean(1)
