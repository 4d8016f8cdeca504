"""An attacker without a network: every picture as a coarse grid of colours, and classical learners on it.

A network sees crops made smaller and may be blind to what it was not built for: a mark in a corner, a time stamp, a
tint. Here the whole picture counts, to its edges: mean, darkest and brightest value of each cell and colour. Cheap, and
hard to fool by accident. Learners see two kinds of rows:

- `linear`, `trees`: a few single frames that are spread over the video, a row each. What is said of all of a video's
  together is `linear_video` (the mean) and `linear_peak` (the highest).
- `linear_whole`, `trees_whole`: one row for a video, with the mean, darkest and brightest value over all of its frames.
  What is in a few frames only is in there, wherever they are.

Shapes: n videos, t frames of one, m rows, cells of a grid, width d.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from videoveil import devices
from videoveil.attacks.attributes import Labels
from videoveil.attacks.features import attacker, split
from videoveil.attacks.pictures import attribute_names, item_truth
from videoveil.attacks.pooling import with_videos
from videoveil.data.owners import together
from videoveil.data.records import Item
from videoveil.media.image import read_image
from videoveil.media.pixels import RgbConverter
from videoveil.media.reader import open_video
from videoveil.media.sampling import equidistant
from videoveil.tasks.base import Clips, Progress
from videoveil.tasks.outcomes import AttributeOutcome, Outcome
from videoveil.training import seeds
from videoveil.training.clip_batches import FramePainter

if TYPE_CHECKING:
    from videoveil.features.pixels import PixelVeil

WHOLE = "_whole"  # of the name of a learner that sees every frame
CLIP = 16  # frames that are in memory, and go through an anonymizer, together
PIXELS = 2**23  # of these frames: large ones are fewer


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """How coarse, how many frames, and who learns."""

    rows: int = 6
    columns: int = 8
    frames: int = 4  # that are a row each
    most: int = 4000  # frames that a whole video is seen by: all of them, or so many, evenly spread
    kinds: tuple[str, ...] = ("linear", "trees")
    validation: float = 0.2
    workers: int = 2

    def singles(self, total: int) -> list[int]:
        """The frames of a video that are a row each."""
        return [clip.indices[0] for clip in equidistant(total, self.frames, 1)]

    def every(self, total: int) -> set[int]:
        """The frames of a video that are looked at at all."""
        if total <= self.most:
            return set(range(total))
        return {clip.indices[0] for clip in equidistant(total, self.most, 1)} | set(self.singles(total))


def cells(pictures: Tensor, config: GridConfig) -> Tensor:
    """(t, 3, H, W) in [0, 1] → (t, d): mean, brightest and darkest value of every cell and colour."""
    shape = (config.rows, config.columns)
    parts = [
        functional.adaptive_avg_pool2d(pictures, shape),
        functional.adaptive_max_pool2d(pictures, shape),
        -functional.adaptive_max_pool2d(-pictures, shape),
    ]
    return torch.cat([part.flatten(1) for part in parts], 1)


# --- frames -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Frames of a video of `total`: their numbers, and (t, H, W, 3) uint8 as a painter left them."""

    total: int
    numbers: list[int]
    images: np.ndarray


Pieces = Generator[Piece, None, None]


def pieces(item: Item, paint: FramePainter | None, config: GridConfig) -> Pieces:
    """The frames of an item in order, decoded once, a few at a time; how many depends on their size alone."""

    def piece(total: int, numbers: list[int], images: list[np.ndarray]) -> Piece:
        shown = np.stack(images)
        return Piece(total, numbers, shown if paint is None else paint(item, numbers, shown))

    if item.kind == "image":
        yield piece(1, [0], [read_image(item.path)])
        return
    convert = RgbConverter()
    with open_video(item.path) as video:
        total = video.count()
        wanted = config.every(total)
        numbers: list[int] = []
        images: list[np.ndarray] = []
        for one in video.decoded():
            if one.index not in wanted:
                continue
            numbers.append(one.index)
            images.append(convert(one.picture, one.turn))
            height, width, _ = images[0].shape
            if len(numbers) == min(CLIP, max(1, PIXELS // (height * width))):
                yield piece(total, numbers, images)
                numbers, images = [], []
        if numbers:
            yield piece(total, numbers, images)


def pieces_ahead(
    items: Sequence[Item], look: Callable[[Item], Pieces], workers: int
) -> Generator[tuple[int, Piece], None, None]:
    """The pieces of all items in order, each with the number of its item.

    An item is read by one thread, which is one piece ahead; so are the first pieces of the items that come next.
    """
    pools = [ThreadPoolExecutor(1) for _ in range(workers)]

    def begin(number: int) -> tuple[Pieces, ThreadPoolExecutor, Future[Piece | None]]:
        coming, pool = look(items[number]), pools[number % workers]
        return coming, pool, pool.submit(next, coming, None)

    begun = deque(begin(number) for number in range(min(workers, len(items))))
    try:
        for number in range(len(items)):
            coming, pool, later = begun[0]
            while (piece := later.result()) is not None:
                later = pool.submit(next, coming, None)
                yield number, piece
            begun.popleft()
            if number + workers < len(items):
                begun.append(begin(number + workers))
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)
        for coming, _, _ in begun:
            coming.close()


# --- rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """Videos as rows: a few single frames of each, and each as a whole."""

    rows: np.ndarray  # (m, d)
    videos: np.ndarray  # (m,) the video of every row
    whole: np.ndarray  # (n, d)


@dataclass
class Total:
    """Rows of `cells` over all frames of a video, one frame after the other: how many come at once changes no bit."""

    row: np.ndarray | None = None  # (d,): sum of the means, brightest, darkest
    frames: int = 0

    def add(self, rows: np.ndarray) -> None:
        """rows (t, d)"""
        for one in rows:
            if self.row is None:
                self.row = one.copy()
            else:
                means, bright, dark = np.split(self.row, 3)  # views of it
                means += one[: len(means)]
                np.maximum(bright, one[len(means) : 2 * len(means)], out=bright)
                np.minimum(dark, one[2 * len(means) :], out=dark)
            self.frames += 1

    def mean(self) -> np.ndarray:
        """(d,): the mean over frames in place of the sum."""
        assert self.row is not None
        third = len(self.row) // 3
        return np.concatenate((self.row[:third] / self.frames, self.row[third:]))


def looked(
    images: np.ndarray, config: GridConfig, device: torch.device, veil: PixelVeil | None, seed: int
) -> np.ndarray:
    """(t, H, W, 3) uint8 → rows (t, d) of `cells`, behind a veil where one is given."""
    whole = torch.from_numpy(np.ascontiguousarray(images)).to(device)
    pictures = whole.permute(0, 3, 1, 2).float().div(255)
    if veil is not None:
        clip = pictures.transpose(0, 1)[None]  # (1, 3, t, H, W)
        pictures = veil(clip, seed=seed)[0].transpose(0, 1)
    return cells(pictures, config).double().cpu().numpy()


def see(
    source: Clips,
    items: Sequence[Item],
    config: GridConfig,
    seed: int,
    *,
    device: str = "cpu",
    tell: Callable[[int], None] | None = None,
) -> Seen:
    """All items as the source's painter and anonymizer leave them; `tell` hears how many are done."""
    veil, chosen = source.veil(), devices.choose(device)
    rows: list[np.ndarray] = []
    whole: list[np.ndarray] = []
    look = partial(pieces, paint=source.paint, config=config)
    with closing(pieces_ahead(items, look, config.workers)) as stream:
        for number, own in groupby(stream, itemgetter(0)):
            every, kept, singles = Total(), dict[int, np.ndarray](), list[int]()
            for _, piece in own:
                noise = seeds.number(seed, "grid", items[number].id, piece.numbers[0])
                made = looked(piece.images, config, chosen, veil, noise)
                every.add(made)
                singles = config.singles(piece.total)
                kept |= {
                    index: row for index, row in zip(piece.numbers, made, strict=True) if index in singles
                }
            rows.append(np.stack([kept[index] for index in singles]))
            whole.append(every.mean())
            if tell is not None:
                tell(number + 1)
    videos = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    return Seen(np.concatenate(rows), videos, np.stack(whole))


# --- the attack ---------------------------------------------------------------------------------------------


def attack(
    train: Clips,
    test: Clips,
    labels: Labels,
    config: GridConfig,
    *,
    seed: int = 0,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Outcome]:
    """Learn from the training videos, choose on a part of them, and answer for the test videos."""
    learners, asked = (sorted(source.items(), key=lambda item: item.id) for source in (train, test))
    names = attribute_names(learners, labels)
    told = [item for item in learners if labels(item)]
    steps = len(told) + len(asked) + 2 * len(config.kinds)

    def tell(done: int, before: int = 0) -> None:
        if progress is not None:
            progress(before + done, steps, 0.0)

    known = see(train, told, config, seed, device=device, tell=tell)
    new = see(test, asked, config, seed, device=device, tell=partial(tell, before=len(told)))
    truths = item_truth(told, names, labels), item_truth(asked, names, labels)
    groups = np.array(together(told))
    ids = tuple(item.id for item in asked)
    found: dict[str, Outcome] = {}
    for suffix, x, videos, new_x, new_videos in (
        ("", known.rows, known.videos, new.rows, new.videos),
        (WHOLE, known.whole, np.arange(len(told)), new.whole, np.arange(len(asked))),
    ):
        y = truths[0][videos]
        learn, choose = split(len(x), config.validation, seed, groups[videos])
        for kind in config.kinds:
            fitted = attacker(kind).fit(x[learn], y[learn], (x[choose], y[choose]), seed)
            scores = fitted.scores(new_x)
            found[f"{kind}{suffix}"] = AttributeOutcome(names, truths[1][new_videos], scores, new_videos, ids)
            tell(len(told) + len(asked) + len(found))
    return with_videos(found)
