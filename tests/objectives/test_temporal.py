"""The temporal budget: blind to appearance and to the action, sensitive to what else two moving clips share."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives import moving_residual, nt_xent, temporal_budget

VIDEOS, REFERENCES, WIDTH = 48, 4, 64


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scene(gait: float, action: float = 0.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Two clips and their references of videos with a strong appearance, a shift of moving clips, gait and action."""
    appearance, shift = 10 * normal(VIDEOS, 1, WIDTH, seed=0), 5 * normal(WIDTH, seed=1)
    actions = torch.arange(VIDEOS) % 4
    moves = gait * normal(VIDEOS, WIDTH, seed=2) + action * normal(4, WIDTH, seed=3)[actions]
    clips = [appearance[:, 0] + shift + moves + normal(VIDEOS, WIDTH, seed=4 + k) for k in range(2)]
    references = [appearance + normal(VIDEOS, REFERENCES, WIDTH, seed=6 + k) for k in range(2)]
    return clips[0], clips[1], references[0], references[1], actions


def test_the_residual_is_the_clip_minus_the_mean_of_its_references_without_their_gradient() -> None:
    clip, reference = normal(3, 4, seed=0).requires_grad_(), normal(3, 2, 4, seed=1).requires_grad_()
    residual = moving_residual(clip, reference)
    for i in range(3):
        for c in range(4):
            mean = (float(reference[i, 0, c].detach()) + float(reference[i, 1, c].detach())) / 2
            assert residual[i, c].item() == pytest.approx(clip[i, c].item() - mean, abs=1e-6)
    residual.sum().backward()
    assert clip.grad is not None
    assert reference.grad is None


def test_appearance_and_the_shift_of_moving_clips_have_no_part_in_it() -> None:
    first, second, r1, r2, _ = scene(gait=0)
    assert float(nt_xent(first, second)) < 0.2  # found by appearance alone
    assert float(temporal_budget(first, second, r1, r2)) > math.log(2 * VIDEOS - 1) - 0.3


def test_a_gait_that_two_clips_share_is_seen() -> None:
    quiet = float(temporal_budget(*scene(gait=0)[:4]))
    loud = float(temporal_budget(*scene(gait=3)[:4]))
    assert loud < quiet - 3


def test_the_action_counts_unless_it_is_told() -> None:
    first, second, r1, r2, actions = scene(gait=0, action=5)
    assert float(temporal_budget(first, second, r1, r2)) < math.log(2 * VIDEOS - 1) - 1
    inside = float(temporal_budget(first, second, r1, r2, actions=actions))
    assert inside == pytest.approx(math.log(2 * VIDEOS / 4 - 1), abs=0.3)


def test_a_reference_shared_by_both_clips_makes_a_bond_that_is_not_there() -> None:
    first, second, r1, r2, _ = scene(gait=0)
    single = r1[:, :1]
    assert float(temporal_budget(first, second, single, single)) < float(
        temporal_budget(first, second, single, r2[:, :1]) - 1
    )


def test_a_step_up_lowers_the_similarity_of_residuals() -> None:
    first, second, r1, r2, _ = scene(gait=3)
    first.requires_grad_()
    (-temporal_budget(first, second, r1, r2)).backward()
    assert first.grad is not None

    def alike(clip: Tensor) -> float:
        one, two = moving_residual(clip, r1), moving_residual(second, r2)
        return float(torch.cosine_similarity(one - one.mean(0), two - two.mean(0)).mean())

    step = 10 * first.grad / first.grad.norm()
    assert alike(first.detach() - step) < alike(first.detach()) - 1e-3


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match=r"\(3, 4\) and \(3, 4\)"):
        moving_residual(normal(3, 4, seed=0), normal(3, 4, seed=0))
    with pytest.raises(UsageError, match="K ≥ 1"):
        moving_residual(normal(3, 4, seed=0), torch.empty(3, 0, 4))
