"""Several long commands in one call: stopped in time, and what they found is gathered whatever happens."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import on_gpu, pixel_rows, real_pixels
from benchmarks.on_gpu import Chain, Step

from videoveil import files
from videoveil.tasks.outcomes import AttributeOutcome


def python(name: str, code: str) -> Step:
    return Step(name, (sys.executable, "-c", code))


def names(archive: Path) -> set[str]:
    with tarfile.open(archive) as opened:
        return set(opened.getnames())


def write(path: Path, size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def run(chain: Chain, seconds: float = 120.0) -> set[str]:
    found = chain.out / "gathered.tgz"
    on_gpu.run([chain], chain.out, found, time.monotonic() + seconds)
    return names(found)


def beats(path: Path) -> str:
    """A program that writes as long as it lives."""
    once = f"pathlib.Path({str(path)!r}).write_text(str(time.time()))"
    return f"import time, pathlib\nwhile True: {once}; time.sleep(.02)"


def rests(path: Path) -> bool:
    """Whether nobody writes there any more."""
    time.sleep(0.2)
    last = path.read_text()
    time.sleep(0.3)
    return path.read_text() == last


def until(there: Path) -> None:
    while not there.is_file():
        time.sleep(0.02)


# --- what is gathered ---------------------------------------------------------------------------------------


def test_results_are_gathered_and_no_video_photograph_box_or_weight_is(tmp_path: Path) -> None:
    kept = {
        "twins/results.json",
        "twins/strips.png",
        "twins/seed20/SPAct/action.json",
        "real/seed0/raw/faces.npz",
        "real.log",
    }
    left = {
        "twins/seed20/vphmdb/splits.json",
        "twins/seed20/vphmdb/walk/a.avi",
        "twins/seed20/SPAct/run/pictures/strip.png",
        "twins/seed20/SPAct/run/model.safetensors",
        "twins/seed20/SPAct/ucf-crime-features/index.json",
        f"twins/{files.TEMPORARY}1.json",
        "real/boxes/a.npz",
        "real/face.jpg",
        "real/seed0/face.png",
    }
    for name in kept | left:
        write(tmp_path / name)
    write(tmp_path / "real" / "large.json", on_gpu.LARGEST + 1)
    on_gpu.gather(tmp_path, tmp_path / "found.tgz")
    assert names(tmp_path / "found.tgz") == kept


def test_what_was_said_of_every_test_face_is_small_enough_to_be_gathered(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = tuple(f"{n}_1_0_20170109150557335" for n in range(1181))
    said = {
        f"attributes_resnet.18_{n}": AttributeOutcome(
            tuple(f"attribute {k}" for k in range(10)),
            rng.integers(0, 2, (1181, 10)).astype(float),
            rng.random((1181, 10)),
            np.arange(1181),
            items,
        )
        for n in range(8)
    }
    place = tmp_path / "real" / "seed0" / "raw"
    place.mkdir(parents=True)
    real_pixels.keep(place / "drawn_faces.json", said)
    on_gpu.gather(tmp_path, tmp_path / "found.tgz")
    assert "real/seed0/raw/drawn_faces.npz" in names(tmp_path / "found.tgz")


def test_gathering_goes_on_while_files_come_and_go(tmp_path: Path) -> None:
    over = threading.Event()

    def rewrite() -> None:
        while not over.is_set():
            files.write_json(tmp_path / "results.json", {"value": "x" * 4000})

    writers = [threading.Thread(target=rewrite) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        until(tmp_path / "results.json")
        for _ in range(100):
            on_gpu.gather(tmp_path, tmp_path / "found.tgz")
            assert names(tmp_path / "found.tgz") == {"results.json"}
    finally:
        over.set()
        for writer in writers:
            writer.join()


# --- when it ends -------------------------------------------------------------------------------------------


def test_a_command_that_fails_does_not_keep_the_next_from_running(tmp_path: Path) -> None:
    steps = python("first", "raise SystemExit('no GPU')"), python("second", "print('done')")
    assert run(Chain(steps, tmp_path)) == {"first.log", "second.log"}
    assert "no GPU" in (tmp_path / "first.log").read_text()
    assert "done" in (tmp_path / "second.log").read_text()


def test_nothing_goes_on_after_the_minutes_that_were_given(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    steps = python("long", beats(beat)), python("never", "print('too late')")
    began = time.monotonic()
    assert "long.log" in run(Chain(steps, tmp_path), 3)
    assert time.monotonic() - began < 60
    assert not beat.is_file() or rests(beat)
    assert not (tmp_path / "never.log").is_file() or not (tmp_path / "never.log").read_text()


@pytest.mark.parametrize("leader", ["waits", "is gone"])
def test_commands_end_with_all_of_their_processes(leader: str, tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    child = f"child = subprocess.Popen([sys.executable, '-c', {beats(beat)!r}])"
    wait = f"while not pathlib.Path({str(beat)!r}).is_file(): time.sleep(.02)"
    end = "child.wait()" if leader == "waits" else "os._exit(9)"
    code = f"import os, pathlib, subprocess, sys, time\n{child}\n{wait}\n{end}"
    chain = Chain((python("long", code),), tmp_path)

    def stop_once_it_beats() -> None:
        until(beat)
        chain.stop()

    if leader == "waits":
        threading.Thread(target=stop_once_it_beats, daemon=True).start()
    run(chain)
    assert rests(beat), "a process of the command is still at work"


def test_twins_and_real_clips_are_at_work_side_by_side(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"

    def meets(mine: Path, yours: Path) -> str:
        return (
            f"import pathlib, time\npathlib.Path({str(mine)!r}).touch()\n"
            f"while not pathlib.Path({str(yours)!r}).is_file(): time.sleep(.02)\ntime.sleep(.2); print('met')"
        )

    chains = [
        Chain((python(mine.name, meets(mine, yours)),), tmp_path)
        for mine, yours in ((one, other), (other, one))
    ]
    on_gpu.run(chains, tmp_path, tmp_path / "found.tgz", time.monotonic() + 120)
    assert (tmp_path / "one.log").read_text() == (tmp_path / "other.log").read_text() == "met\n"


def test_rows_that_are_learnt_again_lack_everything(tmp_path: Path) -> None:
    for again in (False, True):
        asked = argparse.Namespace(data=tmp_path, out=tmp_path, jobs=2, beside=1, again=again)
        (real,) = (s for c in on_gpu.stages(asked) for s in c.steps if s.name == "real")
        stored = json.loads(Path(real.words[real.words.index("--missing") + 1]).read_text())["rows"]
        rows = real.words[real.words.index("--rows") + 1 :]
        lost = real_pixels.lacking(rows, real_pixels.PARTS, stored)
        assert [lost.get("TeD-SPAD"), lost["downsample 2×"]] == [real_pixels.PARTS if again else None, ()]


def test_a_chain_that_was_stopped_begins_nothing(tmp_path: Path) -> None:
    chain = Chain((python("never", "print('too late')"),), tmp_path)
    chain.stop()
    run(chain)
    assert (tmp_path / "never.log").read_text() == ""


def test_whoever_is_asked_to_end_ends_its_commands(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    code = (
        "import sys, pathlib; from benchmarks import on_gpu\n"
        f"step = on_gpu.Step('long', (sys.executable, '-c', {beats(beat)!r}))\n"
        f"on_gpu.stages = lambda asked: [on_gpu.Chain((step,), asked.out)]\n"
        f"sys.argv = ['on_gpu.py', 'data', {str(tmp_path)!r}]\n"
        "on_gpu.main()"
    )
    root = str(Path(on_gpu.__file__).parents[1])
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root})
    until(beat)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert rests(beat)
    assert "long.log" in names(tmp_path / "gathered.tgz")


def test_the_commands_are_ones_that_the_scripts_take(tmp_path: Path) -> None:
    asked = argparse.Namespace(data=tmp_path, out=tmp_path, jobs=2, beside=1, again=True)
    steps = [step for chain in on_gpu.stages(asked) for step in chain.steps]
    names = ["twins", "twins-drawn", "twins-more", "real-seen", "real", "real-seeds"]
    assert [step.name for step in steps] == names
    assert {*on_gpu.LACKING, *on_gpu.LEARNT, *on_gpu.HELD} <= set(real_pixels.known())
    assert set(on_gpu.STUDIED) <= set(pixel_rows.rows(pixel_rows.SCALES["gpu"]))
    for step in steps:  # whoever is asked for help has read all the words before it
        said = subprocess.run([*step.words, "--help"], capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr
        options = {word for word in step.words if word.startswith("--")}
        assert all(option in said.stdout for option in options)
