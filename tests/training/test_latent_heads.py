from __future__ import annotations

from pathlib import Path

import pytest
import torch

from videoveil.errors import UsageError
from videoveil.tasks.action.probe import ActionProbe, ProbeConfig
from videoveil.tasks.base import Features
from videoveil.training.latent_heads import HeadSettings, head_groups, raw_heads, trainable

from .latent_world import accuracy, store_of, world

SETTINGS = HeadSettings(action=ProbeConfig(epochs=40))


def test_heads_start_as_the_task_itself_would_learn_them_on_raw_features(tmp_path: Path) -> None:
    home = world(48)
    source = Features(store_of(tmp_path / "s", home.pool), split="train")
    heads = raw_heads({"action": source}, SETTINGS, run=tmp_path / "run", seed=2, device="cpu")
    own = ActionProbe(SETTINGS.action).fit(source, seed=2, device="cpu").layer
    assert torch.equal(heads["action"].get_parameter("weight"), own.weight)
    assert all(p.requires_grad for p in heads["action"].parameters())
    assert accuracy(heads["action"], home.pool.rows, home.actions[home.pool.owners()]) > 0.95
    assert (tmp_path / "run" / "action" / "model.safetensors").is_file()


def test_training_a_head_leaves_the_task_it_came_from_alone() -> None:
    layer = torch.nn.Linear(3, 2).requires_grad_(False)
    copied = trainable(layer)
    with torch.no_grad():
        copied.get_parameter("weight").add_(1)
    assert not torch.equal(copied.get_parameter("weight"), layer.weight)
    assert not layer.weight.requires_grad


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(UsageError, match="no task 'gait'"):
        SETTINGS.task("gait")
    assert head_groups({}, SETTINGS, 1e-4, 0.0) == []
