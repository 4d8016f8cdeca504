"""An epoch without a host: the step finds its own place in the plan, so that it can be captured once and replayed.

A step of a small network is a few dozen kernels that each take less time than their launch. Captured as one CUDA graph
they are launched together, and the processor only says "again".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

WARM_UP = 3  # steps before the capture: libraries choose their kernels and workspaces in the first ones

Advance = Callable[[Tensor], Tensor]  # choice (5, B) → terms (T,): one whole step, optimiser included


class PlannedEpoch:
    """Steps that read their draws from a plan on the device and leave their terms there."""

    def __init__(self, advance: Advance, steps: int, batch: int, terms: int, device: torch.device):
        self.advance, self.steps = advance, steps
        self.plan = torch.zeros(steps, 5, batch, dtype=torch.int64, device=device)
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self.record = torch.zeros(steps, terms, device=device)

    def run(self, plan: Tensor) -> Tensor:
        """All steps of a plan (steps, 5, B): their terms (steps, T)."""
        self.plan.copy_(plan)
        self.cursor.zero_()
        for _ in range(self.steps):
            self.once()
        return self.record.clone()

    def once(self) -> None:
        """The step at the cursor, which moves on."""
        choice = self.plan.index_select(0, self.cursor)[0]
        self.record.index_copy_(0, self.cursor, self.advance(choice)[None])
        self.cursor.add_(1)


class CapturedEpoch(PlannedEpoch):
    """The same steps as one CUDA graph.

    The warm-up really trains, so everything it changes (`state`) is put back before the capture, which changes nothing.
    `reset` is called before the warm-up steps and before the capture: it drops gradients, so that the graph owns its
    own.
    """

    def __init__(
        self,
        advance: Advance,
        steps: int,
        batch: int,
        terms: int,
        device: torch.device,
        *,
        first_plan: Tensor,
        state: Callable[[], Iterable[Tensor]],
        reset: Callable[[], None],
    ):
        super().__init__(advance, steps, batch, terms, device)
        self.plan.copy_(first_plan)
        before = [(tensor, tensor.detach().clone()) for tensor in state()]
        known = {id(tensor) for tensor, _ in before}
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                reset()
                self.cursor.zero_()
                super().once()
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
            for tensor in state():  # moments of the optimiser that the warm-up made
                if id(tensor) not in known:
                    tensor.zero_()
        reset()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            super().once()

    def once(self) -> None:
        self.graph.replay()
