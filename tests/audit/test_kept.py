from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit import world
from videoveil.attacks.attributes import AttackConfig
from videoveil.audit import registry
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject, open_anonymizer
from videoveil.data.records import Dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="module")
def nameless(data: Dataset) -> Dataset:
    """The same videos, of which nobody says who is in them."""
    return replace(data, items=tuple(replace(item, subject=None) for item in data.items))


def test_what_other_audits_left_in_the_cache_changes_nothing(data: Dataset, tmp_path: Path) -> None:
    subject = Subject.of(data, BlackFrames())
    one = audit(subject, tmp_path / "one", world.settings(), cache=tmp_path / "cold")
    audit(subject, tmp_path / "two", world.settings("features-static"), cache=tmp_path / "warm")
    again = audit(subject, tmp_path / "three", world.settings(), cache=tmp_path / "warm")
    assert again.metrics == one.metrics
    assert all(risk.risk is None for risk in one.risks if risk.kind != "inference")


def test_an_anonymizer_that_asks_for_other_features_of_raw_videos_does_not_find_results_of_the_usual_ones(
    nameless: Dataset, tmp_path: Path
) -> None:
    """Static clips: ten where they are subtracted, else four. Attackers on raw features learn from all of them."""
    chosen = registry.named(
        ("features-static",), {"features-static": AttackConfig(input="static", kinds=("linear",))}
    )
    asked = replace(world.settings(seeds=1), participants=chosen)
    motion = Subject.of(nameless, open_anonymizer("veil-motion-tiny"))
    audit(motion, tmp_path / "one", asked, cache=tmp_path / "cold")
    audit(
        Subject.of(nameless, open_anonymizer("veil-tiny")), tmp_path / "two", asked, cache=tmp_path / "warm"
    )
    audit(motion, tmp_path / "three", asked, cache=tmp_path / "warm")
    one, three = ((tmp_path / name / "metrics.json").read_bytes() for name in ("one", "three"))
    assert three == one
