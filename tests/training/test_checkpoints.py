"""Checkpoints: whole or absent, of one format, and only for the run they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import nn

from videoveil.errors import CheckpointError
from videoveil.training import checkpoints


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.safetensors"
    tensors = {"network.w": torch.randn(3, 2), "adam.0.step": torch.tensor(4.0)}
    checkpoints.write(file, "form-1", tensors, {"näme": [1, None, "x"]})
    found, facts = checkpoints.read(file, "form-1")
    assert facts == {"näme": [1, None, "x"]}
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert list(checkpoints.part(found, "network")) == ["w"]


def test_another_format_and_damaged_facts_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    checkpoints.write(file, "form-1", {"w": torch.zeros(1)}, {})
    with pytest.raises(CheckpointError, match="'form-1', expected 'form-2'"):
        checkpoints.read(file, "form-2")
    file.write_bytes(file.read_bytes().replace(b"form-1", b"form,1").replace(b"facts", b"fects"))
    with pytest.raises(CheckpointError, match="not a file of format"):
        checkpoints.read(file, "form-1")


def test_every_wrong_tensor_is_listed(tmp_path: Path) -> None:
    network = nn.Linear(2, 3)
    with pytest.raises(CheckpointError) as caught:
        checkpoints.fill(network, {"weight": torch.zeros(3, 9), "gain": torch.zeros(1)}, "file")
    assert all(name in str(caught.value) for name in ("weight", "bias", "gain"))


def test_an_optimizer_goes_on_where_it_was() -> None:
    def trained(steps: int, network: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        for step in range(steps):
            optimizer.zero_grad()
            network(torch.full((1, 2), 1.0 + step)).square().sum().backward()
            optimizer.step()

    straight, broken = nn.Linear(2, 3), nn.Linear(2, 3)
    broken.load_state_dict(straight.state_dict())
    one = torch.optim.Adam(straight.parameters(), lr=0.1)
    trained(4, straight, one)
    trained(4, straight, one)
    two = torch.optim.Adam(broken.parameters(), lr=0.1)
    trained(4, broken, two)
    three = torch.optim.Adam(broken.parameters(), lr=0.1)
    checkpoints.fill_optimizer(three, checkpoints.optimizer_tensors(two))
    trained(4, broken, three)
    assert torch.equal(straight.weight, broken.weight)


def test_a_run_of_other_settings_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    checkpoints.require_same(tmp_path, {"a": 1, "b": [2]}, {"b": [2], "a": 1})
    with pytest.raises(CheckpointError, match="with other b, c;"):
        checkpoints.require_same(tmp_path, {"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 0})


@dataclass(frozen=True)
class Inner:
    speed: float = 1.0
    new: str = ""


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner | None = field(default_factory=Inner)
    steps: int = 3


def test_what_an_earlier_version_did_not_know_is_at_its_default() -> None:
    now = Outer("a", Inner(2.0, "x"), 9)
    written = {"name": "a", "inner": {"speed": 2.0}, "other": [1]}
    found = {"name": "a", "inner": {"speed": 2.0, "new": ""}, "other": [1], "steps": 3}
    assert checkpoints.completed(now, written) == found
    assert checkpoints.completed(now, found) == found
    for inner in (None, 4):  # not a record there, or not one here: as it was written
        assert checkpoints.completed(now, {"inner": inner})["inner"] == inner
    assert checkpoints.completed(Outer("a", None), {"inner": {"speed": 1}})["inner"] == {"speed": 1}
