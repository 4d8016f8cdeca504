"""Processes for tests that start some: forked from one that has imported everything already.

They are processes of their own in every respect that such a test is about; nobody waits several times for imports.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from typing import Any

PRELOAD = ["tests.forked_imports"]


def context() -> ForkServerContext:
    """Where processes come from; their parent starts with the first of them."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOAD)
    return found


def start_processes(work: Callable[..., None], args: tuple[Any, ...], nprocs: int) -> None:
    """`work(rank, *args)` in `nprocs` processes at once, waited for; what one raises is raised here."""
    import torch.multiprocessing

    context()
    torch.multiprocessing.start_processes(work, args, nprocs=nprocs, start_method="forkserver")
