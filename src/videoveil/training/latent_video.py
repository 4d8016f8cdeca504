"""Latent training from videos (SPLAVU's raw-video workflow): the frozen encoder in the loop, three passes per video.

Every step sees a random clip of every video and two different frames *of that clip*, each shown for its whole length,
with the clip's own crop and flip. No gradient goes through the encoder.

Shapes: B videos of a step, T frames, d feature width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import files
from videoveil.anonymizers.config import Tokens
from videoveil.data.records import Item
from videoveil.encoders.base import Encoder
from videoveil.errors import UsageError
from videoveil.media.transforms import preset
from videoveil.tasks.action import probe
from videoveil.tasks.feature_set import FeatureSet
from videoveil.tasks.targets import Targets
from videoveil.training import seeds
from videoveil.training.clip_batches import ClipBatches, Frames, check
from videoveil.training.latent_heads import trainable
from videoveil.training.latent_step import Moment


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
    ):
        """`memory`: bytes of decoded frames that may be kept from one epoch to the next."""
        if len(items) < 2 or batch < 2:
            raise UsageError(f"{len(items)} training videos, batch={batch}: a step needs at least 2 videos")
        spec = encoder.input
        if spec.frames < 2:
            raise UsageError(f"{encoder.name}: takes single frames; a static pair needs clips of 2 or more")
        self.items, self.targets, self.seed, self.device = tuple(items), targets, seed, device
        self.encoder = encoder.to(device).eval().requires_grad_(False)
        self.tokens = tokens
        frames = Frames(memory)
        check(self.items, frames, workers)
        self.batch = min(batch, len(items))
        self.clips = ClipBatches(
            self.items,
            torch.from_numpy(targets.values),
            frames=frames,
            length=spec.frames,
            stride=spec.stride,
            preset=preset(augment, spec.size),
            batch=self.batch,
            seed=seed,
            workers=workers,
        )
        whole, rest = divmod(len(items), self.batch)
        self.steps = whole + (rest >= 2)  # one video alone has nothing to be told from

    def moments(self, epoch: int) -> Iterator[Moment]:
        for step, batch in enumerate(self.clips.epoch(epoch, 0, 1, self.device)):
            if step < self.steps:
                yield self._moment(batch.inputs, batch.targets, epoch, step)

    @torch.no_grad()
    def _moment(self, clips: Tensor, labels: Tensor, epoch: int, step: int) -> Moment:
        """clips (B, 3, T, H, W)."""
        count, _, length = clips.shape[:3]
        generator = seeds.generator(self.seed, "static", epoch, step)
        places = torch.rand(count, length, generator=generator).argsort(1)[:, :2].to(clips.device)  # (B, 2)
        rows = torch.arange(count, device=clips.device)
        first, second = (
            self.encoder(clips[rows, :, place][:, :, None].expand_as(clips)).float()
            for place in places.unbind(1)
        )
        encode = self.encoder.temporal_tokens if self.tokens == "temporal" else self.encoder
        return Moment(
            clip=encode(clips).float(),
            first=first,
            second=second,
            labels=labels,
            still=(first + second) / 2,
        )

    @torch.no_grad()
    def features(self, passes: int = 1) -> FeatureSet:
        """Raw features of `passes` random clips of every video, for what has to be learnt or fitted before."""
        found: list[list[np.ndarray]] = [[] for _ in self.items]
        for number in range(passes):
            order = seeds.rng(self.seed, "order", number).permutation(len(self.items))
            rows = [
                self.encoder(batch.inputs).float().cpu().numpy()
                for batch in self.clips.epoch(number, 0, 1, self.device)
            ]
            for place, row in zip(order.tolist(), np.concatenate(rows)):
                found[place].append(row)
        offsets = np.arange(len(self.items) + 1, dtype=np.int64) * passes
        return FeatureSet(self.items, np.concatenate([np.stack(one) for one in found]), offsets)

    def action_head(self, config: probe.ProbeConfig | None = None, passes: int = 4) -> nn.Module:
        """A linear layer taught on raw features, as training starts from it."""
        fitted = probe.fit(
            self.features(passes), self.targets, config, seed=self.seed, device=str(self.device)
        )
        return trainable(fitted.layer)

    def fingerprint(self) -> dict[str, str]:
        """Which videos, labels and encoder; the files are known by name and size, not read through."""
        known = [[item.id, item.path.stat().st_size] for item in self.items]
        labels = [list(self.targets.names), self.targets.values.tolist()]
        return {"videos": files.value_hash([known, labels]), "encoder": self.encoder.content_hash()}
