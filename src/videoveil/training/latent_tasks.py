"""Tasks on untrimmed videos inside a latent step: what they draw, and their loss with gradient into the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.tasks.mgfn import MGFN, MGFNConfig
from videoveil.tasks.mgfn import losses as anomaly_losses
from videoveil.tasks.tridet import Normaliser, TriDet, TriDetConfig
from videoveil.tasks.tridet import losses as detection_losses
from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.truncate import draw_noise
from videoveil.training import seeds
from videoveil.training.latent_data import ClipPool
from videoveil.training.latent_draws import Strata, balanced, windows
from videoveil.training.latent_step import TaskRows

CONSISTENT = 4096  # rows of a task that count for consistency in one step, at most
SNIPPETS = 4  # of every segment of an anomaly video, at most


class LatentTask:
    """A task whose videos are gone through again and again beside the action videos."""

    pool: ClipPool

    def steps(self) -> int:
        """Steps of one pass over its videos."""
        raise NotImplementedError

    def draw(self, step: int, seed: int, still: Tensor | None) -> TaskRows:
        """The batch of a step, counted over all epochs. still (n, d): mean static features, where they are wanted."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What has to be kept beside the weights to go on."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what `state` gave."""


@dataclass
class DetectionTask(LatentTask):
    """TriDet on windows of untrimmed videos: the anonymizer sees every feature of a window (paper Eq. 8)."""

    pool: ClipPool
    network: TriDet
    config: TriDetConfig

    def __post_init__(self) -> None:
        self.normaliser = Normaliser.of(self.config)

    def steps(self) -> int:
        return max(1, len(self.pool) // min(self.config.batch_size, len(self.pool)))

    def draw(self, step: int, seed: int, still: Tensor | None) -> TaskRows:
        device, config = self.pool.rows.device, self.config
        cut = windows(self.pool, config, seed, step)
        lengths = torch.tensor(cut.lengths)
        owners = cut.videos.repeat_interleave(lengths).to(device)
        noise = None
        if config.input_noise:
            parts = [seeds.number(seed, "noise", step, int(video)) for video in cut.videos]
            made = [torch.Generator(device).manual_seed(part) for part in parts]
            noise = [draw_noise(self.pool.width, config, generator) for generator in made]

        def loss(anonymized: Tensor) -> Tensor:
            found = detection_losses(
                self.network,
                [part.T for part in anonymized.split(list(cut.lengths))],
                [Target(t.segments.to(device), t.labels.to(device)) for t in cut.targets],
                self.normaliser,
                config,
                noise=noise,
                paths=cut.paths.to(device),
            )
            return found.total

        return TaskRows(
            self.pool.rows[cut.rows.to(device)],
            _some(len(cut.rows), seed, step, "detection").to(device),
            loss,
            None if still is None else still[owners],
        )

    def state(self) -> dict[str, Any]:
        return {"normaliser": self.normaliser.value}

    def restore(self, state: dict[str, Any]) -> None:
        self.normaliser.value = float(state["normaliser"])


@dataclass
class AnomalyTask(LatentTask):
    """MGFN on segments: the anonymizer sees snippets, their averages come after it (paper Eqs. 9 to 13)."""

    pool: ClipPool
    network: MGFN
    config: MGFNConfig
    snippets: int = SNIPPETS

    def __post_init__(self) -> None:
        if self.pool.labels is None:
            raise UsageError("anomaly videos without normal/anomalous labels")
        self.labels = self.pool.labels.cpu()
        self.strata = Strata.of(self.pool, self.config.segments, self.snippets)

    def steps(self) -> int:
        fewest = int(torch.bincount(self.labels, minlength=2).min())
        return max(1, fewest // max(1, min(self.config.batch, fewest - fewest % 2)))

    def draw(self, step: int, seed: int, still: Tensor | None) -> TaskRows:
        device = self.pool.rows.device
        chosen = balanced(self.labels, self.config.batch, seed, step)  # (2B,)
        rows, there = self.strata.draw(chosen, seeds.generator(seed, "snippets", step))  # (2B, L, m)
        masks = seeds.generator(seed, "mask", step)
        owners = chosen[:, None, None].expand_as(rows).reshape(-1).to(device)
        real = there.reshape(-1).nonzero().flatten()
        weight = (there / there.sum(-1, keepdim=True)).to(device, torch.float32)  # (2B, L, m)

        def loss(anonymized: Tensor) -> Tensor:
            by_segment = anonymized.view(*rows.shape, -1)  # (2B, L, m, d)
            means = (by_segment * weight[..., None]).sum(2)  # (2B, L, d)
            return anomaly_losses(self.network, means, self.labels[chosen], self.config, masks).total

        return TaskRows(
            self.pool.rows[rows.reshape(-1).to(device)],
            real[_some(len(real), seed, step, "anomaly")].to(device),
            loss,
            None if still is None else still[owners],
        )


def _some(count: int, seed: int, step: int, purpose: str) -> Tensor:
    """All rows, or a random CONSISTENT of them."""
    if count <= CONSISTENT:
        return torch.arange(count)
    generator = seeds.generator(seed, f"consistent {purpose}", step)
    return torch.randperm(count, generator=generator)[:CONSISTENT]
