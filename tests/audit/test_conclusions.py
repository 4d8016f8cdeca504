"""A report says what was not looked at."""

from __future__ import annotations

from pathlib import Path

from tests.audit import world
from videoveil.audit import registry
from videoveil.audit.case import Case
from videoveil.audit.conclusions import too_alike, too_fine
from videoveil.audit.networks import with_networks
from videoveil.audit.subject import BlackFrames, Subject
from videoveil.data.records import Dataset


def test_how_fine_networks_looked_is_said_of_those_that_took_part(data: Dataset, tmp_path: Path) -> None:
    case = Case.of(Subject.of(data, BlackFrames()), tmp_path / "out", world.settings())
    both = registry.named(("frames", "grid"))
    assert "they saw 64 pixels a side" in "".join(too_fine(case, both))
    closer = with_networks(registry.named(("frames",)), (), 96)
    assert "they saw 64 and 96 pixels a side" in "".join(too_fine(case, (*both, *closer)))
    assert too_fine(case, registry.named(("grid", "features-static"))) == ()


def test_that_one_kind_of_network_took_part_is_said(data: Dataset, tmp_path: Path) -> None:
    case = Case.of(Subject.of(data, BlackFrames()), tmp_path / "out", world.settings())
    both = registry.named(("frames", "clips", "grid"))
    assert "had the same, tiny@own" in "".join(too_alike(case, both))
    assert too_alike(case, with_networks(both, ("resnet.18",))) == ()
    assert too_alike(case, registry.named(("grid", "features-static"))) == ()
