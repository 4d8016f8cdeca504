from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tasks.make_store import write_store
from videoveil.audit import risk
from videoveil.audit.rules import Rules
from videoveil.audit.subject import Side, Stores, Subject
from videoveil.data.records import Dataset, Item
from videoveil.tasks.outcomes import AttributeOutcome

RULES = Rules(resamples=200)
WIDTH, PEOPLE = 12, 6


def stores(tmp_path: Path, change: str) -> tuple[Subject, Stores]:
    """Raw and anonymized features: of every person four videos for training and four for test."""
    rng = np.random.default_rng(0)
    faces = rng.normal(0, 3, (PEOPLE, WIDTH))
    mixer = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    items, raw, veiled = [], [], []
    for n in range(8 * PEOPLE):
        person, split = n % PEOPLE, "train" if n < 4 * PEOPLE else "test"
        items.append(Item(f"v{n:02d}", tmp_path / "none", split, subject=f"p{person}"))
        rows = faces[person] + rng.normal(0, 1, WIDTH) + rng.normal(0, 0.1, (2, WIDTH))
        raw.append(rows.astype(np.float32))
        changed = {"rotated": rows @ mixer, "noise": rng.normal(0, 1, rows.shape)}[change]
        veiled.append(changed.astype(np.float32))
    write_store(tmp_path / "raw", items, raw)
    write_store(tmp_path / "own", items, veiled, salt="other")
    data = Dataset("made-up", tmp_path, tuple(items))
    subject = Subject("made-up", "x", Side("raw", data), Side("anonymized", data))
    return subject, Stores(subject, tmp_path / "raw", tmp_path / "own")


def test_the_original_is_found_through_a_rotation_that_can_be_learnt(tmp_path: Path) -> None:
    found = risk._singling_out(*stores(tmp_path, "rotated"), RULES, 0)
    assert found.attacker == "a learnt way back to raw features"
    assert (found.main or 0) > 0.7
    assert found.baseline == pytest.approx(1 / 24)
    assert (found.control or 1) < 0.2
    assert (found.low or 0) > 0.4


def test_a_person_is_linked_where_videos_of_them_are_alike(tmp_path: Path) -> None:
    found = risk._linkability(*stores(tmp_path, "rotated"), RULES, 0)
    assert (found.main or 0) > 0.9
    assert found.baseline == pytest.approx(3 / 23)
    assert (found.low or 0) > 0.5


@pytest.mark.parametrize("measure", [risk._singling_out, risk._linkability])
def test_noise_is_no_risk(measure: object, tmp_path: Path) -> None:
    found = measure(*stores(tmp_path, "noise"), RULES, 0)  # type: ignore[operator]
    assert (found.risk or 0) < 0.15
    assert found.low == 0.0


def test_risk_is_what_the_attack_closes_of_what_the_control_leaves_open() -> None:
    assert risk.above(0.8, 0.6) == pytest.approx(0.5)
    assert risk.above(0.4, 0.6) == 0.0
    assert risk.above(1.0, 1.0) == 0.0


@pytest.mark.parametrize(("rate", "trials"), [(0.0, 20), (1.0, 20), (0.35, 40)])
def test_wilson_by_its_definition(rate: float, trials: int) -> None:
    """Both ends are rates p whose distance to the observed one is 1.96 of their own standard errors."""
    for end in risk.wilson(rate, trials):
        if 0 < end < 1:
            assert abs(rate - end) == pytest.approx(1.959964 * np.sqrt(end * (1 - end) / trials), rel=1e-4)
    low, high = risk.wilson(rate, trials)
    assert 0 <= low <= rate <= high <= 1
    assert low < high


def outcome(knows: float, seed: int = 0, n: int = 60, k: int = 4) -> AttributeOutcome:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (n, k)).astype(float).repeat(3, 0)
    scores = rng.random(truth.shape)
    scores[:, 0] = knows * truth[:, 0] + (1 - knows) * rng.random(len(truth))
    return AttributeOutcome(
        tuple("abcd"), truth, scores, np.arange(n).repeat(3), tuple(f"v{i}" for i in range(n))
    )


def test_pairs_told_apart_by_hand() -> None:
    truth, ranks = np.array([[1.0, 0, 1, 0]]), np.array([4.0, 1.0, 2.0, 2.0])
    slow = np.mean([[1.0 if p > q else 0.5 if p == q else 0.0 for q in (1, 2)] for p in (4, 2)])
    assert risk.pairs_right(truth, ranks)[0] == pytest.approx(slow)


def test_an_attribute_that_is_known_is_a_risk_and_named() -> None:
    found = risk.inference({"blind": [outcome(0.0)] * 2, "knowing": [outcome(0.8)] * 2}, RULES, 0)
    assert found.attacker == "knowing, a"
    assert (found.low or 0) > 0.8
    assert found.baseline == 0.5


def test_the_control_knows_that_the_best_of_many_was_chosen() -> None:
    found = risk.inference({f"blind {i}": [outcome(0.0, i)] for i in range(8)}, RULES, 0)
    assert (found.main or 0) > 0.55  # by luck, out of 32
    assert (found.control or 0) > 0.55
    assert (found.risk or 0) < 0.15


def test_without_attributes_there_is_no_figure() -> None:
    found = risk.inference({}, RULES, 0)
    assert found.risk is None
    assert "no attacker" in found.reason
