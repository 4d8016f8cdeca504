from __future__ import annotations

from itertools import product

import pytest
import torch

from videoveil.errors import UsageError
from videoveil.objectives import PixelWeights, anonymizer_total, clip_utility

UTILITY, BUDGET, PENALTY = (torch.tensor(value) for value in (2.0, 3.0, 0.25))


def test_golden_values() -> None:
    found = anonymizer_total(UTILITY, BUDGET, PENALTY)
    assert found.values() == {"total": 2 - 3 + 0.25, "utility": 2.0, "budget": 3.0, "penalty": 0.25}
    assert anonymizer_total(UTILITY, BUDGET).values() == {
        "total": -1.0,
        "utility": 2.0,
        "budget": 3.0,
        "penalty": 0.0,
    }
    assert float(clip_utility(UTILITY, BUDGET)) == pytest.approx(2 + 0.1 * 3)
    assert clip_utility(UTILITY) is UTILITY


@pytest.mark.parametrize(("w_t", "w_b", "leash"), list(product((0.0, 0.7, 1.0), (0.0, 1.0, 2.0), (0.0, 5.0))))
def test_total_is_the_equation(w_t: float, w_b: float, leash: float) -> None:
    weights = PixelWeights(utility=w_t, budget=w_b, penalty=leash)
    found = float(anonymizer_total(UTILITY, BUDGET, PENALTY, weights).total)
    assert found == pytest.approx(w_t * 2 - w_b * 3 + leash * 0.25)


def test_gradients_are_the_signed_weights() -> None:
    terms = [torch.tensor(value, requires_grad=True) for value in (2.0, 3.0, 0.25)]
    anonymizer_total(*terms, PixelWeights(0.7, 1.5, 0.1, 4.0)).total.backward()
    assert [float(term.grad) for term in terms if term.grad is not None] == pytest.approx([0.7, -1.5, 4.0])


def test_a_term_of_weight_0_cannot_spoil_the_total() -> None:
    nothing = torch.tensor(float("nan"))
    assert float(anonymizer_total(UTILITY, nothing, PENALTY, PixelWeights(budget=0)).total) == 2.25
    assert float(anonymizer_total(UTILITY, BUDGET, nothing, PixelWeights(penalty=0)).total) == -1
    assert float(clip_utility(UTILITY, nothing, PixelWeights(temporal=0))) == 2
    assert float(anonymizer_total(UTILITY, BUDGET, weights=PixelWeights(0, 0, 0, 0)).total) == 0


@pytest.mark.parametrize("name", ["utility", "budget", "temporal", "penalty"])
@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_none_are_refused(name: str, weight: float) -> None:
    with pytest.raises(UsageError, match=name):
        PixelWeights(**{name: weight})
