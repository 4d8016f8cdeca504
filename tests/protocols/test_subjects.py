from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from videoveil.anonymizers import Noise, NoiseKey, latent
from videoveil.anonymizers.obfuscate import Fixed
from videoveil.errors import UsageError
from videoveil.protocols.covering import PeoplePainter
from videoveil.protocols.subjects import COVERED, baseline, from_run, row_of, split_row
from videoveil.recipes import pixel_names, pixel_recipe, recipe, recipe_names
from videoveil.recipes.runs import note


def test_the_row_of_a_run_is_that_of_its_recipe() -> None:
    assert row_of({"name": "spact"}, Path("x")) == "SPAct"
    assert row_of({"name": "penalty", "settings": {"penalty": {"bound": 0.3}}}, Path("x")) == "Penalty B=.3"
    assert row_of({"name": "veil"}, Path("x")) == "veil"
    assert row_of({}, Path("a/b")) == "b"


def test_only_the_published_recipe_itself_is_the_row_of_the_method() -> None:
    rows = {name: row_of(recipe(name).to_json(), Path("x")) for name in recipe_names()}
    assert [name for name, row in rows.items() if row == "SPLAVU"] == [
        "splavu",
        "splavu-actions",
        "splavu-hmdb51",
    ]
    assert rows["table8/mlp1"] == "table8/mlp1"
    rows = {name: row_of(pixel_recipe(name).to_json(), Path("x")) for name in pixel_names()}
    whole = {"spact": "SPAct", "spact-released": "SPAct", "ted-spad": "TeD-SPAD", "vita": "VITA"}
    bounds = {name: f"Penalty B=.{name[-1]}" for name in rows if name.startswith("penalty/B=")}
    assert len(bounds) == 4
    expected = whole | bounds | {"penalty": "Penalty B=.3"}
    assert rows == {name: expected.get(name, name) for name in rows}


def test_what_a_run_notes_of_itself_is_said_beside_its_figures(latent_run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(latent_run, copy)
    note(copy, notes=["published with VideoMAE-B, made here with tiny"])
    assert from_run(str(copy)).about().startswith("published with VideoMAE-B, made here with tiny; ")
    assert "published" not in from_run(str(latent_run)).about()


def test_a_row_may_have_a_sign_of_equality_in_its_name() -> None:
    assert split_row("w_LC=10=some/run") == ("w_LC=10", Path("some/run"))
    assert split_row("some/run") == ("", Path("some/run"))


def test_a_folder_with_a_sign_of_equality_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert split_row(str(tmp_path / "a=b")) == ("", tmp_path / "a=b")


def test_runs_say_what_they_are_and_what_they_learnt_from(latent_run: Path, pixel_run: Path) -> None:
    one, other = from_run(str(latent_run)), from_run(f"SPAct={pixel_run}")
    assert one.row == "veil"
    assert one.latent is not None
    assert one.pixels is None
    assert other.row == "SPAct"
    assert other.pixels is not None
    assert one.learnt_from == ("hmdb51",)
    assert one.twin
    assert other.twin
    assert "twin" in one.about()
    assert one.identity != other.identity


def test_data_that_the_paper_did_not_train_on_is_said(pixel_run: Path) -> None:
    from dataclasses import replace

    real = replace(from_run(str(pixel_run)), twin=False)
    assert "made from ucf101, published with hmdb51" in real.about(("hmdb51",))
    assert real.about(("ucf101",)) == ""


def test_a_folder_without_an_anonymizer_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="veil train RECIPE"):
        from_run(str(tmp_path))


def test_noise_needs_its_key(tmp_path: Path) -> None:
    made = latent(8, Noise(learned=False))
    import torch

    made.fit_from(torch.randn(32, 8))
    made.save_pretrained(tmp_path / "noisy")
    with pytest.raises(UsageError, match="--key FILE"):
        from_run(str(tmp_path / "noisy"))
    one, other = (from_run(str(tmp_path / "noisy"), NoiseKey(bytes([n]) * 32)) for n in (1, 2))
    assert one.identity != other.identity
    assert one.row == "noisy"


def test_downsampling_is_a_baseline_and_blackening_needs_a_detector() -> None:
    assert baseline("Raw").pixels is None
    assert baseline("Down-2x").identity != baseline("Down-4x").identity
    with pytest.raises(UsageError, match="Blackening: somebody has to find the people"):
        baseline("Blackening")
    with pytest.raises(UsageError, match="no baseline 'SPAct'"):
        baseline("SPAct")


def test_with_a_detector_people_are_covered_and_the_cell_says_where_they_were_looked_for() -> None:
    import torch

    made = baseline("Blackening", Fixed(np.array([[2, 2, 6, 6, 1]], dtype=np.float32)))
    assert isinstance(made.paint, PeoplePainter)
    assert "in whole frames, in photographs with a short side of 512" in made.about()
    assert made.pixels is not None  # of features, whose pictures are covered as the encoder gets them
    shown = made.pixels.transform(torch.ones(1, 3, 2, 8, 8))
    assert shown[0, :, 0, 3, 3].tolist() == [0, 0, 0]
    assert shown[0, :, 0, 0, 0].tolist() == [1, 1, 1]
    on_features = made.about(on_features=True)
    assert "not in whole frames" in on_features
    assert "a kernel of so many pixels is larger against the picture" in on_features
    assert baseline("Down-2x").about(on_features=True) == ""
    assert len({baseline(row, Fixed(np.zeros((0, 5), np.float32))).identity for row in COVERED}) == 3


def test_a_damaged_run_is_named(latent_run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(latent_run, copy)
    (copy / "run.json").write_text("{")
    with pytest.raises(UsageError, match=r"run\.json: damaged"):
        from_run(str(copy))
    (copy / "run.json").write_text(json.dumps({"sources": {"action": {"store": "/nowhere", "dataset": "x"}}}))
    assert not from_run(str(copy)).twin
