"""`veil extract` and `veil anonymize-features`."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands.run import VEIL, inside, veil
from tests.features.conftest import film_folder, tree
from tests.tasks.make_store import grey_video
from videoveil import shipped
from videoveil.features.store import FeatureStore


def test_a_twin_is_made_verified_and_extracted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, store = tmp_path / "ucf", tmp_path / "store"
    report = json.loads(inside(capsys, "data", "make", "ucf101", root, "--size", "tiny", "--json"))
    assert report["frames"] == 48 * 40
    verified = json.loads(inside(capsys, "data", "verify", "ucf101", root, "--json"))
    assert verified["problems"] == []
    assert [count["splits"] for count in verified["counts"]] == [{"test": 16, "train": 32}] * 3
    extract = ["extract", f"ucf101:{root}", store, "--clips", "1", "-o", "split=2", "--static", "1"]
    out = inside(capsys, *extract)
    assert "48 items" in out
    assert "bottleneck: " in out
    again = json.loads(inside(capsys, *extract, "--json"))
    assert (again["extracted"], again["present"]) == (0, 48)


def test_a_plain_folder_of_videos_is_a_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film_folder(tmp_path / "films", videos=2, frames=20)
    report = json.loads(inside(capsys, "extract", tmp_path / "films", tmp_path / "store", "--json"))
    assert (report["dataset"], report["items"]) == ("videos", 2)


def test_a_killed_extract_run_again_gives_the_same_bytes(tmp_path: Path) -> None:
    film_folder(tmp_path / "films", videos=5, frames=20)
    arguments = [*VEIL, "extract", str(tmp_path / "films"), str(tmp_path / "store"), "--json"]
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while (
        not any((tmp_path / "store").rglob("*.safetensors"))
        and time.monotonic() < deadline
        and child.poll() is None
    ):
        time.sleep(0.005)
    child.kill()
    child.wait()
    assert 0 < len(list((tmp_path / "store").rglob("*.safetensors"))) <= 5
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
    inside(capsys, "extract", f"folder:{films}", raw, "--static", "2")
    made = json.loads(
        inside(capsys, "train", "veil", "--features", raw, "--out", run, "--device", "cpu", "--json")
    )
    told = inside(capsys, "anonymize-features", raw, out, "--anonymizer", run)
    assert "folder: 8 items" in told
    before, after = FeatureStore.open(raw), FeatureStore.open(out)
    assert str(tmp_path) not in (out / "index" / "folder.json").read_text(
        "utf-8"
    )  # nobody learns where videos are
    labelled = ["anonymize-features", raw, tmp_path / "labelled", "--anonymizer", run, "--labels", "--json"]
    assert json.loads(inside(capsys, *labelled))["labels"]
    assert FeatureStore.open(tmp_path / "labelled").dataset() == before.dataset()
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
        (["anonymize-features", raw, out, "--anonymizer", run, "--labels"], "begun without labels"),
        (
            ["train", "veil", "--features", raw, "--features", raw, "--out", tmp_path / "b"],
            "action was given before",
        ),
        (["train", "vale", "--features", raw, "--out", tmp_path / "b"], "no recipe 'vale'; there are veil"),
    ):
        message = inside(capsys, *arguments, code=2)
        assert says in message
        assert message.startswith("veil: ")


def test_features_of_the_embedded_encoder_are_anonymized_by_what_comes_with_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to train and nothing to fetch."""
    film_folder(tmp_path / "films", videos=2, frames=20)
    inside(capsys, "extract", tmp_path / "films", tmp_path / "raw", "--static", "2")
    for name in ("veil-tiny", "veil-motion-tiny"):
        told = inside(capsys, "anonymize-features", tmp_path / "raw", tmp_path / name, "--anonymizer", name)
        assert "videos: 2 items" in told
        assert (
            FeatureStore.open(tmp_path / name).encoder["anonymizer"]["hash"]
            == shipped.facts(name)["content_hash"]
        )


def test_the_arithmetic_is_chosen_and_kept_with_the_features(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film_folder(tmp_path / "films", videos=1, frames=20)
    extract = ["extract", tmp_path / "films", tmp_path / "store", "--precision"]
    inside(capsys, *extract, "tf32")
    assert FeatureStore.open(tmp_path / "store").recipe.precision == "tf32"
    assert "use one of fp32, tf32, bf16" in inside(capsys, *extract, "half", code=2)


def test_ted_spads_extraction_is_asked_for_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film_folder(tmp_path / "films", videos=1, frames=40)
    inside(capsys, "extract", tmp_path / "films", tmp_path / "store", "--clips", "ted-spad")
    store = FeatureStore.open(tmp_path / "store")
    assert (store.recipe.stride, store.recipe.crop) == (2, "ted-spad")
    assert store.read(store.items()[0]).starts.tolist() == [0, 32]
    told = inside(capsys, "extract", tmp_path / "films", tmp_path / "no", "--clips", "spact", code=2)
    assert "use 'all', 'ted-spad', 'dense:STRIDE'" in told
