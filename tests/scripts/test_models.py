from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scripts import models
from videoveil import shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.pixel import PixelAnonymizer
from videoveil.errors import UsageError
from videoveil.recipes import veil


def test_every_shipped_model_has_a_way_to_be_made_and_a_card_that_says_what_was_measured() -> None:
    assert set(shipped.names()) == {name for name in models.MODELS if models.is_measured(name)}
    assert models.stale() == [], "run python scripts/models.py --cards"


def test_a_card_follows_the_stored_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads((models.ROOT / "docs/data/pixels-twins.json").read_text("utf-8"))
    for record in data["rows"]["veil-pixel"]["frames"]:
        record["value"] += 0.1
    copied = tmp_path / "docs/data"
    shutil.copytree(models.ROOT / "docs/data", copied)
    (copied / "pixels-twins.json").write_text(json.dumps(data), "utf-8")
    before = {one.name: one.value for one in models.card("veil-pixel").measurements}
    monkeypatch.setattr(models, "ROOT", tmp_path)
    after = {one.name: one.value for one in models.card("veil-pixel").measurements}
    changed = {name for name in before if abs(before[name] - after[name]) > 1e-6}
    assert changed == {name for name in before if "in frames, the better" in name}


@pytest.mark.parametrize("name", shipped.names())
def test_a_mean_over_seeds_stands_beside_the_mean_of_their_chances(name: str) -> None:
    twins = models.MODELS[name].figures[0]
    row = twins.stored()["rows"][twins.row]
    shown = {one.name: one.chance for one in models.card(name).measurements}
    measured = [score for score in twins.scores if score.name in shown]
    assert measured
    for score in measured:
        chances = [record["chance"] for record in row[score.key]]
        assert shown[score.name] == pytest.approx(sum(chances) / len(chances), abs=1e-4)


@pytest.mark.parametrize("name", shipped.names())
def test_a_card_names_the_twins_of_its_rows_and_what_was_not_measured(name: str) -> None:
    card, parts = models.card(name), models.MODELS[name].figures
    shown = {one.name for one in card.measurements}
    every = [score for figures in parts for score in figures.scores]
    about = card.notes.partition("the attackers know")[0]
    twins = {score.twin for score in every if score.name in shown and score.twin}
    assert {score.twin for score in every if score.twin and score.twin in about} == twins
    told = card.notes.partition(" were not measured.")[0].rpartition(". ")[2].lower()
    for score in every:
        assert score.name in shown or score.lacking.lower() in told
    assert ("were not measured" in card.notes) == any(score.name not in shown for score in every)


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        (
            "splavu-tiny",
            [
                "benchmarks/latent_study.py OUT --seeds {} --variants =splavu-tiny --parts action static moving",
            ],
        ),
        ("veil-tiny", ["benchmarks/latent_study.py OUT --seeds {} --variants =veil-tiny"]),
        ("veil-motion-tiny", ["benchmarks/latent_study.py OUT --seeds {} --variants =veil-motion-tiny"]),
        *[
            (
                row.removeprefix("="),
                [
                    f"benchmarks/pixel_study.py OUT --scale gpu --seeds {{}} --rows {row} --device cuda",
                    f"benchmarks/real_pixels.py DATA OUT --rows {row} --device cuda",
                    f"benchmarks/detectors.py DATA OUT --rows {row.removeprefix('=')}",
                ],
            )
            for row in ("veil-pixel", "=veil-unet", "=penalty-unet")
        ],
    ],
)
def test_a_card_says_what_measured_it(name: str, commands: list[str]) -> None:
    twins = models.MODELS[name].figures[0]
    stored = twins.stored()
    seeds = " ".join(map(str, stored["seeds"][: len(stored["rows"][twins.row]["action"])]))
    told = models.card(name).notes.partition("Measured by ")[2]
    assert told.count("`python ") == len(commands)
    for command in commands:
        assert f"`python {command.format(seeds)}`" in told
        assert (models.ROOT / command.split()[0]).is_file()


def test_one_that_is_made_from_nothing_speaks_of_no_data_and_of_the_encoder_that_it_is_bound_to() -> None:
    notes = models.card("veil-motion-tiny").notes
    assert "that it was made from" not in notes
    assert "it is for encoders of real faces" not in notes
    assert "make one for that encoder" in notes


def test_the_line_drawing_has_the_rows_on_real_clips_that_were_stored_for_it() -> None:
    rows = {one.name: one for one in models.card("veil-pixel").measurements}
    stored = json.loads((models.ROOT / "docs/data/pixels-real.json").read_text("utf-8"))["rows"]["veil-pixel"]
    for score in models.REAL_SCORES:
        assert rows[score.name].value == pytest.approx(stored[score.key]["value"], abs=1e-4)
    assert {score.name for score in models.DETECTED_SCORES} < set(rows)
    assert all(name.startswith(("synthetic: ", "real: ")) for name in rows)


def test_the_line_drawing_is_made_again_to_the_last_bit(tmp_path: Path) -> None:
    made = publish.load(models.make("veil-pixel", tmp_path, "cpu"))
    kept = publish.load(shipped.folder("veil-pixel"))
    assert isinstance(made, PixelAnonymizer)
    assert made.card == kept.card
    assert made.content_hash() == kept.content_hash()


def test_motion_only_is_made_again_to_the_last_bit(tmp_path: Path) -> None:
    made = publish.load(models.make("veil-motion-tiny", tmp_path, "cpu"))
    assert made.content_hash() == publish.load(shipped.folder("veil-motion-tiny")).content_hash()


def test_the_keeper_is_our_default_and_was_made_from_casts_that_no_study_reports_on() -> None:
    kept = publish.load(shipped.folder("veil-tiny"))
    assert kept.config.stages == veil().stages
    assert f"seeds {', '.join(map(str, models.CASTS))})" in kept.card.training_data
    for name in (
        "latent-twins",
        "pixels-twins",
        "gait-twins",
        "bias-twins",
        "shipped-veil-tiny",
        "shipped-splavu-tiny",
    ):
        figures = json.loads((models.ROOT / f"docs/data/{name}.json").read_text("utf-8"))
        assert not set(models.CASTS) & set(figures["seeds"])


def test_the_published_objective_says_that_it_keeps_its_task_and_hides_nothing() -> None:
    kept = publish.load(shipped.folder("splavu-tiny"))
    stored = models.MODELS["splavu-tiny"].figures[0].stored()["rows"]
    told = {name: sum(one["value"] for one in stored["=splavu-tiny"][name]) / 3 for name in stored["raw"]}
    raw = {name: sum(one["value"] for one in found) / 3 for name, found in stored["raw"].items()}
    chance = sum(one["chance"] for one in stored["raw"]["static"]) / 3
    worst = max((told[name] - chance) / (raw[name] - chance) for name in ("static", "moving"))
    assert worst > 0.9
    assert f"fresh attackers find {worst:.2f} of what they find in raw features" in kept.card.notes
    assert "hides nothing" in kept.card.notes
    assert "not for publishing" in kept.card.notes
    assert "Every stage can be undone in principle" in shipped.card("splavu-tiny")
    assert kept.config.stages == models.splavu_tiny().stages


def test_weights_in_half_precision_are_the_numbers_that_were_measured(tmp_path: Path) -> None:
    kept = shipped.folder("splavu-tiny")
    tensors = load_file(kept / publish.WEIGHTS)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    model = publish.load(kept)
    models.write(model, "splavu-tiny", tmp_path)
    assert (tmp_path / publish.WEIGHTS).read_bytes() == (kept / publish.WEIGHTS).read_bytes()
    assert publish.load(tmp_path).content_hash() == model.content_hash()
    assert (tmp_path / publish.WEIGHTS).stat().st_mode & 0o044 == 0o044  # whoever installs it may read it


@pytest.mark.parametrize(
    "name", [name for name in shipped.names() if "width" not in shipped.facts(name)["config"]]
)
def test_no_measured_detector_is_missing_from_a_card(name: str) -> None:
    figures = next(one for one in models.MODELS[name].figures if "detectors" in one.data)
    rows = {one.name: one.value for one in models.card(name).measurements}
    cells = figures.stored()["rows"][figures.row]
    asked = {score.key for score in models.DETECTED_SCORES}
    assert asked == {f"{what}/{part}" for what in cells for part in ("found", "lowered")}
    for score in models.DETECTED_SCORES:
        what, part = score.key.split("/")
        assert rows[score.name] == pytest.approx(cells[what][part]["value"], abs=1e-4)


def test_a_card_of_one_seed_has_no_intervals_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads((models.ROOT / "docs/data/shipped-veil-tiny.json").read_text("utf-8"))
    data["rows"]["=veil-tiny"] = {key: found[:1] for key, found in data["rows"]["=veil-tiny"].items()}
    (tmp_path / "docs/data").mkdir(parents=True)
    (tmp_path / "docs/data/shipped-veil-tiny.json").write_text(json.dumps(data), "utf-8")
    monkeypatch.setattr(models, "ROOT", tmp_path)
    card = models.card("veil-tiny")
    assert card.measurements
    assert all(one.low is None and one.high is None for one in card.measurements)
    assert "a single seed, so there are no intervals" in card.notes
    raw = {one.name: one.raw for one in card.measurements}
    assert round(data["rows"]["raw"]["action"][0]["value"], 4) in raw.values()  # of the same seed


# --- UNets --------------------------------------------------------------------------------------------------

TRAINING = {
    "seed": 0,
    "clips": {"hmdb51": 840, "vphmdb": 192},
    "epochs": 4,
    "planned": 10,
    "stopped": "L_T exploded",
    "last": {"budget": 2.5},
    "limit": None,
}
UNETS = [name for name, one in models.MODELS.items() if one.make is None]


def figures(name: str, folder: Path) -> None:
    """What the three studies would store of a model."""
    by_seed = [{"value": value, "chance": 0.3} for value in (0.5, 0.6, 0.7)]
    one = {"value": 0.45, "low": 0.4, "high": 0.5, "chance": 0.25}
    keys = [score.key for score in models.PIXEL_SCORES]
    twins = {row: dict.fromkeys(keys, by_seed) for row in ("raw", f"={name}")}
    drawn = {"value": 20.5, "low": 20.25, "high": 20.75, "chance": 12.5}
    cells = {"action": one, "faces": one, "drawn_faces": one, "drawn": drawn, "ssim_drawn": {"value": 0.75}}
    real = dict.fromkeys(("raw", f"={name}"), cells)
    detected = {row: {"faces in clips": {"found": one}} for row in ("raw", name)}
    for stem, rows in (("pixels-twins", twins), ("pixels-real", real), ("detectors-real", detected)):
        folder.mkdir(parents=True, exist_ok=True)
        found = {"seeds": [20, 21, 22], "rows": rows}
        (folder / f"shipped-{stem}.json").write_text(json.dumps(found), "utf-8")


@pytest.mark.parametrize("name", UNETS)
def test_a_card_keeps_synthetic_and_real_figures_in_rows_of_their_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ROOT", tmp_path)
    assert not models.is_measured(name)
    figures(name, tmp_path / "docs" / "data")
    assert models.is_measured(name)
    rows = models.card(name).measurements
    assert [one.name.partition(":")[0] for one in rows] == ["synthetic"] * 5 + ["real"] * 6
    found = [(one.value, one.low, one.high, one.chance) for one in rows[5:]]
    assert {found[place] for place in (0, 1, 2, 5)} == {(0.45, 0.4, 0.5, 0.25)}
    assert found[3] == (20.5, 20.25, 20.75, 12.5)  # decibels end at no 1
    assert found[4] == (0.75, None, None, None)  # nothing is made up for what was not kept
    assert {(one.value, one.raw, one.chance) for one in rows[:5]} == {(0.6, 0.6, 0.3)}


@pytest.mark.parametrize("name", UNETS)
def test_a_score_that_is_missing_takes_its_twin_along_and_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ROOT", tmp_path)
    figures(name, tmp_path / "docs" / "data")
    notes = models.card(name).notes
    assert "twins of VP-HMDB51 and UCF-Crime at 64²" in notes
    assert (
        "Faces in photographs that a detector finds and people that a detector finds were not measured."
        in notes
    )
    for stem, key in (("pixels-twins", "anomaly"), ("pixels-real", "drawn_faces")):
        path = tmp_path / f"docs/data/shipped-{stem}.json"
        data = json.loads(path.read_text("utf-8"))
        del data["rows"][f"={name}"][key]
        path.write_text(json.dumps(data), "utf-8")
    notes = models.card(name).notes
    assert "twins of VP-HMDB51 at 64²" in notes
    assert (
        "Anomalies, real faces drawn again, faces in photographs that a detector finds and people that a detector "
        "finds were not measured." in notes
    )


@pytest.mark.parametrize("name", UNETS)
def test_a_card_says_how_the_training_went_and_why_it_ended(name: str, tmp_path: Path) -> None:
    (tmp_path / models.TRAINING).write_text(json.dumps(TRAINING), "utf-8")
    notes = models.card(name, tmp_path).notes
    assert "840 clips of hmdb51 and 192 clips of vphmdb, 4 of 10 epochs" in notes
    assert "Not all of them: L_T exploded." in notes
    assert f"scripts/models.py {name} OUT --data DATA" in notes
    assert "failures" in notes


@pytest.mark.parametrize("name", UNETS)
def test_a_card_of_one_that_learnt_from_real_clips_says_whose_terms_hold_and_that_a_gpu_repeats_nothing(
    name: str,
) -> None:
    notes = publish.load(shipped.folder(name)).card.notes
    assert "for research only: for any other use look at the terms of that data" in notes
    assert (
        "What it was trained on was not recorded; made again on a GPU its weights come out different" in notes
    )
    assert f"scripts/models.py {name} OUT --data DATA --device cuda`" in notes


@pytest.mark.parametrize("name", UNETS)
def test_one_without_figures_says_so_on_its_card(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "ROOT", tmp_path)
    card = models.card(name)
    assert card.measurements == ()
    assert "not measured yet" in card.notes
    assert "Measured by" not in card.notes


def test_one_that_learns_from_real_clips_wants_to_know_where_they_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--data"):
        models.make("veil-unet", tmp_path, "cpu")


@pytest.mark.parametrize("name", shipped.names())
def test_nothing_that_was_made_to_try_the_script_comes_with_the_package(name: str) -> None:
    path = shipped.folder(name) / models.TRAINING
    assert path.is_file() == (name in UNETS)
    assert not path.is_file() or json.loads(path.read_text("utf-8"))["limit"] is None
