from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import models
from videoveil import shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.pixel import PixelAnonymizer


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
