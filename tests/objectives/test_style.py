from __future__ import annotations

import pytest
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives import gram, noisy_features

SHAPES = [(2, 3, 4, 5, 5), (2, 4, 2, 3, 3)]


def maps(seed: int, shapes: list[tuple[int, ...]] | None = None) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes or SHAPES]


def slow_gram(features: Tensor) -> list[list[list[float]]]:
    found = []
    for sample in features.flatten(2).tolist():
        size = len(sample) * len(sample[0])
        found.append([[sum(x * y for x, y in zip(a, b)) / size for b in sample] for a in sample])
    return found


def mean_square(a: Tensor, b: Tensor) -> float:
    pairs = list(zip(a.flatten().tolist(), b.flatten().tolist()))
    return sum((x - y) ** 2 for x, y in pairs) / len(pairs)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (1, 2, 3, 4), (2, 3, 2, 3, 4)])
def test_gram_equals_the_slow_twin(shape: tuple[int, ...]) -> None:
    (features,) = maps(0, [shape])
    assert torch.allclose(gram(features), torch.tensor(slow_gram(features), dtype=torch.float64))


def test_gram_does_not_depend_on_the_size_of_the_map() -> None:
    (features,) = maps(0, [(1, 3, 4)])
    assert torch.allclose(gram(features), gram(features.repeat(1, 1, 5)))


def test_golden_values() -> None:
    features = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert gram(features).tolist() == [[[5 / 4, 11 / 4], [11 / 4, 25 / 4]]]
    zero = torch.zeros(1, 2, 2)
    found = noisy_features([features], [zero], [zero], [2.0], [4.0])
    assert float(found.content) == 2 * 30 / 4
    assert float(found.style) == 4 * (5**2 + 11**2 + 11**2 + 25**2) / 16 / 4
    assert float(found.total) == float(found.content) + float(found.style)


@pytest.mark.parametrize(("content", "style"), [((1.0, 0.5), (10.0, 2.0)), ((0.0, 1.0), (3.0, 0.0))])
@pytest.mark.parametrize("noise", [[(2, 3, 4, 5, 5), (2, 4, 2, 3, 3)], [(1, 3, 2, 2), (1, 4, 6)]])
def test_loss_equals_the_slow_twin(
    content: tuple[float, ...], style: tuple[float, ...], noise: list[tuple[int, ...]]
) -> None:
    ours, raw, other = maps(0), maps(1), maps(2, noise)
    found = noisy_features(ours, raw, other, content, style)
    expected = sum(a * mean_square(f, x) for a, f, x in zip(content, ours, raw))
    dress = 0.0
    for b, f, n in zip(style, ours, other):
        target = torch.tensor(slow_gram(n)).expand(len(f), -1, -1)
        dress += b * mean_square(torch.tensor(slow_gram(f)), target)
    assert float(found.content) == pytest.approx(expected, rel=1e-6)
    assert float(found.style) == pytest.approx(dress, rel=1e-5)


def test_only_the_anonymized_maps_get_gradient_and_a_step_down_brings_them_nearer_to_both() -> None:
    ours, raw, noise = ([one.requires_grad_() for one in maps(seed)] for seed in range(3))
    noisy_features(ours, raw, noise, [1, 1], [1, 1]).total.backward()
    assert all(one.grad is None for one in (*raw, *noise))
    moved = [one.detach() - 0.5 * one.grad for one in ours if one.grad is not None]
    with torch.no_grad():
        before = noisy_features(ours, raw, noise, [1, 1], [1, 1])
        after = noisy_features(moved, raw, noise, [1, 1], [1, 1])
    assert float(after.content) < float(before.content)
    assert float(after.style) < float(before.style)


def test_gradients_are_those_of_the_equation() -> None:
    (features,), (raw,), (noise,) = (maps(seed, [(2, 2, 3)]) for seed in range(3))
    features.requires_grad_()
    assert torch.autograd.gradcheck(lambda f: noisy_features([f], [raw], [noise], [1], [5]).total, features)


def test_autocast_does_not_reach_the_products() -> None:
    (features,) = (one.float() for one in maps(0, [(2, 8, 33)]))
    with torch.autocast("cpu", torch.bfloat16):
        found = gram(features)
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), gram(features.double()), rtol=1e-5, atol=1e-6)


def test_misuse_is_named() -> None:
    ours = maps(0)
    with pytest.raises(UsageError, match="at least one layer"):
        noisy_features(ours, ours[:1], ours, [1, 1], [1, 1])
    with pytest.raises(UsageError, match="weight -1"):
        noisy_features(ours, ours, ours, [1, -1], [1, 1])
    with pytest.raises(UsageError, match="one shape"):
        noisy_features(ours, ours[::-1], ours, [1, 1], [1, 1])
    with pytest.raises(UsageError, match="noise must be"):
        noisy_features(ours, ours, ours[::-1], [1, 1], [1, 1])
    with pytest.raises(UsageError, match=r"\(N, C, …\)"):
        gram(torch.zeros(2, 3))
