"""From one video or image to the clips its features are made of, decoding each frame once and keeping few.

Frames are resized a few at a time as they are decoded, so what waits for its clip is small, and overlapping windows
share their frames. What grows with the length of the video is a number per frame and per clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from videoveil.data.records import Item
from videoveil.errors import CorruptVideo
from videoveil.features.store import FeatureRecipe
from videoveil.media import sampling
from videoveil.media.image import read_image
from videoveil.media.transforms import EvalTransform, preset

if TYPE_CHECKING:
    from videoveil.media.reader import Video

CHUNK = 8  # decoded frames that are resized together, fewer where they are large
CHUNK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Outline:
    """What is known of a video before its clips come: where they are and how time runs."""

    starts: tuple[int, ...]
    static_frames: tuple[int, ...]
    frames: int
    rate: Fraction | None
    time_base: Fraction
    pts: np.ndarray  # (n, 2) int64, first and last frame of every clip


@dataclass(frozen=True)
class Sample:
    """One clip for the encoder: `pictures` (3, T, size, size) uint8, or (3, 1, …) for a static clip to be tiled."""

    kind: str  # "clip" or "static"
    place: int
    pictures: Tensor


def open_clips(item: Item, recipe: FeatureRecipe) -> tuple[Outline, Generator[Sample]]:
    """The outline of an item and its clips in order; the iterator closes the file when it ends or is closed."""
    samples = _image_samples(item, recipe) if item.kind == "image" else _video_samples(item, recipe)
    outline = next(samples)
    assert isinstance(outline, Outline)
    return outline, samples  # type: ignore[return-value]


def place_clips(total: int, recipe: FeatureRecipe) -> Sequence[sampling.Clip]:
    """Where the clips of a video of `total` frames are."""
    if recipe.clips == "all":
        return sampling.non_overlapping(total, recipe.frames, recipe.stride)
    if recipe.clips == "ted-spad":
        return sampling.non_overlapping_ted_spad(total, recipe.frames, recipe.stride)
    if recipe.clips.startswith("dense:"):
        return sampling.windows(total, recipe.frames, int(recipe.clips.removeprefix("dense:")), recipe.stride)
    return sampling.equidistant(total, int(recipe.clips), recipe.frames, recipe.stride)


def transform_of(recipe: FeatureRecipe) -> Callable[[np.ndarray], Tensor]:
    """Decoded frames uint8 (T, H, W, 3) → what the encoder sees of them, uint8 (3, T, size, size)."""
    if recipe.crop == "ted-spad":
        return preset("ted-spad-test", recipe.size).evaluate
    return EvalTransform(recipe.resize, recipe.size)


def _image_samples(item: Item, recipe: FeatureRecipe) -> Generator[Outline | Sample]:
    picture = read_image(item.path)
    yield Outline((0,), (), 1, None, Fraction(1), np.zeros((1, 2), dtype=np.int64))
    yield Sample("clip", 0, transform_of(recipe)(picture[None]))


def _video_samples(item: Item, recipe: FeatureRecipe) -> Generator[Outline | Sample]:
    from videoveil.media.reader import open_video

    with open_video(item.path) as video:
        pts, base = video.index(), video.info.time_base
        first, stop = _part(item, pts, base)
        clips = place_clips(stop - first, recipe)
        static = sampling.static_pool(stop - first, recipe.static) if recipe.static else ()
        ends = np.array([(c.start, c.stop - 1) for c in clips], dtype=np.int64).reshape(-1, 2)
        yield Outline(
            starts=tuple(first + c.start for c in clips),
            static_frames=tuple(first + s for s in static),
            frames=len(pts),
            rate=video.info.rate,
            time_base=base,
            pts=pts[first + ends],
        )
        wanted = _wanted(clips, static)
        pictures = _pictures(video, first, wanted, transform_of(recipe), sequential=item.clip is None)
        yield from _assemble(pictures, clips, static)


def _part(item: Item, pts: np.ndarray, base: Fraction) -> tuple[int, int]:
    """The frames `[first, stop)` that the item means: all, or those in its time range."""
    if item.clip is None:
        return 0, len(pts)
    start, end = (seconds / base for seconds in item.clip)
    first, stop = (int(np.searchsorted(pts, math.ceil(t), side="left")) for t in (start, end))
    if stop <= first:
        reason = f"has no frames from {float(item.clip[0]):.3f} to {float(item.clip[1]):.3f} s"
        raise CorruptVideo(item.path, reason)
    return first, stop


def _wanted(clips: Sequence[sampling.Clip], static: Sequence[int]) -> np.ndarray:
    """All frame numbers that any clip needs, increasing."""
    needed = np.zeros(max(*(clip.stop for clip in clips), *(s + 1 for s in static), 1), dtype=bool)
    for clip in clips:
        needed[list(clip.indices)] = True
    needed[list(static)] = True
    return np.flatnonzero(needed)


def _pictures(
    video: Video,
    first: int,
    wanted: np.ndarray,
    transform: Callable[[np.ndarray], Tensor],
    *,
    sequential: bool,
) -> Iterator[tuple[int, Tensor]]:
    """(frame number, (3, size, size) uint8) for every wanted frame, in order.

    Where most frames are wanted the file is read through to its end, which also finds out whether it is sound;
    where few are, only what they need is decoded.
    """
    size = max(1, min(CHUNK, CHUNK_BYTES // (3 * video.info.width * video.info.height)))
    if sequential and 2 * len(wanted) >= video.count():
        batches = _read_through(video, wanted, size)
    else:
        chunks = (wanted[i : i + size] for i in range(0, len(wanted), size))
        batches = ((chunk.tolist(), video.read((first + chunk).tolist())) for chunk in chunks)
    for numbers, images in batches:
        resized = transform(images)  # (3, chunk, size, size)
        for place, number in enumerate(numbers):
            yield number, resized[:, place].clone()


def _read_through(video: Video, wanted: np.ndarray, size: int) -> Iterator[tuple[list[int], np.ndarray]]:
    numbers: list[int] = []
    images: list[np.ndarray] = []
    place = 0
    for frame in video.frames():
        if place < len(wanted) and frame.index == wanted[place]:
            place += 1
            numbers.append(frame.index)
            images.append(frame.image)
            if len(numbers) == size:
                yield numbers, np.stack(images)
                numbers, images = [], []
    if numbers:
        yield numbers, np.stack(images)


def _assemble(
    pictures: Iterator[tuple[int, Tensor]], clips: Sequence[sampling.Clip], static: Sequence[int]
) -> Iterator[Sample]:
    """Clips as soon as their last frame is there; frames no later clip needs are forgotten."""
    waiting: dict[int, Tensor] = {}
    order = sorted(range(len(clips)), key=lambda i: (clips[i].stop, i))
    oldest = _oldest_needed(clips, order)
    singles = sorted(range(len(static)), key=lambda i: static[i])
    clip_at = static_at = 0
    for number, picture in pictures:
        waiting[number] = picture
        while static_at < len(singles) and static[singles[static_at]] == number:
            yield Sample("static", singles[static_at], picture[:, None])
            static_at += 1
        while clip_at < len(order) and clips[order[clip_at]].stop - 1 <= number:
            clip = clips[order[clip_at]]
            yield Sample("clip", order[clip_at], torch.stack([waiting[i] for i in clip.indices], dim=1))
            clip_at += 1
        keep_from = oldest[clip_at] if clip_at < len(order) else number + 1
        for old in [n for n in waiting if n < keep_from]:
            del waiting[old]


def _oldest_needed(clips: Sequence[sampling.Clip], order: Sequence[int]) -> list[int]:
    """For each position in `order`, the lowest frame that this or any later clip needs."""
    oldest: list[int] = []
    lowest: int | None = None
    for i in reversed(order):
        first = min(clips[i].indices)
        lowest = first if lowest is None else min(lowest, first)
        oldest.append(lowest)
    return oldest[::-1]
