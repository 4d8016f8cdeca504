"""Every participant learns, on both sides, and says the same kind of things of the same test items."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.audit import world
from videoveil.attacks.attributes import AttackConfig
from videoveil.attacks.frames import ClipConfig, FrameConfig
from videoveil.attacks.identity import IdentityConfig
from videoveil.attacks.inversion import InversionConfig
from videoveil.attacks.reconstruction import ReconstructionConfig
from videoveil.audit import registry
from videoveil.audit.participant import Trial
from videoveil.audit.registry import PARTICIPANTS, question_of
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.settings import Settings
from videoveil.audit.subject import WHICH, Stores, Subject, Untouched
from videoveil.data.records import Dataset
from videoveil.tasks.action.network import NetworkConfig
from videoveil.tasks.action.probe import ProbeConfig

SMALL: dict[str, Any] = {"size": 32, "batch": 8, "epochs": 1, "workers": 1}
CONFIGS: dict[str, Any] = {
    "action-probe": ProbeConfig(epochs=2),
    "action-network": NetworkConfig(encoder="tiny", clips=1, **SMALL),
    "features-static": AttackConfig(input="static", kinds=("linear",)),
    "features-moving": AttackConfig(input="clip", kinds=("linear",)),
    "features-static-raw": AttackConfig(input="static", kinds=("linear",), knowledge="raw"),
    "features-moving-raw": AttackConfig(input="clip", kinds=("linear",), knowledge="raw"),
    "grid": world.GRID,
    "frames": FrameConfig(networks=("tiny@own",), frames=1, per_video=1, **SMALL),
    "frames-raw": FrameConfig(networks=("tiny@own",), frames=1, per_video=1, knowledge="raw", **SMALL),
    "clips-raw": ClipConfig(networks=("tiny@own",), clips=1, per_video=1, knowledge="raw", **SMALL),
    "frames-tuned": FrameConfig(
        networks=("tiny@own",), frames=1, per_video=1, knowledge="fine-tuned", **SMALL
    ),
    "clips-tuned": ClipConfig(networks=("tiny@own",), clips=1, per_video=1, knowledge="fine-tuned", **SMALL),
    "clips": ClipConfig(networks=("tiny@own",), clips=1, per_video=1, **SMALL),
    "reconstruction": ReconstructionConfig(
        width=4,
        size=32,
        frames=1,
        per_video=1,
        epochs=1,
        batch=8,
        workers=1,
        network_epochs=1,
        knowledge=("fresh",),
        identity=True,
    ),
    "inversion": InversionConfig(size=16, width=4, per_video=1, epochs=1, kinds=("linear",)),
    "identity-features": IdentityConfig(),
    "identity-clips": IdentityConfig(clips=1, per_video=1, **SMALL),
}


def people_in(data: Dataset, strangers: int = 2) -> Dataset:
    """Eight people to learn from, and strangers to look for."""
    named = tuple(
        dataclasses.replace(item, subject=f"p{n % 8}" if item.split == "train" else f"q{n % strangers}")
        for n, item in enumerate(data.items)
    )
    return dataclasses.replace(data, items=named)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    data = people_in(world.dataset(tmp_path_factory.mktemp("videos"), train=9, test=4))
    folder = tmp_path_factory.mktemp("stores")
    subject = Subject.of(data, Untouched())
    return Trial(subject, Stores(subject, folder / "raw", folder / "own", "cpu"), "raw", 0, "cpu")


ELSEWHERE = {"gait", "anomaly", "detection", "detectors", "membership"}  # these need other videos


def test_everybody_is_tried_here_or_with_videos_of_their_own() -> None:
    assert {*CONFIGS, *ELSEWHERE} == {one.name for one in PARTICIPANTS}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_participant_answers_on_both_sides(name: str, trial: Trial) -> None:
    (one,) = registry.named((name,))
    assert one.excuse(trial.subject, trial.stores) == ""
    raw, veiled = (one.run(dataclasses.replace(trial, which=which), CONFIGS[name]) for which in WHICH)
    assert raw
    assert set(raw) == set(veiled)
    tested = {item.id for item in trial.subject.items("test")}
    for inner, outcome in raw.items():
        assert set(outcome.items) <= tested
        assert outcome.items == veiled[inner].items
        before, after = outcome.measure(), veiled[inner].measure()
        assert before.value == pytest.approx(after.value, rel=1e-3)  # nothing was changed between the sides
        question_of(one, inner, outcome.metric)


def test_people_are_looked_for_in_reconstructions_under_the_question_of_identity(tmp_path: Path) -> None:
    data = people_in(world.dataset(tmp_path / "videos", train=9, test=16), strangers=8)
    asked = Settings(
        rules=Rules(seeds=1, resamples=100, least_items=2),
        participants=registry.named(("reconstruction",), CONFIGS),
        device="cpu",
    )
    found = audit(Subject.of(data, Untouched()), tmp_path / "out", asked)
    attempts = {one.name: [attempt.name for attempt in one.attempts] for one in found.questions}
    assert {name.partition("_")[0] for name in attempts[registry.IDENTITY]} == {"reconstruction/identity"}
    assert {name.partition("_")[0] for name in attempts[registry.ATTRIBUTES]} == {"reconstruction/attributes"}


def test_nobody_is_looked_for_in_reconstructions_where_nobody_is_named(trial: Trial) -> None:
    data = trial.subject.dataset
    items = tuple(dataclasses.replace(item, subject=None) for item in data.items)
    subject = Subject.of(dataclasses.replace(data, items=items), Untouched())
    (one,) = registry.named(("reconstruction",))
    said = one.run(dataclasses.replace(trial, subject=subject), CONFIGS["reconstruction"])
    assert any(name.startswith("attributes_") for name in said)
    assert not any(name.startswith("identity_") for name in said)


def test_gait_needs_its_splits(trial: Trial, tmp_path: Path) -> None:
    (one,) = registry.named(("gait",))
    assert "gallery and probe" in one.excuse(trial.subject, trial.stores)
