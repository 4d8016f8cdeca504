"""Trident decoding: published check values, a slow twin, borders."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from videoveil.tasks.tridet.network import Level
from videoveil.tasks.tridet.trident import decode_at

from .make import awake


def one_class(start: list[float], end: list[float], centre: list[float]) -> Level:
    steps = len(start)
    return Level(
        logits=torch.zeros(1, 1, steps),
        start=torch.tensor([[start]]),
        end=torch.tensor([[end]]),
        centre=torch.tensor(centre)[None, :, None].expand(1, -1, steps),
        mask=torch.ones(1, steps, dtype=torch.bool),
    )


def test_the_published_example_is_reproduced() -> None:
    level = one_class([0.0, 1, 2, 3], [3.0, 2, 1, 0], [0.0, 1, 0, 0, 0, 2])
    zeros, instants = torch.zeros(4, dtype=torch.int64), torch.arange(4)
    expected = [[1.0, 1.0], [0.733044, 1.0], [0.595068, 1.420512], [0.595068, 1.680479]]
    torch.testing.assert_close(
        decode_at(level, zeros, zeros, instants, 2), torch.tensor(expected), atol=1e-6, rtol=0
    )


def slow_decode(level: Level, video: int, label: int, t: int, bins: int) -> tuple[float, float]:
    def at(logits: Tensor, where: int) -> float:
        return float(logits[video, label, where]) if 0 <= where < logits.shape[-1] else 0.0

    centre = level.centre[video, :, t].tolist()
    starts = [math.exp(at(level.start, t - bins + j) + centre[j]) for j in range(bins + 1)]
    ends = [math.exp(at(level.end, t + j) + centre[bins + 1 + j]) for j in range(bins + 1)]
    left = sum(weight * (bins - j) for j, weight in enumerate(starts)) / sum(starts)
    right = sum(weight * j for j, weight in enumerate(ends)) / sum(ends)
    return left, right


@torch.no_grad()
def test_decoding_equals_its_slow_twin_at_every_instant_and_class() -> None:
    mask = torch.arange(64)[None, None] < torch.tensor([64, 41])[:, None, None]
    levels = awake()(torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(0)) * 3, mask)
    for level in levels:
        grid = torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(level.logits.shape[-1]))
        found = decode_at(level, *grid.unbind(1), bins=8)
        twin = [slow_decode(level, *row, bins=8) for row in grid.tolist()]
        torch.testing.assert_close(found, torch.tensor(twin), atol=1e-5, rtol=1e-5)


def test_no_reach_is_beyond_the_bins() -> None:
    level = one_class([50.0, 0, 0, 0], [0.0, 0, 0, 50], [0.0] * 10)
    found = decode_at(level, *torch.zeros(2, 4, dtype=torch.int64), torch.arange(4), bins=4)
    assert found[3, 0] == pytest.approx(3)  # the sure start is three steps back
    assert found[0, 1] == pytest.approx(3)
    assert float(found.max()) <= 4
    assert float(found.min()) >= 0
