"""Latent training from videos (SPLAVU's raw-video workflow): the frozen encoder in the loop, three passes per video.

Every step sees a random clip of every video and two different frames *of that clip*, each shown for its whole length,
with the clip's own crop and flip. Objectives that compare moving clips get a second random clip, a fourth pass. No
gradient goes through the encoder, which computes in single precision, as `veil extract` does unless told otherwise.

Shapes: n videos, B of a step, T frames, S tokens of a clip, d feature width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import devices, files
from videoveil.anonymizers.config import Tokens
from videoveil.data.records import Dataset, Item
from videoveil.encoders.base import Encoder
from videoveil.errors import BadItems, UsageError
from videoveil.features.extract import identity_of
from videoveil.features.precision import arithmetic
from videoveil.features.store import Precision
from videoveil.features.tokens import require_mean_pooled
from videoveil.media.transforms import preset
from videoveil.tasks.action import probe
from videoveil.tasks.base import Clips
from videoveil.tasks.feature_set import FeatureSet
from videoveil.tasks.targets import Targets, targets, vocabulary
from videoveil.training import seeds
from videoveil.training.clip_batches import ClipBatches, Frames, View, check
from videoveil.training.latent_data import ClipPool
from videoveil.training.latent_heads import trainable
from videoveil.training.latent_step import Moment, pooled

VIDEOS = "videos"  # the kind of source, as a run folder names it
PASSES = 4  # random clips of every video that heads and stages start from
PRECISION: Precision = "fp32"  # what the encoder computes in


@dataclass(frozen=True)
class EncodedClips:
    """Videos with one action each, which the encoder looks at anew in every step; the counterpart of `Features`."""

    clips: Clips
    encoder: Encoder
    augment: str = "weak"
    workers: int = 2  # decoding threads
    cache_gib: float = 4.0  # decoded frames kept in memory

    def __post_init__(self) -> None:
        if self.clips.through():
            raise UsageError(
                f"{self.clips.dataset.name}: its videos are anonymized already; an anonymizer learns from raw ones"
            )

    @property
    def split(self) -> str | None:
        return self.clips.split

    def records(self) -> Dataset:
        """The whole dataset, for its vocabulary."""
        return self.clips.records()

    def describe(self) -> dict[str, Any]:
        """For the run folder: where the videos were and what looked at them."""
        made = {"encoder": identity_of(self.encoder), "augment": self.augment}
        return {**self.clips.describe(), "kind": VIDEOS, **made}


class _SecondClips(ClipBatches):
    """The same videos in the same order, another clip of each."""

    def decide(self, place: int, epoch: int) -> View:
        return super().decide(place + len(self.items), epoch)


class VideoSource:
    """Videos with one action each. What is drawn depends on seed, epoch and item alone."""

    def __init__(
        self,
        items: Sequence[Item],
        targets: Targets,
        encoder: Encoder,
        *,
        batch: int,
        seed: int,
        device: torch.device,
        augment: str = "weak",
        tokens: Tokens = "clip",
        workers: int = 1,
        memory: int = 0,
        second: bool = False,
        at_once: int = 32,
    ):
        """`memory`: bytes of decoded frames that may be kept from one epoch to the next.

        `second`: a step sees another moving clip of every video too. `at_once`: clips in one pass of the encoder, whose
        memory must not grow with the videos of a step.
        """
        if len(items) < 2 or batch < 2:
            raise UsageError(f"{len(items)} training videos, batch={batch}: a step needs at least 2 videos")
        spec = encoder.input
        if spec.frames < 2:
            raise UsageError(f"{encoder.name}: takes single frames; a static pair needs clips of 2 or more")
        if tokens == "temporal":
            require_mean_pooled(encoder)
        self.items, self.targets, self.seed, self.device = tuple(items), targets, seed, device
        self.encoder = encoder.to(device).eval().requires_grad_(False)
        self.tokens, self.second, self.at_once = tokens, second, at_once
        frames = Frames(memory)
        check(self.items, frames, workers)
        self.batch = min(batch, len(items))
        options: dict[str, Any] = {
            "frames": frames,
            "length": spec.frames,
            "stride": spec.stride,
            "preset": preset(augment, spec.size),
            "batch": self.batch,
            "seed": seed,
            "workers": workers,
        }
        self.labels = torch.from_numpy(targets.values)
        self.clips = ClipBatches(self.items, torch.arange(len(items)), **options)
        self.others = _SecondClips(self.items, torch.arange(len(items)), **options)
        span = (spec.frames - 1) * spec.stride + 1
        self.alone = torch.tensor([frames.count(item) <= span for item in self.items])
        whole, rest = divmod(len(items), self.batch)
        self.steps = whole + (rest >= 2)  # one video alone has nothing to be told from

    @classmethod
    def of(
        cls,
        source: EncodedClips,
        *,
        batch: int,
        seed: int,
        device: torch.device,
        tokens: Tokens = "clip",
        second: bool = False,
    ) -> VideoSource:
        """The videos of a split, by id."""
        items = sorted(source.clips.items(), key=lambda item: item.id)
        if not items:
            raise BadItems(f"{source.records().root}: no items in split {source.split!r}")
        return cls(
            items,
            targets(items, vocabulary(source.records(), "action"), "action"),
            source.encoder,
            batch=batch,
            seed=seed,
            device=device,
            augment=source.augment,
            tokens=tokens,
            workers=source.workers,
            memory=int(source.cache_gib * 2**30),
            second=second,
        )

    def moments(self, epoch: int) -> Iterator[Moment]:
        others = self.others.epoch(epoch, 0, 1, self.device) if self.second else None
        for step, batch in enumerate(self.clips.epoch(epoch, 0, 1, self.device)):
            other = None if others is None else next(others).inputs
            if step < self.steps:
                yield self._moment(batch.inputs, batch.targets, epoch, step, other)

    def _moment(self, clips: Tensor, places: Tensor, epoch: int, step: int, other: Tensor | None) -> Moment:
        """clips (B, 3, T, H, W) of the videos at `places` (B,)."""
        first, second = self._static(clips, epoch, step)
        here = places.cpu()
        return Moment(
            clip=self._moving(clips),
            first=first,
            second=second,
            other=None if other is None else self._moving(other),
            alone=None if other is None else self.alone[here].to(self.device),
            labels=self.labels[here].to(self.device),
            still=(first + second) / 2,
        )

    def _static(self, clips: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """Features (B, d) of two different frames of every clip, each shown for the whole length."""
        count, _, length = clips.shape[:3]
        generator = seeds.generator(self.seed, "static", epoch, step)
        chosen = torch.rand(count, length, generator=generator).argsort(1)[:, :2].to(clips.device)  # (B, 2)
        rows = torch.arange(count, device=clips.device)
        first, second = (
            self._encoded(clips[rows, :, place][:, :, None].expand_as(clips)) for place in chosen.unbind(1)
        )
        return first, second

    def _moving(self, clips: Tensor) -> Tensor:
        """(B, d) or (B, S, d)."""
        return self._encoded(clips, tokens=self.tokens == "temporal")

    @torch.no_grad()
    def _encoded(self, clips: Tensor, *, tokens: bool = False) -> Tensor:
        encode = self.encoder.temporal_tokens if tokens else self.encoder
        with arithmetic(PRECISION, self.device), devices.repeatable():
            return torch.cat([encode(part).float() for part in clips.split(self.at_once)])

    # --- what training starts from --------------------------------------------------------------------------

    def pool(self, passes: int = PASSES) -> ClipPool:
        """Raw features of `passes` random clips of every video, and of two static clips of each of these."""
        rows: list[list[Tensor]] = [[] for _ in self.items]
        static: list[list[Tensor]] = [[] for _ in self.items]
        for number in range(passes):
            for step, batch in enumerate(self.clips.epoch(number, 0, 1, self.device)):
                moving = self._moving(batch.inputs).cpu()
                pairs = torch.stack(self._static(batch.inputs, number, step), 1).cpu()  # (B, 2, d)
                for place, row, pair in zip(batch.targets.tolist(), moving, pairs):
                    rows[place].append(row)
                    static[place].append(pair)
        return ClipPool(
            ids=tuple(item.id for item in self.items),
            rows=torch.stack([row for video in rows for row in video]),
            offsets=torch.arange(len(self.items) + 1) * passes,
            static=torch.stack([torch.cat(video) for video in static]),
            labels=self.labels,
            classes=self.targets.names,
        )

    def action_head(
        self, pool: ClipPool, config: probe.ProbeConfig | None = None, *, run: Path | None = None
    ) -> nn.Module:
        """A linear layer taught on raw features, as training starts from it; what is done in `run` is only read."""
        if run is not None and (run / probe.MODEL).is_file():
            return trainable(probe.FittedProbe.load(run / probe.MODEL).layer)
        data = FeatureSet(self.items, np.asarray(pooled(pool.rows)), np.asarray(pool.offsets))
        fitted = probe.fit(data, self.targets, config, run=run, seed=self.seed, device=str(self.device))
        return trainable(fitted.layer)

    def fingerprint(self) -> dict[str, str]:
        """Which videos, labels and encoder; the files are known by name and size, not read through."""
        known = [[item.id, item.path.stat().st_size] for item in self.items]
        labels = [list(self.targets.names), self.targets.values.tolist()]
        return {"videos": files.value_hash([known, labels]), "encoder": self.encoder.content_hash()}
