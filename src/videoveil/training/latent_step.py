"""One step of SPLAVU: features in, the terms of Eq. 7 out. Pure tensor code; loops and files are elsewhere.

Shapes: N videos of a step, S tokens of a clip, width d, R rows of untrimmed videos.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers.latent import LatentAnonymizer
from videoveil.errors import UsageError
from videoveil.objectives import (
    SplavuWeights,
    latent_consistency,
    nt_xent,
    splavu_total,
    temporal_budget,
)
from videoveil.objectives.adversaries import Adversaries, worst_adversary
from videoveil.objectives.consistency import Reduction

Pairs = Literal["static", "moving", "mixed"]
Reference = Literal["static", "none"]
LOSSES = ("action", "detection", "anomaly")
TERMS = ("total", "consistency", "utility", "budget", "temporal", *LOSSES, "adversary")


@dataclass(frozen=True, slots=True)
class Objective:
    """Eq. 7 and what the paper leaves open in it.

    `pairs` are what the budget compares: two static clips of a video (the paper), two moving ones, or one of each.
    `adversaries`, if there are any, compare the same pairs.

    `reference` is what the temporal budget takes away from moving clips before it compares them: the anonymized static
    clips of their video, so that only what moves counts; or nothing. Where a static budget scrambles static clips, the
    difference to them is scrambled too, and the temporal budget is content with moving clips as they are; with
    nothing to hide behind, it is about all that moving clips tell, looks and walk.
    """

    weights: SplavuWeights = field(default_factory=SplavuWeights)
    temperature: float = 0.1
    reduction: Reduction = "mean"
    margin: float | None = None
    pairs: Pairs = "static"
    same_action: bool = True  # the temporal budget compares videos of one action only
    adversaries: Adversaries | None = None
    reference: Reference = "static"

    def __post_init__(self) -> None:
        for name, known in (("pairs", get_args(Pairs)), ("reference", get_args(Reference))):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(known)}")

    @property
    def wants_other(self) -> bool:
        """Whether a second moving clip of every video is needed."""
        return self.pairs == "moving" or self.weights.temporal > 0


@dataclass(frozen=True)
class Moment:
    """What a step sees of N videos."""

    clip: Tensor  # (N, d) or (N, S, d), a moving clip
    first: Tensor  # (N, d), a static clip
    second: Tensor  # (N, d), another one
    other: Tensor | None = None  # another moving clip
    alone: Tensor | None = None  # (N,) bool: a video without another moving clip
    labels: Tensor | None = None  # (N,), the action
    still: Tensor | None = None  # (N, d), mean static feature of the video


@dataclass(frozen=True)
class TaskRows:
    """Clips of untrimmed videos that go through the anonymizer for a task's own loss; its head is inside the loss."""

    rows: Tensor  # (R, d) or (R, S, d)
    consistent: Tensor  # (C,), which of them count for consistency
    loss: Callable[[Tensor], Tensor]  # of the anonymized vectors (R, d)
    still: Tensor | None = None  # (R, d), mean static feature of each row's video


Tasks = Mapping[str, TaskRows]


@dataclass(frozen=True)
class Found:
    """The scalar to go down on, and the terms (len(TERMS),) without gradient."""

    total: Tensor
    terms: Tensor


@dataclass
class Step:
    """The anonymizer, the action head (if actions are trained for) and the objective."""

    anonymizer: LatentAnonymizer
    objective: Objective
    head: nn.Module | None = None
    half: bool = False  # the anonymizer in bfloat16; losses are always float32
    adversaries: nn.ModuleList | None = None  # those that the objective asks for

    def __call__(self, moment: Moment, tasks: Tasks | None = None) -> Found:
        """All terms of one step."""
        tasks = tasks or {}
        objective, weights = self.objective, self.objective.weights
        inputs = [(moment.clip, moment.still), (moment.first, moment.still), (moment.second, moment.still)]
        if moment.other is not None and objective.wants_other:
            inputs.append((moment.other, moment.still))
        inputs += [(task.rows, task.still) for task in tasks.values()]
        out = self._through(inputs)
        clip, first, second = out[0], pooled(out[1]), pooled(out[2])
        rest = out[len(out) - len(tasks) :]
        other = pooled(out[3]) if len(out) - len(tasks) > 3 else None
        losses = {}
        if self.head is not None and moment.labels is not None:
            losses["action"] = F.cross_entropy(self.head(pooled(clip)), moment.labels)
        for (name, task), anonymized in zip(tasks.items(), rest):
            losses[name] = task.loss(pooled(anonymized))
        consistency = self._consistency(moment, clip, tasks, rest)
        a, b, groups = self._views(moment, pooled(clip), first, second, other)
        budget = nt_xent(a, b, objective.temperature, groups=groups, margin=objective.margin)
        temporal = None
        if weights.temporal:
            temporal = self._temporal(moment, pooled(clip), other, first, second)
        found = splavu_total(consistency, losses, budget, weights, temporal=temporal)
        total, adversary = found.total, torch.zeros_like(budget)
        if self.adversaries is not None and objective.adversaries is not None:
            chosen = objective.adversaries
            adversary = worst_adversary(
                self.adversaries, a, b, objective.temperature, groups=groups, margin=chosen.margin
            )
            total = total - chosen.weight * adversary
        terms = [total, found.consistency, found.utility, found.budget, found.temporal]
        terms += [losses.get(name, torch.zeros_like(budget)) for name in LOSSES] + [adversary]
        return Found(total, torch.stack([term.detach().float() for term in terms]))

    @torch.no_grad()
    def pairs(self, moment: Moment) -> tuple[Tensor, Tensor, Tensor]:
        """The anonymized views (N, d) that the budget compares, and who may be compared with whom (N,)."""
        wanted = {
            "static": (moment.first, moment.second),
            "mixed": (moment.clip, moment.first),
            "moving": (moment.clip, _needed(moment.other) if self.objective.pairs == "moving" else None),
        }[self.objective.pairs]
        a, b = (pooled(x) for x in self._through([(x, moment.still) for x in wanted if x is not None]))
        alone = moment.alone if self.objective.pairs == "moving" else None
        return a, b, singled_out(torch.zeros_like(_number(moment)), alone)

    def _through(self, inputs: Sequence[tuple[Tensor, Tensor | None]]) -> list[Tensor]:
        """Every input through the anonymizer: in one go where rows do not touch each other, else one by one."""
        together = self.anonymizer.exportable and all(x.dim() == 2 for x, _ in inputs)
        with torch.autocast(inputs[0][0].device.type, torch.bfloat16, enabled=self.half, cache_enabled=False):
            if not together:
                return [self.anonymizer.transform(x, static=still).float() for x, still in inputs]
            rows = torch.cat([x for x, _ in inputs])
            still = None
            if self.anonymizer.wants_static:
                still = torch.cat([s for _, s in inputs if s is not None])
            out = self.anonymizer.transform(rows, static=still).float()
        return list(out.split([len(x) for x, _ in inputs]))

    def _consistency(self, moment: Moment, clip: Tensor, tasks: Tasks, rest: Sequence[Tensor]) -> Tensor:
        """Over the moving clips of all tasks; the clips of a set that only lends its pairs do not count."""
        before, after = [], []
        if moment.labels is not None or not tasks:
            before, after = [moment.clip], [clip]
        for task, anonymized in zip(tasks.values(), rest):
            before.append(task.rows[task.consistent])
            after.append(anonymized[task.consistent])
        return latent_consistency(torch.cat(before), torch.cat(after), self.objective.reduction)

    def _views(
        self, moment: Moment, clip: Tensor, first: Tensor, second: Tensor, other: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the budget compares, (N, d) twice, and groups (N,)."""
        # one group for all: the same value, but its ceiling is made on the device, as a captured step needs it
        groups = torch.zeros_like(_number(moment))
        if self.objective.pairs == "moving":
            return clip, _needed(other), singled_out(groups, moment.alone)
        return (*((first, second) if self.objective.pairs == "static" else (clip, first)), groups)

    def _temporal(
        self, moment: Moment, clip: Tensor, other: Tensor | None, first: Tensor, second: Tensor
    ) -> Tensor:
        objective = self.objective
        known = moment.labels is not None and objective.same_action
        groups = moment.labels if known and moment.labels is not None else torch.zeros_like(_number(moment))
        if objective.reference == "none":
            first = second = torch.zeros_like(clip)
        return temporal_budget(
            clip,
            _needed(other),
            first[:, None],
            second[:, None],
            objective.temperature,
            actions=singled_out(groups, moment.alone),
            margin=objective.margin,
        )


def pooled(x: Tensor) -> Tensor:
    """(N, S, d) → (N, d); a vector stays what it is."""
    return x.mean(1) if x.dim() == 3 else x


def singled_out(groups: Tensor, alone: Tensor | None) -> Tensor:
    """Groups (N,) in which a video without a second clip has a group of its own, where it does not count."""
    if alone is None:
        return groups
    own = -1 - torch.arange(len(groups), device=groups.device)
    return torch.where(alone, own, groups)


def _number(moment: Moment) -> Tensor:
    return torch.arange(len(moment.clip), device=moment.clip.device)


def _needed(other: Tensor | None) -> Tensor:
    if other is None:
        raise UsageError(
            "the temporal budget and pairs='moving' need two moving clips of a video, and this source gives one"
        )
    return other
