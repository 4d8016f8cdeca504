"""Devices by name."""

from __future__ import annotations

import pytest
import torch

from videoveil import devices
from videoveil.errors import UsageError


def test_auto_is_a_device_that_works() -> None:
    assert devices.choose("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert devices.make_fabric("cpu").device.type == "cpu"


@pytest.mark.parametrize("name", ["cuda:77", "abacus", ""])
def test_a_device_that_cannot_be_used_is_named(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be used here"):
        devices.choose(name)


def test_repeatable_leaves_the_settings_as_they_were() -> None:
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    with devices.repeatable():
        assert torch.backends.cudnn.deterministic
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == before
