"""`veil train-task`, `veil score`, `veil predict`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.commands.run import inside, veil
from tests.tasks.make_store import action_store, anomaly_store, damage, detection_store, grey_video
from tests.tasks.mgfn.synthetic import make_videos
from tests.tasks.tridet.make import CLASSES, some_videos
from videoveil.anonymizers.pixel import Grey, LowResolution, pixel
from videoveil.features.store import FeatureStore


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
    inside(capsys, "extract", f"folder:{films}", store)
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
    assert "30 epochs" in inside(capsys, *train)
    weights = (run / "model.safetensors").read_bytes()
    again = json.loads(inside(capsys, *train, "--json"))  # finds it done
    assert (again["task"], again["epochs"], again["last"][0]["epoch"]) == ("action", 30, 29)
    assert (run / "model.safetensors").read_bytes() == weights

    found = json.loads(veil("score", run, "--json"))  # by a process that has only the files
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
    out = inside(
        capsys, *ask, "--out", tmp_path / "a.json", "--plot", tmp_path / "a.png", "--truth", "0.2-0.5:below"
    )
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


def test_a_diverging_model_stops_with_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = action_store(tmp_path / "s")
    train = ["train-task", "action", "--features", store.root, "--out", tmp_path / "run"]
    message = inside(capsys, *train, "--set", "learning_rate=1e30", "--set", "optimizer=sgd", code=2)
    assert re.search(r"veil: Diverged: the probe diverged in step \d+ \(epoch \d+", message)
    assert "Traceback" not in message


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
