"""Training MGFN: an explicit loop on Fabric (CPU, CUDA, several processes), resumable after every epoch.

The random numbers of an epoch come from the seed and the epoch's number alone, so nothing of them has to be stored and
a run that was killed goes on to the same weights.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from videoveil import devices, files
from videoveil.errors import CheckpointError, Diverged
from videoveil.tasks.mgfn.config import MGFNConfig
from videoveil.tasks.mgfn.fitted import FittedMGFN
from videoveil.tasks.mgfn.network import MGFN
from videoveil.tasks.mgfn.objective import Losses, losses
from videoveil.tasks.mgfn.training_set import TrainingSet, class_batch, epoch_batches, prepare
from videoveil.tasks.mgfn.videos import AnomalyVideo, Inspector
from videoveil.training import checkpoints, seeds

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Progress = Callable[[int, int, float], None]

CHECKPOINT_FORMAT = "videoveil-mgfn-training-1"
CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
SETTINGS = "config.json"  # for people; nothing reads it back
FREE_TO_CHANGE = ("epochs", "checkpoint_every")  # a run may be made longer, or saved at other times


def fit(
    videos: Iterable[AnomalyVideo],
    config: MGFNConfig | None = None,
    *,
    run: Path | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    test: Sequence[AnomalyVideo] | None = None,
    test_every: int = 1,
    fabric: Fabric | None = None,
) -> FittedMGFN:
    """Train on weakly labelled videos.

    With a `run` folder every epoch is saved, and a run that was killed goes on where it was. `test` videos are scored
    after every `test_every` epochs and at the end, for the record only: the weights of the last epoch are returned,
    never those that did best on the test. `progress(step, total, loss)` is called after every step. A launched
    `fabric` with several processes shares the batches out; otherwise one is made for `device`.
    """
    config = config or MGFNConfig()
    data = prepare(videos, config.segments)
    if test is not None:
        _check_test(test, data.width)
    return _Training(
        data,
        config,
        seed,
        run,
        test,
        test_every,
        progress,
        fabric or devices.make_fabric(device, config.precision),
    ).run()


def _check_test(test: Iterable[AnomalyVideo], width: int) -> None:
    inspector = Inspector(width=width, need_truth=True)
    for video in test:
        inspector.admit(video)
    inspector.settle("anomaly test videos")


def build(width: int, config: MGFNConfig, seed: int) -> MGFN:
    """A network with PyTorch's default initialisation, drawn from `seed`; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return MGFN(width, config)


def make_optimizer(network: nn.Module, config: MGFNConfig) -> torch.optim.Adam:
    """Adam with coupled L2 weight decay; the published learning rate is constant."""
    return torch.optim.Adam(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)


@dataclass
class _Training:
    data: TrainingSet
    config: MGFNConfig
    seed: int
    folder: Path | None
    test: Sequence[AnomalyVideo] | None
    test_every: int
    progress: Progress | None
    fabric: Fabric
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> FittedMGFN:
        fabric, config = self.fabric, self.config
        network = build(self.data.width, config, self.seed)
        optimizer = make_optimizer(network, config)
        wrapped, wrapped_optimizer = fabric.setup(network, optimizer)
        self._resume(network, optimizer)
        if self.folder is not None and fabric.is_global_zero:
            files.write_json(self.folder / SETTINGS, {**config.to_json(), "seed": self.seed})
        for epoch in range(len(self.history), config.epochs):
            wrapped.train()
            record: dict[str, Any] = {"epoch": epoch, "loss": self._epoch(wrapped, wrapped_optimizer, epoch)}
            last = epoch + 1 == config.epochs
            if self.test is not None and (last or (epoch + 1) % self.test_every == 0):
                record["test"] = self._evaluate(network)
            self.history.append(record)
            if last or (epoch + 1) % config.checkpoint_every == 0:
                self._save(network, optimizer)
        fitted = FittedMGFN(network, config, self.seed, tuple(self.history))
        if self.folder is not None and fabric.is_global_zero:
            fitted.save(self.folder / MODEL)
        return fitted

    def _epoch(self, network: nn.Module, optimizer: Any, epoch: int) -> dict[str, float]:
        """One pass over the smaller class; the mean of every term."""
        config, fabric = self.config, self.fabric
        rank, ranks = fabric.global_rank, fabric.world_size
        order = seeds.generator(self.seed, "order", epoch, 0) if config.shuffle else None
        masks = seeds.generator(self.seed, "mask", epoch, rank)
        batches = epoch_batches(self.data, class_batch(config.batch, self.data), order, rank, ranks)
        sums: dict[str, float] = defaultdict(float)
        for i, positions in enumerate(batches):
            segments = self.data.segments[positions].to(fabric.device)  # (2B, n, L, C)
            found = losses(network, segments, self.data.labels[positions], config, masks)
            optimizer.zero_grad()
            fabric.backward(found.total)
            step = epoch * len(batches) + i + 1
            values = _finite(found, network, step, epoch)
            optimizer.step()
            for name, value in values.items():
                sums[name] += value / len(batches)
            if self.progress is not None:
                self.progress(step, config.epochs * len(batches), values["total"])
        if ranks > 1:
            self._share_statistics(network)
        return dict(sums)

    def _share_statistics(self, network: nn.Module) -> None:
        """Batch-norm statistics are counted by every process for itself; the first one's are everybody's."""
        for buffer in network.buffers():
            torch.distributed.broadcast(buffer, 0)

    def _evaluate(self, network: MGFN) -> dict[str, float | None]:
        """Pooled areas on the test videos; every process has the same weights and would get the same."""
        assert self.test is not None
        overall = FittedMGFN(network, self.config, self.seed).score(self.test).overall
        return {"roc_auc": overall.roc_auc, "pr_auc": overall.pr_auc, "ap": overall.ap}

    # --- resuming -------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        config = {k: v for k, v in self.config.to_json().items() if k not in FREE_TO_CHANGE}
        facts = {"seed": self.seed, "data": self.data.fingerprint(), "processes": self.fabric.world_size}
        return {**config, **facts}

    def _save(self, network: MGFN, optimizer: torch.optim.Optimizer) -> None:
        if self.folder is not None and self.fabric.is_global_zero:
            tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
            tensors |= {f"adam.{n}": t for n, t in checkpoints.optimizer_tensors(optimizer).items()}
            facts = {"identity": self._identity(), "history": self.history}
            checkpoints.write(self.folder / CHECKPOINT, CHECKPOINT_FORMAT, tensors, facts)
        self.fabric.barrier()

    def _resume(self, network: MGFN, optimizer: torch.optim.Optimizer) -> None:
        """Take up what the run folder has; a run of other data or settings is refused, naming what differs."""
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.is_file():
            return
        tensors, facts = checkpoints.read(path, CHECKPOINT_FORMAT)
        checkpoints.require_same(path, self._identity(), facts["identity"])
        if len(facts["history"]) > self.config.epochs:
            done = len(facts["history"])
            raise CheckpointError(
                f"{path}: has {done} epochs, {self.config.epochs} were asked for; use another folder"
            )
        checkpoints.fill(network, checkpoints.part(tensors, "network"), str(path))
        checkpoints.fill_optimizer(optimizer, checkpoints.part(tensors, "adam"))
        self.history = list(facts["history"])


def _finite(found: Losses, network: nn.Module, step: int, epoch: int) -> dict[str, float]:
    """The values of the terms, if they and the gradient are numbers."""
    values = found.values()
    gradients = [p.grad for p in network.parameters() if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if not all(map(math.isfinite, (*values.values(), norm))):
        terms = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        raise Diverged(
            f"MGFN diverged in step {step} (epoch {epoch + 1}): {terms}, gradient norm {norm:.4g}; "
            "lower the learning rate, or look at the scale of the features"
        )
    return values
