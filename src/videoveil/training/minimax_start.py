"""The identity start of a pixel anonymizer: its networks learn to give back the frame they get, by mean |x − f(x)|.

Only networks can: what throws information away never gives a frame back, and is left out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import devices
from videoveil.errors import Diverged
from videoveil.objectives import l1_reconstruction
from videoveil.training import seeds
from videoveil.training.minimax_data import IdentityStream
from videoveil.training.minimax_settings import Start

HELD_OUT = 0.1  # share of the items that the error is measured on
DROP = 5.0  # the rate is divided by this after an epoch that was not the best so far


@dataclass(frozen=True)
class IdentityResult:
    """mean |x − f(x)| on held-out frames at the end, and how many epochs it took."""

    error: float
    epochs: int


class Chain(nn.Module):
    """The networks of an anonymizer, one behind the other."""

    def __init__(self, networks: Sequence[nn.Module]):
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, frames: Tensor) -> Tensor:
        for network in self.networks:
            frames = network(frames)
        return frames


def learn_identity(
    networks: Sequence[nn.Module],
    draw: Callable[[int, int], Tensor],
    count: int,
    start: Start,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    workers: int = 2,
) -> IdentityResult:
    """Teach networks the identity on frames `draw(place, epoch)` (3, S, S) of `count` items.

    Adam, warm-up, the rate divided by five after every epoch that is not the best; ends at the goal or after the last
    epoch. Every epoch sees one frame of every item.
    """
    device = device or torch.device("cpu")
    chain = Chain(networks).to(device)
    if not list(chain.parameters()) or not start.identity_epochs:
        return IdentityResult(0.0 if not networks else math.nan, 0)
    if device.type == "cuda":
        devices.fast_layout(chain)
    held = max(1, round(HELD_OUT * count)) if count > 1 else 0
    order = seeds.rng(seed, "identity split").permutation(count)
    learn, check = order[held:], order[:held] if held else order
    optimizer = torch.optim.Adam(chain.parameters(), lr=start.identity_rate)
    rate, best, error = start.identity_rate, math.inf, math.inf
    with ThreadPoolExecutor(workers) as pool, devices.repeatable():

        def frames(places: np.ndarray, epoch: int) -> Tensor:
            if device.type != "cpu" and isinstance(draw, IdentityStream):
                return draw.several(places.tolist(), epoch, device)[:, 0]
            return torch.stack(list(pool.map(lambda place: draw(int(place), epoch), places))).to(device)

        for epoch in range(start.identity_epochs):
            chain.train()
            warm = min(1.0, (epoch + 1) / start.identity_warmup) if start.identity_warmup else 1.0
            for group in optimizer.param_groups:
                group["lr"] = rate * warm
            mixed = learn[seeds.rng(seed, "identity order", epoch).permutation(len(learn))]
            losses = []
            for first in range(0, len(mixed), start.identity_batch):
                x = frames(mixed[first : first + start.identity_batch], epoch)
                loss = l1_reconstruction(x, chain(x))
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            found = float(torch.stack(losses).mean())
            if not math.isfinite(found):
                raise Diverged(
                    f"the identity start diverged in epoch {epoch + 1}; lower identity_rate={start.identity_rate:g}"
                )
            if found > best:
                rate /= DROP
            best = min(best, found)
            error = _error(chain, [frames(part, 0) for part in _parts(check, start.identity_batch)])
            if error <= start.identity_goal:
                return IdentityResult(error, epoch + 1)
    return IdentityResult(error, start.identity_epochs)


def shortfall(error: float, start: Start) -> str:
    """What is to be said of a start with this error; nothing where its goal was reached, or none was set."""
    if not start.identity_goal or not error > start.identity_goal:  # NaN where nothing was to be learnt
        return ""
    return (
        f"the identity start ended with a mean |x − f_A(x)| of {error:.3g} on held-out frames instead of "
        f"{start.identity_goal:g} at most, so the game began with pictures that were changed already: give it more "
        f"than settings.start.identity_epochs={start.identity_epochs}, or another rate than "
        f"settings.start.identity_rate={start.identity_rate:g}"
    )


def _parts(places: np.ndarray, size: int) -> list[np.ndarray]:
    return [places[first : first + size] for first in range(0, len(places), size)]


@torch.no_grad()
def _error(chain: nn.Module, batches: Sequence[Tensor]) -> float:
    chain.eval()
    total = sum(float((chain(x) - x).abs().sum()) for x in batches)
    return total / sum(x.numel() for x in batches)
