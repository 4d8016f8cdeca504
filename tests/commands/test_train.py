"""`veil train` from videos: pixel anonymizers, and latent ones with the encoder in the loop; those of stored features
are in `test_features`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.commands.run import inside
from videoveil.anonymizers import Attention, LatentAnonymizer
from videoveil.anonymizers.pixel import PixelAnonymizer
from videoveil.data import twins
from videoveil.features.store import FeatureStore
from videoveil.recipes import RECIPES, splavu_actions

SMALL = {
    "stages": '[{"kind": "unet", "width": 4}]',
    "settings.size": "32",
    "settings.utility.encoder": "tiny",
    "settings.budget.members": '["mobilenet.v1-0.25"]',
    "settings.batch": "16",
    "settings.privacy_batch": "16",
    "settings.epochs": "2",
    "settings.keep_every": "1",
    "settings.start.identity_epochs": "1",
    "settings.start.utility_epochs": "1",
    "settings.start.budget_epochs": "1",
}


def small(**others: str) -> list[str]:
    """A pixel recipe made small enough for a test."""
    return [word for key, value in {**SMALL, **others}.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("twin") / "vphmdb"
    twins.make("vphmdb", root, size="tiny")
    return root


def test_a_pixel_anonymizer_is_trained_from_videos_pictured_and_looked_through(
    tmp_path: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, store = tmp_path / "run", tmp_path / "store"
    train = ["train", "spact", "--data", f"vphmdb:{twin}", "--out", run, "--device", "cpu", *small()]
    said = inside(capsys, *train)
    loaded = PixelAnonymizer.from_pretrained(run)
    assert f"spact: anonymizer {loaded.content_hash()[:12]} for frames, trained at 32² → {run}" in said
    assert f"`veil extract NAME:ROOT OUT --anonymizer {run}`" in said
    assert sorted(path.name for path in (run / "pictures").iterdir()) == [
        "curves.png",
        "epoch-0001.png",
        "epoch-0002.png",
        "progression.png",
        "strip.png",
    ]
    recipe = json.loads((run / "run.json").read_text())["recipe"]
    assert (recipe["name"], recipe["settings"]["epochs"], recipe["settings"]["size"]) == ("spact", 2, 32)
    weights = (run / "model.safetensors").read_bytes()
    (note,) = json.loads((run / "run.json").read_text())["notes"]
    assert note.startswith("the identity start ended with a mean |x − f_A(x)| of ")  # after one epoch
    assert f"note: {note}\n" in said
    again = json.loads(inside(capsys, *train, "--json"))  # finds it done
    assert again == {
        "hash": loaded.content_hash(),
        "notes": [note],
        "recipe": "spact",
        "run": str(run),
        "size": 32,
    }
    assert (run / "model.safetensors").read_bytes() == weights
    other = inside(capsys, *train, "--set", "settings.epochs=3", code=2)
    assert "holds a run with other recipe" in other

    encoder = [
        "--encoder",
        "tiny",
        "--weights",
        run / "utility.safetensors",
        "--clips",
        "1",
        "--device",
        "cpu",
    ]
    inside(capsys, "extract", f"vphmdb:{twin}", store, "--anonymizer", run, *encoder)
    assert FeatureStore.open(store).encoder["pixels"]["hash"] == loaded.content_hash()


def test_a_supervised_baseline_learns_from_the_attributes_of_videos(
    tmp_path: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"settings.budget.source": "video", "settings.epochs": "1", "settings.keep_every": "0"}
    made = inside(capsys, "train", "vita", "--data", f"vphmdb:{twin}", "--out", tmp_path / "run", "--device", "cpu",
                  "--json", *small(**changes))  # fmt: skip
    assert json.loads(made)["recipe"] == "vita"
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert 0 < history[-1]["chance"] < 1  # of attributes, not of pairs
    assert [path.name for path in sorted((tmp_path / "run" / "pictures").iterdir())] == [
        "curves.png",
        "strip.png",
    ]


def test_attention_is_shown_beside_a_run_whose_budget_net_was_taught_otherwise(
    tmp_path: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nets = {"settings.budget.members": '["resnet.18"]', "settings.epochs": "1", "settings.keep_every": "0"}
    told = {**nets, "settings.budget.source": "video"}

    def train(recipe: str, *more: str | Path, code: int = 0, out: str = "", **changes: str) -> str:
        run = tmp_path / (out or recipe)
        data = ["--data", f"vphmdb:{twin}", "--device", "cpu"]
        return inside(capsys, "train", recipe, *data, "--out", run, *small(**changes), *more, code=code)

    train("spact", **nets)
    assert not (tmp_path / "spact" / "pictures" / "attention.png").exists()
    train("vita", "--beside", tmp_path / "spact", **told)
    shown = tmp_path / "vita" / "pictures" / "attention.png"
    with Image.open(shown) as picture:
        assert picture.size[0] > 8 * 32
    train("spact", "--beside", tmp_path / "vita", **nets)  # a finished run is only pictured again
    assert (tmp_path / "spact" / "pictures" / "attention.png").read_bytes() == shown.read_bytes()

    layers = {**told, "settings.budget.members": '["mobilenet.v1-0.25"]'}
    for recipe, changes, beside, says in (
        ("spact", nets, tmp_path / "spact", "these learn alike"),
        ("spact", nets, tmp_path / "none", "none: not a finished pixel run"),
        ("vita", layers, tmp_path / "spact", "0 layers are called 'layer3'"),
        ("noisy-features", {}, tmp_path / "spact", "noisy-features: has no budget net that looks at frames"),
    ):
        own = {} if recipe == "noisy-features" else changes
        words = small(**own) if own else ["--set", "settings.size=32"]
        data = [
            "--data",
            f"vphmdb:{twin}",
            "--device",
            "cpu",
            "--out",
            tmp_path / "other",
            "--beside",
            beside,
        ]
        assert says in inside(capsys, "train", recipe, *data, *words, code=2), says
        assert not (tmp_path / "other").exists()  # said before anything is trained


def test_a_latent_anonymizer_is_trained_from_videos_and_applied_to_a_store_of_the_same_encoder(
    tmp_path: Path, twin: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(splavu_actions(), epochs=2, batch=16, stages=(Attention(depth=1, heads=4),))
    monkeypatch.setitem(RECIPES, "splavu-actions", lambda: short)
    run, raw = tmp_path / "run", tmp_path / "raw"
    videos = ["--data", f"vphmdb:{twin}", "--encoder", "tiny"]
    train = ["train", "splavu-actions", *videos, "--out", run, "--device", "cpu"]
    said = inside(capsys, *train)
    loaded = LatentAnonymizer.from_pretrained(run)
    assert f"splavu-actions: anonymizer {loaded.content_hash()[:12]} for features 256 wide → {run}" in said
    assert "note: published with VideoMAE-B on kinetics400, made here with tiny on vphmdb" in said
    assert len((run / "history.jsonl").read_text().splitlines()) == 2
    again = json.loads(inside(capsys, *train, "--json"))  # finds it done
    assert again["hash"] == loaded.content_hash()
    assert "holds a run with other sources" in inside(capsys, *train, "--weights", "random", code=2)

    inside(capsys, "extract", f"vphmdb:{twin}", raw, "--clips", "1", "--device", "cpu")
    inside(capsys, "anonymize-features", raw, tmp_path / "safe", "--anonymizer", run, "--device", "cpu")
    made = FeatureStore.open(tmp_path / "safe").encoder
    assert made["anonymizer"]["hash"] == loaded.content_hash()
    assert made["encoder"]["hash"] == FeatureStore.open(raw).encoder["hash"]


def test_wrong_input_to_a_training_is_one_message_and_exit_code_2(
    tmp_path: Path, twin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = f"vphmdb:{twin}", ["--out", tmp_path / "run", "--device", "cpu"]
    for arguments, says in (
        (
            ["spact", "--features", "store"],
            "spact makes a pixel anonymizer: give --data NAME:ROOT, not --features",
        ),
        (["spact"], "give --data NAME:ROOT"),
        (["spact", "--data", data, "--features", "store"], "not --features"),
        (["spact", "--data", data, "--encoder", "tiny"], "not --features, --encoder or --weights"),
        (["splavu"], "splavu makes a latent anonymizer: give --features STORE, or --data NAME:ROOT"),
        (["splavu", "--data", data], "`--features detection=STORE`), or leave these tasks out"),
        (["splavu-actions", "--data", data, "--data", data], "action was given before"),
        (["splavu-actions", "--data", data, "--encoder", "tinny"], "no encoder 'tinny'"),
        (["splavu-actions", "--data", data, "--encoder", "resnet.18"], "takes single frames"),
        (["veil", "--features", "store", "--set", "epochs=2"], "--set is for those of pixels"),
        (["veil", "--features", "store", "--weights", "random"], "go with the videos of --data"),
        (["veil", "--features", "store", "--beside", "run"], "--beside is for those of pixels"),
        (["spact", "--data", data, "--data", data], "videos were given before"),
        (["spact-released", "--data", data], "its budget nets look at images; give a dataset of images"),
        (["spact", "--data", data, "--set", "settings.epoch=2"], "no setting 'settings.epoch'"),
        (["spact", "--data", data, "--set", "settings.epochs=two"], "epochs='two': must be a whole number"),
        (
            ["spact", "--data", data, "--set", "settings.epochs"],
            "--set 'settings.epochs': write it as KEY=VALUE",
        ),
        (["spact", "--data", data, "--set", "settings.utility.encoder=r3d.19"], "no encoder 'r3d.19'"),
        (["spact", "--data", f"vphmdb:{tmp_path / 'none'}"], "no such folder"),
        (["spakt", "--data", data], "no recipe 'spakt'; there are veil, "),
    ):
        message = inside(capsys, "train", *arguments, *out, code=2)
        assert says in message, arguments
        assert message.startswith("veil: ")
        assert "Traceback" not in message
