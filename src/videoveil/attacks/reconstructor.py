"""A network that draws the raw frame from the published one, learnt from pairs of both.

It begins with the linear filter that is best on training frames, which undoes a change of colours or a mild blur at
once, and learns what to add. What it is worth is judged on held-out training videos, in decibels: as no change at all,
with the filter alone, and after every epoch.

Shapes: B frames of side s in a batch, m frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from videoveil.anonymizers.pixel import config as stages
from videoveil.anonymizers.pixel.frames import to_clips, to_frames
from videoveil.anonymizers.pixel.unet import UNet
from videoveil.attacks.fidelity import psnr
from videoveil.attacks.pictures import Lens, ahead
from videoveil.data.records import Item
from videoveil.encoders.base import COUNTER, seeded, tensors_hash
from videoveil.errors import BadItems, MediaError
from videoveil.features.pixels import PixelVeil
from videoveil.media.crops import Size, clip_size
from videoveil.media.transforms import preset
from videoveil.tasks.base import Clips
from videoveil.training import seeds
from videoveil.training.clip_batches import ClipBatches, Frames, check, frames_memory
from videoveil.training.supervised import Batch, Batches, Judge

REACH = 5  # pixels, of the linear filter
RIDGE = 1e-6  # of the mean square of a pixel
CHUNK = 32  # frames that are drawn at once
GRAIN = 2 / 255  # of a picture of one colour while the network learns
ASPECT = 0.02  # by which the shapes of a pair may differ: sizes are whole numbers


class Reconstructor(nn.Module):
    """Frames (N, 3, H, W) or clips (N, 3, T, H, W), published → as they may have been; a step of `Composed`."""

    def __init__(self, width: int = 16, seed: int = 0):
        super().__init__()
        self.width = width
        with seeded(seed):
            self.network = UNet(stages.UNet(width=width, out="none"))
            self.filter = nn.Conv2d(3, 3, REACH, padding=REACH // 2, padding_mode="replicate")
        nn.init.dirac_(self.filter.weight)
        for zero in (self.filter.bias, self.network.outc.conv.weight, self.network.outc.conv.bias):
            assert zero is not None
            nn.init.zeros_(zero)

    def forward(self, x: Tensor) -> Tensor:
        frames = to_frames(x)
        return to_clips(self.filter(frames) + self.network(self._grained(frames)), x)

    def _grained(self, frames: Tensor) -> Tensor:
        """While learning, pictures of one colour get a grain that nobody sees.

        From nothing but black pictures every batch norm would multiply the gradient by three hundred, and after
        eighteen of them it is no number any more.
        """
        if not self.training:
            return frames
        plain = frames.amax((1, 2, 3), keepdim=True) == frames.amin((1, 2, 3), keepdim=True)
        return frames + GRAIN * plain * (torch.rand_like(frames) - 0.5)

    def transform(self, frames: Tensor) -> Tensor:
        made: Tensor = self(frames)
        return made.clamp(0.0, 1.0)

    def content_hash(self) -> str:
        state = {key: value for key, value in self.state_dict().items() if not key.endswith(COUNTER)}
        return tensors_hash({"reconstructor": self.width}, state)


@torch.no_grad()
def fit_filter(network: Reconstructor, pictures: Iterator[tuple[Item, Tensor, Tensor]]) -> None:
    """Set the filter to the one with the least square error from published to raw frames, by its normal equations.

    They are added up where the network is: a hundred columns of doubles for every pixel are much for a processor.
    """
    taps, device = 3 * REACH * REACH + 1, network.filter.weight.device
    gram, right = (torch.zeros(taps, n, dtype=torch.float64, device=device) for n in (taps, 3))
    for _, truth, seen in pictures:
        edged = nn.functional.pad(seen.to(device), (REACH // 2,) * 4, mode="replicate")
        rows = nn.functional.unfold(edged, REACH).transpose(1, 2).flatten(0, 1).double()  # (m·s·s, 3·REACH²)
        rows = nn.functional.pad(rows, (0, 1), value=1.0)
        gram += rows.T @ rows
        right += rows.T @ truth.to(device).permute(0, 2, 3, 1).flatten(0, 2).double()
    gram, right = gram.cpu(), right.cpu()
    gram += RIDGE * gram.diagonal().mean().clamp_min(1e-12) * torch.eye(taps, dtype=torch.float64)
    found = torch.linalg.solve(gram, right).float()  # (taps, 3)
    assert network.filter.bias is not None
    network.filter.weight.copy_(found[:-1].T.reshape(3, 3, REACH, REACH))
    network.filter.bias.copy_(found[-1])


def squared_error(made: Tensor, truth: Tensor) -> Tensor:
    """(B, 3, 1, s, s) twice → (B,)."""
    return (made - truth).square().flatten(1).mean(1)


def same_shape(one: Size, other: Size) -> bool:
    """Whether one may be the other, made larger or smaller."""
    return abs(one[1] * other[0] / (one[0] * other[1]) - 1) <= ASPECT


@dataclass(frozen=True)
class Pairs:
    """Raw and published videos of the same items. Where only an anonymizer lies between, frames are decoded once."""

    raw: Clips
    published: Clips

    @cached_property
    def sizes(self) -> Callable[[str], Size] | None:
        """How large published frames must be so that crops of both are the same: as large as the raw ones."""
        if self.raw.dataset is self.published.dataset:
            return None
        raw = {item.id: item for item in self.raw.dataset.items}
        return cache(lambda name: clip_size(Frames().read(raw[name], [0])))

    @property
    def apart(self) -> bool:
        """Whether the published frames are other files, or were painted before anything else."""
        return self.raw.dataset is not self.published.dataset or self.published.paint is not None

    def of(self, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """Raw and published items with these ids."""
        found: list[list[Item]] = []
        for source in (self.raw, self.published):
            here = {item.id: item for item in source.dataset.items}
            if missing := [item.id for item in items if item.id not in here]:
                raise BadItems(f"{source.dataset.root}: {len(missing)} videos have no pair there:", missing)
            found.append([here[item.id] for item in items])
        return found[0], found[1]

    def check(self, items: Sequence[Item], workers: int) -> None:
        """Every pair has as many frames of one shape, larger or smaller or not; all that have not are listed."""
        raw, published = self.of(items)
        frames = Frames()
        check(raw, frames, workers)
        if self.raw.dataset is self.published.dataset:
            return
        other = Frames()
        check(published, other, workers)
        wrong = []
        for one, two in zip(raw, published):
            try:
                counts = frames.count(one), other.count(two)
                shapes = [clip_size(f.read(i, [0])) for f, i in ((frames, one), (other, two))]
            except MediaError as error:
                wrong.append(f"{one.id}: {error.reason}")
                continue
            if counts[0] != counts[1]:
                wrong.append(f"{one.id}: {counts[0]} raw frames and {counts[1]} published ones")
            elif not same_shape(*shapes):
                raw_size, size = (f"{width}×{height}" for height, width in shapes)
                wrong.append(f"{one.id}: {raw_size} raw, {size} published: another shape")
        if wrong:
            raise BadItems(f"{len(wrong)} of {len(raw)} pairs do not fit frame by frame:", wrong)

    def pictures(
        self, items: Sequence[Item], lens: Lens, workers: int, seed: int, device: torch.device
    ) -> Iterator[tuple[Item, Tensor, Tensor]]:
        """Item, raw and published frames (m, 3, s, s) in [0, 1] on the CPU, every video by itself.

        The anonymizer works on `device`.
        """
        raw, published = self.of(items)
        veil = self.published.veil()
        side = 2 * lens.size
        shown = ahead(raw, partial(lens.pictures, frames=Frames(side=side)), workers)
        hidden: Iterator[Tensor | None] = iter([None] * len(raw))
        if self.apart:
            look = partial(
                lens.pictures, frames=Frames(side=side, paint=self.published.paint, sizes=self.sizes)
            )
            hidden = ahead(published, look, workers)
        for item, first, second in zip(raw, shown, hidden):
            truth = first.float().div(255)
            seen = truth if second is None else second.float().div(255)
            if veil is not None:
                seen = veil(seen.to(device), seed=seeds.number(seed, "test", item.id)).cpu()
            yield item, truth[:, :, 0], seen[:, :, 0]


class PairBatches(Batches):
    """Random frames of the published videos, and the same crops of the same raw frames as targets."""

    def __init__(
        self,
        pairs: Pairs,
        items: Sequence[Item],
        *,
        augment: str,
        size: int,
        batch: int,
        seed: int,
        workers: int,
        repeat: int,
        cache_gib: float,
        device: torch.device,
    ):
        raw, published = pairs.of(items)
        self.veil: PixelVeil | None = pairs.published.veil()

        def batches(chosen: list[Item], source: Clips, **options: Any) -> ClipBatches:
            room = frames_memory(cache_gib / (2 if pairs.apart else 1), device)
            frames = Frames(room, side=2 * size, device=device, paint=source.paint, **options)
            check(chosen, frames, workers)
            return ClipBatches(
                chosen,
                torch.zeros(len(chosen)),
                frames=frames,
                length=1,
                stride=1,
                preset=preset(augment, size),
                batch=batch,
                seed=seed,
                workers=workers,
                repeat=repeat,
            )

        self.raw = batches(raw, pairs.raw)
        # the same seed and ids: the same frames, the same crops
        self.published = batches(published, pairs.published, sizes=pairs.sizes) if pairs.apart else None
        self.steps = self.raw.steps

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        shown = self.raw.epoch(number, rank, ranks, device)
        hidden: Iterator[Batch | None] = iter([None] * self.steps)
        if self.published is not None:
            hidden = self.published.epoch(number, rank, ranks, device)
        for one, two in zip(shown, hidden):
            seen = one.inputs if two is None else two.inputs
            yield Batch(seen if self.veil is None else self.veil(seen), one.inputs, one.total, one.ids)


@dataclass
class Decibels(Judge):
    """Chooses the epoch by the PSNR of held-out training frames; the network as it began is among the candidates."""

    truth: Tensor  # (m, 3, s, s)
    seen: Tensor  # (m, 3, s, s)
    best: float = -math.inf
    state: dict[str, Tensor] = field(default_factory=dict)

    def look(self, network: nn.Module, epoch: int) -> dict[str, float]:
        assert isinstance(network, Reconstructor)
        value = float(psnr(drawn(network, self.seen), self.truth).mean())
        if value > self.best:
            self.best = value
            self.state = {name: t.detach().cpu().clone() for name, t in network.state_dict().items()}
        return {"validation": value}

    def tensors(self) -> dict[str, Tensor]:
        return self.state

    def restore(self, tensors: Mapping[str, Tensor], history: Sequence[Mapping[str, float]]) -> None:
        self.state = dict(tensors)
        self.best = max([self.best, *(record["validation"] for record in history)])


@torch.no_grad()
def drawn(network: Reconstructor, seen: Tensor) -> Tensor:
    """(m, 3, s, s) published → reconstructed, on the CPU; in pieces whose cut depends on the number alone."""
    device = next(network.parameters()).device
    return torch.cat([network.transform(part.to(device)).cpu() for part in seen.split(CHUNK)])


@dataclass
class MeanPicture:
    """The mean raw frame, every video counting once: what is drawn by who knows nothing of a video."""

    total: Tensor | None = None  # (3, s, s) float64
    videos: int = 0

    def of(self, pictures: Iterator[tuple[Item, Tensor, Tensor]]) -> Iterator[tuple[Item, Tensor, Tensor]]:
        """The same pictures, counted as they pass."""
        for item, truth, seen in pictures:
            mean = truth.double().mean(0)
            self.total = mean if self.total is None else self.total + mean
            self.videos += 1
            yield item, truth, seen

    @property
    def value(self) -> Tensor:
        """(3, s, s) float."""
        assert self.total is not None
        return (self.total / self.videos).float()


def each_picture(found: Tensor) -> np.ndarray:
    """(m, 3, H, W) in [0, 1] → (m, H, W, 3), as reports show it."""
    return found.permute(0, 2, 3, 1).numpy()
