from __future__ import annotations

import threading

import torch

from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.pipeline import hands
from videoveil.pipeline.hands import affordable_hands, bytes_per_pixel, own_threads, share


def test_threads_of_one_thread_are_no_others_business() -> None:
    before, seen = torch.get_num_threads(), {}

    def mine() -> None:
        own_threads(before + 5)
        own_threads(before + 2)  # once more, with another number
        seen["mine"] = torch.get_num_threads()

    for name, work in (("mine", mine), ("later", lambda: seen.update(later=torch.get_num_threads()))):
        thread = threading.Thread(target=work, name=name)
        thread.start()
        thread.join()
    assert seen == {"mine": before + 2, "later": before}
    assert torch.get_num_threads() == before


def test_as_many_hands_as_cores_while_memory_lasts() -> None:
    small, before = pixel(UNet(width=4)), torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        assert affordable_hands(small, (64, 64), 1, 8) == 4
        assert affordable_hands(small, (64, 64), 1, 3) == 3
        assert affordable_hands(small, (64, 64), 1, 1) == 1
        assert affordable_hands(small, (4320, 7680), 1, 8) == 1
        assert affordable_hands(pixel(UNet(width=16)), (720, 1280), 1, 8) == 1
        assert [share(hands) for hands in (1, 2, 3, 4)] == [4, 2, 1, 1]
        torch.set_num_threads(64)
        assert affordable_hands(small, (64, 64), 1, 100) == hands.HANDS
    finally:
        torch.set_num_threads(before)


def test_what_a_network_holds_grows_with_its_width() -> None:
    narrow, wide = (bytes_per_pixel(pixel(UNet(width=width))) for width in (4, 16))
    assert 3 < wide / narrow < 4.5
    assert 500 < wide < 800  # measured with OpenVINO at 1280×720: 550 MiB, 626 bytes for each pixel
