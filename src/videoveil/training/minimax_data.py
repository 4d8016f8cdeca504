"""What a minimax step sees: clips of videos with their actions, and what the budget nets are asked about.

Two streams run beside each other. An epoch is one pass of the longer one; the shorter begins again. Every clip, frame
and augmentation is drawn from the seed, the epoch and the item, so neither threads nor interruptions change them.

A stream decides what is seen of a sample, which is cheap; its views are then carried out by the same thread on a CPU,
and for all samples of a step at once on an accelerator (see `clip_batches`).

Shapes: N videos, V clips of each; P samples, W views of each; T frames of S×S pixels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from videoveil.data.records import Item
from videoveil.errors import BadItems, UsageError
from videoveil.media import sampling
from videoveil.media.transforms import Preset, apply, preset
from videoveil.training import seeds
from videoveil.training.clip_batches import AHEAD, Frames, View, shown, together
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Utility

MAJORITY = 0.5  # of the videos must be long enough for the clips that are asked for
SAMPLERS: dict[str, Callable[[int, int, int, np.random.Generator], sampling.Clip | None]] = {
    "random": sampling.random_clip,
    "spact": sampling.random_clip_spact,
    "ted-spad": sampling.random_clip_ted_spad,
}


@dataclass(frozen=True)
class MinimaxBatch:
    """This process's part of a step, on its device."""

    clips: Tensor  # (N, V, 3, T, S, S) in [0, 1]
    targets: Tensor  # (N,) class numbers or (N, k) tags
    views: Tensor | None  # (P, W, 3, S, S), of "clips" (P, W, 3, T, S, S)
    labels: Tensor | None  # (P, k) of 0, 1 and NaN
    ids: tuple[str, ...] = ()  # for messages


@dataclass(frozen=True)
class Sample:
    """An item and what is to be learnt from it."""

    item: Item
    value: Tensor


class Stream(ABC):
    """Samples, and what is seen of them."""

    samples: list[Sample]
    still = False  # views are single frames, and have no axis of time

    @abstractmethod
    def decide(self, place: int, epoch: int) -> list[View]:
        """What is seen of place `place`; as many views of every sample.

        Places count through all samples, and through them again for every further pass of an epoch.
        """

    def sample(self, place: int) -> Sample:
        return self.samples[place % len(self.samples)]

    def draws_of(self, place: int) -> tuple[str] | tuple[str, int]:
        """What the draws of a place depend on beside seed and epoch: the item, and in which pass it is seen."""
        again = place // len(self.samples)
        item = self.sample(place).item
        return (item.id, again) if again else (item.id,)

    def draw(self, place: int, epoch: int) -> tuple[Tensor, Tensor]:
        """(views, 3, T, S, S) or (views, 3, S, S), and the value of the sample at `place`."""
        views = self.decide(place, epoch)
        clips = apply([view.frames for view in views], [view.draw for view in views])
        return clips[:, :, 0] if self.still else clips, self.sample(place).value

    def several(self, places: Sequence[int], epoch: int, device: torch.device) -> Tensor:
        """(P, views, 3, T, S, S) or (P, views, 3, S, S) on the device, all at once."""
        return self.show([self.decide(place, epoch) for place in places], device)

    def show(self, decided: Sequence[Sequence[View]], device: torch.device) -> Tensor:
        """What was decided for P samples, carried out at once: shapes as of `several`."""
        clips = shown([view for views in decided for view in views], device)
        clips = clips.unflatten(0, (len(decided), -1))
        return clips[:, :, :, 0] if self.still else clips


def one_clip(total: int, own: Utility, rng: np.random.Generator) -> sampling.Clip | None:
    """A clip of a video of `total` frames by the sampler of the settings; None: the video is too short for it.

    Which videos are too short is up to their length alone, so they can be left out before anything is drawn.
    """
    return SAMPLERS[own.sampler](total, own.frames, own.stride, rng)


def _require_most(kept: int, given: int, own: Utility, what: str) -> None:
    """A training from which most videos are missing is not the one that was asked for."""
    if kept < max(2, MAJORITY * given):
        raise BadItems(
            f"only {kept} of {given} videos are long enough for {what} with {own.frames} frames, stride {own.stride}, "
            f"negative {own.negative}, sampler {own.sampler!r}; lower these (sampler 'random' pads single clips)"
        )


class VideoStream(Stream):
    """The utility net's clips: one, a triplet, eight for the local contrast, or two."""

    def __init__(self, samples: Sequence[Sample], frames: Frames, settings: Utility, size: int, seed: int):
        self.frames, self.settings, self.seed = frames, settings, seed
        self.preset = preset(settings.augment, size)
        self.given = list(samples)  # those too that are too short for these settings
        self.samples = [sample for sample in samples if self._places(sample.item, np.random.default_rng(0))]
        self.short = len(samples) - len(self.samples)
        _require_most(len(self.samples), len(samples), settings, f"temporal={settings.temporal!r}")

    def _places(self, item: Item, rng: np.random.Generator) -> list[sampling.Clip]:
        """The clips of a step; nothing where the video is too short for them."""
        own, total = self.settings, self.frames.count(item)
        if own.temporal == "triplet":
            three = sampling.triplet(total, own.frames, own.stride, rng, own.negative or None)
            return [] if three is None else [three.anchor, three.positive, three.negative]
        if own.temporal == "local":
            four = sampling.lltc_clips(total, own.frames, rng)
            return [] if four is None else [*four, *four]
        found = [one_clip(total, own, rng) for _ in range(own.views)]
        return [clip for clip in found if clip is not None]

    def decide(self, place: int, epoch: int) -> list[View]:
        item, which = self.sample(place).item, self.draws_of(place)
        rng = seeds.rng(self.seed, "clip", epoch, *which)
        generator = seeds.generator(self.seed, "augment", epoch, *which)
        clips = [self.frames.read(item, clip.indices) for clip in self._places(item, rng)]
        return views_of(clips, self.preset, generator)


class PrivacyStream(Stream):
    """What the budget nets see: two frames of a video, two views of an image, two clips, or one labelled frame."""

    def __init__(
        self,
        samples: Sequence[Sample],
        frames: Frames,
        settings: Budget,
        utility: Utility,
        size: int,
        seed: int,
    ):
        self.frames, self.settings, self.utility, self.seed = frames, settings, utility, seed
        self.preset = preset(settings.augment, size)
        self.pair = sampling.parse_pair(settings.pair)
        self.still = settings.kind != "clips"
        self.samples = [sample for sample in samples if self._suits(sample.item)]
        self.short = len(samples) - len(self.samples)
        if self.short:
            _require_most(len(self.samples), len(samples), utility, f"the budget's {settings.kind}")

    def _suits(self, item: Item) -> bool:
        """Whether there is a clip to take frames from; a picture is looked at as it is."""
        if self.still and item.kind == "image":
            return True
        return one_clip(self.frames.count(item), self.utility, np.random.default_rng(0)) is not None

    def _clip(self, item: Item, rng: np.random.Generator) -> sampling.Clip:
        clip = one_clip(self.frames.count(item), self.utility, rng)
        assert clip is not None  # the samples are those that have one
        return clip

    def decide(self, place: int, epoch: int) -> list[View]:
        item, which = self.sample(place).item, self.draws_of(place)
        rng = seeds.rng(self.seed, "privacy", epoch, *which)
        generator = seeds.generator(self.seed, "privacy augment", epoch, *which)
        if self.still and item.kind == "image":
            return views_of([self.frames.read(item, [0])] * self.settings.views, self.preset, generator)
        clip = self._clip(item, rng)
        if not self.still:
            clips = [self.frames.read(item, one.indices) for one in (clip, self._clip(item, rng))]
            return views_of(clips, self.preset, generator)
        if self.settings.views == 2:
            wanted = list(self.pair.of(clip, rng))
        else:
            wanted = [clip.indices[int(rng.integers(len(clip)))]]
        return views_of(self.frames.read(item, wanted).split(1), self.preset, generator)


class IdentityStream(Stream):
    """One frame of every item, for the identity start."""

    still = True

    def __init__(self, samples: Sequence[Sample], frames: Frames, size: int, seed: int):
        self.samples, self.frames, self.seed = list(samples), frames, seed
        self.preset = preset("weak-identity", size)

    def decide(self, place: int, epoch: int) -> list[View]:
        item, which = self.sample(place).item, self.draws_of(place)
        rng = seeds.rng(self.seed, "identity", epoch, *which)
        chosen = int(rng.integers(self.frames.count(item)))
        generator = seeds.generator(self.seed, "identity augment", epoch, *which)
        return views_of([self.frames.read(item, [chosen])], self.preset, generator)

    def __call__(self, place: int, epoch: int) -> Tensor:
        """(3, S, S)."""
        return self.draw(place, epoch)[0][0]


def identity_frames(samples: Sequence[Sample], frames: Frames, size: int, seed: int) -> IdentityStream:
    """(place, epoch) → one augmented frame (3, S, S) of an item, for the identity start."""
    return IdentityStream(samples, frames, size, seed)


def views_of(clips: Sequence[Tensor], how: Preset, generator: torch.Generator) -> list[View]:
    """Clips uint8 (T, H, W, 3) of one item with a draw each."""
    draws = how.draw(len(clips), clips[0].shape[1], clips[0].shape[2], generator)
    return [View(frames, draw) for frames, draw in zip(clips, draws)]


class MinimaxBatches:
    """Both streams in steps, made by threads ahead of the training."""

    def __init__(
        self,
        videos: VideoStream,
        privacy: PrivacyStream | None,
        settings: MinimaxSettings,
        seed: int,
        at_once: bool | None = None,  # carry out whole batches; None: on accelerators
    ):
        self.at_once = at_once
        self.videos, self.privacy, self.settings, self.seed = videos, privacy, settings, seed
        # a batch that is not full has other statistics and fewer negatives: streams go round instead
        self.sizes = [min(settings.batch, len(videos.samples))]
        self.counts = [len(videos.samples)]
        if privacy is not None:
            if len(privacy.samples) < 2:
                raise UsageError(f"{len(privacy.samples)} samples for the budget nets: at least 2 are needed")
            self.sizes.append(min(settings.privacy_batch, len(privacy.samples)))
            self.counts.append(len(privacy.samples))
        self.steps = max(-(-count // size) for count, size in zip(self.counts, self.sizes))

    def of_actions(self) -> MinimaxBatches:
        """What f_T learns from before the game: one clip of every video that has one; nothing for the budget nets."""
        own, stream = self.settings, self.videos
        plain = replace(own.utility, temporal="none")
        single = VideoStream(stream.given, stream.frames, plain, stream.preset.size, stream.seed)
        other = replace(own, utility=plain, batch=own.start.utility_batch or own.batch)
        return MinimaxBatches(single, None, other, self.seed, self.at_once)

    def order(self, stream: int, epoch: int) -> np.ndarray:
        """(steps, size) places."""
        rng = seeds.rng(self.seed, "order", stream, epoch)
        return passes(self.counts[stream], self.sizes[stream], self.steps, rng)

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[MinimaxBatch]:
        """The steps of an epoch; every process gets its share of each."""
        for size in self.sizes:
            if size % ranks or size // ranks < 2:
                raise UsageError(
                    f"a batch of {size} cannot be shared by {ranks} processes: give a multiple, 2 or more each"
                )
        streams: list[Stream] = [self.videos, *([self.privacy] if self.privacy else [])]
        orders = [self.order(i, number)[:, rank::ranks] for i in range(len(streams))]
        makers = [_Maker(stream, number, device, together(self.at_once, device)) for stream in streams]
        workers = self.settings.workers
        with ThreadPoolExecutor(workers) as pool:
            jobs = (
                [maker.ask(order[step], pool, workers) for maker, order in zip(makers, orders)]
                for step in range(self.steps)
            )
            for step, asked in enumerate(_ahead(jobs, AHEAD)):
                ready = [maker.take(futures) for maker, futures in zip(makers, asked)]
                views, labels = ready[1] if self.privacy else (None, None)
                labelled = self.privacy is not None and self.privacy.settings.kind == "labels"
                ids = tuple(self.videos.sample(int(p)).item.id for p in orders[0][step][:8])
                yield MinimaxBatch(*ready[0], views, labels if labelled else None, ids)


def passes(count: int, size: int, steps: int, rng: np.random.Generator) -> np.ndarray:
    """(steps, size) places: passes over all samples in random order, one behind the other; nobody twice in a step."""
    places = np.empty(0, np.int64)
    while len(places) < steps * size:
        whole, begun = rng.permutation(count), places[len(places) - len(places) % size :] % count
        again = np.isin(whole, begun)  # who is in the step that the last pass began comes after it
        whole = np.concatenate([whole[~again], whole[again]])
        places = np.concatenate([places, whole + len(places)])
    return places[: steps * size].reshape(steps, size)


@dataclass(frozen=True)
class _Maker:
    """One stream's part of an epoch: what threads are asked for, and how it becomes tensors on the device."""

    stream: Stream
    epoch: int
    device: torch.device
    at_once: bool

    def ask(self, places: np.ndarray, pool: ThreadPoolExecutor, workers: int) -> list[Future[list[Any]]]:
        return [
            pool.submit(self._work, share.tolist()) for share in np.array_split(places, workers) if len(share)
        ]

    def _work(self, places: list[int]) -> list[Any]:
        if not self.at_once:
            return [self.stream.draw(place, self.epoch) for place in places]
        return [(self.stream.decide(place, self.epoch), self.stream.sample(place).value) for place in places]

    def take(self, futures: Sequence[Future[list[Any]]]) -> tuple[Tensor, Tensor]:
        seen, values = zip(*(one for future in futures for one in future.result()))
        clips = self.stream.show(seen, self.device) if self.at_once else _to(torch.stack(seen), self.device)
        return clips, _to(torch.stack(values), self.device)


def _ahead(jobs: Iterator[Any], count: int) -> Iterator[Any]:
    """The jobs in order, each begun `count` jobs before it is needed."""
    waiting: deque[Any] = deque()
    for job in jobs:
        waiting.append(job)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting


def _to(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
