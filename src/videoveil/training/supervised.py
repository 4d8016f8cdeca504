"""The supervised loop: batches in, one loss, one optimiser; on CPU, CUDA or several processes; resumable.

What is trained says how a batch looks and what its loss is; this file says how steps, epochs, checkpoints and
divergence go, for a linear layer on features as for a whole video network on clips.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from videoveil import devices
from videoveil.errors import CheckpointError, Diverged, UsageError
from videoveil.training import checkpoints, seeds

if TYPE_CHECKING:
    from lightning.fabric import Fabric

N = TypeVar("N", bound=nn.Module)
Progress = Callable[[int, int, float], None]
Optimizer = Literal["adamw", "adam", "sgd"]
Decay = Literal["cosine", "constant"]

FORMAT = "videoveil-supervised-1"
CHECKPOINT = "checkpoint.safetensors"
EPOCHS, KEPT_FORMAT = "epochs", "videoveil-supervised-epoch-1"
EXPLODED = 10.0  # an epoch whose loss is this many times the first one's has left the ground for good
FREE_TO_CHANGE = ("checkpoint_every",)  # of the schedule; when a run is saved does not change what it learns


class Enough(Exception):
    """Raised by a progress callback: this training ends here, with what it has learnt."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast. Batches count over all processes."""

    epochs: int
    batch: int
    learning_rate: float
    optimizer: Optimizer = "adamw"
    weight_decay: float = 1e-4
    momentum: float = 0.9  # of sgd
    warmup_epochs: int = 0  # linear from 0
    decay: Decay = "cosine"  # to 0 after the warm-up
    gradient_clip: float = 0.0  # 0: none
    precision: str = "32-true"  # as Fabric names it
    checkpoint_every: int = 1  # epochs

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "learning_rate", "checkpoint_every"):
            if not 0 < getattr(self, name) < math.inf:  # written so that NaN is refused too
                raise UsageError(f"{name}={getattr(self, name)}: must be a number above 0")
        for name in ("weight_decay", "warmup_epochs", "gradient_clip"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name}={getattr(self, name)}: must be a number, 0 or more")
        if not 0 <= self.momentum < 1:
            raise UsageError(f"momentum={self.momentum}: must be in [0, 1)")
        for name, known in (("optimizer", get_args(Optimizer)), ("decay", get_args(Decay))):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(known)}")

    def rate(self, epoch: float, losses: Sequence[float] = ()) -> float:
        """The learning rate at a moment, in epochs; `losses` are those of the epochs before, for rules that ask."""
        if epoch < self.warmup_epochs:
            return self.learning_rate * epoch / self.warmup_epochs
        if self.decay == "constant":
            return self.learning_rate
        done = (epoch - self.warmup_epochs) / max(self.epochs - self.warmup_epochs, 1e-9)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))

    def over(self, losses: Sequence[float]) -> bool:
        """Whether more epochs would change nothing any more."""
        return False

    def make_optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        parameters = [p for p in network.parameters() if p.requires_grad]
        rate, decay = self.learning_rate, self.weight_decay
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=rate, momentum=self.momentum, weight_decay=decay)
        kind = torch.optim.AdamW if self.optimizer == "adamw" else torch.optim.Adam
        return kind(parameters, lr=rate, weight_decay=decay)


@dataclass(frozen=True, kw_only=True)
class Plateau(Schedule):
    """The rate is multiplied by `factor` when `patience` epochs and one more have not had the lowest loss so far.

    TeD-SPAD: ÷5 without any patience, where an epoch is hundreds of steps; with few steps the loss of an epoch is as
    much chance as progress, and that rule would end the training before it has begun.
    """

    factor: float = 0.2
    patience: int = 0
    smallest: float = 1e-12  # training ends below this rate

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.factor <= 1:
            raise UsageError(f"factor={self.factor}: must be in (0, 1]")
        if self.patience < 0:
            raise UsageError(f"patience={self.patience}: must be 0 or more")

    def rate(self, epoch: float, losses: Sequence[float] = ()) -> float:
        if epoch < self.warmup_epochs:
            return super().rate(epoch)
        lowest, waited, drops = math.inf, 0, 0
        for loss in losses:
            waited = 0 if loss < lowest else waited + 1
            lowest = min(lowest, loss)
            if waited > self.patience:
                waited, drops = 0, drops + 1
        return self.learning_rate * self.factor**drops

    def over(self, losses: Sequence[float]) -> bool:
        return self.rate(math.inf, losses) < self.smallest


@dataclass(frozen=True)
class Batch:
    """This process's part of one step."""

    inputs: Tensor
    targets: Tensor
    total: float  # items of the step over all processes
    ids: tuple[str, ...] = ()  # for messages


class Batches:
    """What the loop asks its data for."""

    steps: int  # per epoch

    def epoch(self, number: int, rank: int, ranks: int, device: torch.device) -> Iterator[Batch]:
        """The batches of an epoch, on the device; random numbers come from `training.seeds` alone."""
        raise NotImplementedError


class Judge:
    """Looks at the network after every epoch. What it says goes into the history, what it keeps into checkpoints."""

    def look(self, network: nn.Module, epoch: int) -> dict[str, float]:
        """Figures for the epoch's record; the network is in eval mode and nothing here has gradients."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        """What it must have again when a run goes on."""
        raise NotImplementedError

    def restore(self, tensors: Mapping[str, Tensor], history: Sequence[Mapping[str, float]]) -> None:
        """Take back what `tensors` gave, after the epochs in `history`."""
        raise NotImplementedError


Loss = Callable[[Tensor, Tensor], Tensor]  # logits (B, …), targets (B, …) → loss of every item (B,)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """(B, C), (B,) class numbers → (B,)."""
    return nn.functional.cross_entropy(logits, targets, reduction="none")


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """(B, k), (B, k) of 0 and 1 → (B,), the mean over tags."""
    return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(1)


@dataclass
class Loop:
    """One training run. `identity` is what must be the same for a run in `folder` to be continued."""

    network: nn.Module
    batches: Batches
    loss: Loss
    schedule: Schedule
    seed: int
    fabric: Fabric
    folder: Path | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    train_mode: Callable[[nn.Module], object] = nn.Module.train  # e.g. one that keeps batch norm frozen
    what: str = "training"
    judge: Judge | None = None
    free: tuple[str, ...] = ()  # settings that may differ from those a run was begun with
    keep_every: int = (
        0  # epochs after which the weights are kept in FOLDER/epochs, and after the last; 0: never
    )
    history: list[dict[str, float]] = field(default_factory=list)

    def run(self) -> list[dict[str, float]]:
        """Train to the last epoch; the network holds the result, the history one record per epoch."""
        schedule, fabric = self.schedule, self.fabric
        if self.keep_every and (self.keep_every < 0 or self.folder is None):
            raise UsageError(
                f"keep_every={self.keep_every}: must be 0 or more, and weights are kept in a run folder"
            )
        if schedule.batch % fabric.world_size:
            raise UsageError(
                f"batch={schedule.batch} cannot be shared by {fabric.world_size} processes; make it a multiple"
            )
        devices.require_right_gradients(self.network, schedule.precision, fabric.device)
        self.optimizer = schedule.make_optimizer(self.network)
        wrapped, stepper = fabric.setup(self.network, self.optimizer)
        self._resume()
        with devices.repeatable():
            for epoch in range(len(self.history), schedule.epochs):
                if schedule.over(self._losses()):
                    break
                self.train_mode(wrapped)
                try:
                    with self._own_randomness(epoch):
                        record = self._epoch(wrapped, stepper, epoch)
                except Enough:
                    break
                self._share_statistics()
                self.history.append({"epoch": epoch, **record})
                self._require_sane()
                self._judge(epoch)
                last = epoch + 1 == schedule.epochs or schedule.over(self._losses())
                if self.keep_every and ((epoch + 1) % self.keep_every == 0 or last):
                    self._keep(epoch + 1)
                if (epoch + 1) % schedule.checkpoint_every == 0 or last:
                    self._save()
        self.network.eval()
        return self.history

    def _losses(self) -> list[float]:
        return [record["loss"] for record in self.history]

    def _judge(self, epoch: int) -> None:
        if self.judge is not None:
            self.network.eval()
            with torch.no_grad():
                self.history[-1] |= self.judge.look(self.network, epoch)

    @contextlib.contextmanager
    def _own_randomness(self, epoch: int) -> Iterator[None]:
        """Dropout and the like draw from the seed and the epoch; the caller's random state is left alone."""
        cuda = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(seeds.number(self.seed, "epoch", epoch, self.fabric.global_rank))
            yield

    def _epoch(self, wrapped: Any, stepper: Any, epoch: int) -> dict[str, float]:
        schedule, fabric, steps = self.schedule, self.fabric, self.batches.steps
        sums = {"loss": 0.0, "gradient_norm": 0.0}
        rate, losses_before = 0.0, self._losses()
        for i, batch in enumerate(self._batches(epoch)):
            rate = schedule.rate(epoch + i / steps, losses_before)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            stepper.zero_grad()
            losses = self.loss(wrapped(batch.inputs).float(), batch.targets)
            # processes average their gradients: each contributes its share of the mean over all items
            mean = losses.sum() * (fabric.world_size / batch.total)
            fabric.backward(mean)
            norm = float(self._clip())
            value = float(mean.detach())
            self._require_finite(value, norm, epoch * steps + i, epoch, batch.ids)
            stepper.step()
            sums["loss"] += value / steps
            sums["gradient_norm"] += norm / steps
            if self.progress is not None:
                self.progress(epoch * steps + i + 1, schedule.epochs * steps, value)
        sums["loss"] = self._mean_of_all(sums["loss"])  # the gradient norm is everybody's already
        return {**sums, "learning_rate": rate}

    def _mean_of_all(self, value: float) -> float:
        """The mean over processes, each of which knows only its own share."""
        if self.fabric.world_size == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.fabric.device)
        torch.distributed.all_reduce(shared)
        return float(shared) / self.fabric.world_size

    def _batches(self, epoch: int) -> Iterator[Batch]:
        fabric = self.fabric
        return self.batches.epoch(epoch, fabric.global_rank, fabric.world_size, fabric.device)

    def _clip(self) -> Tensor:
        limit = self.schedule.gradient_clip or math.inf
        return torch.nn.utils.clip_grad_norm_(self.network.parameters(), limit)

    def _require_finite(self, loss: float, norm: float, step: int, epoch: int, ids: tuple[str, ...]) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        among = f", items {', '.join(ids[:8])}" if ids else ""
        raise Diverged(
            f"{self.what} diverged in step {step + 1} (epoch {epoch + 1}{among}): loss {loss:.4g}, gradient norm "
            f"{norm:.4g}; lower learning_rate={self.schedule.learning_rate:g}, or look at the scale of the input"
        )

    def _require_sane(self) -> None:
        first, last = self.history[0]["loss"], self.history[-1]["loss"]
        if last > EXPLODED * first:
            raise Diverged(
                f"{self.what} diverged in epoch {len(self.history)}: its loss is {last:.4g}, that of the first epoch "
                f"was {first:.4g}; lower learning_rate={self.schedule.learning_rate:g}"
            )

    def _share_statistics(self) -> None:
        """Batch-norm statistics are counted by every process for itself; the first one's are everybody's."""
        if self.fabric.world_size > 1:
            for buffer in self.network.buffers():
                torch.distributed.broadcast(buffer, 0)

    # --- resuming -------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        facts = self._binding({**self.identity, **vars(self.schedule), "seed": self.seed})
        plain: dict[str, Any] = json.loads(json.dumps(facts))  # as it is read again: tuples are lists
        return plain

    def _binding(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Without what does not change the result."""
        return {key: value for key, value in facts.items() if key not in (*FREE_TO_CHANGE, *self.free)}

    def _save(self) -> None:
        if self.folder is not None and self.fabric.is_global_zero:
            tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
            tensors |= {
                f"state.{name}": t for name, t in checkpoints.optimizer_tensors(self.optimizer).items()
            }
            if self.judge is not None:
                tensors |= {f"judge.{name}": t for name, t in self.judge.tensors().items()}
            facts = {"identity": self._facts(), "history": self.history}
            checkpoints.write(self.folder / CHECKPOINT, FORMAT, tensors, facts)
        self.fabric.barrier()

    def _keep(self, epoch: int) -> None:
        if self.folder is not None and self.fabric.is_global_zero:
            path = self.folder / EPOCHS / f"{epoch:04d}.safetensors"
            checkpoints.write(path, KEPT_FORMAT, self.network.state_dict(), {"epoch": epoch})
        self.fabric.barrier()

    def _resume(self) -> None:
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.is_file():
            return
        tensors, facts = checkpoints.read(path, FORMAT)
        checkpoints.require_same(path, self._facts(), self._binding(facts["identity"]))
        if len(facts["history"]) > self.schedule.epochs:
            raise CheckpointError(f"{path}: has more epochs than were asked for; use another folder")
        checkpoints.fill(self.network, checkpoints.part(tensors, "network"), str(path))
        checkpoints.fill_optimizer(self.optimizer, checkpoints.part(tensors, "state"))
        self.history = list(facts["history"])
        if self.judge is not None:
            self.judge.restore(checkpoints.part(tensors, "judge"), self.history)


def kept_epochs(folder: Path) -> tuple[Path, ...]:
    """The weights that a run has kept along the way (`Loop.keep_every`), by epoch."""
    return tuple(sorted((folder / EPOCHS).glob("*.safetensors")))


def as_kept(network: N, path: Path) -> N:
    """A network like this one, in eval mode with the weights of an epoch that was kept."""
    made = copy.deepcopy(network)
    checkpoints.fill(made, checkpoints.read(path, KEPT_FORMAT)[0], str(path))
    made.eval()
    return made
