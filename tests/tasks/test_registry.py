"""Every task by name."""

from __future__ import annotations

import pytest

from videoveil.errors import UsageError
from videoveil.tasks import registry


def test_every_task_has_the_name_it_is_registered_under_and_a_default() -> None:
    assert registry.names() == ("action", "action-network", "detection", "anomaly")
    for kind in registry.KINDS:
        task = kind.make(kind.config())
        assert task.name == kind.name
        assert task.role == "utility"
        assert task.config == next(iter(kind.presets.values()))()
        assert kind.title


def test_presets_differ_and_can_be_changed_one_by_one() -> None:
    probe = registry.kind("action")
    assert probe.config("paper") != probe.config("recommended") == probe.config()
    assert probe.config("paper", {"epochs": "3"}).epochs == 3
    assert probe.config("paper", {"epochs": "3"}).batch == 512


def test_an_unknown_task_or_preset_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        UsageError, match="no task 'gait'; there are action, action-network, detection, anomaly"
    ):
        registry.kind("gait")
    with pytest.raises(UsageError, match="detection: no preset 'big'; there are thumos14, small"):
        registry.kind("detection").config("big")


def test_what_a_task_reads_is_stated() -> None:
    assert {kind.name: (kind.reads, kind.clips) for kind in registry.KINDS} == {
        "action": ("features", "all"),
        "action-network": ("clips", "all"),
        "detection": ("features", "dense:4"),
        "anomaly": ("features", "all"),
    }
