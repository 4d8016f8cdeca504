"""Membership in an audit: measured where it is known who was in the training set, and said where it is not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.audit import world
from videoveil.anonymizers.card import ModelCard
from videoveil.anonymizers.config import Rank
from videoveil.anonymizers.latent import latent
from videoveil.attacks.membership import MembershipConfig
from videoveil.attacks.pictures import Lens
from videoveil.audit import members, registry
from videoveil.audit.draws import Draws
from videoveil.audit.participant import Trial
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.settings import Settings
from videoveil.audit.subject import Stores, Subject, Untouched
from videoveil.data.records import Dataset
from videoveil.tasks.outcomes import RankOutcome
from videoveil.training.clip_batches import Frames

QUICK = MembershipConfig(size=16, frames=1, folds=3, kinds=("linear",), workers=1)
CARD = ModelCard(training_data="action: made-up (train), privacy: elsewhere (all)")
RULES = Rules(seeds=2, resamples=100)


class Remembers(nn.Module):
    """Leaves the frames that it was trained on nearly as they are, and darkens all others."""

    kind = "remembers"

    def __init__(self, known: Tensor, card: ModelCard):
        super().__init__()
        self.known, self.card = nn.Parameter(known), card  # (k, 3, s, s)

    def transform(self, x: Tensor) -> Tensor:
        frames = x.transpose(1, 2).flatten(0, 1)
        distance = (frames[:, None] - self.known[None]).abs().flatten(2).mean(2).amin(1)
        factor = torch.where(distance < 1e-3, 0.95, 0.5).reshape(-1, 1, 1, 1)
        return (frames * factor).unflatten(0, (len(x), -1)).transpose(1, 2)

    def forward(self, frames: Tensor) -> Tensor:
        """What is published of a whole picture, of which it remembers none."""
        return frames // 2

    def content_hash(self) -> str:
        return "remembers"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return world.dataset(tmp_path_factory.mktemp("videos"), train=12, test=12)


def by_heart(data: Dataset, card: ModelCard = CARD) -> Remembers:
    lens, frames = Lens(1, 1, QUICK.size, QUICK.test, QUICK.frames), Frames(side=2 * QUICK.size)
    seen = [lens.pictures(item, frames)[:, :, 0].float() / 255 for item in data.split("train")]
    return Remembers(torch.cat(seen), card)


def asked() -> Settings:
    return Settings(
        rules=RULES, participants=registry.named(("membership",), {"membership": QUICK}), device="cpu"
    )


def test_an_anonymizer_that_remembers_its_training_videos_is_a_risk(data: Dataset, tmp_path: Path) -> None:
    found = audit(Subject.of(data, by_heart(data)), tmp_path / "out", asked())
    (risk,) = [one for one in found.risks if one.kind == "membership"]
    assert risk.main == 1.0
    assert risk.baseline == 0.5
    assert 0.5 < (risk.control or 0) < 0.95
    assert risk.risk == 1.0
    assert risk.trials == 24
    assert "membership" not in {one.name for one in found.left_out}
    page = (tmp_path / "out" / "report.html").read_text()
    assert "24 videos of either kind" in page
    again = audit(Subject.of(data, by_heart(data)), tmp_path / "out", asked())
    assert again.metrics == found.metrics


def test_where_nothing_was_trained_on_these_videos_the_report_says_that_it_was_not_tested(
    data: Dataset, tmp_path: Path
) -> None:
    found = audit(Subject.of(data, Untouched()), tmp_path / "out", asked())
    reasons = {one.name: one.reason for one in found.left_out}
    assert "nothing was trained" in reasons["membership"]
    assert all(one.kind != "membership" for one in found.risks)
    assert "nothing was trained" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "says nothing of it"),
        ("action: elsewhere (train)", "says 'action: elsewhere (train)'"),
        ("action: made-up (all)", "exactly the split 'train' of made-up"),
        ("action: made-up (train), privacy: made-up (test)", "exactly the split"),
        ("action: made-up (train), privacy: made-up (train)", ""),
    ],
)
def test_members_are_those_that_the_card_names(data: Dataset, said: str, reason: str) -> None:
    why = members.why_not(Subject.of(data, Remembers(torch.zeros(1, 3, 4, 4), ModelCard(said))))
    assert reason in why
    assert bool(why) == bool(reason)


def test_pairs_and_few_videos_have_no_members(data: Dataset) -> None:
    assert "not at hand" in members.why_not(Subject.of(data, None, name="x"))
    few = dataclasses.replace(data, items=data.items[:16])
    assert "4 videos in split 'test'" in members.why_not(Subject.of(few, by_heart(data)))


def test_attackers_who_learn_from_the_anonymizers_own_videos_are_named(data: Dataset, tmp_path: Path) -> None:
    """What it hides from them it may not hide from others: the report says so."""
    settings = Settings(rules=RULES, participants=(), seed=0)
    for card, remarks in ((CARD, 1), (ModelCard("action: elsewhere (train)"), 0), (ModelCard(), 0)):
        subject = Subject.of(data, by_heart(data, card))
        assert len(members.attackers_knew(subject)) == remarks
        said = audit(subject, tmp_path / str(len(list(tmp_path.iterdir()))), settings).not_measurable
        assert sum("somebody with other videos may find more" in one for one in said) == remarks


def test_the_groups_are_the_same_for_every_seed_and_evenly_spaced(data: Dataset) -> None:
    known = members.membership(Subject.of(data, Untouched()), 4)
    chosen = {item.id: known(item) for item in data if known(item) is not None}
    assert sum(bool(one) for one in chosen.values()) == len(chosen) - 4 == 4
    assert chosen["v00"]
    assert chosen["v11"]


def test_anonymizers_of_features_are_asked_by_features(data: Dataset, tmp_path: Path) -> None:
    few = dataclasses.replace(data, items=data.items[8:16])
    subject = Subject.of(few, latent(256, Rank(2), card=CARD))
    (one,) = registry.named(("membership",))
    stores = Stores(subject, tmp_path / "raw", tmp_path / "own", "cpu")
    found = one.run(Trial(subject, stores, "anonymized", 0, "cpu"), QUICK)
    assert {"auc_learnt_linear", "control_learnt_linear", "auc_threshold_turn"} <= set(found)
    assert all(len(outcome.items) == 8 for outcome in found.values())


def ranked(scores: np.ndarray) -> RankOutcome:
    n = len(scores)
    return RankOutcome(
        (np.arange(n) < n // 2).astype(float), scores, np.arange(n), tuple(f"v{i:03d}" for i in range(n))
    )


def answers(attack: float, control: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    member = (np.arange(100) < 50).astype(float)
    found = {f"auc_{n}": ranked(rng.normal(size=100)) for n in range(6)}
    found["auc_best"] = ranked(attack * member + rng.normal(size=100))
    return {**found, "control_linear": ranked(control * member + rng.normal(size=100))}


def test_what_raw_videos_give_away_anyway_is_not_the_anonymizers() -> None:
    draws = Draws(RULES)
    alone = members.of([answers(2, 0, 1), answers(2, 0, 2)], "m", draws)
    assert alone.attacker == "m/best"
    assert alone.low is not None
    assert 0.3 < alone.low < (alone.risk or 0)
    anyway = members.of([answers(2, 2.5, 1), answers(2, 2.5, 2)], "m", draws)
    assert (anyway.control or 0) > 0.9
    assert (anyway.risk or 0) < 0.1


def test_the_best_of_many_who_know_nothing_is_no_risk() -> None:
    found = members.of([answers(0, 0, 3), answers(0, 0, 4)], "m", Draws(RULES))
    assert (found.control or 0) > 0.52  # the best of seven guesses is more than a coin
    assert (found.risk or 0) < 0.1
    assert found.low == 0


def test_few_people_in_many_videos_are_exchanged_with_all_of_them() -> None:
    """Ten people on either side who look alike in all of their ten videos: who is a member is luck."""
    ids = tuple(f"v{i:03d}" for i in range(200))
    truth = (np.arange(200) < 100).astype(float)
    risks: dict[str, list[float]] = {"people": [], "videos": []}
    for trial in range(20):
        rng = np.random.default_rng([9, trial])
        looks = rng.normal(size=(7, 20)).repeat(10, axis=1)
        found = {f"auc_{n}": RankOutcome(truth, one, np.arange(200), ids) for n, one in enumerate(looks)}
        for kind, known in (("people", {one: f"p{i // 10}" for i, one in enumerate(ids)}), ("videos", {})):
            risks[kind].append(members.of([found], "m", Draws(RULES, trial, known)).risk or 0.0)
    assert np.mean(risks["people"]) < 0.15 < 0.25 < np.mean(risks["videos"])


def test_an_attack_that_is_always_right_is_not_certain_of_it() -> None:
    found = members.of([answers(50, 0, 5), answers(50, 0, 6)], "m", Draws(RULES))
    assert found.main == 1
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.high  # every draw of so few videos says the same, and that proves little
