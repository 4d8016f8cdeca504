"""What attackers on pictures look at: views of items (single frames or clips) and what is known of who is in them.

Shapes: m views of n items, T frames of side s, k attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from videoveil.attacks.attributes import Labels
from videoveil.data.records import Item
from videoveil.errors import AnnotationError
from videoveil.media import sampling
from videoveil.media.transforms import looks
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames

if TYPE_CHECKING:
    from videoveil.features.pixels import PixelVeil

CHUNK = 64  # pictures that are veiled and scored at once, clips by the number of their frames
FrameLabels = Callable[
    [Item, int], Mapping[str, int] | None
]  # attributes in one frame; None: nothing is known


@dataclass(frozen=True)
class Lens:
    """How a network looks at an item it is asked about: `count` views, or with `step` one from every step-th frame."""

    length: int  # frames of a view; 1: pictures
    stride: int
    size: int
    test: str  # a preset of media.transforms without chance, or several that take turns (`looks`)
    count: int
    step: int = 0

    def places(self, total: int) -> tuple[sampling.Clip, ...]:
        """The views of an item of `total` frames; a still picture is one view."""
        ways = len(looks(self.test, self.size))  # each has its turn
        if total == 1 and self.length == 1:
            return sampling.equidistant(1, 1, 1) * ways
        if self.step:
            return tuple(sampling.windows(total, self.length, self.step, self.stride))
        return sampling.equidistant(total, max(self.count, ways), self.length, self.stride)

    def pictures(self, item: Item, frames: Frames) -> Tensor:
        """(views, 3, T, s, s) uint8, each frame decoded once."""
        clips = self.places(frames.count(item))
        wanted = sorted({index for clip in clips for index in clip.indices})
        decoded = frames.read(item, wanted).cpu()  # (wanted, H, W, 3)
        place = {index: row for row, index in enumerate(wanted)}
        rows = [[place[i] for i in clip.indices] for clip in clips]
        ways = looks(self.test, self.size)
        if len(ways) == 1:
            cut = ways[0].evaluate(decoded)  # (3, wanted, s, s)
            return torch.stack([cut[:, some] for some in rows])
        return torch.stack([ways[n % len(ways)].evaluate(decoded[some]) for n, some in enumerate(rows)])

    def middles(self, total: int) -> list[int]:
        """The frame in the middle of every view, which says what is known of it where labels go by frames."""
        return [clip.indices[len(clip) // 2] for clip in self.places(total)]


def ahead(items: Sequence[Item], work: Callable[[Item], Tensor], workers: int) -> Iterator[Tensor]:
    """`work(item)` of every item in order, done by threads a few items ahead."""
    with ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(work, item) for item in items[: 2 * workers]]
        for i in range(len(items)):
            done = waiting.pop(0).result()
            if i + 2 * workers < len(items):
                waiting.append(pool.submit(work, items[i + 2 * workers]))
            yield done


@torch.no_grad()
def veiled(pictures: Tensor, veil: PixelVeil | None, seed: int, device: torch.device) -> Iterator[Tensor]:
    """(m, 3, T, s, s) uint8 → what comes through the veil, as floats on the device.

    In pieces whose cut depends on the shape alone; noise comes from the seed.
    """
    for number, part in enumerate(pictures.split(max(1, CHUNK // pictures.shape[2]))):
        views = part.to(device).float().div_(255)
        yield views if veil is None else veil(views, seed=seeds.number(seed, "noise", number))


@dataclass
class HeldOut:
    """Views of videos that are looked at after every epoch; veiled once where `room` bytes hold what comes out."""

    pictures: Tensor  # (m, 3, T, s, s) uint8
    veil: PixelVeil | None
    seed: int
    room: int = 0
    _kept: list[Tensor] = field(default_factory=list)

    @property
    def taken(self) -> int:
        """Bytes of the room that they take, as floats."""
        size = 4 * self.pictures.nbytes
        return size if size <= self.room else 0

    def pieces(self, device: torch.device) -> Iterable[Tensor]:
        """As `veiled` cuts them, with the same noise every time."""
        if self._kept and self._kept[0].device == device:
            return self._kept
        found = veiled(self.pictures, self.veil, seeds.number(self.seed, "validation"), device)
        if not self.taken:
            return found
        self._kept = list(found)
        return self._kept


# --- what is known -------------------------------------------------------------------------------------------


def attribute_names(items: Sequence[Item], labels: Labels) -> tuple[str, ...]:
    """Every attribute that any of the items has an answer for."""
    names = tuple(sorted({name for item in items for name in labels(item) or {}}))
    if not names:
        raise AnnotationError("nothing is known about the people in these videos: no item has attributes")
    return names


def row(known: Mapping[str, int] | None, names: Sequence[str]) -> list[float]:
    """k of 0, 1 and NaN (unknown)."""
    found = known or {}
    return [float(found[name]) if name in found else np.nan for name in names]


def item_truth(items: Sequence[Item], names: Sequence[str], labels: Labels) -> np.ndarray:
    """(n, k) of 0, 1 and NaN."""
    return np.array([row(labels(item), names) for item in items]).reshape(len(items), len(names))


def view_truth(
    item: Item, middles: Sequence[int], names: Sequence[str], labels: Labels, moments: FrameLabels | None
) -> np.ndarray:
    """(views, k): what holds in the middle frame of each view, or in the whole item."""
    if moments is None:
        return np.array([row(labels(item), names)] * len(middles))
    return np.array([row(moments(item, frame), names) for frame in middles])


@dataclass(frozen=True)
class Answers:
    """What one network said of every view, beside the truth."""

    logits: np.ndarray  # (m, k) float64
    truth: np.ndarray  # (m, k) of 0, 1 and NaN
    videos: np.ndarray  # (m,) the item of every view

    def by_video(self) -> Answers:
        """One row for every item: the mean logit of its views; what is true in at least half of its known views."""
        numbers = np.unique(self.videos)
        logits = np.stack([self.logits[self.videos == n].mean(0) for n in numbers])
        truth = np.stack([mostly(self.truth[self.videos == n]) for n in numbers])
        return Answers(logits, truth, numbers)


def mostly(truth: np.ndarray) -> np.ndarray:
    """(views, k) → (k,); NaN where no view is known."""
    known = ~np.isnan(truth)
    count = known.sum(0)
    share = np.where(known, truth, 0).sum(0) / np.maximum(count, 1)
    return np.where(count > 0, (share >= 0.5).astype(float), np.nan)
