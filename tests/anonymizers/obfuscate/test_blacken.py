"""Black boxes: zeros inside, every other bit as before."""

from __future__ import annotations

import torch

from videoveil.anonymizers.obfuscate.blacken import Blacken


def test_inside_is_black_and_outside_untouched() -> None:
    for frame in (torch.rand(3, 8, 9) + 0.1, torch.randint(1, 256, (3, 8, 9), dtype=torch.uint8)):
        before = frame.clone()
        out = Blacken().cover(frame, [(1, 4, 2, 5), (3, 8, 0, 3)])
        mask = torch.zeros(8, 9, dtype=torch.bool)
        mask[1:4, 2:5] = True
        mask[3:8, 0:3] = True
        assert out.dtype == frame.dtype
        assert not out[:, mask].any()
        assert torch.equal(out[:, ~mask], before[:, ~mask])
        assert torch.equal(frame, before)


def test_without_boxes_a_copy_comes_out() -> None:
    frame = torch.rand(3, 4, 4)
    out = Blacken().cover(frame, [])
    assert torch.equal(out, frame)
    assert out.data_ptr() != frame.data_ptr()
