"""The card of the embedded encoder: every figure beside its chance, with an interval."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from scripts.train_tiny import HEADS

from scripts import tiny_card
from videoveil import shipped

ROW = re.compile(r"([\d.]+) \[([\d.]+), ([\d.]+)\] \| ([\d.]+) \|$", re.MULTILINE)


def test_the_card_is_what_would_be_written_now() -> None:
    assert tiny_card.stale() == [], "run python scripts/models.py --cards"


def test_every_figure_has_an_interval_and_a_chance_below_it() -> None:
    rows = [tuple(map(float, row)) for row in ROW.findall(shipped.card("tiny"))]
    assert len(rows) == len(HEADS) + len(tiny_card.real())
    for value, low, high, chance in rows:
        assert chance < low <= value <= high


def test_a_blind_guess_of_the_held_out_clips_is_their_commonest_answer() -> None:
    asked = tiny_card.held_out()
    assert set(asked) == set(HEADS) == set(tiny_card.WORDS) == set(tiny_card.accuracies())
    assert asked["scene"].clips == tiny_card.CLIPS  # every clip has one
    assert asked["incident"].chance == pytest.approx(0.906, abs=5e-4)
    for name, one in asked.items():
        assert 1 / HEADS[name] <= one.chance < tiny_card.accuracies()[name]


def test_an_interval_is_that_of_so_many_clips() -> None:
    assert tiny_card.share(0.5, 100) == "50.0 [40.4, 59.6]"
    assert tiny_card.share(1.0, 3283) == "100.0 [99.9, 100.0]"


def test_the_real_figure_is_the_stored_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [round(100 * one["value"], 1) for one in tiny_card.real()] == [37.2, 36.1]
    assert "37.2 [32.4, 42.3] | 8.3 |" in shipped.card("tiny")
    data = json.loads((tiny_card.ROOT / "docs/data/tasks-real.json").read_text("utf-8"))
    data["rows"]["probe"][0]["metrics"]["top1"]["value"] = 0.25
    (tmp_path / "docs/data").mkdir(parents=True)
    (tmp_path / "docs/data/tasks-real.json").write_text(json.dumps(data), "utf-8")
    monkeypatch.setattr(tiny_card, "ROOT", tmp_path)
    assert tiny_card.stale() == ["tiny"]
