from __future__ import annotations

import pytest
import torch

from videoveil.objectives import local_temporal_contrast, temporal_triplet
from videoveil.objectives.precision import precise


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((torch.float16,), torch.float32),
        ((torch.bfloat16, torch.float32), torch.float32),
        ((torch.bfloat16, torch.float64), torch.float64),
    ],
)
def test_tensors_come_in_one_type_of_at_least_32_bits(
    kinds: tuple[torch.dtype, ...], expected: torch.dtype
) -> None:
    with precise(*(torch.ones(2, dtype=kind) for kind in kinds)) as found:
        assert {one.dtype for one in found} == {expected}


def test_autocast_does_not_reach_the_block_and_goes_on_after_it() -> None:
    square = torch.rand(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        with precise(square) as (exact,):
            assert (exact @ exact).dtype == torch.float32
        assert (square @ square).dtype == torch.bfloat16


def test_losses_can_be_counted_without_values() -> None:
    z = torch.empty(3, 4, 8, device="meta")
    assert local_temporal_contrast(z, z).shape == ()
    assert temporal_triplet(*z).shape == ()
