from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from threadpoolctl import threadpool_info

from videoveil.attacks.threads import SMALL, one_thread


def test_small_work_has_one_thread_and_the_setting_comes_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread(10):
            assert torch.get_num_threads() == 1
            with one_thread(10):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with one_thread(SMALL + 1):
            assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError), one_thread(10):
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 3
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(_work, range(40)))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def _work(number: int) -> None:
    with one_thread(number):
        torch.randn(50, 50) @ torch.randn(50, 50)


def test_every_one_of_several_threads_has_one_thread_of_openmp_inside() -> None:
    """Which has a number for each; OpenBLAS has one for all, and does not always take it from a second thread."""
    both, inside = threading.Barrier(2), list[int]()

    def work(_: int) -> None:
        with one_thread(10):
            both.wait(60)
            inside.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
            both.wait(60)

    before = [pool["num_threads"] for pool in threadpool_info()]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert set(inside) == {1}
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_work_that_overlaps_gives_the_threads_of_other_libraries_back() -> None:
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before = threads()
    first, second = one_thread(10), one_thread(10)
    first.__enter__()
    second.__enter__()
    assert threads() == {1}
    first.__exit__(None, None, None)
    assert threads() == {1}, "the other one is still at work"
    second.__exit__(None, None, None)
    assert threads() == before
