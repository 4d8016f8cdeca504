from __future__ import annotations

import pytest
import torch

from videoveil.errors import UsageError
from videoveil.objectives import SplavuWeights, latent_consistency, nt_xent, splavu_total, utility


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value)


def test_the_total_is_equation_7_with_the_papers_weights() -> None:
    tasks = {"AR": scalar(1.5), "TAD": scalar(0.5), "AD": scalar(0.25)}
    found = splavu_total(scalar(0.02), tasks, scalar(6.0))
    assert float(found.total) == pytest.approx(100 * 0.02 + (1.5 + 0.5 + 0.25) - 6.0)
    assert found.values() == pytest.approx(
        {"total": -1.75, "consistency": 0.02, "utility": 2.25, "budget": 6.0, "temporal": 0.0}
    )


@pytest.mark.parametrize("weights", [(0, 1, 1, 0), (10, 0, 3, 0), (1000, 2, 0, 0.5), (0, 0, 0, 0)])
def test_every_weight_counts(weights: tuple[float, ...]) -> None:
    terms = (0.3, 0.7, 2.0, 4.0)
    expected = weights[0] * 0.3 + weights[1] * 0.7 - weights[2] * 2.0 - weights[3] * 4.0
    found = splavu_total(
        scalar(terms[0]),
        {"AR": scalar(terms[1])},
        scalar(terms[2]),
        SplavuWeights(*weights),
        temporal=scalar(terms[3]),
    )
    assert float(found.total) == pytest.approx(expected)


def test_tasks_have_weights_of_their_own_and_any_may_be_absent() -> None:
    tasks = {"AR": scalar(1.0), "AD": scalar(float("nan"))}
    assert float(utility(tasks, {"AD": 0.0})) == 1.0
    assert float(utility({})) == 0.0
    with pytest.raises(UsageError, match="TAD"):
        utility(tasks, {"TAD": 1.0})


def test_a_term_of_weight_0_cannot_spoil_the_total() -> None:
    found = splavu_total(scalar(1.0), {}, scalar(float("nan")), SplavuWeights(budget=0))
    assert float(found.total) == 100


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(UsageError, match=r"budget=-1.*sign"):
        SplavuWeights(budget=-1)
    with pytest.raises(UsageError, match="AR=nan"):
        SplavuWeights(tasks={"AR": float("nan")})


def test_heads_get_gradient_from_their_task_alone_and_the_adapter_from_everything() -> None:
    torch.manual_seed(0)
    adapter, head = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
    clips, a, b = torch.randn(3, 5, 6).unbind()
    labels = torch.tensor([0, 1, 2, 0, 1])

    def gradient(weights: SplavuWeights) -> tuple[bool, bool]:
        adapter.zero_grad()
        head.zero_grad()
        g = adapter(clips)
        tasks = {"AR": torch.nn.functional.cross_entropy(head(g), labels)}
        found = splavu_total(latent_consistency(clips, g), tasks, nt_xent(adapter(a), adapter(b)), weights)
        found.total.backward()
        return tuple(m.weight.grad is not None and bool(m.weight.grad.any()) for m in (adapter, head))  # type: ignore[return-value]

    assert gradient(SplavuWeights(100, 0, 0)) == (True, False)
    assert gradient(SplavuWeights(0, 0, 1)) == (True, False)
    assert gradient(SplavuWeights(0, 1, 0)) == (True, True)
