"""Where the moments of latent training come from: stored features on the device, or (`latent_video`) videos."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.training import latent_draws as draws
from videoveil.training.latent_data import LatentData
from videoveil.training.latent_step import Moment
from videoveil.training.latent_tasks import LatentTask


class Source(Protocol):
    """What the loop asks its data for."""

    steps: int  # per epoch
    batch: int  # videos per step

    def moments(self, epoch: int) -> Iterator[Moment]:
        """The steps of an epoch, on the device."""
        ...

    def fingerprint(self) -> Any:
        """What must be the same for a run to be continued."""
        ...


class StoredSource:
    """All features on the device; a step gathers its own. Nothing in `moment` waits for the device."""

    def __init__(
        self,
        data: LatentData,
        batch: int,
        seed: int,
        device: torch.device,
        *,
        tasks: tuple[LatentTask, ...] = (),
        wants_static: bool = False,
    ):
        self.facts = data.fingerprint()
        self.seed, self.wanted = seed, batch
        self.pool = data.base().to(device)
        if self.pool.static is None:
            raise UsageError(
                "latent training needs static clips; extract the features with static=10 (`--static 10`)"
            )
        self.static = self.pool.static
        self.labels = None if data.action is None else self.pool.labels
        self.batch = draws.step_size(self.pool, batch)
        self.own_steps = None if data.action is not None else max(task.steps() for task in tasks)
        self.steps = self.own_steps or draws.pass_steps(self.pool, batch)
        self.alone = self.pool.counts < 2
        self.still = self.static.mean(1) if wants_static else None

    def plan(self, epoch: int) -> Tensor:
        """(steps, 5, B) on the device: see `latent_draws.plan`."""
        found = draws.plan(self.pool, self.wanted, self.seed, epoch, self.own_steps)
        return found.to(self.pool.rows.device)

    def moment(self, choice: Tensor) -> Moment:
        """The features of one step of the plan, (5, B)."""
        video, clip, other, first, second = choice.unbind(0)
        return Moment(
            clip=self.pool.rows[clip],
            first=self.static[video, first],
            second=self.static[video, second],
            other=self.pool.rows[other],
            alone=self.alone[video],
            labels=None if self.labels is None else self.labels[video],
            still=None if self.still is None else self.still[video],
        )

    def moments(self, epoch: int) -> Iterator[Moment]:
        for choice in self.plan(epoch):
            yield self.moment(choice)

    def fingerprint(self) -> Any:
        return self.facts
