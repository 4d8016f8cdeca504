"""The command line: its surface is frozen here, it answers at once, and it can be scripted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from tests.features.conftest import film_folder, tree
from videoveil.cli import app

VEIL = [sys.executable, "-m", "videoveil.cli"]

SURFACE = {
    "convert": {"file", "--to", "--out", "--option", "--json"},
    "data list": {"--json"},
    "data make": {"name", "root", "--seed", "--size", "--processes", "--json"},
    "data verify": {"name", "root", "--annotations-only", "--option", "--json"},
    "doctor": {"--json"},
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
        "--option",
        "--json",
    },
    "models": {"--json"},
}


def veil(*arguments: str | Path, code: int = 0) -> str:
    done = subprocess.run([*VEIL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


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
