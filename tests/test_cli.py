"""The command line as a whole: its surface is frozen here, it answers at once, and it can be scripted.

Every verb has its own tests in `tests/commands`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.commands.run import VEIL, inside, veil
from videoveil.cli import app

SURFACE = {
    "anonymize": (
        "destination source --audio --batch --crf --detector --device --engine --expect --fail-closed "
        "--inner --json --keep-empty --keep-partial --key --latency --overwrite --preset --report --size "
        "--with"
    ),
    "anonymize-features": "out store --anonymizer --batch --device --json --key --labels",
    "audit": (
        "source --anonymized --anonymizer --anonymizer-detector --attacker --attacker-size --budget --cache --detector "
        "--device --encoder --fail-closed --json --keep-empty --key --labels --max-leakage --min-utility --only "
        "--option --out --pictures --raw --seed --seeds --show-raw --weights --workers"
    ),
    "convert": "file --json --option --out --to",
    "corpus": (
        "out source --address --audio --chunk --crf --device --engine --gpus --inner --json --key --with "
        "--workers"
    ),
    "data list": "--json",
    "data make": "name root --json --processes --seed --size",
    "data verify": "name root --annotations-only --json --option",
    "doctor": "--json",
    "evaluate": (
        "protocol --baselines --cache --data --detector --device --encoder --encoder-size --encoder-weights "
        "--json --key --out --partial --run --seed --size --weights"
    ),
    "export": "model out --attack --calibrate --json --option --size --to",
    "extract": (
        "source store --anonymizer --batch --clips --compile --device --eight-bit --encoder --json --key "
        "--option --precision --seed --skip-bad --static --tokens --weights --workers"
    ),
    "live": (
        "source --crf --detector --device --duration --engine --expect --fail-closed --inner --json --key "
        "--latency --patience --rate --report --segment --size --stall --to --with"
    ),
    "models": "--card --json",
    "predict": (
        "source --anonymizer --dataset --device --key --least --model --out --pixels --plot --split --task --truth "
        "--weights"
    ),
    "score": "run --anonymizer --data --dataset --device --eight-bit --features --json --option --split",
    "serve": (
        "--allow-host --anomaly --audit --data --device --engine --host --jobs --keep-hours --key --max-mb "
        "--memory-mb --model --port --proxy --queue --requests-per-minute --threads --tokens "
        "--uploads-per-minute"
    ),
    "train": (
        "recipe --beside --data --device --encoder --features --json --option --out --seed --set --split "
        "--weights"
    ),
    "train-task": (
        "task --anonymizer --cut --data --dataset --device --eight-bit --features --json --option --out "
        "--preset --seed --set --split"
    ),
    "verify": "output --against --audio --canary --json --neighbours --parts",
}


def surface() -> dict[str, set[str]]:
    """The names of all arguments and options of every verb."""
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
    assert surface() == {verb: set(names.split()) for verb, names in SURFACE.items()}


LIBRARY = "import typer.rich_utils, rich.markdown, rich.table"


def test_help_takes_at_most_half_a_second_of_cpu() -> None:
    """Where it takes an eighth to import the library that it is made with; a slower machine has as much longer."""

    def cpu(*command: str) -> float:
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    both = [(cpu(*VEIL, "--help"), cpu(sys.executable, "-c", LIBRARY)) for _ in range(3)]
    own, library = map(min, zip(*both))
    assert own <= 0.5 * max(1.0, library / 0.125)


def test_help_does_not_import_torch() -> None:
    code = "import sys, videoveil.cli; print('torch' in sys.modules or 'av' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


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
def test_wrong_input_is_one_message_naming_the_value_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = inside(capsys, *arguments, code=2)
    assert says in out
    assert out.startswith("veil: ")
    assert "Traceback" not in out


def test_a_process_says_the_same_on_its_error_stream_and_leaves_with_that_code() -> None:
    out = veil("data", "make", "imagenet", "x", code=2)
    assert out.startswith("veil: UsageError: no twin of 'imagenet'")
    assert "Traceback" not in out


def test_the_table_of_the_readme_has_a_row_for_every_verb() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    section = readme.partition("\n## Commands\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `veil ([^`]+)`", section, re.MULTILINE)
    assert {verb for verb in SURFACE if not any(f"{row} ".startswith(f"{verb} ") for row in rows)} == set()
