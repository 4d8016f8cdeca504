"""Training: an explicit loop on Fabric (CPU, CUDA, several processes), resumable after every epoch.

Every random number belongs to one video in one epoch and comes from the seed, the epoch and the video's id. So nothing
of them has to be stored, a run that was killed goes on to the same weights, and neither the order of the videos nor
the number of processes changes what is learnt.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from videoveil import devices, files
from videoveil.errors import Diverged, UsageError
from videoveil.tasks.tridet import grid
from videoveil.tasks.tridet.assign import Target
from videoveil.tasks.tridet.checks import check
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.fitted import FittedTriDet
from videoveil.tasks.tridet.losses import Losses, Normaliser, losses
from videoveil.tasks.tridet.network import TriDet, build, draw_paths
from videoveil.tasks.tridet.optimise import learning_rate, optimizer, update_average
from videoveil.tasks.tridet.records import DetectionVideo
from videoveil.tasks.tridet.truncate import draw_noise, truncate
from videoveil.training import checkpoints, seeds

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Progress = Callable[[int, int, float], None]

FORMAT = "videoveil-tridet-training-1"
CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"


def fit(
    videos: Sequence[DetectionVideo],
    classes: Sequence[str],
    config: TriDetConfig | None = None,
    *,
    run: Path | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    fabric: Fabric | None = None,
) -> FittedTriDet:
    """Train on videos with known segments and return the detector with its averaged weights of the last epoch.

    With a `run` folder every epoch is saved, and a run that was killed goes on where it was. `progress(step, total,
    loss)` is called after every step. A launched `fabric` with several processes shares the batches out; otherwise
    one is made for `device`.
    """
    config = config or TriDetConfig()
    width = check(videos, classes)
    ordered = tuple(sorted(videos, key=lambda video: video.id))
    fabric = fabric or devices.make_fabric(device, config.precision)
    network = build(width, len(classes), config, seed)
    return _Training(ordered, tuple(classes), config, seed, run, progress, fabric, network).run()


def epoch_batches(count: int, config: TriDetConfig, seed: int, epoch: int) -> list[list[int]]:
    """Numbers of the videos of every step: a random order, cut into whole batches; the rest waits for next time."""
    order = seeds.rng(seed, "order", epoch).permutation(count).tolist()
    size = min(config.batch_size, count)
    return [order[i : i + size] for i in range(0, count - size + 1, size)]


@dataclass(frozen=True)
class Sample:
    """One video as one step sees it."""

    id: str
    features: Tensor  # (D, T)
    target: Target
    paths: Tensor  # (2·branch blocks,)


def sample(
    video: DetectionVideo, classes: Sequence[str], config: TriDetConfig, seed: int, epoch: int
) -> Sample:
    """A random window of a video and the residual paths it will take."""
    rng = seeds.rng(seed, "window", epoch, video.id)
    features = torch.from_numpy(np.ascontiguousarray(video.array().T, dtype=np.float32))
    window, target = truncate(features, grid.target(video, classes), config, rng)
    generator = seeds.generator(seed, "paths", epoch, video.id)
    return Sample(video.id, window, target, draw_paths(config, generator))


@dataclass
class _Training:
    videos: tuple[DetectionVideo, ...]
    classes: tuple[str, ...]
    config: TriDetConfig
    seed: int
    folder: Path | None
    progress: Progress | None
    fabric: Fabric
    network: TriDet
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> FittedTriDet:
        config, fabric = self.config, self.fabric
        if min(config.batch_size, len(self.videos)) % fabric.world_size:
            raise UsageError(
                f"batches of {min(config.batch_size, len(self.videos))} videos cannot be shared by "
                f"{fabric.world_size} processes; make batch_size a multiple of the processes"
            )
        self.optimizer = optimizer(self.network, config)
        wrapped, stepper = fabric.setup(self.network, self.optimizer)
        self.normaliser = Normaliser.of(config)
        self.average = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.identity = self._identity() if self.folder is not None else {}
        self._resume()
        with devices.repeatable():
            for epoch in range(len(self.history), config.epochs):
                self.history.append({"epoch": epoch, **self._epoch(wrapped, stepper, epoch)})
                self._save()
        self.network.load_state_dict(self.average)
        fitted = FittedTriDet(self.network, self.classes, self.seed, tuple(self.history))
        if self.folder is not None and fabric.is_global_zero:
            fitted.save(self.folder / MODEL)
        return fitted

    def _epoch(self, wrapped: Any, stepper: Any, epoch: int) -> dict[str, Any]:
        """One pass over the videos; the means of its steps."""
        config, fabric = self.config, self.fabric
        batches = epoch_batches(len(self.videos), config, self.seed, epoch)
        rows = []
        for i, batch in enumerate(self._prefetch(batches, epoch)):
            step = epoch * len(batches) + i
            rate = learning_rate(step, len(batches), config)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            stepper.zero_grad()
            found = self._losses(wrapped, batch, epoch)
            # processes average their gradients, but each has already divided by the positives of all of them
            fabric.backward(found.total * fabric.world_size)
            norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), config.gradient_clip)
            row = _finite(found, float(norm), step, epoch, [one.id for one in batch])
            stepper.step()
            update_average(self.average, self.network, config.ema_decay)
            rows.append(row)
            if self.progress is not None:
                self.progress(step + 1, config.epochs * len(batches), row["loss"])
        means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
        return {
            **means,
            "learning_rate": rate,
            "normaliser": self.normaliser.value,
            "sgp_active": self.network.sgp_active(),
        }

    def _losses(self, wrapped: Any, batch: list[Sample], epoch: int) -> Losses:
        device, config = self.fabric.device, self.config
        noise = None
        if config.input_noise:
            numbers = [seeds.number(self.seed, "noise", epoch, one.id) for one in batch]
            generators = [torch.Generator(device).manual_seed(n) for n in numbers]
            noise = [draw_noise(self.network.width, config, generator) for generator in generators]
        return losses(
            wrapped,
            [one.features.to(device) for one in batch],
            [Target(one.target.segments.to(device), one.target.labels.to(device)) for one in batch],
            self.normaliser,
            config,
            noise=noise,
            paths=torch.stack([one.paths for one in batch]).to(device),
            share=self._share,
        )

    def _share(self, positives: int) -> float:
        """The positives of all processes."""
        if self.fabric.world_size == 1:
            return float(positives)
        total = self.fabric.all_reduce(
            torch.tensor(float(positives), device=self.fabric.device), reduce_op="sum"
        )
        return float(total)  # type: ignore[arg-type]

    def _prefetch(self, batches: list[list[int]], epoch: int) -> Iterator[list[Sample]]:
        """This process's part of every batch, read while the step before is computed."""
        rank, ranks = self.fabric.global_rank, self.fabric.world_size

        def prepare(batch: list[int]) -> list[Sample]:
            mine = [self.videos[number] for number in batch[rank::ranks]]
            return [sample(video, self.classes, self.config, self.seed, epoch) for video in mine]

        with ThreadPoolExecutor(1) as reader:
            waiting = reader.submit(prepare, batches[0])
            for following in [*batches[1:], None]:
                ready = waiting.result()
                if following is not None:
                    waiting = reader.submit(prepare, following)
                yield ready

    # --- resuming -------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        facts = {"seed": self.seed, "classes": list(self.classes), "data": fingerprint(self.videos)}
        return {**self.config.to_json(), **facts}

    def _save(self) -> None:
        if self.folder is not None and self.fabric.is_global_zero:
            tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
            tensors |= {f"average.{name}": t for name, t in self.average.items()}
            tensors |= {
                f"adam.{name}": t for name, t in checkpoints.optimizer_tensors(self.optimizer).items()
            }
            facts = {"identity": self.identity, "history": self.history, "normaliser": self.normaliser.value}
            checkpoints.write(self.folder / CHECKPOINT, FORMAT, tensors, facts)
        self.fabric.barrier()

    def _resume(self) -> None:
        """Take up what the run folder has; a run of other data or settings is refused, naming what differs."""
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.is_file():
            return
        tensors, facts = checkpoints.read(path, FORMAT)
        checkpoints.require_same(path, self.identity, facts["identity"])
        checkpoints.fill(self.network, checkpoints.part(tensors, "network"), str(path))
        checkpoints.fill_optimizer(self.optimizer, checkpoints.part(tensors, "adam"))
        self.average = {
            name: t.to(self.fabric.device) for name, t in checkpoints.part(tensors, "average").items()
        }
        self.normaliser.value = facts["normaliser"]
        self.history = list(facts["history"])


def fingerprint(videos: Sequence[DetectionVideo]) -> str:
    """A hash of everything that training reads: features, clocks and segments."""
    digest = hashlib.sha256()
    for video in videos:
        features = np.ascontiguousarray(video.array(), dtype=np.float32)
        segments = [[s.label, str(s.start), str(s.end)] for s in video.segments]
        clock = [str(video.fps), video.feat_stride, video.num_frames]
        digest.update(files.value_hash([video.id, list(features.shape), clock, segments]).encode())
        digest.update(features.data)
    return digest.hexdigest()


def _finite(found: Losses, norm: float, step: int, epoch: int, videos: list[str]) -> dict[str, float]:
    """The numbers of a step, if they are numbers."""
    row = {
        "loss": float(found.total.detach()),
        "classification": float(found.classification),
        "regression": float(found.regression),
        "gradient_norm": norm,
        "positives": float(found.positives),
    }
    if not all(map(math.isfinite, row.values())):
        terms = ", ".join(f"{name} {value:.4g}" for name, value in row.items())
        raise Diverged(
            f"TriDet diverged in step {step + 1} (epoch {epoch + 1}, videos {', '.join(videos)}): {terms}; "
            "lower the learning rate, or look at the scale of the features"
        )
    return row
