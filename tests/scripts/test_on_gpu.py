"""Several long commands in one call: stopped in time, and what they found is gathered whatever happens."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

from benchmarks import on_gpu, real_pixels
from benchmarks.on_gpu import Chain, Step


def python(name: str, code: str) -> Step:
    return Step(name, (sys.executable, "-c", code))


def gathered(out: Path) -> set[str]:
    with tarfile.open(out / "gathered.tgz") as archive:
        return set(archive.getnames())


def write(path: Path, size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_results_are_gathered_and_no_video_photograph_box_or_weight_is(tmp_path: Path) -> None:
    kept = {"twins/results.json", "twins/seed20/SPAct/action.json", "real/seed0/raw/faces.npz", "real.log"}
    left = {
        "twins/seed20/vphmdb/splits.json",
        "twins/seed20/vphmdb/walk/a.avi",
        "twins/seed20/SPAct/run/pictures/strip.png",
        "twins/seed20/SPAct/run/model.safetensors",
        "twins/seed20/SPAct/ucf-crime-features/index.json",
        "real/boxes/a.npz",
        "real/face.jpg",
    }
    for name in kept | left:
        write(tmp_path / name)
    write(tmp_path / "real" / "large.json", on_gpu.LARGEST + 1)
    on_gpu.gather(tmp_path)
    assert gathered(tmp_path) == kept


def test_a_command_that_fails_does_not_keep_the_next_from_running(tmp_path: Path) -> None:
    steps = python("first", "raise SystemExit('no GPU')"), python("second", "print('done')")
    on_gpu.run([Chain(steps, tmp_path)], tmp_path, time.monotonic() + 60)
    assert "no GPU" in (tmp_path / "first.log").read_text()
    assert "done" in (tmp_path / "second.log").read_text()
    assert gathered(tmp_path) == {"first.log", "second.log"}


def test_when_the_time_is_over_commands_end_with_their_processes_and_what_there_is_is_gathered(
    tmp_path: Path,
) -> None:
    beat = tmp_path / "beat"
    once = f"pathlib.Path({str(beat)!r}).write_text(str(time.time()))"
    child = f"import time, pathlib\nwhile True: {once}; time.sleep(.02)"
    parent = f"import subprocess, sys; print('begun', flush=True); subprocess.run([sys.executable, '-c', {child!r}])"
    chain = Chain((python("long", parent), python("never", "print('too late')")), tmp_path)

    def stop_once_it_beats() -> None:
        while not beat.is_file():
            time.sleep(0.02)
        chain.stop()

    threading.Thread(target=stop_once_it_beats, daemon=True).start()
    on_gpu.run([chain], tmp_path, time.monotonic() + 120)
    time.sleep(0.2)
    last = beat.read_text()
    time.sleep(0.3)
    assert beat.read_text() == last, "a process of the command is still at work"
    assert gathered(tmp_path) == {"long.log"}
    assert not (tmp_path / "never.log").exists()


def test_nothing_goes_on_after_the_minutes_that_were_given(tmp_path: Path) -> None:
    began = time.monotonic()
    on_gpu.run([Chain((python("sleeps", "import time; time.sleep(600)"),), tmp_path)], tmp_path, began + 1)
    assert time.monotonic() - began < 60
    assert gathered(tmp_path) == {"sleeps.log"}


def test_the_commands_are_ones_that_the_scripts_take(tmp_path: Path) -> None:
    asked = argparse.Namespace(data=tmp_path, out=tmp_path, jobs=2, again=True)
    steps = [step for chain in on_gpu.chains(asked) for step in chain.steps]
    assert [step.name for step in steps] == ["twins", "twins-drawn", "real-lacking", "real-learnt"]
    assert {*on_gpu.LACKING, *on_gpu.LEARNT} <= set(real_pixels.known())
    for step in steps:  # whoever is asked for help has read all the words before it
        said = subprocess.run([*step.words, "--help"], capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        options = {word for word in step.words if word.startswith("--")}
        assert all(option in said.stdout for option in options)
