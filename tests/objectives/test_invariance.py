from __future__ import annotations

import math

import pytest
import torch

from tests.objectives.test_contrastive import mean, pairs, slow_one_sided
from videoveil.errors import UsageError
from videoveil.objectives import temporal_invariance


@pytest.mark.parametrize(("count", "width"), [(2, 3), (8, 16)])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_both_forms_equal_the_slow_twin(count: int, width: int, tau: float) -> None:
    a, b = pairs(count, width)
    there = slow_one_sided(a.tolist(), b.tolist(), tau)
    back = slow_one_sided(b.tolist(), a.tolist(), tau)
    assert float(temporal_invariance(a, b, tau)) == pytest.approx(mean(there), rel=1e-9)
    assert float(temporal_invariance(a, b, tau, symmetric=True)) == pytest.approx(
        mean(there + back), rel=1e-9
    )
    assert mean(there) != pytest.approx(mean(back), rel=1e-3)  # so the two forms are told apart


def test_sum_is_the_equation_as_printed() -> None:
    a, b = pairs(5, 4)
    printed = sum(value for value in slow_one_sided(a.tolist(), b.tolist(), 0.1) if value is not None)
    assert float(temporal_invariance(a, b, reduction="sum")) == pytest.approx(printed, rel=1e-9)


def test_golden_values() -> None:
    same = torch.ones(4, 3, dtype=torch.float64)
    assert float(temporal_invariance(same, same)) == pytest.approx(math.log(7), rel=1e-9)
    apart = torch.eye(4, dtype=torch.float64)
    for symmetric in (False, True):
        found = float(temporal_invariance(apart, apart, symmetric=symmetric))
        assert found == pytest.approx(math.log(1 + 6 * math.exp(-10)), rel=1e-9)


def test_gradients_are_those_of_the_equation() -> None:
    views = [view.requires_grad_() for view in pairs(3, 4)]
    assert torch.autograd.gradcheck(lambda a, b: temporal_invariance(a, b, 0.5), views)


def test_misuse_is_named() -> None:
    a, b = pairs(3, 2)
    with pytest.raises(UsageError, match="reduction='none'"):
        temporal_invariance(a, b, reduction="none")  # type: ignore[arg-type]
