from __future__ import annotations

import pytest
import torch

from videoveil.errors import UsageError
from videoveil.objectives import l1_reconstruction, latent_consistency

H = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 2.0]])
G = torch.tensor([[1.0, 0.0, 3.0, 1.0], [1.0, 0.0, 0.0, 0.0]])


def test_golden_values() -> None:
    assert float(latent_consistency(H, G)) == (13 + 5) / 8
    assert float(latent_consistency(H, G, "sum")) == (13 + 5) / 2
    assert float(l1_reconstruction(H, G)) == (5 + 3) / 8


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (2, 5, 7)])
def test_both_reductions_equal_the_slow_twin(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(len(shape))
    h, g = torch.randn(2, *shape, generator=generator, dtype=torch.float64).unbind()
    rows = list(zip(h.reshape(-1, shape[-1]).tolist(), g.reshape(-1, shape[-1]).tolist()))
    distances = [sum((x - y) ** 2 for x, y in zip(*row)) for row in rows]
    slow = sum(distances) / len(distances)
    assert float(latent_consistency(h, g, "sum")) == pytest.approx(slow)
    assert float(latent_consistency(h, g, "mean")) == pytest.approx(slow / shape[-1])
    absolute = sum(abs(x - y) for row in rows for x, y in zip(*row)) / h.numel()
    assert float(l1_reconstruction(h, g)) == pytest.approx(absolute)


def test_a_step_down_brings_the_output_nearer_to_the_input() -> None:
    for loss in (latent_consistency, l1_reconstruction):
        g = G.clone().requires_grad_()
        loss(H, g).backward()
        assert g.grad is not None
        assert float((H - (G - 0.1 * g.grad)).norm()) < float((H - G).norm())


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match=r"\(2, 4\).*\(1, 4\)"):
        latent_consistency(H, G[:1])
    with pytest.raises(UsageError, match="not be empty"):
        l1_reconstruction(H[:0], G[:0])
    with pytest.raises(UsageError, match="reduction='none'"):
        latent_consistency(H, G, "none")  # type: ignore[arg-type]
