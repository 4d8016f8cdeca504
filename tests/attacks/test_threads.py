from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

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
