from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import models
from videoveil import shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.pixel import PixelAnonymizer
from videoveil.recipes import veil


def test_every_shipped_model_has_a_way_to_be_made_and_a_card_that_says_what_was_measured() -> None:
    assert set(shipped.names()) == set(models.MODELS)
    assert models.stale() == [], "run python scripts/models.py --cards"


def test_a_card_follows_the_stored_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads((models.ROOT / "docs/data/pixels-twins.json").read_text("utf-8"))
    for record in data["rows"]["veil-pixel"]["frames"]:
        record["value"] += 0.1
    (tmp_path / "docs/data").mkdir(parents=True)
    (tmp_path / "docs/data/pixels-twins.json").write_text(json.dumps(data), "utf-8")
    before = {one.name: one.value for one in models.card("veil-pixel").measurements}
    monkeypatch.setattr(models, "ROOT", tmp_path)
    after = {one.name: one.value for one in models.card("veil-pixel").measurements}
    changed = {name for name in before if abs(before[name] - after[name]) > 1e-6}
    assert changed == {name for name in before if "in frames, the better" in name}


def test_the_line_drawing_is_made_again_to_the_last_bit(tmp_path: Path) -> None:
    made = models.MODELS["veil-pixel"].make(tmp_path, "cpu")
    kept = publish.load(shipped.folder("veil-pixel"))
    assert isinstance(made, PixelAnonymizer)
    assert made.content_hash() == kept.content_hash()


def test_motion_only_is_made_again_to_the_last_bit(tmp_path: Path) -> None:
    made = models.MODELS["veil-motion-tiny"].make(tmp_path, "cpu")
    assert made.content_hash() == publish.load(shipped.folder("veil-motion-tiny")).content_hash()


def test_the_eraser_is_our_default_and_was_made_from_a_cast_that_no_study_reports_on() -> None:
    kept = publish.load(shipped.folder("veil-tiny"))
    assert kept.config.stages == veil().stages
    assert f"--seed {models.CAST} " in kept.card.training_data
    for name in ("latent-twins", "pixels-twins", "gait-twins", "bias-twins", "shipped-latent"):
        figures = json.loads((models.ROOT / f"docs/data/{name}.json").read_text("utf-8"))
        assert models.CAST not in figures["seeds"]


def test_a_card_of_one_seed_has_no_intervals_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads((models.ROOT / "docs/data/shipped-latent.json").read_text("utf-8"))
    data["rows"]["=veil-tiny"] = {key: found[:1] for key, found in data["rows"]["=veil-tiny"].items()}
    (tmp_path / "docs/data").mkdir(parents=True)
    (tmp_path / "docs/data/shipped-latent.json").write_text(json.dumps(data), "utf-8")
    monkeypatch.setattr(models, "ROOT", tmp_path)
    card = models.card("veil-tiny")
    assert card.measurements
    assert all(one.low is None and one.high is None for one in card.measurements)
    assert "a single seed, so there are no intervals" in card.notes
    raw = {one.name: one.raw for one in card.measurements}
    assert round(data["rows"]["raw"]["action"][0]["value"], 4) in raw.values()  # of the same seed
