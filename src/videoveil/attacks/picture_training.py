"""The training of attackers on pictures: the same videos for every network, decoded once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from videoveil import files
from videoveil.attacks.attributes import Labels
from videoveil.attacks.features import split
from videoveil.attacks.picture_networks import (
    FREE_TO_CHANGE,
    PictureAttacker,
    PictureConfig,
    Validation,
    known_loss,
    ready,
)
from videoveil.attacks.pictures import HeldOut, Lens, ahead, attribute_names, item_truth
from videoveil.data.owners import together
from videoveil.encoders import Classifier, save
from videoveil.errors import BadItems, UsageError
from videoveil.media.transforms import preset
from videoveil.tasks import settings
from videoveil.tasks.base import Clips, Progress
from videoveil.training.clip_batches import ClipBatches, Frames, check, frames_memory
from videoveil.training.supervised import Loop, kept_epochs

if TYPE_CHECKING:
    from lightning.fabric import Fabric

ENCODER = "encoder.safetensors"  # of an attacker's folder: for another attack to start from (`NETWORK@FILE`)


class Training:
    """The videos of one fit, decoded once for all of its networks."""

    def __init__(
        self,
        config: PictureConfig,
        labels: Labels,
        train: Clips,
        seed: int,
        fabric: Fabric,
        run: Path | None = None,
        begun: Sequence[PictureAttacker] = (),
        keep_every: int = 0,
    ):
        """`begun`: attackers of the same config that have learnt something else before, to go on from."""
        self.config, self.seed, self.fabric, self.run = config, seed, fabric, run
        self.keep_every = keep_every
        self.veil, self.through = train.veil(), train.through()
        every = sorted(train.items(), key=lambda item: item.id)
        if not every:
            raise BadItems("no videos to work on: the split has none")
        self.names = attribute_names(every, labels)
        truth = item_truth(every, self.names, labels)
        told = ~np.isnan(truth).all(1)  # of the others there is nothing to learn
        items, self.truth = [item for item, known in zip(every, told) if known], truth[told]
        if len(items) < 2:
            raise UsageError("one video cannot be split: to choose an epoch, at least two are needed")
        # nobody who is learnt from helps to choose, where the dataset says who is who
        self.learn, self.choose = split(len(items), self.config.validation, seed, together(items))
        self.items = tuple(items)
        self.begun = dict(zip(config.attackers(), begun, strict=True)) if begun else {}
        networks = [self.network(*one) for one in self.config.attackers()]
        self.frames = Frames(
            frames_memory(self.config.cache_gib, fabric.device),
            side=2 * max(one.encoder.input.size for one in networks),
            device=fabric.device,
            paint=train.paint,
        )
        check(self.items, self.frames, self.config.workers)
        self._held_out: dict[Lens, tuple[HeldOut, np.ndarray]] = {}

    def network(self, network: str, start: str) -> Classifier:
        made = self.config.build(network, start, len(self.names), self.seed)
        if (network, start) in self.begun:
            made.load_state_dict(self.begun[network, start].chosen.state_dict())
        return made

    def attackers(self, progress: Progress | None) -> list[PictureAttacker]:
        return [self.attacker(*one, progress) for one in self.config.attackers()]

    def attacker(self, name: str, start: str, progress: Progress | None) -> PictureAttacker:
        """One network trained to the end."""
        config, network = self.config, self.network(name, start)
        title, lens = config.title(name, start), config.lens(network)
        begun = network.encoder.content_hash()
        network = ready(network, self.fabric.device)
        judge = self.judge(lens)
        loop = Loop(
            network,
            self.batches(lens),
            known_loss,
            config,
            self.seed,
            self.fabric,
            None if self.run is None else self.run / folder_name(title),
            identity=self.identity(name, start, begun),
            progress=progress,
            what=f"attacker {title}",
            judge=judge,
            free=FREE_TO_CHANGE,
            keep_every=self.keep_every,
        )
        history = loop.run()
        made = PictureAttacker.of(title, network, lens, judge, history)
        if loop.folder is not None and self.keep_every:
            made.kept = kept_epochs(loop.folder)
        if loop.folder is not None and self.fabric.is_global_zero:
            save(made.chosen.encoder, loop.folder / ENCODER, {"attack": title, "seed": self.seed})
        return made

    def batches(self, lens: Lens) -> ClipBatches:
        return ClipBatches(
            [self.items[i] for i in self.learn],
            torch.from_numpy(self.truth[self.learn]).float(),
            frames=self.frames,
            length=lens.length,
            stride=lens.stride,
            preset=preset(self.config.augment, lens.size),
            batch=self.config.batch,
            seed=self.seed,
            workers=self.config.workers,
            repeat=self.config.per_video,
            veil=self.veil,
        )

    def judge(self, lens: Lens) -> Validation:
        """On the same views for all networks that look at the held-out videos in the same way."""
        if lens not in self._held_out:
            items = [self.items[i] for i in self.choose]
            pictures = [*ahead(items, partial(lens.pictures, frames=self.frames), self.config.workers)]
            truth = np.repeat(self.truth[self.choose], [len(one) for one in pictures], axis=0)
            others = sum(views.taken for views, _ in self._held_out.values())
            room = self.frames.limit - self.frames.used - others
            self._held_out[lens] = HeldOut(torch.cat(pictures), self.veil, self.seed, room), truth
        return Validation(*self._held_out[lens])

    def identity(self, name: str, start: str, begun: str) -> dict[str, Any]:
        """What must be the same for an attacker's run to be continued."""
        own = {k: v for k, v in settings.to_json(self.config).items() if k not in FREE_TO_CHANGE}
        data = [[item.id, item.path.stat().st_size] for item in self.items]
        known = np.nan_to_num(self.truth, nan=-1).tolist()
        return {
            **own,
            "network": [name, start, begun],
            "data": files.value_hash([data, list(self.names), known]),
            **self.through,
        }


def folder_name(title: str) -> str:
    """A name that a folder can have, another one for every title."""
    plain = "".join(c if c.isalnum() or c in ".-" else "-" for c in title)
    return plain if plain == title else f"{plain[:60]}-{files.value_hash(title)[:8]}"
