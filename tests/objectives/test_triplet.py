"""TeD-SPAD's triplet: golden values, a slow twin over a grid, torch's own loss, and gradients that are numbers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives import temporal_triplet

Z = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
SAME = torch.tensor([[3.0, 4.0], [1.0, 0.5]])
OTHER = torch.tensor([[0.0, 2.0], [1.0, 8.0]])


def triplets(count: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    one, two, three = torch.randn(3, count, width, generator=generator, dtype=torch.float64).unbind()
    return one, two, three


def slow(z: Tensor, same: Tensor, other: Tensor, margin: float) -> float:
    """L_D as printed, video by video, channel by channel."""
    total = 0.0
    for a, p, n in zip(z.tolist(), same.tolist(), other.tolist()):
        near = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, p)))
        far = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, n)))
        total += max(near - far + margin, 0.0)
    return total / len(z)


@pytest.mark.parametrize(
    ("margin", "value"), [(0.5, (3.5 + 0) / 2), (1.0, (4 + 0) / 2), (9.0, (12 + 1.5) / 2)]
)
def test_golden_values(margin: float, value: float) -> None:
    """Distances 5 and 2 in the first video, 0.5 and 8 in the second."""
    assert float(temporal_triplet(Z, SAME, OTHER, margin)) == value


@pytest.mark.parametrize(("count", "width"), [(1, 1), (3, 4), (8, 128)])
@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("unit", [True, False])
def test_it_equals_the_slow_twin_and_torchs_loss(count: int, width: int, margin: float, unit: bool) -> None:
    views = triplets(count, width)
    if unit:
        views = tuple(torch.nn.functional.normalize(view, dim=1) for view in views)  # type: ignore[assignment]
    found = temporal_triplet(*views, margin)
    assert float(found) == pytest.approx(slow(*views, margin), rel=1e-12)
    exact = torch.nn.TripletMarginLoss(margin, p=2, eps=0)(*views)  # usually it adds 1e-6 to every channel
    assert float(found) == pytest.approx(float(exact), rel=1e-12)
    assert float(found) == pytest.approx(float(torch.nn.TripletMarginLoss(margin)(*views)), abs=1e-4)


@pytest.mark.parametrize("margin", [0.5, 1.0, 2.0])
def test_where_all_three_are_equal_the_value_is_the_margin_and_the_gradient_a_number(margin: float) -> None:
    views = [torch.ones(4, 8).requires_grad_() for _ in range(3)]
    loss = temporal_triplet(*views, margin)
    assert loss.item() == margin
    loss.backward()
    assert all(view.grad is not None and bool(view.grad.isfinite().all()) for view in views)


def test_gradients_are_those_of_the_equation() -> None:
    views = [view.requires_grad_() for view in triplets(5, 3)]
    assert torch.autograd.gradcheck(lambda *v: temporal_triplet(*v, 3.0), views)


def test_a_step_down_draws_the_same_moment_near_and_pushes_the_other_away() -> None:
    z, same, other = (view.requires_grad_() for view in triplets(6, 4))
    temporal_triplet(z, same, other, 20.0).backward()
    assert same.grad is not None
    assert other.grad is not None
    with torch.no_grad():
        assert float((z - (same - 0.1 * same.grad)).norm()) < float((z - same).norm())
        assert float((z - (other - 0.1 * other.grad)).norm()) > float((z - other).norm())


@given(seed=st.integers(0, 10**6), width=st.integers(1, 6), margin=st.floats(0.01, 4))
@settings(max_examples=40, deadline=None)
def test_unit_vectors_keep_it_between_0_and_2_above_the_margin(seed: int, width: int, margin: float) -> None:
    views = [torch.nn.functional.normalize(view, dim=1) for view in triplets(4, width, seed)]
    assert 0 <= float(temporal_triplet(*views, margin)) <= 2 + margin + 1e-9


def test_autocast_and_half_precision_are_left_out() -> None:
    views = [view.to(torch.bfloat16) for view in triplets(8, 16)]
    with torch.autocast("cpu", torch.bfloat16):
        loss = temporal_triplet(*views)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(slow(*(view.double() for view in views), 1.0), rel=1e-6)


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match=r"\(2, 2\), \(2, 2\) and \(1, 2\)"):
        temporal_triplet(Z, SAME, OTHER[:1])
    with pytest.raises(UsageError, match="not be empty"):
        temporal_triplet(Z[:0], SAME[:0], OTHER[:0])
    with pytest.raises(UsageError, match="margin=-1"):
        temporal_triplet(Z, SAME, OTHER, -1)
