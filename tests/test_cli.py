"""The command line: its surface is frozen here, it answers at once, and it can be scripted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

from tests.features.conftest import film_folder, tree
from tests.tasks.make_store import action_store, anomaly_store, damage, detection_store, grey_video
from tests.tasks.mgfn.synthetic import make_videos
from tests.tasks.tridet.make import CLASSES, some_videos
from videoveil.anonymizers.pixel import Grey, LowResolution, PixelAnonymizer, pixel
from videoveil.cli import app, main
from videoveil.data import twins
from videoveil.features.store import FeatureStore

VEIL = [sys.executable, "-m", "videoveil.cli"]

SURFACE = {
    "corpus": {
        "out",
        "source",
        "--address",
        "--audio",
        "--chunk",
        "--crf",
        "--device",
        "--engine",
        "--gpus",
        "--json",
        "--key",
        "--with",
        "--workers",
    },
    "live": {
        "source",
        "--crf",
        "--detector",
        "--device",
        "--duration",
        "--engine",
        "--expect",
        "--fail-closed",
        "--json",
        "--key",
        "--latency",
        "--patience",
        "--rate",
        "--report",
        "--segment",
        "--size",
        "--stall",
        "--to",
        "--with",
    },
    "verify": {"output", "--against", "--audio", "--canary", "--json", "--neighbours", "--parts"},
    "export": {"model", "out", "--attack", "--calibrate", "--json", "--option", "--size", "--to"},
    "serve": {
        "--allow-host",
        "--anomaly",
        "--audit",
        "--data",
        "--device",
        "--engine",
        "--host",
        "--jobs",
        "--keep-hours",
        "--key",
        "--max-mb",
        "--memory-mb",
        "--model",
        "--port",
        "--proxy",
        "--queue",
        "--requests-per-minute",
        "--threads",
        "--tokens",
        "--uploads-per-minute",
    },
    "anonymize-features": {"store", "out", "--anonymizer", "--key", "--batch", "--device", "--json"},
    "anonymize": {
        "source",
        "destination",
        "--with",
        "--detector",
        "--fail-closed",
        "--keep-empty",
        "--size",
        "--inner",
        "--engine",
        "--device",
        "--batch",
        "--audio",
        "--crf",
        "--preset",
        "--key",
        "--expect",
        "--keep-partial",
        "--overwrite",
        "--report",
        "--json",
    },
    "audit": {
        "source",
        "--out",
        "--anonymizer",
        "--raw",
        "--anonymized",
        "--labels",
        "--budget",
        "--seeds",
        "--seed",
        "--max-leakage",
        "--min-utility",
        "--only",
        "--encoder",
        "--weights",
        "--cache",
        "--key",
        "--workers",
        "--device",
        "--pictures",
        "--show-raw",
        "--option",
        "--json",
    },
    "convert": {"file", "--to", "--out", "--option", "--json"},
    "data list": {"--json"},
    "data make": {"name", "root", "--seed", "--size", "--processes", "--json"},
    "data verify": {"name", "root", "--annotations-only", "--option", "--json"},
    "doctor": {"--json"},
    "evaluate": {
        "protocol",
        "--run",
        "--data",
        "--out",
        "--baselines",
        "--size",
        "--seed",
        "--partial",
        "--encoder",
        "--encoder-size",
        "--encoder-weights",
        "--weights",
        "--detector",
        "--cache",
        "--key",
        "--device",
        "--json",
    },
    "extract": {
        "source",
        "store",
        "--encoder",
        "--weights",
        "--seed",
        "--clips",
        "--static",
        "--tokens",
        "--batch",
        "--workers",
        "--device",
        "--skip-bad",
        "--anonymizer",
        "--key",
        "--eight-bit",
        "--option",
        "--json",
    },
    "models": {"--json"},
    "predict": {
        "video",
        "--task",
        "--model",
        "--anonymizer",
        "--pixels",
        "--key",
        "--out",
        "--plot",
        "--truth",
        "--weights",
        "--least",
        "--device",
    },
    "score": {
        "run",
        "--device",
        "--features",
        "--data",
        "--dataset",
        "--split",
        "--anonymizer",
        "--eight-bit",
        "--option",
        "--json",
    },
    "train": {
        "recipe",
        "--features",
        "--data",
        "--out",
        "--split",
        "--set",
        "--seed",
        "--device",
        "--option",
        "--json",
    },
    "train-task": {
        "task",
        "--out",
        "--features",
        "--data",
        "--dataset",
        "--split",
        "--preset",
        "--set",
        "--seed",
        "--device",
        "--cut",
        "--anonymizer",
        "--eight-bit",
        "--option",
        "--json",
    },
}


def veil(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run([*VEIL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def inside(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    """The same without a process of its own, where only the answer matters: imports take longer than the work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["veil", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
    said = capsys.readouterr()
    assert left.value.code == code, said.err
    return said.out if code == 0 else said.out + said.err


def surface() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}

    def walk(command: object, path: str) -> None:
        for name, child in getattr(command, "commands", {}).items():
            walk(child, f"{path} {name}".strip())
        if not hasattr(command, "commands"):
            parameters = getattr(command, "params", [])
            found[path] = {
                next((o for o in p.opts if o.startswith("--")), p.name)
                for p in parameters
                if p.name != "help"
            }

    walk(typer.main.get_command(app), "")
    return found


def test_the_surface_changes_only_on_purpose() -> None:
    assert surface() == SURFACE


def test_help_takes_at_most_half_a_second_of_cpu() -> None:
    def cpu() -> float:
        before = os.times()
        veil("--help")
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(cpu() for _ in range(3)) <= 0.5


def test_help_does_not_import_torch() -> None:
    code = "import sys, videoveil.cli; print('torch' in sys.modules or 'av' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_models_lists_every_encoder_with_its_size() -> None:
    rows = {row["name"]: row for row in json.loads(veil("models", "--json"))}
    assert rows["i3d.inception"]["parameters"] == 12_697_264
    assert rows["i3d.resnet50"]["parameters"] == 28_043_472
    assert rows["tiny"]["parameters"] <= 2_000_000
    assert "i3d.inception" in veil("models")


def test_doctor_finds_a_working_installation() -> None:
    found = json.loads(veil("doctor", "--json"))
    assert found["works"], found["checks"]
    assert {check["name"] for check in found["checks"]} >= {"codecs", "devices", "video", "encoder"}


def test_a_twin_is_made_verified_and_extracted(tmp_path: Path) -> None:
    report = json.loads(veil("data", "make", "ucf101", tmp_path / "ucf", "--size", "tiny", "--json"))
    assert report["frames"] == 48 * 40
    verified = json.loads(veil("data", "verify", "ucf101", tmp_path / "ucf", "--json"))
    assert verified["problems"] == []
    assert [count["splits"] for count in verified["counts"]] == [{"test": 16, "train": 32}] * 3
    out = veil(
        "extract",
        f"ucf101:{tmp_path / 'ucf'}",
        tmp_path / "store",
        "--clips",
        "1",
        "-o",
        "split=2",
        "--static",
        "1",
    )
    assert "48 items" in out
    assert "bottleneck: " in out
    again = json.loads(
        veil(
            "extract",
            f"ucf101:{tmp_path / 'ucf'}",
            tmp_path / "store",
            "--clips",
            "1",
            "-o",
            "split=2",
            "--static",
            "1",
            "--json",
        )
    )
    assert (again["extracted"], again["present"]) == (0, 48)


def test_a_plain_folder_of_videos_is_a_source(tmp_path: Path) -> None:
    film_folder(tmp_path / "films", videos=2, frames=20)
    report = json.loads(veil("extract", tmp_path / "films", tmp_path / "store", "--json"))
    assert (report["dataset"], report["items"]) == ("videos", 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["extract", "nowhere", "store"], "neither a folder nor DATASET:ROOT"),
        (["data", "make", "imagenet", "x"], "no twin of 'imagenet'"),
        (["data", "verify", "ucf101", "nowhere"], "no such folder"),
        (["data", "verify", "ucf101", ".", "-o", "split=9"], "choose one of 1, 2, 3"),
        (["data", "verify", "ucf101", ".", "-o", "colour=red"], "no option colour"),
        (["convert", "nothing.pt", "--to", "tiny"], "nothing.pt"),
    ],
)
def test_wrong_input_is_one_message_naming_the_value_and_exit_code_2(arguments: list[str], says: str) -> None:
    out = veil(*arguments, code=2)
    assert says in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train-task", "gait", "--out", "run", "--features", "x"], "no task 'gait'; there are action"),
        (["train-task", "action", "--out", "run"], "give either --features STORE or --data DATASET:ROOT"),
        (["train-task", "action", "--out", "run", "--features", "nowhere"], "nowhere: not a feature store"),
        (["train-task", "action", "--out", "run", "--data", "ucf101:x"], "`veil extract ucf101:x STORE"),
        (["train-task", "action-network", "--out", "run", "--features", "x"], "give --data DATASET:ROOT"),
        (
            ["train-task", "action", "--out", "run", "--features", "x", "--set", "epochs=many"],
            "epochs='many'",
        ),
        (["train-task", "action", "--out", "run", "--features", "x", "--set", "epochs"], "--set 'epochs'"),
        (["train-task", "action", "--out", "run", "--features", "x", "--preset", "big"], "no preset 'big'"),
        (["train-task", "action", "--out", "run", "--features", "x", "--cut"], "--cut: only detection"),
        (["score", "nowhere"], "nowhere: not a run"),
        (["predict", "film.mp4", "--task", "action", "--model", "nowhere"], "nowhere: not a run"),
        (["predict", "f.mp4", "--task", "action", "--model", "x", "--plot", "a.jpg"], "a.jpg: pictures are"),
        (["predict", "f.mp4", "--task", "action", "--model", "x", "--truth", "5-3"], "--truth '5-3'"),
    ],
)
def test_wrong_input_to_a_task_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = inside(capsys, *arguments, code=2)
    assert says in out
    assert out.startswith("veil: ")
    assert out.count("\n") == 1


@pytest.mark.slow
def test_a_probe_is_trained_scored_and_asked_about_a_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way of a user: videos in class folders, features, a model, its worth, and an answer with a picture."""
    films = tmp_path / "films"
    for n in range(8):
        grey_video(films / ("train" if n < 6 else "test") / ("above", "below")[n % 2] / f"f{n}.mp4", n % 2, n)
    store, run = tmp_path / "store", tmp_path / "run"
    veil("extract", f"folder:{films}", store)
    train = [
        "train-task",
        "action",
        "--features",
        store,
        "--out",
        run,
        "--set",
        "epochs=30",
        "--device",
        "cpu",
    ]
    assert "30 epochs" in veil(*train)
    weights = (run / "model.safetensors").read_bytes()
    again = json.loads(inside(capsys, *train, "--json"))  # finds it done
    assert (again["task"], again["epochs"], again["last"][0]["epoch"]) == ("action", 30, 29)
    assert (run / "model.safetensors").read_bytes() == weights

    found = json.loads(veil("score", run, "--json"))
    assert found["metrics"]["top1"] == {"value": 1.0, "chance": 0.5}
    assert json.loads((run / "metrics.json").read_text())["metrics"] == found["metrics"]
    table = inside(capsys, "score", run, "--features", store, "--split", "train")
    assert re.search(r"top1 +100\.0 % +50\.0 %", table)
    assert "action, 6 test items" in table
    assert "chance: always the classes that are commonest in training" in table
    assert re.search(r"above +100\.0 % +3", table)

    film = films / "test" / "below" / "f7.mp4"
    ask = ["predict", film, "--task", "action", "--model", run]
    printed = json.loads(inside(capsys, *ask))
    assert printed["answer"][0]["label"] == "below"
    assert [(s["start"], s["end"]) for s in printed["spans"]] == [(0.0, 0.64)]
    assert printed["duration"] == 0.96
    out = veil(*ask, "--out", tmp_path / "a.json", "--plot", tmp_path / "a.png", "--truth", "0.2-0.5:below")
    assert out == ""
    written = json.loads((tmp_path / "a.json").read_text())
    assert written == {**printed, "truth": [{"start": 0.2, "end": 0.5, "label": "below", "score": 1.0}]}
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

    for arguments, says in (
        ([*train[:-4], "--set", "epochs=31"], "a run with other epochs"),
        ([*train, "--seed", "1"], "a run with other seed"),
        (["score", run, "--split", "val"], "no items in split 'val'; there are"),
        (["score", run, "-o", "seed=1"], "belong to --data"),
        (["score", run, "--dataset", "x", "--features", store], "has no dataset 'x'"),
        (["predict", film, "--task", "anomaly", "--model", run], "trained for action, not for anomaly"),
        ([*ask, "--weights", "random"], "give the encoder's weights with --weights"),
        (["predict", tmp_path / "gone.mp4", "--task", "action", "--model", run], "gone.mp4"),
    ):
        message = inside(capsys, *arguments, code=2)
        assert says in message
        assert message.startswith("veil: ")
        assert "Traceback" not in message


def test_detection_and_anomalies_are_trained_and_scored_from_stores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = detection_store(tmp_path / "d", some_videos(4), some_videos(2, seed=1), CLASSES)
    quick = [
        "warmup_epochs=0",
        "cosine_epochs=1",
        "width=32",
        "mlp_width=48",
        "branch_blocks=3",
        "max_seq_len=64",
    ]
    changes = [word for change in quick for word in ("--set", change)]
    inside(
        capsys, "train-task", "detection", "--features", segments.root, "--out", tmp_path / "det", *changes
    )
    found = json.loads(inside(capsys, "score", tmp_path / "det", "--json"))
    assert (found["task"], found["headline"], found["items"]) == ("detection", "mAP", 2)
    assert found["metrics"]["mAP"]["chance"] is not None

    watched = anomaly_store(tmp_path / "w", make_videos(6), make_videos(4, seed=1))
    train = [
        "train-task",
        "anomaly",
        "--features",
        watched.root,
        "--out",
        tmp_path / "ano",
        "--preset",
        "small",
    ]
    inside(capsys, *train, "--set", "epochs=2", "--set", "batch=2")
    table = inside(capsys, "score", tmp_path / "ano")
    assert re.search(r"roc_auc +\d+\.\d % +50\.0 %", table)
    assert "the same score for every frame" in table
    assert "a run with other batch" in inside(capsys, *train, "--set", "epochs=2", code=2)


def test_bad_features_are_all_listed_before_a_model_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = action_store(tmp_path / "s")
    damage(store, "v003", np.full((2, 12), np.nan, np.float32))
    damage(store, "v005", np.zeros((2, 5), np.float32))
    message = inside(
        capsys, "train-task", "action", "--features", store.root, "--out", tmp_path / "run", code=2
    )
    assert "v003: 2 of 2 clips have NaN" in message
    assert "v005: features are 5 wide instead of 12" in message
    assert "Traceback" not in message
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_diverging_model_stops_with_one_message_and_exit_code_2(tmp_path: Path) -> None:
    store = action_store(tmp_path / "s")
    train = ["train-task", "action", "--features", store.root, "--out", tmp_path / "run"]
    message = veil(*train, "--set", "learning_rate=1e30", "--set", "optimizer=sgd", code=2)
    assert re.search(r"veil: Diverged: the probe diverged in step \d+ \(epoch \d+", message)
    assert "Traceback" not in message


def test_verify_exits_with_1_when_something_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "SH_Train.txt").write_text("01_002\nnonsense\n")
    (tmp_path / "SH_Test.txt").write_text("01_0014\n")
    out = veil("data", "verify", "shanghaitech", tmp_path, "--annotations-only", code=1)
    assert "SH_Train.txt:2" in out
    assert "01_0014.npy" in out


def test_a_killed_extract_run_again_gives_the_same_bytes(tmp_path: Path) -> None:
    film_folder(tmp_path / "films", videos=6, frames=40)
    arguments = [*VEIL, "extract", str(tmp_path / "films"), str(tmp_path / "store"), "--json"]
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while (
        not any((tmp_path / "store").rglob("*.safetensors"))
        and time.monotonic() < deadline
        and child.poll() is None
    ):
        time.sleep(0.005)
    child.kill()
    child.wait()
    assert 0 < len(list((tmp_path / "store").rglob("*.safetensors"))) <= 6
    veil("extract", tmp_path / "films", tmp_path / "store")
    veil("extract", tmp_path / "films", tmp_path / "whole")
    assert tree(tmp_path / "store") == tree(tmp_path / "whole")


def test_features_are_anonymized_by_a_run_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Raw features, an anonymizer learnt from them, and a store of the same layout that names both."""
    films = tmp_path / "films"
    for n in range(8):
        grey_video(films / ("train" if n < 6 else "test") / ("above", "below")[n % 2] / f"f{n}.mp4", n % 2, n)
    raw, run, out = tmp_path / "raw", tmp_path / "run", tmp_path / "out"
    veil("extract", f"folder:{films}", raw, "--static", "2")
    made = json.loads(
        inside(capsys, "train", "veil", "--features", raw, "--out", run, "--device", "cpu", "--json")
    )
    told = inside(capsys, "anonymize-features", raw, out, "--anonymizer", run)
    assert "folder: 8 items" in told
    before, after = FeatureStore.open(raw), FeatureStore.open(out)
    assert after.encoder["hash"] != before.encoder["hash"]
    assert made["hash"] in json.dumps(after.encoder)
    for one, two in zip(before.items(), after.items()):
        x, y = before.read(one), after.read(two)
        assert x.clip.shape == y.clip.shape
        assert (x.clip != y.clip).any()
        assert (x.starts == y.starts).all()
        assert (x.pts == y.pts).all()
    for arguments, says in (
        (["anonymize-features", out, tmp_path / "twice", "--anonymizer", run], "is anonymized already"),
        (["anonymize-features", raw, raw, "--anonymizer", run], "is the raw store itself"),
        (
            ["train", "veil", "--features", raw, "--features", raw, "--out", tmp_path / "b"],
            "action was given before",
        ),
        (["train", "vale", "--features", raw, "--out", tmp_path / "b"], "no recipe 'vale'; there are veil"),
    ):
        message = inside(capsys, *arguments, code=2)
        assert says in message
        assert message.startswith("veil: ")


def test_pictures_go_through_a_pixel_anonymizer_on_every_way_that_takes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Features, a network on clips, its score and its answer, all behind the same anonymizer."""
    films, hide = tmp_path / "films", tmp_path / "hide"
    for n in range(4):
        grey_video(films / ("train" if n < 2 else "test") / ("above", "below")[n % 2] / f"f{n}.mp4", n % 2, n)
    made = pixel(Grey(), LowResolution(8))
    made.save_pretrained(hide)
    device = ["--device", "cpu"]
    store, run, data = tmp_path / "store", tmp_path / "run", ["--data", f"folder:{films}"]
    inside(capsys, "extract", f"folder:{films}", store, "--anonymizer", hide, "--eight-bit", *device)
    facts = FeatureStore.open(store).encoder["pixels"]
    assert (facts["hash"], facts["eight_bit"]) == (made.content_hash(), True)
    assert "another" in inside(capsys, "extract", f"folder:{films}", store, *device, code=2)

    small = [word for text in ("encoder=tiny", "size=32", "epochs=1", "clips=2") for word in ("--set", text)]
    inside(capsys, "train-task", "action-network", *data, "--out", run, "--anonymizer", hide, *small, *device)
    assert "give the data with it" in inside(capsys, "score", run, *device, code=2)
    assert "belong to --data" in inside(capsys, "score", run, "--anonymizer", hide, code=2)
    found = json.loads(inside(capsys, "score", run, *data, "--anonymizer", hide, "--json", *device))
    assert found["items"] == 2
    ask = ["predict", films / "test" / "above" / "f2.mp4", "--task", "action", "--model", run, *device]
    assert "give it with --pixels" in inside(capsys, *ask, code=2)
    assert len(json.loads(inside(capsys, *ask, "--pixels", hide))["spans"]) == 2
    wrong = ["train-task", "action", "--features", store, "--out", tmp_path / "p", "--anonymizer", hide]
    assert "are for pictures" in inside(capsys, *wrong, code=2)


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
    again = json.loads(inside(capsys, *train, "--json"))  # finds it done
    assert again == {"hash": loaded.content_hash(), "recipe": "spact", "run": str(run), "size": 32}
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


def test_wrong_input_to_a_pixel_training_is_one_message_and_exit_code_2(
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
        (["splavu", "--data", data], "splavu makes a latent anonymizer: give --features STORE"),
        (["veil", "--features", "store", "--set", "epochs=2"], "not --data, --set or --option"),
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
