"""Random clips of videos as training batches: decoded by threads ahead of the step, frames kept where they fit.

Every clip and every augmentation is drawn from the seed, the epoch and the item, so what is learnt depends neither on
the number of threads nor on where a run was interrupted.

Threads decide what is seen (which frames, which draw) and read it. On a CPU they also carry it out, clip by clip, which
there is three times as fast as all at once (benchmarks/augment.py). On an accelerator the pixels cost next to nothing
and Python does not: whole batches are carried out at once, where the frames are.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from videoveil.data.records import Item
from videoveil.errors import BadItems, MediaError, UsageError
from videoveil.media import sampling
from videoveil.media.batched import apply_batch
from videoveil.media.crops import Box, Geometry, Size, clip_size, resize_clip
from videoveil.media.image import read_image
from videoveil.media.transforms import Draw, Preset, apply_one
from videoveil.training import seeds
from videoveil.training.supervised import Batch, Batches

AHEAD = 3  # batches that are being decoded while one is computed


class FramePainter(Protocol):
    """Covers what must not be seen in whole frames of an item."""

    def __call__(self, item: Item, indices: Sequence[int], images: np.ndarray) -> np.ndarray:
        """uint8 (n, H, W, 3), the frames with these numbers → the same."""
        ...

    def content_hash(self) -> str: ...


class Frames:
    """Decoded frames of items; those of the first items stay in memory up to `limit` bytes, on `device` if given.

    `side`: pictures whose short side is longer are made that much smaller as they are decoded, so that photographs
    for a small network do not fill the memory; 0 leaves them as they are. `paint` comes before everything else: no
    frame is kept or given out that has not been through it. `sizes`: the height and width that frames of an item are
    given by its id after that, for videos that must be cut as others are which are larger or smaller.
    """

    def __init__(
        self,
        limit: int = 0,
        *,
        side: int = 0,
        device: torch.device | None = None,
        paint: FramePainter | None = None,
        sizes: Callable[[str], Size] | None = None,
    ):
        self.limit, self.used, self.side, self.paint, self.sizes = limit, 0, side, paint, sizes
        self.device = device or torch.device("cpu")
        self._kept: dict[str, Tensor] = {}
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
        """(len(indices), H, W, 3) uint8, not to be written to: it may be the memory of what is kept."""
        kept = self._kept.get(item.id)
        if kept is None and self.used < self.limit:
            kept = self._keep(item)
        if kept is not None:
            return _chosen(kept, indices)
        return self._decode(item, indices)

    def warm(self, item: Item) -> None:
        """Decode an item now if there is room for its frames."""
        if item.id not in self._kept and self.used < self.limit:
            self._keep(item)

    def _decode(self, item: Item, indices: Sequence[int]) -> Tensor:
        if item.kind == "image":
            picture = self._smaller(item, self._painted(item, [0], read_image(item.path).copy()[None]))
            return picture.expand(len(indices), -1, -1, -1)
        from videoveil.media.reader import open_video

        with open_video(item.path) as video:
            images = video.read(list(indices))
        return self._smaller(item, self._painted(item, indices, images))

    def _painted(self, item: Item, indices: Sequence[int], images: np.ndarray) -> Tensor:
        if self.paint is None:
            return torch.from_numpy(images)
        covered = self.paint(item, indices, images)
        if covered.shape != images.shape or covered.dtype != images.dtype:
            raise UsageError(
                f"{item.id}: painted frames are {covered.dtype} {covered.shape}, those of the video {images.dtype} "
                f"{images.shape}"
            )
        return torch.from_numpy(np.ascontiguousarray(covered))

    def _smaller(self, item: Item, pictures: Tensor) -> Tensor:
        """(n, H, W, 3) of the asked size, with a short side of at most `side`."""
        there = clip_size(pictures)
        scaled = height, width = there if self.sizes is None else self.sizes(item.id)
        if 0 < self.side < (short := min(scaled)):
            scaled = round(height * self.side / short), round(width * self.side / short)
        if scaled == there:
            return pictures
        geometry = Geometry(Box(0, 0, *there), scaled, Box(0, 0, *scaled))
        return resize_clip(pictures, geometry).permute(1, 2, 3, 0).contiguous()

    def _keep(self, item: Item) -> Tensor | None:
        whole = self._decode(item, range(self.count(item)))
        with self._lock:
            if self.used + whole.nbytes <= self.limit:
                whole = whole.to(self.device)
                self._kept[item.id] = whole
                self.used += whole.nbytes
            else:
                self.limit = self.used  # full: what is there stays, the others are decoded every time
        return whole


def frames_memory(limit: float, device: torch.device) -> int:
    """Bytes of frames to keep: the GiB that were asked for, on a GPU at most half of what is free."""
    asked = int(limit * 2**30)
    if device.type != "cuda":
        return asked
    return min(asked, torch.cuda.mem_get_info(device)[0] // 2)


def _chosen(kept: Tensor, indices: Sequence[int]) -> Tensor:
    """Frames of (n, H, W, 3), as a view where they are evenly spaced: a list of indices would copy them, and on a GPU
    wait until it had been sent there."""
    first, count = indices[0], len(indices)
    step = indices[1] - first if count > 1 else 1
    if step > 0 and list(indices) == [*range(first, first + step * count, step)]:
        return kept[first : first + step * (count - 1) + 1 : step]
    return kept.index_select(0, torch.tensor(indices).to(kept.device, non_blocking=True))


@dataclass(frozen=True, slots=True)
class View:
    """Frames uint8 (T, H, W, 3) of an item, and what is to be done with them."""

    frames: Tensor
    draw: Draw


def shown(views: Sequence[View], device: torch.device) -> Tensor:
    """(n, 3, T, S, S) float in [0, 1] on the device, all at once."""
    return apply_batch([view.frames for view in views], [view.draw for view in views], device)


def together(asked: bool | None, device: torch.device) -> bool:
    """Whether whole batches are carried out at once: as asked, or else wherever that is the faster way."""
    return device.type != "cpu" if asked is None else asked


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
    """One random clip of every item per epoch, or `repeat` of them; through the `veil` once they are on the device."""

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
        repeat: int = 1,
        veil: Callable[[Tensor], Tensor] | None = None,
        at_once: bool | None = None,  # carry out whole batches; None: on accelerators
    ):
        if workers < 1 or repeat < 1:
            raise UsageError(f"workers={workers}, repeat={repeat}: both must be at least 1")
        self.items, self.values, self.frames = items, values, frames
        self.length, self.stride, self.preset = length, stride, preset
        self.batch, self.seed, self.workers, self.repeat, self.veil = batch, seed, workers, repeat, veil
        self.at_once = at_once
        self.steps = -(-len(items) * repeat // batch)

    def decide(self, place: int, epoch: int) -> View:
        """What is seen of place `place`.

        Places count through all items, and through them again for every further clip of an item.
        """
        again, number = divmod(place, len(self.items))
        item = self.items[number]
        which = (item.id, again) if again else (item.id,)
        rng = seeds.rng(self.seed, "clip", epoch, *which)
        chosen = self.place(self.frames.count(item), rng)
        decoded = self.frames.read(item, chosen.indices)
        generator = seeds.generator(self.seed, "augment", epoch, *which)
        (draw,) = self.preset.draw(1, decoded.shape[1], decoded.shape[2], generator)
        return View(decoded, draw)

    def place(self, total: int, rng: np.random.Generator) -> sampling.Clip:
        """Which frames of an item of `total` are seen."""
        return sampling.random_clip(total, self.length, self.stride, rng)

    def clip(self, place: int, epoch: int) -> Tensor:
        """(3, T, size, size) float in [0, 1] of place `place`, before the veil."""
        view = self.decide(place, epoch)
        return apply_one(view.frames, view.draw)

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        """The steps of an epoch; every process gets its share of each."""
        order = seeds.rng(self.seed, "order", number).permutation(len(self.items) * self.repeat)
        wholes = [order[i * self.batch : (i + 1) * self.batch] for i in range(self.steps)]
        work: Callable[[int, int], Any] = self.decide if together(self.at_once, device) else self.clip

        def several(places: np.ndarray) -> list[Any]:
            return [work(place, number) for place in places.tolist()]

        with ThreadPoolExecutor(self.workers) as pool:
            waiting: deque[tuple[np.ndarray, float, list[Future[list[Any]]]]] = deque()

            def ask(whole: np.ndarray) -> None:
                mine, total = whole[rank::ranks], float(len(whole))
                if not len(
                    mine
                ):  # fewer items than processes: this one looks at an item that counts for nothing
                    mine, total = whole[:1], math.inf
                shares = np.array_split(mine, min(len(mine), self.workers))
                waiting.append((mine, total, [pool.submit(several, share) for share in shares]))

            for whole in wholes[:AHEAD]:
                ask(whole)
            for step in range(self.steps):
                mine, total, futures = waiting.popleft()
                if step + AHEAD < self.steps:
                    ask(wholes[step + AHEAD])
                yield Batch(
                    self._together([one for future in futures for one in future.result()], device),
                    self.values[torch.from_numpy(mine % len(self.items))].to(device, non_blocking=True),
                    total,
                    tuple(self.items[place % len(self.items)].id for place in mine[:8]),
                )

    def _together(self, ready: list[Any], device: torch.device) -> Tensor:
        """(B, 3, T, size, size) on the device, as the network gets it."""
        clips = shown(ready, device) if isinstance(ready[0], View) else torch.stack(ready).to(device)
        return clips if self.veil is None else self.veil(clips)
