from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from videoveil.anonymizers.card import Measurement, ModelCard
from videoveil.anonymizers.pixel import Grey, pixel
from videoveil.errors import UsageError
from videoveil.serve.answers import ModelAnswer
from videoveil.serve.figures import describe
from videoveil.serve.settings import Model


def write_audit(folder: Path) -> Path:
    """What `veil audit` writes, as far as it is read here."""

    def score(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    def question(name: str, role: str, judged: bool = True) -> dict[str, Any]:
        return {
            "name": name,
            "role": role,
            "judged": judged,
            "metric": "cmap",
            "strongest": "linear",
            "anonymized": score(0.4),
            "raw": score(0.9),
            "chance": 0.25,
        }

    metrics = {
        "questions": [
            question("private attributes", "attack"),
            question("actions", "utility"),
            question("not judged", "attack", judged=False),
        ],
        "verdict": {"privacy": "PASS", "utility": "FAIL"},
        "rules": {"level": 0.95},
        "data": {"name": "vphmdb", "synthetic": True},
    }
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


def test_an_audit_gives_figures_with_intervals_and_chance(tmp_path: Path) -> None:
    told = describe(Model("blur", "blur", write_audit(tmp_path / "audit")))
    ModelAnswer(**told)
    privacy, utility = told["figures"]
    assert (privacy["kind"], privacy["better"], utility["kind"], utility["better"]) == (
        "privacy",
        "low",
        "utility",
        "high",
    )
    assert (privacy["value"], privacy["raw"], privacy["chance"]) == (0.4, 0.9, 0.25)
    assert privacy["low"] == pytest.approx(0.3)
    assert told["audit"]["synthetic"] is True


def test_a_card_gives_figures_without_made_up_intervals(tmp_path: Path) -> None:
    card = ModelCard(
        "the theatre", (Measurement("skin, linear", "attack", "auc", 0.6, 0.9, 0.5),), "notes", "mit"
    )
    folder = _model(tmp_path, card)
    told = describe(Model("grey", str(folder)))
    ModelAnswer(**told)
    (figure,) = told["figures"]
    assert (figure["kind"], figure["value"], figure["raw"], figure["chance"]) == ("privacy", 0.6, 0.9, 0.5)
    assert figure["low"] is None
    assert told["training_data"] == "the theatre"


def _model(folder: Path, card: ModelCard) -> Path:
    made = pixel(Grey())
    made.card = card
    return made.save_pretrained(folder / "model")


def test_a_classical_model_has_no_figures() -> None:
    told = describe(Model("blur", "blur"))
    assert (told["figures"], told["audit"]) == ([], None)


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_an_audit_that_cannot_be_read_is_an_error_at_the_start(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "metrics.json").write_text(text)
    with pytest.raises(UsageError, match="--audit of blur"):
        describe(Model("blur", "blur", tmp_path))
