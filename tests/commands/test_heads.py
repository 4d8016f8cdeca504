"""`veil predict` and `veil score` with the heads that come with the package: nothing to train, nothing to fetch."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.run import inside, veil
from videoveil import shipped
from videoveil.data import twins
from videoveil.data.twins.plan import render

STRANGERS = 77  # a cast that nothing was trained on, chosen on or reported on
CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A walk, and a longer film in which several things happen one after the other; rendered now."""
    root = tmp_path_factory.mktemp("films")
    for name, word in (("vphmdb", "/walk/"), ("thumos14", "test")):
        twin = twins.plan(name, STRANGERS, "tiny")
        reel = next(reel for reel in twin.reels if word in reel.path)
        path = f"{name}{Path(reel.path).suffix}"
        render(replace(twin, reels=(replace(reel, path=path),), files={}), root / name)
        (root / name / path).rename(root / path)
    return root


@pytest.fixture(scope="module")
def store(films: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both films as features, by a process of its own."""
    root = tmp_path_factory.mktemp("features") / "store"
    (films / "both").mkdir()
    for path in films.glob("*.*"):
        (films / "both" / path.name).write_bytes(path.read_bytes())
    veil("extract", films / "both", root, *CPU)
    return root


def test_a_film_that_was_rendered_now_is_understood_by_a_process_that_has_only_the_package(
    films: Path,
) -> None:
    said = json.loads(veil("predict", films / "vphmdb.avi", "--model", "action-tiny", *CPU))
    assert (said["task"], said["model"]) == ("action", "action-tiny")
    assert len(said["answer"]) == 5
    assert said["answer"][0]["label"] == "walk"
    assert said["answer"][0]["score"] > 0.3  # a blind guess is 1/16


def test_all_heads_speak_of_a_longer_film_in_its_own_time(
    films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film = films / "thumos14.mp4"
    for name in shipped.heads():
        out = tmp_path / f"{name}.json"
        inside(capsys, "predict", film, "--model", name, "--out", out, *CPU)
        said = json.loads(out.read_text("utf-8"))
        assert said["model"] == name
        assert said["spans"]
        for span in said["spans"]:
            assert 0 <= span["start"] < span["end"] <= said["duration"] + 1e-6
            assert 0 <= span["score"] <= 1


def test_a_store_is_answered_video_by_video_raw_and_anonymized(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    safe, lines, table = tmp_path / "safe", tmp_path / "said.jsonl", tmp_path / "said.csv"
    inside(capsys, "anonymize-features", store, safe, "--anonymizer", "veil-tiny", *CPU)
    inside(capsys, "predict", store, "--model", "action-tiny", *CPU, "--out", table)
    with open(table, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole = [row for row in rows if row["of"] == "video"]
    assert next(row["label"] for row in whole if row["video"].startswith("vphmdb")) == "walk"
    assert len(whole) == 10
    ask = ["--model", "action-veil-tiny", *CPU]
    inside(capsys, "predict", safe, *ask, "--out", lines)
    said = [json.loads(line) for line in lines.read_text("utf-8").splitlines()]
    assert {Path(one["video"]).stem for one in said} == {"vphmdb", "thumos14"}
    # the anonymizer comes with the package, so raw features and videos find their way through it
    assert said == [json.loads(line) for line in inside(capsys, "predict", store, *ask).splitlines()]
    through = json.loads(inside(capsys, "predict", _film(store), *ask))
    (stored,) = (one for one in said if Path(one["video"]).stem == "vphmdb")
    assert [a["label"] for a in stored["answer"]] == [a["label"] for a in through["answer"]]
    assert stored["answer"][0]["score"] == pytest.approx(through["answer"][0]["score"], abs=1e-4)


def _film(store: Path) -> Path:
    index = json.loads(next((store / "index").glob("*.json")).read_text("utf-8"))
    return next(Path(index["root"], item["path"]) for item in index["items"] if "vphmdb" in item["path"])


def test_what_does_not_fit_is_one_message_and_leaves_nothing(
    films: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "said.jsonl"
    coarse, other, motion = tmp_path / "coarse", tmp_path / "other", tmp_path / "motion"
    inside(capsys, "extract", films / "both", coarse, "--precision", "bf16", *CPU)
    inside(capsys, "extract", films / "both", other, "--weights", "random", *CPU)
    inside(capsys, "extract", films / "both", tmp_path / "still", "--static", "2", *CPU)
    hide = ["anonymize-features", tmp_path / "still", motion, "--anonymizer", "veil-motion-tiny", *CPU]
    inside(capsys, *hide)
    film, ask = films / "vphmdb.avi", ["--model", "action-tiny"]
    for arguments, says in (
        (["predict", coarse, *ask], "precision=bf16, and action-tiny was trained on"),
        (["predict", other, *ask], "and action-tiny was trained on those of tiny ("),
        (["predict", motion, *ask], "use a model that was trained on such features"),
        (["predict", store, "--model", "detection-tiny"], "extract again with --clips dense:4"),
        (["predict", store, *ask, "--task", "anomaly"], "action-tiny: trained for action, not for anomaly"),
        (["predict", store, *ask, "--split", "nowhere"], "no items in split 'nowhere'"),
        (["predict", store, *ask, "--dataset", "x"], "has no dataset 'x'"),
        (["predict", store, *ask, "--anonymizer", "veil-motion-tiny"], "trained on raw features"),
        (["predict", film, *ask, "--split", "test"], "for a feature store"),
        (["predict", film, "--model", "nobody"], "nobody: not a run"),
    ):
        message = inside(capsys, *arguments, "--out", out, *CPU, code=2)
        assert says in message
        assert message.startswith("veil: ")
        assert not out.exists()
    assert "is a feature store" in inside(capsys, "predict", store, *ask, "--truth", "1-2", code=2)
    assert "JSON lines" in inside(capsys, "predict", store, *ask, "--out", tmp_path / "a.json", code=2)
    assert "give features with --features" in inside(capsys, "score", "action-tiny", code=2)


def test_heads_are_listed_with_their_figures_and_show_their_cards(capsys: pytest.CaptureFixture[str]) -> None:
    listed = inside(capsys, "models")
    for name in shipped.heads():
        (line,) = (line for line in listed.splitlines() if line.startswith("head ") and f" {name} " in line)
        assert shipped.head_summary(name)["figures"] in line
        assert inside(capsys, "models", "--card", name).startswith("---\nlibrary_name: videoveil")


def test_the_encoder_shows_its_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert inside(capsys, "models", "--card", "tiny").startswith("# `tiny.safetensors`")
    assert "tiny, " in inside(capsys, "models", "--card", "nobody", code=2)
