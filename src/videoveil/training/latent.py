"""The latent loop (SPLAVU, Algorithm 1): one joint step of anonymizer and heads on Eq. 7, again and again.

Random numbers belong to an epoch or a step and come from the seed alone, so a run that was killed goes on to the same
weights. On an accelerator, training for actions alone is captured as one graph (`latent_graph`); everywhere else, and
where adversaries learn in alternation (`latent_adversaries`), the same step runs as it is written.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from videoveil import devices, files
from videoveil.anonymizers.latent import LatentAnonymizer
from videoveil.errors import CheckpointError, Diverged, UsageError
from videoveil.training import checkpoints, seeds
from videoveil.training.latent_adversaries import Ensemble
from videoveil.training.latent_curves import Curves
from videoveil.training.latent_graph import CapturedEpoch, PlannedEpoch
from videoveil.training.latent_heads import HeadSettings, head_groups
from videoveil.training.latent_source import Source, StoredSource
from videoveil.training.latent_step import TERMS, Moment, Objective, Step
from videoveil.training.latent_tasks import LatentTask

Precision = Literal["32-true", "bf16-mixed"]
Decay = Literal["constant", "cosine"]
Progress = Callable[[int, int, float], None]  # step, steps in all, loss
Evaluate = Callable[[LatentAnonymizer, int], tuple[float, float]]  # → accuracy and leakage, both in [0, 1]

FORMAT = "videoveil-latent-1"
CHECKPOINT = "checkpoint.safetensors"
FREE_TO_CHANGE = ("checkpoint_every", "evaluate_every")
RATE_AT = 512  # videos in a step at which the learning rate is what it says
COLUMNS = (*TERMS, "gradient_norm")


@dataclass(frozen=True, kw_only=True)
class LatentSchedule:
    """How long and how fast; the paper's values. The rate grows with the videos in a step, from 512."""

    epochs: int = 100
    batch: int = 512
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    gradient_clip: float = 1.0  # over anonymizer and heads together
    decay: Decay = "constant"
    precision: Precision = "32-true"  # of the anonymizer; losses are always float32
    checkpoint_every: int = 25  # epochs
    evaluate_every: int = 10  # epochs, where there is something to evaluate with

    def __post_init__(self) -> None:
        for name in (
            "epochs",
            "batch",
            "learning_rate",
            "gradient_clip",
            "checkpoint_every",
            "evaluate_every",
        ):
            if not 0 < getattr(self, name) < math.inf:  # written so that NaN is refused too
                raise UsageError(f"{name}={getattr(self, name)}: must be a number above 0")
        if not 0 <= self.weight_decay < math.inf:
            raise UsageError(f"weight_decay={self.weight_decay}: must be a number, 0 or more")
        for name, known in (("decay", get_args(Decay)), ("precision", get_args(Precision))):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(known)}")

    def rate(self, batch: int) -> float:
        """The first learning rate for `batch` videos in a step."""
        return self.learning_rate * batch / RATE_AT

    def factor(self, epoch: int) -> float:
        """What all rates are multiplied by in an epoch."""
        return 1.0 if self.decay == "constant" else 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))


@dataclass
class LatentLoop:
    """One training run; the anonymizer and the heads are trained in place.

    With a `folder` the run is saved every few epochs and goes on from there; `identity` is what must be the same for
    that, beside what the loop knows itself. `evaluate` is called every few epochs; its time is not training time.
    """

    anonymizer: LatentAnonymizer
    source: Source
    heads: Mapping[str, nn.Module] = field(default_factory=dict)
    tasks: Mapping[str, LatentTask] = field(default_factory=dict)
    objective: Objective = field(default_factory=Objective)
    schedule: LatentSchedule = field(default_factory=LatentSchedule)
    head_settings: HeadSettings = field(default_factory=HeadSettings)
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    folder: Path | None = None
    identity: Mapping[str, Any] = field(default_factory=dict)
    evaluate: Evaluate | None = None
    progress: Progress | None = None
    capture: bool = True  # on an accelerator, where it can be done
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> list[dict[str, Any]]:
        """Train to the last epoch and leave the anonymizer in eval mode: one record per epoch."""
        schedule = self.schedule
        if not any(p.requires_grad for p in self.anonymizer.parameters()):
            raise UsageError("the anonymizer has nothing to train; its stages are fitted, not learned")
        if not self.anonymizer.fitted:
            raise UsageError(
                "a stage has not been fitted: call fit_from with features of training videos first"
            )
        self.networks = nn.ModuleDict({"anonymizer": self.anonymizer, **self.heads}).to(self.device)
        self.optimizer = self._make_optimizer()
        self.rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.adversaries = self._make_adversaries()
        self.step = Step(
            self.anonymizer,
            self.objective,
            self.networks["action"] if "action" in self.heads else None,
            schedule.precision == "bf16-mixed",
            None if self.adversaries is None else self.adversaries.heads,
        )
        wanting = self.tasks.items() if self.anonymizer.wants_static else ()
        self.still = {name: task.pool.still().to(self.device) for name, task in wanting}
        self.curves = Curves(self.folder)
        self.facts = self._facts() if self.folder is not None else {}
        self._resume()
        with devices.repeatable(), contextlib.closing(self.curves):
            self.planned: PlannedEpoch | None = None
            for epoch in range(len(self.history), schedule.epochs):
                self._one_epoch(epoch)
        self.networks.eval()
        return self.history

    # --- one epoch ------------------------------------------------------------------------------------------

    def _one_epoch(self, epoch: int) -> None:
        schedule, last = self.schedule, epoch + 1 == self.schedule.epochs
        began = time.perf_counter()
        self.networks.train()
        self._set_rates(schedule.factor(epoch))
        if self.adversaries is not None:
            self.adversaries.start_epoch(epoch)
        self._prepare(epoch)
        with self._own_randomness(epoch):
            terms = self._terms(epoch)
        values = terms.double().cpu()  # waits for the device: from here on the epoch is done
        self.anonymizer.weights_changed()
        self._require_finite(values, epoch)
        spent = self.history[-1]["seconds"] if self.history else 0.0
        record = {"epoch": epoch, **dict(zip(COLUMNS, values.mean(0).tolist()))}
        record |= {"learning_rate": self.rates[0] * schedule.factor(epoch)}
        record["seconds"] = spent + time.perf_counter() - began
        if self.evaluate is not None and (last or (epoch + 1) % schedule.evaluate_every == 0):
            record |= self._evaluated(epoch)
        self.history.append(record)
        self.curves.add(record)
        if last or (epoch + 1) % schedule.checkpoint_every == 0:
            began = time.perf_counter()
            self._save()
            self.history[-1]["seconds"] += time.perf_counter() - began

    def _terms(self, epoch: int) -> Tensor:
        """Every step of an epoch: terms and gradient norm, (steps, len(COLUMNS))."""
        if isinstance(self.source, StoredSource) and self.planned is not None:
            found = self.planned.run(self.source.plan(epoch))
            self._tell(epoch, self.source.steps - 1, found[-1])
            return found
        rows = []
        for i, moment in enumerate(self.source.moments(epoch)):
            rows.append(self._advance(moment, epoch * self.source.steps + i))
            self._tell(epoch, i, rows[-1])
        return torch.stack(rows)

    def _prepare(self, epoch: int) -> None:
        """Capture the step before the first epoch of this process; what that draws is not taken from the epoch."""
        if isinstance(self.source, StoredSource) and not self.tasks and self.planned is None:
            with self._own_randomness(epoch):
                self.planned = self._plan_runner(self.source, self.source.plan(epoch))

    def _plan_runner(self, source: StoredSource, plan: Tensor) -> PlannedEpoch:
        def advance(choice: Tensor) -> Tensor:
            return self._update(source.moment(choice))

        size = (source.steps, source.batch, len(COLUMNS), self.device)
        if not self.capture or self.device.type != "cuda" or self.adversaries is not None:
            return PlannedEpoch(advance, *size)
        return CapturedEpoch(
            advance, *size, first_plan=plan, state=self._state, reset=self.optimizer.zero_grad
        )

    def _advance(self, moment: Moment, step: int) -> Tensor:
        tasks = {name: task.draw(step, self.seed, self.still.get(name)) for name, task in self.tasks.items()}
        return self._update(moment, tasks)

    def _update(self, moment: Moment, tasks: Mapping[str, Any] | None = None) -> Tensor:
        """Forward, backward, clip, step: the terms and the gradient's norm before clipping.

        Adversaries learn first, on what the anonymizer makes of this moment as it is.
        """
        if self.adversaries is not None:
            self.adversaries.learn(*self.step.pairs(moment))
        self.optimizer.zero_grad()
        found = self.step(moment, tasks)
        found.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._parameters(), self.schedule.gradient_clip)
        self.optimizer.step()
        return torch.cat((found.terms, norm.detach().float()[None]))

    @contextlib.contextmanager
    def _own_randomness(self, epoch: int) -> Iterator[None]:
        """Dropout and noise draw from the seed and the epoch; the caller's random state is left alone."""
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(seeds.number(self.seed, "latent epoch", epoch))
            yield

    def _evaluated(self, epoch: int) -> dict[str, float]:
        """SPLAVU Eq. 14: y = ½·(accuracy + 1 − leakage), against the seconds of training."""
        assert self.evaluate is not None
        self.networks.eval()
        accuracy, leakage = self.evaluate(self.anonymizer, epoch)
        return {"accuracy": accuracy, "leakage": leakage, "score": 0.5 * (accuracy + 1 - leakage)}

    def _tell(self, epoch: int, step: int, terms: Tensor) -> None:
        if self.progress is not None:
            steps = self.source.steps
            self.progress(epoch * steps + step + 1, self.schedule.epochs * steps, float(terms[0]))

    def _require_finite(self, values: Tensor, epoch: int) -> None:
        """values (steps, len(COLUMNS)); the first step with a number that is none is named, with its terms."""
        bad = (~values.isfinite()).any(1).nonzero()
        if not len(bad):
            return
        step = int(bad[0])
        terms = ", ".join(f"{name} {value:.4g}" for name, value in zip(COLUMNS, values[step].tolist()))
        raise Diverged(
            f"latent training diverged in step {epoch * self.source.steps + step + 1} (epoch {epoch + 1}): {terms}; "
            f"lower learning_rate={self.schedule.learning_rate:g}, or look at the scale of the features"
        )

    # --- optimiser ------------------------------------------------------------------------------------------

    def _make_optimizer(self) -> torch.optim.AdamW:
        schedule = self.schedule
        rate = schedule.rate(self.source.batch)
        own = [p for p in self.anonymizer.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [{"params": own, "lr": rate, "weight_decay": schedule.weight_decay}]
        heads = {name: self.networks[name] for name in self.heads}
        groups += head_groups(heads, self.head_settings, rate, schedule.weight_decay)
        if self.device.type != "cuda":
            return torch.optim.AdamW(groups)
        for group in groups:  # a captured step reads its rate from the device
            group["lr"] = torch.tensor(group["lr"], device=self.device)
        return torch.optim.AdamW(groups, capturable=True, fused=True)

    def _make_adversaries(self) -> Ensemble | None:
        wanted = self.objective.adversaries
        if wanted is None:
            return None
        width, temperature = self.anonymizer.config.width, self.objective.temperature
        return Ensemble(wanted, width, temperature, self.seed, self.device)

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def _set_rates(self, factor: float) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.rates):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * factor)
            else:
                group["lr"] = rate * factor

    def _state(self) -> list[Tensor]:
        """Every tensor that a step changes."""
        moments = [t for row in self.optimizer.state.values() for t in row.values() if isinstance(t, Tensor)]
        return [*self.networks.parameters(), *self.networks.buffers(), *moments]

    # --- resuming -------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        schedule = {k: v for k, v in asdict(self.schedule).items() if k not in FREE_TO_CHANGE}
        facts = {
            **self.identity,
            **schedule,
            "objective": _told(self.objective),
            "anonymizer": self.anonymizer.config.to_json(),
            "tasks": sorted(self.heads),
            "data": self.source.fingerprint(),
            "seed": self.seed,
        }
        plain: dict[str, Any] = json.loads(json.dumps(facts))  # as it comes back from the file
        return plain

    def _save(self) -> None:
        if self.folder is None:
            return
        tensors = {f"network.{name}": t for name, t in self.networks.state_dict().items()}
        tensors |= {f"state.{name}": t for name, t in checkpoints.optimizer_tensors(self.optimizer).items()}
        if self.adversaries is not None:
            tensors |= self.adversaries.tensors()
        tasks = {name: task.state() for name, task in self.tasks.items()}
        facts = {"identity": self.facts, "history": self.history, "tasks": tasks}
        checkpoints.write(self.folder / CHECKPOINT, FORMAT, tensors, facts)
        self.curves.write(self.history)

    def _resume(self) -> None:
        path = None if self.folder is None else self.folder / CHECKPOINT
        if path is None or not path.is_file():
            return
        tensors, facts = checkpoints.read(path, FORMAT)
        checkpoints.require_same(path, self.facts, facts["identity"])
        if len(facts["history"]) > self.schedule.epochs:
            raise CheckpointError(f"{path}: has more epochs than were asked for; use another folder")
        checkpoints.fill(self.networks, checkpoints.part(tensors, "network"), str(path))
        checkpoints.fill_optimizer(self.optimizer, checkpoints.part(tensors, "state"))
        if self.adversaries is not None:
            self.adversaries.restore(tensors, str(path))
        for name, task in self.tasks.items():
            task.restore(facts["tasks"][name])
        self.history = list(facts["history"])
        self.curves.go_on(self.history)


def _told(objective: Objective) -> dict[str, Any]:
    """An objective as a checkpoint names it: settings that came later are left out where they change nothing."""
    usual, later = Objective(), ("adversaries", "reference")
    return {k: v for k, v in asdict(objective).items() if k not in later or v != getattr(usual, k)}


def score_curve(history: list[dict[str, Any]]) -> list[dict[str, float]]:
    """The points of Eq. 14 against time: seconds of training (evaluation not counted), accuracy, leakage, score."""
    names = ("seconds", "accuracy", "leakage", "score")
    return [{name: float(record[name]) for name in names} for record in history if "score" in record]


def write_curve(folder: Path, history: list[dict[str, Any]]) -> None:
    """RUN/curve.json, where there is something in it."""
    if points := score_curve(history):
        files.write_json(folder / "curve.json", points)
