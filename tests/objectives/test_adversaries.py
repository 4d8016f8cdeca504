from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from videoveil.errors import UsageError
from videoveil.objectives import nt_xent
from videoveil.objectives.adversaries import FLAT, Adversaries, Adversary, adversary_loss, worst_adversary

WIDTH, COUNT, OUT = 12, 16, 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def adversary(seed: int = 0) -> Adversary:
    made = Adversary(WIDTH, OUT)
    made.begin(torch.Generator().manual_seed(seed))
    return made


def slow_projection(head: Adversary, a: Tensor, b: Tensor) -> tuple[list[list[float]], list[list[float]]]:
    """Channel by channel, row by row, in plain numbers."""
    rows = [*a.tolist(), *b.tolist()]
    columns = list(zip(*rows))
    means = [sum(c) / len(c) for c in columns]
    variances = [sum((v - m) ** 2 for v in c) / len(c) for c, m in zip(columns, means)]
    floor = FLAT * sum(variances) / len(variances)
    out = []
    for row in rows:
        x = [(v - m) / math.sqrt(s + floor) for v, m, s in zip(row, means, variances)]
        hidden = [
            max(0.0, sum(w * v for w, v in zip(line, x)) + c)
            for line, c in zip(head.first.weight.tolist(), head.first.bias.tolist())
        ]
        out.append(
            [
                sum(w * v for w, v in zip(line, hidden)) + c
                for line, c in zip(head.second.weight.tolist(), head.second.bias.tolist())
            ]
        )
    return out[: len(a)], out[len(a) :]


def test_an_adversary_is_the_slow_network() -> None:
    head, a, b = adversary(), normal(COUNT, WIDTH), normal(COUNT, WIDTH, seed=1)
    for found, expected in zip(head(a, b), slow_projection(head, a, b)):
        assert torch.allclose(found, torch.tensor(expected), atol=1e-4)


def test_rescaling_and_shifting_channels_hides_nothing_from_an_adversary() -> None:
    head, a, b = adversary(), normal(COUNT, WIDTH), normal(COUNT, WIDTH, seed=1)
    scale, shift = normal(WIDTH, seed=2).exp(), 5 * normal(WIDTH, seed=3)
    for plain, moved in zip(head(a, b), head(a * scale + shift, b * scale + shift)):
        assert torch.allclose(plain, moved, atol=1e-3)
    flat = torch.zeros(COUNT, WIDTH)
    assert all(bool(x.isfinite().all()) for x in head(flat, flat))


def test_the_worst_adversary_is_the_one_that_finds_most() -> None:
    heads, a, b = [adversary(s) for s in range(4)], normal(COUNT, WIDTH), normal(COUNT, WIDTH, seed=1)
    b = a + 0.5 * b
    each = [float(nt_xent(*head(a, b)).detach()) for head in heads]
    found = worst_adversary(heads, a, b, margin=100.0)
    assert float(found) == pytest.approx(min(each), rel=1e-6)
    assert max(each) > min(each) + 0.01
    groups = torch.arange(COUNT) % 3
    grouped = [float(nt_xent(*head(a, b), groups=groups).detach()) for head in heads]
    assert float(worst_adversary(heads, a, b, groups=groups)) == pytest.approx(min(grouped), rel=1e-6)


def test_each_side_gets_gradient_from_its_own_loss_only() -> None:
    head = adversary()
    a, b = (normal(COUNT, WIDTH, seed=s).requires_grad_() for s in (0, 1))
    adversary_loss(head, a, b).backward()
    assert a.grad is None
    assert b.grad is None
    assert all(p.grad is not None and float(p.grad.abs().sum()) > 0 for p in head.parameters())
    head.zero_grad()
    worst_adversary([head], a, b, margin=100.0).backward()
    assert all(p.grad is None for p in head.parameters())
    assert float(a.grad.abs().sum()) > 0  # type: ignore[attr-defined]
    assert float(b.grad.abs().sum()) > 0  # type: ignore[attr-defined]


def test_the_push_ends_where_the_best_adversary_guesses() -> None:
    """At the ceiling plus the margin: unrelated views are above ln(2N−1)."""
    head, a = adversary(), normal(COUNT, WIDTH).requires_grad_()
    ceiling = math.log(2 * COUNT - 1)
    found = worst_adversary([head], a, normal(COUNT, WIDTH, seed=1))
    assert float(found.detach()) > ceiling
    assert not found.requires_grad or not float(torch.autograd.grad(found, a)[0].abs().sum())
    known = worst_adversary([head], a, a.detach() + 0.01 * normal(COUNT, WIDTH, seed=1))
    assert float(known.detach()) < ceiling
    assert float(torch.autograd.grad(known, a)[0].abs().sum()) > 0


def test_a_trained_adversary_finds_what_the_plain_budget_cannot_see() -> None:
    """Partners share a faint part under a loud one that has nothing to do with the video."""
    who = normal(64, 4, seed=1) @ normal(4, WIDTH, seed=2)

    def views(seed: int) -> tuple[Tensor, Tensor]:
        loud = [5 * normal(64, 4, seed=seed + i) @ normal(4, WIDTH, seed=3) for i in (0, 1)]
        return who + loud[0], who + loud[1]

    head = adversary()
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for step in range(200):
        optimizer.zero_grad()
        adversary_loss(head, *views(100 + 2 * step)).backward()
        optimizer.step()
    a, b = views(7)
    ceiling = math.log(2 * 64 - 1)
    assert float(nt_xent(a, b)) > ceiling - 0.3
    assert float(worst_adversary([head], a, b)) < ceiling - 1


def test_weights_come_from_the_generator_alone() -> None:
    before = torch.get_rng_state()
    one, two, other = adversary(3), adversary(3), adversary(4)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters()))
    assert not torch.equal(one.first.weight, other.first.weight)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heads", 0),
        ("outputs", 0),
        ("steps", 0),
        ("weight", 0.0),
        ("learning_rate", math.nan),
        ("restart", -1),
    ],
)
def test_settings_that_make_no_sense_are_named(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name}="):
        Adversaries(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="margin=-1"):
        Adversaries(margin=-1.0)


def test_no_adversaries_at_all_is_an_error() -> None:
    with pytest.raises(UsageError, match="there are none"):
        worst_adversary(nn.ModuleList(), normal(2, WIDTH), normal(2, WIDTH))
