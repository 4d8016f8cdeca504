"""NT-Xent: golden values, a slow twin over a grid, its known values and bounds, and which way it pushes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives import budget_ceiling, budget_guard, nt_xent

A = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
B = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])


def pairs(count: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, width, generator=generator, dtype=torch.float64).unbind()


def cosine(u: list[float], v: list[float]) -> float:
    return sum(x * y for x, y in zip(u, v)) / math.sqrt(sum(x * x for x in u) * sum(y * y for y in v))


def slow_one_sided(
    a: list[list[float]], b: list[list[float]], tau: float, groups: list[int] | None = None
) -> list[float | None]:
    """Eq. 5 as it is printed, anchor by anchor; None for an anchor alone in its group."""
    found: list[float | None] = []
    for i in range(len(a)):
        denominator, candidates = 0.0, 0
        for j in range(len(a)):
            if groups is not None and groups[j] != groups[i]:
                continue
            if j != i:
                denominator += math.exp(cosine(a[i], a[j]) / tau)
                candidates += 1
            denominator += math.exp(cosine(a[i], b[j]) / tau)
            candidates += 1
        loss = -math.log(math.exp(cosine(a[i], b[i]) / tau) / denominator)
        found.append(loss if candidates > 1 else None)
    return found


def mean(values: list[float | None]) -> float:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else 0.0


@pytest.mark.parametrize(("tau", "value"), [(0.1, 0.3472107), (0.5, 0.5359694), (1.0, 0.7326024)])
def test_golden_values(tau: float, value: float) -> None:
    assert float(nt_xent(A, B, tau)) == pytest.approx(value, abs=2e-7)
    assert float(nt_xent(B, A, tau)) == pytest.approx(value, abs=2e-7)


grid = pytest.mark.parametrize(("count", "width"), [(2, 1), (3, 4), (8, 16)])


@grid
@pytest.mark.parametrize("tau", [0.07, 0.1, 1.0])
def test_both_forms_equal_the_slow_twin(count: int, width: int, tau: float) -> None:
    a, b = pairs(count, width)
    forward = slow_one_sided(a.tolist(), b.tolist(), tau)
    backward = slow_one_sided(b.tolist(), a.tolist(), tau)
    assert float(nt_xent(a, b, tau, symmetric=False)) == pytest.approx(mean(forward), rel=1e-9)
    assert float(nt_xent(a, b, tau)) == pytest.approx(mean(forward + backward), rel=1e-9)


@pytest.mark.parametrize("groups", [[0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 2], [0, 1, 2, 3, 4, 5]])
def test_groups_equal_the_slow_twin(groups: list[int]) -> None:
    a, b = pairs(6, 5)
    slow = slow_one_sided(a.tolist(), b.tolist(), 0.2, groups) + slow_one_sided(
        b.tolist(), a.tolist(), 0.2, groups
    )
    assert float(nt_xent(a, b, 0.2, groups=torch.tensor(groups))) == pytest.approx(mean(slow), rel=1e-9)


def test_where_all_are_alone_in_their_group_value_and_gradient_are_0() -> None:
    a, b = pairs(3, 4)
    a.requires_grad_()
    loss = nt_xent(a, b, groups=torch.arange(3))
    loss.backward()
    assert loss.item() == 0
    assert a.grad is not None
    assert torch.equal(a.grad, torch.zeros_like(a))


def test_what_a_group_shares_does_not_help_inside_it() -> None:
    """A big common vector per action makes partners easy to find among all videos, and no easier among its own."""
    a, b = pairs(32, 64)
    action = torch.arange(32) % 4
    shared = 20 * torch.randn(4, 64, generator=torch.Generator().manual_seed(9), dtype=torch.float64)[action]
    assert float(nt_xent(a + shared, b + shared)) < float(nt_xent(a, b)) - 1
    inside = float(nt_xent(a + shared, b + shared, groups=action))
    assert inside == pytest.approx(math.log(2 * 8 - 1), abs=0.1)  # nothing to be told


def test_identical_pairs_are_found() -> None:
    a, _ = pairs(512, 768)
    assert float(nt_xent(a, a)) == pytest.approx(0.05, abs=0.02)


def test_unrelated_and_anti_aligned_pairs() -> None:
    a, b = pairs(512, 768)
    assert float(nt_xent(a, b)) == pytest.approx(6.99, abs=0.05)
    assert float(nt_xent(a, -a)) == pytest.approx(17, abs=0.3)


@pytest.mark.parametrize("count", [2, 5, 512])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_equal_vectors_give_the_ceiling(count: int, tau: float) -> None:
    same = torch.ones(count, 3)
    assert float(nt_xent(same, 2 * same, tau)) == pytest.approx(math.log(2 * count - 1), rel=1e-6)
    assert budget_ceiling(count) == math.log(2 * count - 1)


@given(
    count=st.integers(2, 9),
    width=st.integers(1, 6),
    tau=st.floats(0.05, 2),
    seed=st.integers(0, 10**6),
    opposite=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_value_is_between_0_and_its_bound(
    count: int, width: int, tau: float, seed: int, opposite: bool
) -> None:
    a, b = pairs(count, width, seed)
    value = float(nt_xent(a, -a if opposite else b, tau))
    assert 0 <= value <= 2 / tau + math.log(2 * count - 1) + 1e-9  # 0 where the float is too short for more


@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100))
@settings(max_examples=30, deadline=None)
def test_order_and_length_of_vectors_do_not_matter(seed: int, scale: float) -> None:
    a, b = pairs(6, 5, seed)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    assert float(nt_xent(scale * a[order], b[order])) == pytest.approx(float(nt_xent(a, b)), rel=1e-9)


def test_one_step_up_the_budget_lowers_the_cosine_of_pairs() -> None:
    a, noise = pairs(64, 32)
    b = a + 0.3 * noise
    views = torch.stack((a, b)).requires_grad_()
    before = torch.cosine_similarity(*views.detach()).mean()
    (-nt_xent(*views)).backward()
    assert views.grad is not None
    step = views.grad / views.grad.norm()  # where pairs are found at once the gradient is small
    after = torch.cosine_similarity(*(views.detach() - step)).mean()
    assert float(after) < float(before) - 1e-3


def test_one_step_of_an_adapter_up_the_budget_lowers_the_cosine_of_pairs() -> None:
    """The first half of the channels is the video's, the second half the frame's: the adapter can trade them."""
    generator = torch.Generator().manual_seed(0)
    video = torch.randn(64, 16, generator=generator, dtype=torch.float64)
    frames = torch.randn(2, 64, 16, generator=generator, dtype=torch.float64)
    a, b = (torch.cat((video, 0.5 * frame), 1) for frame in frames)
    weight = torch.eye(32, dtype=torch.float64, requires_grad=True)
    before = torch.cosine_similarity(a, b).mean()
    (-nt_xent(a @ weight, b @ weight)).backward()
    assert weight.grad is not None
    moved = weight.detach() - 0.05 * weight.grad
    after = torch.cosine_similarity(a @ moved, b @ moved).mean()
    assert float(after) < float(before) - 1e-3


def test_the_guard_keeps_the_value_and_stops_the_gradient_above_the_ceiling() -> None:
    a, _ = pairs(8, 4)
    for other, stopped in ((a.clone(), False), (-a, True)):
        free = a.clone().requires_grad_()
        value = nt_xent(free, other, margin=0.5)
        assert value.item() == nt_xent(a, other).item()
        value.backward()
        assert free.grad is not None
        assert bool((free.grad == 0).all()) == stopped
    unguarded = a.clone().requires_grad_()
    nt_xent(unguarded, -a).backward()
    assert unguarded.grad is not None
    assert not bool((unguarded.grad == 0).all())


def test_the_guard_of_groups_knows_their_own_ceiling() -> None:
    """ln(2·2−1) = 1.1 inside groups of two; the ceiling of all eight, 2.7, would let anti-aligned pairs go on."""
    a = torch.ones(8, 3) + 0.1 * pairs(8, 3)[0].float()
    a.requires_grad_()
    loss = nt_xent(a, -a.detach(), 10.0, groups=torch.arange(8) // 2, margin=0.05)
    assert math.log(3) + 0.05 < loss.item() < math.log(15)
    loss.backward()
    assert a.grad is not None
    assert bool((a.grad == 0).all())


def test_a_zero_vector_gives_numbers() -> None:
    a, b = pairs(4, 3)
    a[0] = 0
    a.requires_grad_()
    loss = nt_xent(a, b)
    loss.backward()
    assert math.isfinite(loss.item())
    assert a.grad is not None
    assert bool(a.grad.isfinite().all())


def test_half_precision_views_are_compared_in_float32() -> None:
    a, b = (view.to(torch.bfloat16) for view in pairs(16, 8))
    loss = nt_xent(a, b)
    assert loss.dtype == torch.float32
    assert float(loss) == pytest.approx(float(nt_xent(a.double(), b.double())), rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nt_xent(A, B[:1]), r"\(2, 2\) and \(1, 2\)"),
        (lambda: nt_xent(A[:1], B[:1]), "at least 2"),
        (lambda: nt_xent(A[None], B[None]), r"\(N, d\)"),
        (lambda: nt_xent(A, B, 0.0), "temperature=0.0"),
        (lambda: nt_xent(A, B, groups=torch.zeros(3)), r"groups must be \(2,\)"),
        (lambda: budget_guard(torch.ones(()), 1.0, -1.0), "margin=-1.0"),
    ],
)
def test_misuse_is_named(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(UsageError, match=message):
        call()
