"""`veil audit`, killed on the way and started again: nothing is lost, and nothing is found but what is there."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.audit import world
from tests.commands.run import VEIL

LONGEST = 300.0  # seconds until the first training is kept, on the slowest of machines
WORDS = ["--anonymizer", "blur", "--seeds", "1", "--device", "cpu"]
WHO = ("action-probe", "frames")  # the probe is over in a moment, the network learns for a while
CODES = {"PASS": 0, "NOT MEASURABLE": 1, "FAIL": 2}


def command(root: Path, out: Path) -> list[str]:
    who = [word for name in WHO for word in ("--only", name)]
    return [*VEIL, "audit", f"csv:{root}", "--out", str(out), *WORDS, *who]


def trainings(out: Path) -> dict[Path, int]:
    """What is kept of raw videos and of anonymized ones, whole, and when it was written."""
    found = [path for path in out.rglob("results/*.npz") if path.name.startswith(WHO)]
    return {path: path.stat().st_mtime_ns for path in found}


def killed(words: list[str], out: Path, log: Path) -> dict[Path, int]:
    """Run it until the first training is kept, and no further: what is kept then."""
    with open(log, "w") as told:
        process = subprocess.Popen(words, stdout=told, stderr=told)
    try:
        end = time.monotonic() + LONGEST
        while not trainings(out):
            assert process.poll() is None, f"it was over before a training was kept:\n{log.read_text()}"
            assert time.monotonic() < end, f"no training was kept in {LONGEST:g} s:\n{log.read_text()}"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        code = process.wait(timeout=60)
    assert code == -signal.SIGKILL, log.read_text()
    return trainings(out)


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on_to_the_bytes_of_one_that_nobody_disturbed(tmp_path: Path) -> None:
    made = world.dataset(tmp_path / "films", train=8, test=12)
    world.table(made, made.root / "videos.csv")
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    before = killed(command(made.root, cut), cut, tmp_path / "log")
    assert 1 <= len(before) < 2 * len(WHO)
    assert not (cut / "metrics.json").exists()

    again, straight = (
        subprocess.run(command(made.root, out), capture_output=True, text=True) for out in (cut, whole)
    )
    found = json.loads((whole / "metrics.json").read_text("utf-8"))
    assert found["took_part"] == list(WHO)
    assert again.returncode == straight.returncode == CODES[found["verdict"]["overall"]], again.stderr
    after = trainings(cut)
    assert len(after) == len(trainings(whole)) == 2 * len(WHO)
    assert {path: after[path] for path in before} == before  # what was done was not done again
    # of the same seed, and in another folder
    assert (cut / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()
    assert (cut / "report.html").is_file()
