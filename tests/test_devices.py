"""Devices by name."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from videoveil import devices
from videoveil.errors import UsageError
from videoveil.training.supervised import Batches, Loop, Schedule, cross_entropy


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


def test_a_training_whose_gradients_would_be_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are is measured on this processor; both outcomes are played here."""
    cpu, flat, deep = torch.device("cpu"), nn.Conv2d(3, 3, 3), nn.Sequential(nn.Conv3d(3, 3, 3))
    monkeypatch.setattr(devices, "_wrong_in_volumes", lambda: 1.2)
    with pytest.raises(
        UsageError, match="wrong gradients of 3-D convolutions in bfloat16; use precision='32-true'"
    ):
        devices.require_right_gradients(deep, "bf16-mixed", cpu)
    devices.require_right_gradients(flat, "bf16-mixed", cpu)
    devices.require_right_gradients(deep, "32-true", cpu)
    devices.require_right_gradients(deep, "bf16-mixed", torch.device("cuda"))
    monkeypatch.setattr(devices, "_wrong_in_volumes", lambda: 0.002)
    devices.require_right_gradients(deep, "bf16-mixed", cpu)


def test_what_a_gradient_is_held_against_is_right() -> None:
    """Of a sum of outputs: the sum of all that a weight is multiplied with, the same for every output."""
    padded = nn.functional.pad(devices.volume().double(), (1,) * 6)
    found = devices.volume_gradient(torch.float32)
    for t, y, x in itertools.product(range(3), repeat=3):
        seen = padded[:, :, t : t + 2, y : y + 4, x : x + 4].sum((0, 2, 3, 4))  # (inputs,)
        torch.testing.assert_close(found[:, :, t, y, x].double(), seen.expand(16, 16), atol=1e-4, rtol=1e-4)


def test_an_action_network_of_volumes_says_so_before_it_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "_wrong_in_volumes", lambda: math.inf)
    network = nn.Sequential(nn.Conv3d(3, 4, 3), nn.Flatten(), nn.LazyLinear(2))
    schedule = Schedule(epochs=1, batch=2, learning_rate=1e-3, precision="bf16-mixed")
    fabric = devices.make_fabric("cpu", "bf16-mixed")
    loop = Loop(network, Batches(), cross_entropy, schedule, 0, fabric, tmp_path)
    with pytest.raises(UsageError, match="use precision='32-true', or a GPU"):
        loop.run()
