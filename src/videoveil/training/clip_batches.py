"""Random clips of videos as training batches: decoded by threads ahead of the step, frames kept where they fit.

Every clip and every augmentation is drawn from the seed, the epoch and the item, so what is learnt depends neither on
the number of threads nor on where a run was interrupted.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from videoveil.data.records import Item
from videoveil.errors import BadItems, MediaError, UsageError
from videoveil.media import sampling
from videoveil.media.image import read_image
from videoveil.media.transforms import Draw, Preset, apply_one
from videoveil.training import seeds
from videoveil.training.supervised import Batch, Batches

AHEAD = 3  # batches that are being decoded while one is computed


class Frames:
    """Decoded frames of items; those of the first items stay in memory up to `limit` bytes."""

    def __init__(self, limit: int = 0):
        self.limit, self.used = limit, 0
        self._kept: dict[str, np.ndarray] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def count(self, item: Item) -> int:
        """The number of frames of an item."""
        if item.id not in self._counts:
            self._counts[item.id] = 1 if item.kind == "image" else self._open(item)
        return self._counts[item.id]

    def _open(self, item: Item) -> int:
        from videoveil.media.reader import open_video

        with open_video(item.path) as video:
            return video.count()

    def read(self, item: Item, indices: Sequence[int]) -> Tensor:
        """(len(indices), H, W, 3) uint8."""
        kept = self._kept.get(item.id)
        if kept is None and self.used < self.limit:
            kept = self._keep(item)
        if kept is not None:
            return torch.from_numpy(kept[list(indices)])
        return torch.from_numpy(self._decode(item, indices))

    def warm(self, item: Item) -> None:
        """Decode an item now if there is room for its frames."""
        if item.id not in self._kept and self.used < self.limit:
            self._keep(item)

    def _decode(self, item: Item, indices: Sequence[int]) -> np.ndarray:
        if item.kind == "image":
            return np.repeat(read_image(item.path)[None], len(indices), 0)
        from videoveil.media.reader import open_video

        with open_video(item.path) as video:
            return video.read(list(indices))

    def _keep(self, item: Item) -> np.ndarray | None:
        whole = self._decode(item, range(self.count(item)))
        with self._lock:
            if self.used + whole.nbytes <= self.limit:
                self._kept[item.id] = whole
                self.used += whole.nbytes
            else:
                self.limit = self.used  # full: what is there stays, the others are decoded every time
        return whole


def check(items: Sequence[Item], frames: Frames, workers: int, *, also: Sequence[str] = ()) -> None:
    """Open every item once; all that cannot be used are listed before training starts, with what is `also` wrong.

    As many items as the memory for frames holds are decoded to the end; of the others only the packets are read.
    """
    if not items:
        raise BadItems("no videos to work on: the split has none")

    def problem(item: Item) -> str | None:
        try:
            if not frames.count(item):
                return f"{item.id}: no frames"
            frames.warm(item)
            return None
        except (MediaError, OSError) as error:
            return f"{item.id}: {getattr(error, 'reason', error)}"

    with ThreadPoolExecutor(workers) as pool:
        wrong = [*also, *(text for text in pool.map(problem, items) if text)]
    wrong += [
        f"{item.id}: a part of a longer file; training on clips works on whole files, cut it first"
        for item in items
        if item.clip is not None
    ]
    if wrong:
        raise BadItems(f"{len(wrong)} problems with {len(items)} items:", wrong)


class ClipBatches(Batches):
    """One random clip of every item per epoch."""

    def __init__(
        self,
        items: Sequence[Item],
        values: Tensor,  # (n,) or (n, k)
        *,
        frames: Frames,
        length: int,
        stride: int,
        preset: Preset,
        batch: int,
        seed: int,
        workers: int,
    ):
        if workers < 1:
            raise UsageError(f"workers={workers}: must be at least 1")
        self.items, self.values, self.frames = items, values, frames
        self.length, self.stride, self.preset = length, stride, preset
        self.batch, self.seed, self.workers = batch, seed, workers
        self.steps = -(-len(items) // batch)

    def draw(self, place: int, epoch: int) -> tuple[Tensor, Draw]:
        """The frames (T, H, W, 3) uint8 of item number `place` and what is to be done with them."""
        item = self.items[place]
        rng = seeds.rng(self.seed, "clip", epoch, item.id)
        chosen = sampling.random_clip(self.frames.count(item), self.length, self.stride, rng)
        decoded = self.frames.read(item, chosen.indices)
        generator = seeds.generator(self.seed, "augment", epoch, item.id)
        (draw,) = self.preset.draw(1, decoded.shape[1], decoded.shape[2], generator)
        return decoded, draw

    def clip(self, place: int, epoch: int) -> Tensor:
        """(3, T, size, size) float in [0, 1] of item number `place`."""
        return apply_one(*self.draw(place, epoch))

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        """Decoding is the threads' work; augmentation too on a CPU, and the GPU's own where there is one."""
        order = seeds.rng(self.seed, "order", number).permutation(len(self.items))
        wholes = [order[i * self.batch : (i + 1) * self.batch] for i in range(self.steps)]
        work: Callable[[int, int], Any] = self.clip if device.type == "cpu" else self.draw
        with ThreadPoolExecutor(self.workers) as pool:
            waiting: deque[tuple[np.ndarray, float, list[Future[Any]]]] = deque()

            def ask(whole: np.ndarray) -> None:
                mine, total = whole[rank::ranks], float(len(whole))
                if not len(
                    mine
                ):  # fewer items than processes: this one looks at an item that counts for nothing
                    mine, total = whole[:1], math.inf
                waiting.append((mine, total, [pool.submit(work, int(place), number) for place in mine]))

            for whole in wholes[:AHEAD]:
                ask(whole)
            for step in range(self.steps):
                mine, total, futures = waiting.popleft()
                if step + AHEAD < self.steps:
                    ask(wholes[step + AHEAD])
                yield Batch(
                    self._together([future.result() for future in futures], device),
                    self.values[torch.from_numpy(mine)].to(device),
                    total,
                    tuple(self.items[place].id for place in mine[:8]),
                )

    def _together(self, ready: list[Any], device: torch.device) -> Tensor:
        """(B, 3, T, size, size) on the device."""
        if device.type == "cpu":
            return torch.stack(ready)
        return torch.stack(
            [apply_one(decoded.to(device, non_blocking=True), draw) for decoded, draw in ready]
        )
