"""The leash: its value against a slow twin, and a gradient that is there if and only if RMS > B."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from videoveil.errors import UsageError
from videoveil.objectives import above_bound, feature_penalty, rms, rms_penalty

BOUNDS = (0.3, 0.5, 0.7, 0.9)


def clips(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    return torch.rand(2, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).unbind()


def slow_rms(x: Tensor, y: Tensor) -> float:
    squares = [(a - b) ** 2 for a, b in zip(x.flatten().tolist(), y.flatten().tolist())]
    return math.sqrt(sum(squares) / len(squares))


@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 4, 5, 6), (7, 16)])
@pytest.mark.parametrize("bound", [0.0, 0.1, *BOUNDS])
def test_distance_and_penalty_equal_their_slow_twins(shape: tuple[int, ...], bound: float) -> None:
    x, y = clips(shape)
    assert float(rms(x, y)) == pytest.approx(slow_rms(x, y), rel=1e-12)
    expected = pytest.approx(max(0.0, slow_rms(x, y) - bound), rel=1e-9, abs=1e-15)
    for penalty in (rms_penalty, feature_penalty):
        assert float(penalty(x, y, bound)) == expected
        assert float(penalty(x, y, bound, differentiable=False)) == expected


def test_golden_values() -> None:
    x, y = torch.zeros(1, 3, 2, 2, 2), torch.full((1, 3, 2, 2, 2), 0.75)
    assert float(rms(x, y)) == 0.75
    assert float(rms_penalty(x, y, 0.5)) == 0.25
    assert float(rms_penalty(x, y, 0.75)) == 0.0
    assert float(rms(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 1.0]))) == pytest.approx(math.sqrt(5))


def test_a_whole_batch_of_clips_does_not_lose_digits() -> None:
    x = torch.zeros(2, 3, 16, 112, 112)
    assert float(rms(x, torch.full_like(x, 0.3))) == pytest.approx(0.3, rel=1e-6)


@given(distance=st.floats(0.01, 0.99), bound=st.sampled_from(BOUNDS))
@settings(max_examples=40, deadline=None)
def test_gradient_is_there_if_and_only_if_the_distance_is_above_the_bound(
    distance: float, bound: float
) -> None:
    """θ_A is the brightness of an anonymizer that paints everything in one grey over black clips: RMS = θ_A."""
    theta = torch.tensor(distance, dtype=torch.float64, requires_grad=True)
    clip = torch.zeros(1, 3, 2, 4, 4, dtype=torch.float64)
    rms_penalty(clip, theta.expand_as(clip), bound).backward()
    assert theta.grad is not None
    assert float(theta.grad) == pytest.approx(1.0 if distance > bound else 0.0)


def test_released_form_has_the_value_and_no_gradient() -> None:
    network = nn.Conv2d(3, 3, 1)
    frames = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    ours = rms_penalty(frames, network(frames), 0.0)
    released = rms_penalty(frames, network(frames), 0.0, differentiable=False)
    assert released.item() == ours.item() > 0
    assert not released.requires_grad
    ours.backward()
    assert all(p.grad is not None and bool((p.grad != 0).any()) for p in network.parameters())


def test_gradients_are_those_of_the_equation() -> None:
    x, y = clips((2, 3, 2))
    assert torch.autograd.gradcheck(lambda z: rms_penalty(x, z, 0.1), y.requires_grad_())


@pytest.mark.parametrize("differentiable", [True, False])
def test_where_nothing_has_changed_the_gradient_is_a_number(differentiable: bool) -> None:
    x = torch.rand(2, 3, 4, 4, 4)
    y = x.clone().requires_grad_()
    loss = rms(x, y) + rms_penalty(x, y, 0.0, differentiable=differentiable)
    loss.backward()
    assert loss.item() == 0
    assert y.grad is not None
    assert torch.equal(y.grad, torch.zeros_like(y))


def test_only_the_anonymized_side_is_pulled() -> None:
    x, y = (view.requires_grad_() for view in clips((3, 4)))
    feature_penalty(x, y, 0.0).backward()
    assert x.grad is None
    assert y.grad is not None
    with torch.no_grad():
        assert float(rms(x, y - 0.1 * y.grad)) < float(rms(x, y))


def test_autocast_and_half_precision_are_left_out() -> None:
    x, y = (view.to(torch.bfloat16) for view in clips((2, 3, 4, 8, 8)))
    with torch.autocast("cpu", torch.bfloat16):
        found = rms_penalty(x, y, 0.1)
    assert found.dtype == torch.float32
    assert float(found) == pytest.approx(slow_rms(x.double(), y.double()) - 0.1, rel=1e-5)


@pytest.mark.parametrize("bound", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("penalty", [rms_penalty, feature_penalty])
def test_parts_of_a_batch_pay_for_the_whole_of_it(penalty: Callable[..., Tensor], bound: float) -> None:
    """As of two processes: each has the other's mean square beside its own."""
    x, y = clips((4, 3, 2))
    y[2:] = x[2:] + 0.3 * (y[2:] - x[2:])
    whole = y.clone().requires_grad_()
    expected = penalty(x, whole, bound)
    expected.backward()
    halves = [y[:2].clone().requires_grad_(), y[2:].clone().requires_grad_()]
    squares = [(x[:2] - halves[0]).square().mean(), (x[2:] - halves[1]).square().mean()]
    for part in (0, 1):

        def gather(mine: Tensor, part: int = part) -> Tensor:
            other = squares[1 - part].detach().view(1)
            return torch.cat((mine, other) if part == 0 else (other, mine))

        found = penalty(x[2 * part : 2 * part + 2], halves[part], bound, gather=gather)
        assert found.item() == pytest.approx(expected.item(), rel=1e-12)
        found.backward()
        assert torch.allclose(halves[part].grad, whole.grad[2 * part : 2 * part + 2])  # type: ignore[arg-type,index]


def test_a_gather_of_one_process_changes_no_bit() -> None:
    x, y = (view.float() for view in clips((3, 3, 4, 7, 7)))
    for gather in (None, lambda rows: rows):
        part = y.clone().requires_grad_()
        loss = rms_penalty(x, part, 0.05, gather=gather)
        loss.backward()
        if gather is None:
            alone = (loss.detach(), part.grad)
    assert torch.equal(loss.detach(), alone[0])
    assert torch.equal(part.grad, alone[1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rms(torch.zeros(2), torch.zeros(3)), r"\(2,\) and \(3,\)"),
        (lambda: rms(torch.zeros(0), torch.zeros(0)), "not be empty"),
        (lambda: above_bound(torch.zeros(()), -0.1), "bound=-0.1"),
        (lambda: above_bound(torch.zeros(()), float("nan")), "bound=nan"),
    ],
)
def test_misuse_is_named(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()
