"""The training videos as 32 segments each, checked, in memory; and the batches of an epoch.

Shapes: N videos, n crops, L segments, C channels, B videos of each class in a batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.tasks.mgfn.segments import segment_means
from videoveil.tasks.mgfn.videos import AnomalyVideo, Inspector, class_balance_problems


@dataclass(frozen=True)
class TrainingSet:
    """Every video reduced to its segments: UCF-Crime with 768 channels and one crop takes 158 MB."""

    ids: tuple[str, ...]
    segments: Tensor  # (N, n, L, C) float32 on the CPU
    labels: Tensor  # (N,) int64

    @property
    def width(self) -> int:
        return self.segments.shape[-1]

    def of_class(self, label: int) -> Tensor:
        """Positions of the videos of one class, in order."""
        return (self.labels == label).nonzero().flatten()

    def fingerprint(self) -> str:
        """Changes with every bit of the data that training sees."""
        digest = hashlib.sha256(repr((self.ids, self.labels.tolist(), tuple(self.segments.shape))).encode())
        digest.update(self.segments.numpy().tobytes())
        return digest.hexdigest()


def prepare(videos: Iterable[AnomalyVideo], segments: int) -> TrainingSet:
    """Read every video once, keep its segments, and list everything that is wrong before training starts."""
    inspector = Inspector(same_crops=True)
    ids: list[str] = []
    reduced: list[Tensor] = []
    labels: list[int] = []
    for video in videos:
        if inspector.admit(video):
            means = segment_means(torch.from_numpy(video.by_crop()), segments)  # (L, n, C)
            reduced.append(means.transpose(0, 1))
        ids.append(video.id)
        labels.append(video.label)
    inspector.settle("anomaly training", class_balance_problems(labels))
    return TrainingSet(tuple(ids), torch.stack(reduced).contiguous(), torch.tensor(labels))


def class_batch(wanted: int, data: TrainingSet) -> int:
    """B: as many videos of each class as asked for, or the largest even number that the smaller class has."""
    smaller = min(len(data.of_class(0)), len(data.of_class(1)))
    return min(wanted, smaller - smaller % 2)


def epoch_batches(
    data: TrainingSet, batch: int, generator: torch.Generator | None, rank: int = 0, ranks: int = 1
) -> list[Tensor]:
    """Positions (2B,) of every step, normal videos first; as many steps as the smaller class has whole batches.

    Without a generator the order of the videos is kept (then the last ones of the larger class are never seen). Several
    ranks deal the batches out among themselves, equally many to each.
    """
    orders = []
    for label in (0, 1):
        own = data.of_class(label)
        orders.append(own if generator is None else own[torch.randperm(len(own), generator=generator)])
    steps = min(len(order) // batch for order in orders)
    if steps < ranks:
        raise UsageError(f"{steps} batches of {batch} + {batch} videos for {ranks} processes; use fewer")
    both = [torch.cat([order[s * batch : (s + 1) * batch] for order in orders]) for s in range(steps)]
    return both[rank : steps - steps % ranks : ranks]
