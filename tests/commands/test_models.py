"""`veil models`, `veil convert`, `veil doctor`."""

from __future__ import annotations

import json

import pytest

from tests.commands.run import inside, veil
from videoveil import shipped


def test_models_lists_every_encoder_with_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in json.loads(inside(capsys, "models", "--json"))}
    assert rows["i3d.inception"]["parameters"] == 12_697_264
    assert rows["i3d.resnet50"]["parameters"] == 28_043_472
    assert rows["tiny"]["parameters"] <= 2_000_000
    assert "i3d.inception" in inside(capsys, "models")


def test_doctor_finds_a_working_installation_in_a_fresh_process() -> None:
    found = json.loads(veil("doctor", "--json"))
    assert found["works"], found["checks"]
    assert {check["name"] for check in found["checks"]} >= {"codecs", "devices", "video", "encoder"}


def test_figures_of_what_is_shipped_say_that_they_are_of_twins_and_of_the_worst_attacker(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = inside(capsys, "models").splitlines()
    (veils,) = (line for line in lines if line.endswith("(raw, chance), the worst attacker"))
    assert "on twins (synthetic): anonymized" in veils
    assert any("on twins (synthetic): measured (chance)" in line for line in lines)
    for name in shipped.names():
        (line,) = (line for line in lines if line.startswith("anonymizer ") and f" {name} " in line)
        assert shipped.summary(name)["figures"] in line
