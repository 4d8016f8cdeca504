from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import videoveil
from tests.audit import world
from videoveil.attacks.attributes import AttackConfig
from videoveil.audit import kept, registry
from videoveil.audit.case import Case
from videoveil.audit.run import audit
from videoveil.audit.subject import BlackFrames, Subject, Untouched, Which, open_anonymizer
from videoveil.data.records import Dataset


@pytest.mark.parametrize(
    ("reads", "which", "name"),
    [
        ("clips", "raw", "cache/results/recogniser-raw-3-9676428201694aa2.npz"),
        ("clips", "anonymized", "out/results/recogniser-anonymized-3-50c6443e16c4b08b.npz"),
        ("features", "raw", "cache/results/recogniser-raw-3-35b181cf45d0eeb2.npz"),
        ("features", "anonymized", "out/results/recogniser-anonymized-3-a70a93d2d0df75e3.npz"),
    ],
)
def test_results_have_the_names_that_they_always_had(
    reads: Any, which: Which, name: str, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under other names nothing would be found again; whoever means that changes ANSWERS."""
    monkeypatch.setattr(videoveil, "__version__", "0")
    subject, sides = Subject.of(data, Untouched()), {"raw": "one", "anonymized": "other"}
    case = Case.of(subject, Path("out"), world.settings(), Path("cache"))
    case = replace(case, data="data", sides=sides, features="features")
    one = replace(world.RECOGNISER, config=lambda gpu: None, reads=reads)
    assert kept.file(case, one, which, 3) == Path(name)


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
