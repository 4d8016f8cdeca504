from __future__ import annotations

import pytest

from videoveil.protocols import papers
from videoveil.protocols.parameters import ENCODERS, adapter_weights, counted, unet_weights


@pytest.mark.parametrize("width", [768, 1024, 1280, 1408])
def test_the_adapter_has_24_d_squared_and_33_d_weights(width: int) -> None:
    assert adapter_weights(width) == 24 * width**2 + 33 * width


def test_the_unet_has_as_many_weights_as_published() -> None:
    assert unet_weights() == 17_267_523


@pytest.mark.parametrize("block", ENCODERS)
def test_counts_are_within_a_few_per_cent_of_the_printed_ones(block: str) -> None:
    pixel, latent, _ = counted(block)
    table = papers.table("splavu/T13")
    assert pixel == pytest.approx(table.value(block, "pixel methods"), rel=0.03)
    assert latent == pytest.approx(table.value(block, "SPLAVU"), rel=0.01)
