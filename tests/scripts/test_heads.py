from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.heads import table

from scripts import heads as script
from scripts import models
from tests.tasks.make_store import anomaly_store
from tests.tasks.mgfn.synthetic import make_videos
from videoveil import shipped
from videoveil.tasks import heads, registry
from videoveil.tasks.runs import Run, score


def test_every_shipped_head_has_a_way_to_be_made_and_a_card_that_says_what_was_measured() -> None:
    assert set(shipped.heads()) == set(script.HEADS)
    assert script.stale() == [], "run python scripts/models.py --cards"


@pytest.mark.parametrize("name", script.HEADS)
def test_a_shipped_head_has_the_settings_that_it_would_be_made_with_again(name: str) -> None:
    head, kept = script.HEADS[name], Run.open(shipped.head_place(name))
    kind = registry.kind(head.task)
    assert kind.from_json(kept.settings).config == kind.config(head.preset, head.changes)
    assert (kept.task, kept.source["dataset"], kept.source["split"]) == (head.task, head.twin, "train")
    assert kept.seed < head.trainings


def test_heads_learnt_from_a_cast_that_no_study_reports_on() -> None:
    assert script.CAST == models.CAST
    assert script.CAST not in script.figures()["seeds"]
    for name in shipped.heads():
        assert f"--seed {script.CAST} " in heads.card_of(shipped.head_place(name)).training_data


def test_what_was_chosen_on_test_videos_is_on_the_card() -> None:
    for name, head in script.HEADS.items():
        told = heads.card_of(shipped.head_place(name)).training_data
        assert ("the best of 3 trainings on the twin's own test videos" in told) == (head.task == "anomaly")
        chosen = "its width and schedule were chosen on the twin's own test videos" in told
        assert chosen == (head.task == "detection") == bool(head.changes)


@pytest.mark.parametrize("name", script.HEADS)
def test_a_card_says_what_measured_it(name: str) -> None:
    real = " --real DATA" if name in script.figures()["real"] else ""
    told = heads.card_of(shipped.head_place(name)).notes
    assert f"Measured by `python benchmarks/heads.py OUT --seeds 20 21 22{real}`." in told


def test_figures_are_of_the_anonymizer_that_comes_with_the_package() -> None:
    """Whoever makes that one anew measures the heads anew: `benchmarks/heads.py`."""
    assert script.figures()["anonymizer"] == shipped.facts(script.VEIL)["content_hash"]


def test_a_card_follows_the_stored_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = script.figures()
    for record in data["rows"]["action-tiny"]["raw features"]:
        record["value"] = 0.5
    data["real"]["action-tiny"] = {"items": 123, "score": {"value": 0.1, "chance": 0.2}}
    (tmp_path / "docs/data").mkdir(parents=True)
    (tmp_path / f"docs/data/{script.DATA}.json").write_text(json.dumps(data), "utf-8")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    assert script.stale() == ["action-tiny"]
    card = script.card("action-tiny", Run.open(shipped.head_place("action-tiny")))
    (raw,) = (one for one in card.measurements if one.name == "raw features")
    assert (raw.value, raw.low, raw.high) == (0.5, 0.5, 0.5)
    assert "123 test clips" in card.notes
    assert "0.100 (a blind guess 0.200)" in card.notes


def test_a_head_without_figures_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "ROOT", tmp_path)
    card = script.card("anomaly-tiny", Run.open(shipped.head_place("anomaly-tiny")))
    assert card.measurements == ()
    assert "not measured" in card.notes
    assert "Measured by" not in card.notes


def test_a_head_made_anew_does_not_get_the_figures_of_the_one_before(tmp_path: Path) -> None:
    shipped_one = Run.open(shipped.head_place("action-tiny"))
    assert script.card("action-tiny", shipped_one).measurements
    other = replace(shipped_one, weights="0" * 64)
    assert script.card("action-tiny", other).measurements == ()
    store = anomaly_store(tmp_path / "s", make_videos(6), make_videos(4, seed=1))
    head = script.Head("anomaly", "made-up", "small", "frame ROC-AUC", {"epochs": "1", "batch": "2"})
    assert script.card("anomaly-tiny", script.train(head, store.root, tmp_path / "run", 0)).measurements == ()


def test_of_several_trainings_the_best_on_its_own_twin_is_kept(tmp_path: Path) -> None:
    store = anomaly_store(tmp_path / "s", make_videos(6), make_videos(4, seed=1))
    head = script.Head("anomaly", "made-up", "small", "frame ROC-AUC", {"epochs": "2", "batch": "2"})
    trained = [script.train(head, store.root, tmp_path / f"run{seed}", seed) for seed in range(3)]
    scores = [score(run).headline.value or 0.0 for run in trained]
    assert len(set(scores)) == 3
    assert script.best(trained).seed == scores.index(max(scores))


def test_the_table_has_the_mean_over_seeds_and_the_blind_guess() -> None:
    records = [{"value": 0.5, "chance": 0.1}, {"value": 0.7, "chance": 0.3}]
    lines = table({"a-head": {"raw features": records}}).splitlines()
    assert lines[2].startswith("| `a-head` | raw features | 60.0 [")
    assert lines[2].endswith("| 20.0 |")
