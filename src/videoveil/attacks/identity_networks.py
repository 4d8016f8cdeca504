"""Networks that look at clips of people: as they come, and taught to tell the training people apart.

What a network is taught with is published videos and, where raw galleries are to be compared with, raw ones of the same
people: then it learns what of a person is in both. The epoch is chosen on training people that are held out, where
there are enough of them.

Shapes: n videos, m views of T frames of side s, width d.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import files
from videoveil.attacks.features import split
from videoveil.attacks.picture_networks import FREE_TO_CHANGE, ready
from videoveil.attacks.picture_training import folder_name
from videoveil.attacks.pictures import HeldOut, Lens, ahead, veiled
from videoveil.attacks.retrieval import cosine, precisions
from videoveil.data.records import Item
from videoveil.encoders import Classifier
from videoveil.errors import UsageError
from videoveil.media.transforms import preset
from videoveil.tasks import settings
from videoveil.tasks.base import Clips, Progress, Source
from videoveil.training import seeds
from videoveil.training.clip_batches import ClipBatches, Frames, check, frames_memory
from videoveil.training.supervised import Batch, Batches, Judge, Loop, cross_entropy

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.attacks.identity import Eye, IdentityAttack

FEW = 6  # people; of fewer none is held out, and the last epoch counts
PEOPLE = "-people"  # of the name of a network that was taught


@torch.no_grad()
def vectors(network: Classifier, pieces: Iterable[Tensor]) -> np.ndarray:
    """Pieces (…, 3, T, s, s) of m views in all → (m, d) float64 of length 1."""
    found = [network.with_features(views)[1].double() for views in pieces]
    return nn.functional.normalize(torch.cat(found), dim=1).cpu().numpy()


@dataclass(frozen=True)
class Look:
    """A network as an eye: the mean of a video's views, each video by itself."""

    network: Classifier
    lens: Lens
    workers: int
    seed: int

    def __call__(self, source: Source, items: tuple[Item, ...]) -> np.ndarray:
        assert isinstance(source, Clips)
        here = {item.id: item for item in source.items()}
        if missing := [item.id for item in items if item.id not in here]:
            raise UsageError(
                f"identity: {len(missing)} videos are not in {source.dataset.root}: {missing[:3]}"
            )
        wanted = [here[item.id] for item in items]
        check(wanted, Frames(), self.workers)
        veil, device = source.veil(), next(self.network.parameters()).device
        look = partial(self.lens.pictures, frames=Frames(side=2 * self.lens.size, paint=source.paint))
        rows = []
        for item, pictures in zip(wanted, ahead(wanted, look, self.workers)):
            pieces = veiled(pictures, veil, seeds.number(self.seed, "test", item.id), device)
            rows.append(vectors(self.network, pieces).mean(0))
        return np.stack(rows)


class Alternating(Batches):
    """The batches of several sources in turn."""

    def __init__(self, parts: Sequence[Batches]):
        self.parts, self.steps = parts, sum(part.steps for part in parts)

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        waiting = [part.epoch(number, rank, ranks, device) for part in self.parts]
        while waiting:
            for one in list(waiting):
                batch = next(one, None)
                if batch is None:
                    waiting.remove(one)
                else:
                    yield batch


@dataclass
class Strangers(Judge):
    """Chooses the epoch by how well held-out people are found; where nobody is seen twice, the last."""

    views: HeldOut
    people: np.ndarray  # (m,) of str
    videos: np.ndarray  # (m,)
    best: float = -math.inf
    state: dict[str, Tensor] = field(default_factory=dict)

    def look(self, network: nn.Module, epoch: int) -> dict[str, float]:
        assert isinstance(network, Classifier)
        same = self.people[:, None] == self.people[None, :]
        allowed = self.videos[:, None] != self.videos[None, :]
        there = (same & allowed).any(1)
        if not there.any() or len(np.unique(self.people)) < 2:
            return {}
        x = vectors(network, self.views.pieces(next(network.parameters()).device))
        value = float(precisions(cosine(x, x)[there], same[there], allowed[there]).mean())
        if value > self.best:
            self.best = value
            self.state = {name: t.detach().cpu().clone() for name, t in network.state_dict().items()}
        return {"validation": value}

    def tensors(self) -> dict[str, Tensor]:
        return self.state

    def restore(self, tensors: Mapping[str, Tensor], history: Sequence[Mapping[str, float]]) -> None:
        self.state = dict(tensors)
        self.best = max([record.get("validation", -math.inf) for record in history], default=-math.inf)


class Lessons:
    """The videos of the training people, and the networks that are taught with them."""

    def __init__(
        self,
        task: IdentityAttack,
        train: Clips,
        raw: Clips | None,
        items: tuple[Item, ...],
        seed: int,
        fabric: Fabric,
        run: Path | None,
    ):
        self.task, self.config, self.items = task, task.config, items
        self.train, self.raw, self.seed, self.fabric, self.run = train, raw, seed, fabric, run
        self.people = np.array([task.who(item) for item in items])
        if items:
            self.learn, self.choose = self.parts()
            taught = sorted(set(self.people[self.learn]))
            self.outputs = len(taught)
            number = {name: place for place, name in enumerate(taught)}
            self.labels = torch.tensor([number[self.people[i]] for i in self.learn])

    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Videos to learn from, and those of held-out people; of few people nobody is held out."""
        count = len(np.unique(self.people))
        if count < FEW:
            return np.arange(len(self.items)), np.zeros(0, dtype=np.int64)
        return split(len(self.items), max(self.config.validation, 2 / count), self.seed, self.people)

    def eyes(self, progress: Progress | None) -> tuple[dict[str, Eye], tuple[str, ...]]:
        """Every network as it comes and, where there is somebody to learn from, taught; the names of the latter."""
        found: dict[str, Eye] = {}
        taught = []
        for name, start in self.config.attackers():
            outputs = self.outputs if self.items else 1
            network = self.config.build(name, start, outputs, self.seed).eval()
            title, lens = self.config.title(name, start), self.config.lens(network)
            plain = copy.deepcopy(network).to(self.fabric.device)
            found[title] = Look(plain, lens, self.config.workers, self.seed)
            if self.items:
                made = self.teach(network, title, lens, progress)
                found[f"{title}{PEOPLE}"] = Look(made, lens, self.config.workers, self.seed)
                taught.append(f"{title}{PEOPLE}")
        return found, tuple(taught)

    def teach(self, network: Classifier, title: str, lens: Lens, progress: Progress | None) -> Classifier:
        begun = network.encoder.content_hash()
        network = ready(network, self.fabric.device)
        batches = Alternating([self.batches(source, lens) for source in self.sources()])
        judge = self.judge(lens)  # after the frames have taken their memory
        loop = Loop(
            network,
            batches,
            cross_entropy,
            self.config,
            self.seed,
            self.fabric,
            None if self.run is None else self.run / folder_name(title),
            identity=self.identity(title, begun),
            progress=progress,
            what=f"identity network {title}",
            judge=judge,
            free=FREE_TO_CHANGE,
        )
        loop.run()
        if judge is not None and judge.state:
            network.load_state_dict(judge.state)
        return network.eval()

    def sources(self) -> list[Clips]:
        """What it is taught with."""
        if self.config.knowledge == "raw":
            return [self.raw or self.train]
        if self.raw is not None and "raw" in self.config.galleries:
            return [self.train, self.raw]
        return [self.train]

    def batches(self, source: Clips, lens: Lens) -> ClipBatches:
        here = {item.id: item for item in source.with_split(None).items()}
        items = [here[self.items[i].id] for i in self.learn]
        frames = Frames(
            frames_memory(self.config.cache_gib / 2, self.fabric.device),
            side=2 * lens.size,
            device=self.fabric.device,
            paint=source.paint,
        )
        check(items, frames, self.config.workers)
        return ClipBatches(
            items,
            self.labels,
            frames=frames,
            length=lens.length,
            stride=lens.stride,
            preset=preset(self.config.augment, lens.size),
            batch=self.config.batch,
            seed=self.seed,
            workers=self.config.workers,
            repeat=self.config.per_video,
            veil=source.veil(),
        )

    def judge(self, lens: Lens) -> Strangers | None:
        if not len(self.choose):
            return None
        source = self.sources()[0]
        here = {item.id: item for item in source.with_split(None).items()}
        items = [here[self.items[i].id] for i in self.choose]
        look = partial(lens.pictures, frames=Frames(side=2 * lens.size, paint=source.paint))
        pictures = [*ahead(items, look, self.config.workers)]
        counts = [len(one) for one in pictures]
        people = np.repeat(self.people[self.choose], counts)
        videos = np.repeat(np.arange(len(items)), counts)
        alone = len(self.sources()) == 1  # else the frames of the other one have that memory
        room = frames_memory(self.config.cache_gib / 2, self.fabric.device) if alone else 0
        views = HeldOut(torch.cat(pictures), source.veil(), self.seed, room)
        return Strangers(views, people, videos)

    def identity(self, title: str, begun: str) -> dict[str, Any]:
        """What must be the same for a network's lessons to be continued."""
        own = {k: v for k, v in settings.to_json(self.config).items() if k not in FREE_TO_CHANGE}
        data = [[item.id, item.path.stat().st_size] for item in self.items]
        through = [source.through() for source in self.sources()]
        return {
            **own,
            "network": [title, begun],
            "data": files.value_hash([data, self.people.tolist(), through]),
        }
