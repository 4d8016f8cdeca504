"""Limits on processor time that hold on slower machines too, and beside others that use the same caches and cores."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

USUAL = 0.12  # seconds of `_products` on the machine that limits are for


def cpu_seconds(work: Callable[[], object], times: int = 3) -> float:
    """The least processor time of several runs: what others cost comes and goes."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def slower() -> float:
    """How many times as long as there products of matrices take here and now; at least 1."""
    _products()
    return max(1.0, cpu_seconds(_products) / USUAL)


def _products() -> None:
    numbers = torch.ones(512, 512)
    for _ in range(40):
        numbers @ numbers
