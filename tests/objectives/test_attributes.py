"""Supervised budgets: slow twins over a grid, unknown labels, and which way each aim pushes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives import attribute_loss, negative_entropy, strongest, uniform_target

GRID = [(1, 1), (3, 7), (8, 4)]
NAN = float("nan")


def scores(count: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits, and labels of which about a third are not known."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, width, generator=generator, dtype=torch.float64)
    labels = torch.randint(2, (count, width), generator=generator).double()
    unknown = torch.rand(count, width, generator=generator) < 1 / 3
    return logits, labels.masked_fill(unknown, NAN)


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def softmax(row: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def slow_loss(logits: Tensor, labels: Tensor) -> list[list[float]]:
    """The losses of every sample's known labels."""
    found = []
    for row, truths in zip(logits.tolist(), labels.tolist()):
        known = [(sigmoid(x), y) for x, y in zip(row, truths) if not math.isnan(y)]
        found.append([-y * math.log(p) - (1 - y) * math.log(1 - p) for p, y in known])
    return found


def slow_entropy(logits: Tensor, head: str) -> list[float]:
    found = []
    for row in logits.tolist():
        if head == "softmax":
            found.append(sum(p * math.log(p) for p in softmax(row)))
        else:
            each = [p * math.log(p) + (1 - p) * math.log(1 - p) for p in map(sigmoid, row)]
            found.append(sum(each) / len(each))
    return found


def slow_uniform(logits: Tensor, head: str) -> list[float]:
    found = []
    for row in logits.tolist():
        if head == "softmax":
            found.append(-sum(math.log(p) / len(row) for p in softmax(row)))
        else:
            found.append(sum(-(math.log(p) + math.log(1 - p)) / 2 for p in map(sigmoid, row)) / len(row))
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


@pytest.mark.parametrize(("count", "width"), GRID)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_equals_the_slow_twin(count: int, width: int, seed: int) -> None:
    logits, labels = scores(count, width, seed)
    rows = slow_loss(logits, labels)
    assert float(attribute_loss(logits, labels)) == pytest.approx(
        mean([x for row in rows for x in row]), rel=1e-9
    )
    assert attribute_loss(logits, labels, "sample").tolist() == pytest.approx(
        [mean(row) for row in rows], rel=1e-9
    )


@pytest.mark.parametrize(("count", "width"), GRID)
@pytest.mark.parametrize("head", ["sigmoid", "softmax"])
def test_both_aims_equal_their_slow_twins(count: int, width: int, head: Any) -> None:
    logits, _ = scores(count, width)
    for fast, slow in ((negative_entropy, slow_entropy), (uniform_target, slow_uniform)):
        expected = slow(logits, head)
        assert fast(logits, head, "sample").tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert float(fast(logits, head)) == pytest.approx(mean(expected), rel=1e-9, abs=1e-12)


def test_golden_values() -> None:
    blind = torch.zeros(2, 4)
    assert float(attribute_loss(blind, torch.ones(2, 4))) == pytest.approx(math.log(2))
    assert float(negative_entropy(blind)) == pytest.approx(-math.log(2))
    assert float(negative_entropy(blind, "softmax")) == pytest.approx(-math.log(4))
    assert float(uniform_target(blind)) == pytest.approx(math.log(2))
    assert float(uniform_target(blind, "softmax")) == pytest.approx(math.log(4))
    one = torch.tensor([[2.0, -1.0, 5.0]])
    assert float(attribute_loss(one, torch.tensor([[1.0, 1.0, NAN]]))) == pytest.approx(0.7200949, abs=1e-6)
    assert float(attribute_loss(one, torch.tensor([[1, 0, 1]]))) == pytest.approx(0.1489684, abs=1e-6)


def test_unknown_labels_get_no_gradient_and_nothing_known_is_0() -> None:
    logits = torch.tensor([[3.0, -2.0], [1.0, 4.0]], requires_grad=True)
    attribute_loss(logits, torch.tensor([[1.0, NAN], [NAN, 0.0]])).backward()
    assert logits.grad is not None
    assert (logits.grad != 0).tolist() == [[True, False], [False, True]]
    fresh = logits.detach().clone().requires_grad_()
    nothing = attribute_loss(fresh, torch.full((2, 2), NAN))
    nothing.backward()
    assert nothing.item() == 0
    assert fresh.grad is not None
    assert torch.equal(fresh.grad, torch.zeros_like(fresh))


def test_gradients_are_those_of_the_equations() -> None:
    logits, labels = scores(3, 4)
    logits.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: attribute_loss(x, labels), logits)
    for head in ("sigmoid", "softmax"):
        for aim in (negative_entropy, uniform_target):
            assert torch.autograd.gradcheck(lambda x, aim=aim, head=head: aim(x, head), logits)


@pytest.mark.parametrize("head", ["sigmoid", "softmax"])
@pytest.mark.parametrize("aim", [negative_entropy, uniform_target])
def test_a_step_down_either_aim_makes_the_network_less_certain(head: Any, aim: Any) -> None:
    logits, _ = scores(6, 5)
    logits.requires_grad_()
    aim(logits, head).backward()
    assert logits.grad is not None
    after = negative_entropy((logits - logits.grad).detach(), head)
    assert float(after) < float(negative_entropy(logits.detach(), head)) - 1e-4


@pytest.mark.parametrize("head", ["sigmoid", "softmax"])
def test_certain_networks_give_numbers(head: Any) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    (negative_entropy(logits, head) + uniform_target(logits, head)).backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())
    assert float(negative_entropy(logits.detach(), head)) == pytest.approx(
        -math.log(2) / 3 * (head == "sigmoid")
    )


def test_strongest_takes_for_every_sample_the_network_that_knows_most() -> None:
    certainty = torch.tensor([[1.0, -2.0, 0.0], [0.5, 3.0, -1.0]], requires_grad=True)
    value = strongest(certainty)
    assert value.item() == pytest.approx((1 + 3 + 0) / 3)
    value.backward()
    assert certainty.grad is not None
    assert (certainty.grad > 0).tolist() == [[True, False, True], [False, True, False]]


@pytest.mark.parametrize(("networks", "count"), [(1, 1), (4, 3), (2, 8)])
def test_strongest_equals_the_slow_twin_and_takes_losses_with_a_minus(networks: int, count: int) -> None:
    values = torch.randn(networks, count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    columns = list(zip(*values.tolist()))
    assert float(strongest(values)) == pytest.approx(mean([max(column) for column in columns]))
    assert float(-strongest(-values)) == pytest.approx(mean([min(column) for column in columns]))


def test_an_ensemble_of_one_is_that_network() -> None:
    logits, _ = scores(5, 3)
    alone = negative_entropy(logits, per="sample")[None]
    assert float(strongest(alone)) == pytest.approx(float(negative_entropy(logits)))


def test_autocast_and_half_precision_are_left_out() -> None:
    logits, labels = scores(6, 5)
    half = logits.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        found = [
            attribute_loss(half, labels.float()),
            negative_entropy(half),
            uniform_target(half, "softmax"),
        ]
    assert all(value.dtype == torch.float32 for value in found)
    exact = half.double()
    expected = [attribute_loss(exact, labels), negative_entropy(exact), uniform_target(exact, "softmax")]
    assert [float(x) for x in found] == pytest.approx([float(x) for x in expected], rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attribute_loss(torch.zeros(2, 3), torch.zeros(2, 2)), r"\(2, 2\).*\(2, 3\)"),
        (
            lambda: attribute_loss(torch.zeros(1, 2), torch.tensor([[0.0, -1.0]])),
            "NaN where they are not known",
        ),
        (lambda: attribute_loss(torch.zeros(1, 2), torch.tensor([[0, 2]])), r"\[0, 1\]"),
        (lambda: negative_entropy(torch.zeros(3)), r"\(N, K\)"),
        (lambda: negative_entropy(torch.zeros(1, 2), "tanh"), "head='tanh'"),  # type: ignore[arg-type]
        (lambda: uniform_target(torch.zeros(1, 2), per="row"), "per='row'"),  # type: ignore[arg-type]
        (lambda: strongest(torch.zeros(3)), r"\(networks, samples\)"),
    ],
)
def test_misuse_is_named(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()
