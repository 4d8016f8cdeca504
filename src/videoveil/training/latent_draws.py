"""Which clips a step sees: numbers drawn from the seed and the epoch or step alone, ahead of the steps.

So nothing of them has to be stored to go on with a run, and a processor and an accelerator see the same clips.

Shapes: n videos, B videos of a step, L segments of an anomaly video, m rows of a segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.tasks.mgfn.segments import boundaries
from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.network import draw_paths
from videoveil.tasks.tridet.truncate import truncate
from videoveil.training import seeds
from videoveil.training.latent_data import ClipPool

VIDEO, CLIP, OTHER, FIRST, SECOND = range(5)  # rows of a plan


def step_size(pool: ClipPool, batch: int) -> int:
    """Videos in a step: as many as asked for, or all there are."""
    size = min(batch, len(pool))
    if size < 2:
        raise UsageError(f"{len(pool)} training videos, batch={batch}: a step needs at least 2 videos")
    return size


def pass_steps(pool: ClipPool, batch: int) -> int:
    """Steps in which every video is seen at least once."""
    return -(-len(pool) // step_size(pool, batch))


def plan(pool: ClipPool, batch: int, seed: int, epoch: int, steps: int | None = None) -> Tensor:
    """The draws of one epoch, (steps, 5, B) int64 on the CPU.

    Of every video one clip and another one (the same where it has no other), both as rows of the pool, and two
    different static clips. All steps have B different videos: the last one is filled up from the start of the order.
    With `steps` the videos of every step are drawn for themselves, for sets that are not what an epoch goes through.
    """
    generator = seeds.generator(seed, "latent", epoch)
    size, count = step_size(pool, batch), len(pool)
    if steps is None:
        steps = pass_steps(pool, batch)
        order = torch.randperm(count, generator=generator)
        video = torch.cat((order, order[: steps * size - count])).view(steps, size)
    else:
        video = torch.stack([torch.randperm(count, generator=generator)[:size] for _ in range(steps)])
    uniform = torch.rand(4, steps, size, generator=generator, dtype=torch.float64)
    clips = pool.counts.cpu()[video]
    clip, other = _two_of(clips, uniform[0], uniform[1])
    start = pool.offsets.cpu()[video]
    still = torch.full_like(video, 1 if pool.static is None else pool.static.shape[1])
    return torch.stack((video, start + clip, start + other, *_two_of(still, uniform[2], uniform[3])), 1)


def _two_of(count: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Two different numbers below `count`, each equally likely, from uniform u and v; 0 and 0 where count is 1."""
    first = (u * count).long()
    shift = 1 + (v * (count - 1)).long()
    return first, torch.where(count > 1, (first + shift) % count.clamp_min(1), first)


def cycle(count: int, size: int, seed: int, purpose: str, step: int) -> Tensor:
    """Numbers (size,) of the videos of a step of a set that is gone through again and again in whole batches."""
    size = min(size, count)
    round_, place = divmod(step, count // size)
    order = torch.randperm(count, generator=seeds.generator(seed, purpose, round_))
    return order[place * size : (place + 1) * size]


# --- detection ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Windows:
    """Random windows of untrimmed videos."""

    videos: Tensor  # (B,)
    rows: Tensor  # (R,) of the pool, all windows one after the other
    lengths: tuple[int, ...]
    targets: tuple[Target, ...]
    paths: Tensor  # (B, ·) residual paths kept


def windows(pool: ClipPool, config: TriDetConfig, seed: int, step: int) -> Windows:
    """The detection batch of a step, as TriDet's own training would cut it."""
    chosen = cycle(len(pool), config.batch_size, seed, "detection", step)
    offsets = pool.offsets.tolist()
    rows, lengths, targets, paths = [], [], [], []
    for video in chosen.tolist():
        rng = seeds.rng(seed, "window", step, video)
        places = torch.arange(offsets[video], offsets[video + 1])[None]  # stands for the features (1, T)
        window, target = truncate(places, pool.targets[video], config, rng)
        rows.append(window[0])
        lengths.append(window.shape[1])
        targets.append(target)
        paths.append(draw_paths(config, seeds.generator(seed, "paths", step, video)))
    return Windows(chosen, torch.cat(rows), tuple(lengths), tuple(targets), torch.stack(paths))


# --- anomaly ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strata:
    """Where the strata of every segment of every video begin: (n, L, m + 1) rows of the pool."""

    edges: Tensor

    @classmethod
    def of(cls, pool: ClipPool, segments: int, most: int) -> Strata:
        """Every segment in `most` parts of as equal a size as can be; parts may be empty, segments are not."""
        edges = torch.empty(len(pool), segments, most + 1, dtype=torch.int64)
        offsets = pool.offsets.tolist()
        steps = torch.arange(most + 1)
        for video, (start, stop) in enumerate(pairwise(offsets)):
            cuts = torch.tensor(boundaries(stop - start, segments))
            first = cuts[:-1]
            count = (cuts[1:] - first).clamp_min(
                1
            )  # a segment without rows of its own takes the one it is at
            edges[video] = start + first[:, None] + (steps * count[:, None]) // most
        return cls(edges)

    def draw(self, videos: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """One random row of every part: rows (B, L, m) of the pool, and whether the part has one.

        So at most m different rows of every segment, all of them where it has no more, and no loop over videos.
        """
        low, high = self.edges[videos, :, :-1], self.edges[videos, :, 1:]  # (B, L, m)
        size = high - low
        uniform = torch.rand(size.shape, generator=generator, dtype=torch.float64)
        there = size > 0
        rows = torch.where(there, low + (uniform * size).long(), self.edges[videos, :, :1])
        return rows, there


def balanced(labels: Tensor, batch: int, seed: int, step: int) -> Tensor:
    """Numbers (2B,) of normal and of anomalous videos, B even and no more than the smaller class has."""
    labels = labels.cpu()
    classes = [(labels == label).nonzero().flatten() for label in (0, 1)]
    fewest = min(len(one) for one in classes)
    size = min(batch, fewest - fewest % 2)
    if size < 2:
        raise UsageError(
            f"{len(classes[0])} normal and {len(classes[1])} anomalous videos: at least 2 of each are needed"
        )
    parts = [own[cycle(len(own), size, seed, f"anomaly {label}", step)] for label, own in enumerate(classes)]
    return torch.cat(parts)
