"""One thread for small work.

The attackers' matrices are small: sharing one product between threads gains nothing, and where another process wants
the same cores the threads wait for each other in every product; one fit was seen to take fifty times as long.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch
from threadpoolctl import threadpool_limits

SMALL = 4_000_000  # numbers in a feature matrix up to which one thread is used

_LOCK = threading.Lock()
_inside = 0
_before = 1
_pools: threadpool_limits | None = None


@contextlib.contextmanager
def one_thread(numbers: int) -> Iterator[None]:
    """One thread for torch, BLAS and OpenMP inside, where the work is small; what was set before is set again after."""
    global _inside, _before, _pools
    if numbers > SMALL:
        yield
        return
    with _LOCK:  # settings of the process: the first one in remembers them, the last one out restores them
        if _inside == 0:
            _before, _pools = torch.get_num_threads(), threadpool_limits(1, user_api="blas")
        _inside += 1
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="openmp"):  # of which every thread has a number of its own
            yield
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)
                assert _pools is not None
                _pools.restore_original_limits()
