from __future__ import annotations

import pytest
import torch
from torch import Tensor

from videoveil.training.latent_graph import CapturedEpoch, PlannedEpoch


def test_steps_find_their_own_place_and_leave_their_terms_in_order() -> None:
    plan = torch.arange(4 * 5 * 3).view(4, 5, 3)
    epoch = PlannedEpoch(lambda choice: choice.sum(1)[:2].float(), 4, 3, 2, torch.device("cpu"))
    found = epoch.run(plan)
    assert torch.equal(found, plan.sum(2)[:, :2].float())
    again = epoch.run(plan.flip(0))
    assert torch.equal(again, found.flip(0))
    assert torch.equal(found, plan.sum(2)[:, :2].float())  # the first record is not written over


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_captured_epoch_changes_nothing_before_it_runs_and_the_same_afterwards() -> None:
    device = torch.device("cuda")
    plan = torch.arange(4 * 5 * 3, device=device).view(4, 5, 3)

    def fresh() -> tuple[Tensor, torch.optim.Optimizer]:
        weight = torch.ones(3, device=device, requires_grad=True)
        return weight, torch.optim.AdamW([weight], lr=0.1, capturable=True)

    def advance_of(weight: Tensor, optimizer: torch.optim.Optimizer):  # type: ignore[no-untyped-def]
        def advance(choice: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (weight * choice.float()).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()[None]

        return advance

    weight, optimizer = fresh()
    plain = PlannedEpoch(advance_of(weight, optimizer), 4, 3, 1, device).run(plan)

    other, second = fresh()

    def state() -> list[Tensor]:
        return [other, *(t for row in second.state.values() for t in row.values())]

    captured = CapturedEpoch(
        advance_of(other, second), 4, 3, 1, device, first_plan=plan, state=state, reset=second.zero_grad
    )
    assert torch.equal(other, torch.ones_like(other))
    assert torch.allclose(captured.run(plan), plain, rtol=1e-5)
    assert torch.allclose(other, weight, rtol=1e-5)
