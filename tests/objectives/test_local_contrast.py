"""LLTC: a slow twin that goes video by video, golden values, and nothing that crosses from one video to another."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.objectives.test_contrastive import mean, slow_one_sided
from videoveil.errors import UsageError
from videoveil.objectives import local_temporal_contrast


def moments(videos: int, count: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, videos, count, width, generator=generator, dtype=torch.float64).unbind()


def slow(z1: Tensor, z2: Tensor, tau: float) -> float:
    each = []
    for one, two in zip(z1.tolist(), z2.tolist()):
        each.append(mean(slow_one_sided(one, two, tau) + slow_one_sided(two, one, tau)))
    return sum(each) / len(each)


@pytest.mark.parametrize("videos", [1, 2, 5])
@pytest.mark.parametrize(("count", "width"), [(2, 3), (4, 8), (7, 2)])
@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_it_equals_the_slow_twin(videos: int, count: int, width: int, tau: float) -> None:
    z1, z2 = moments(videos, count, width)
    assert float(local_temporal_contrast(z1, z2, tau)) == pytest.approx(slow(z1, z2, tau), rel=1e-9)


def test_golden_values() -> None:
    same = torch.ones(3, 4, 8)
    assert float(local_temporal_contrast(same, same)) == pytest.approx(math.log(7), rel=1e-6)
    apart = torch.eye(4, dtype=torch.float64)[None]  # orthonormal moments, the same under both augmentations
    assert float(local_temporal_contrast(apart, apart)) == pytest.approx(
        math.log(1 + 6 * math.exp(-10)), rel=1e-9
    )


def test_another_video_changes_nothing_in_this_one() -> None:
    z1, z2 = moments(2, 4, 6)
    alone = [float(local_temporal_contrast(z1[i : i + 1], z2[i : i + 1])) for i in range(2)]
    assert float(local_temporal_contrast(z1, z2)) == pytest.approx(sum(alone) / 2, rel=1e-12)
    z1.requires_grad_()
    local_temporal_contrast(z1, z2).backward()
    together = z1.grad
    assert together is not None
    one = z1.detach()[:1].clone().requires_grad_()
    local_temporal_contrast(one, z2[:1]).backward()
    assert one.grad is not None
    assert torch.allclose(together[:1], one.grad / 2, atol=1e-12)


def test_gradients_are_those_of_the_equation() -> None:
    views = [view.requires_grad_() for view in moments(2, 3, 4)]
    assert torch.autograd.gradcheck(lambda a, b: local_temporal_contrast(a, b, 0.5), views)


def test_autocast_and_half_precision_are_left_out() -> None:
    z1, z2 = (view.to(torch.bfloat16) for view in moments(3, 4, 8))
    with torch.autocast("cpu", torch.bfloat16):
        loss = local_temporal_contrast(z1, z2)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(slow(z1.double(), z2.double(), 0.1), rel=1e-5)


def test_misuse_is_named() -> None:
    z1, z2 = moments(2, 4, 6)
    with pytest.raises(UsageError, match=r"\(N, T, d\)"):
        local_temporal_contrast(z1[0], z2[0])
    with pytest.raises(UsageError, match="1 moments"):
        local_temporal_contrast(z1[:, :1], z2[:, :1])
    with pytest.raises(UsageError, match="temperature=0"):
        local_temporal_contrast(z1, z2, 0)
