"""Whole videos through a learned anonymizer: end to end, the network alone, and `deface` on the same clip and cores.

    python benchmarks/anonymize.py [--deface PATH] [--frames 120] [--rounds 3] [--cores 2] [--inner 0 512]
                                   [--memory] [--minutes 60] [--json FILE]

The clip is theatre footage at 1280×720. Everything runs in processes of its own on the same cores, in turn, and is
timed from start to end on a short and on a long clip: the difference of the two is the speed without starting up, which
is what a long video sees; the whole time of the long clip is told too. The engine is chosen once, by a run on the long
clip that is not timed, since a short clip may be given another one and measuring engines is part of no frame. The
network alone is what computes and nothing else: pictures of its size in, pictures of its size out, by as many threads
as in the pipeline. `deface` is a program of another environment (it brings its own OpenCV), with its onnxruntime
backend and its usual settings. `--inner` is the longest side of what the network looks at (0: the whole picture).

`--memory` takes a video of `--minutes` and one of a single minute through the same pipeline and compares the peaks.
Ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

RATE = Fraction(30)
TIMES_DEFACE, OF_COMPUTE, MEMORY = 2.0, 0.8, 1.1  # goals


@dataclass(frozen=True)
class Timed:
    """One process: how long, how much of a processor, how much memory."""

    seconds: float
    processor: float
    peak: int


@dataclass(frozen=True)
class Row:
    """One way of anonymizing. Frames per second: without starting up, and of the whole process on the long clip."""

    name: str
    fps: float
    fps_with_start: float
    processor_per_frame: float
    peak_bytes: int
    engine: str = ""
    bottleneck: str = ""


# --- footage ------------------------------------------------------------------------------------------------


def shoot(path: Path, width: int, height: int, frames: int, *, different: int | None = None) -> Path:
    """Somebody who walks; with `different`, so many frames again and again (a long film that is made quickly)."""
    from videoveil.data.theatre import cast, playwright, stage
    from videoveil.media.writer import VideoWriter

    play = playwright.trimmed(
        "benchmark",
        action="walk",
        person=cast.identity(0, 3),
        width=width,
        height=height,
        rate=RATE,
        frames=different or frames,
    )
    with VideoWriter(
        path,
        width=width,
        height=height,
        time_base=1 / (RATE * 512),
        rate=RATE,
        preset="ultrafast" if different else "veryfast",
    ) as writer:
        if different is None:
            for number, image in enumerate(stage.frames(play)):
                writer.write(image, number / RATE)
        else:
            images = list(stage.frames(play))
            for number in range(frames):
                writer.write(images[number % different], number / RATE)
    return path


# --- processes ----------------------------------------------------------------------------------------------


def timed(command: Sequence[str]) -> Timed:
    """Run it to its end; what it says is shown only if it fails."""
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            text = said.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{text}")
    return Timed(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def veil(source: Path, out: Path, model: str, *options: str) -> tuple[Timed, dict[str, Any]]:
    """`veil anonymize`, and its report."""
    report = out.with_suffix(".json")
    command = [sys.executable, "-m", "videoveil.cli", "anonymize", str(source), str(out), "--with", model]
    found = timed([*command, "--overwrite", "--report", str(report), *options])
    return found, json.loads(report.read_text())


def compare(name: str, short: list[Timed], long: list[Timed], frames: tuple[int, int], **facts: str) -> Row:
    """A row from the medians of several rounds."""
    few, many = frames
    seconds = [statistics.median(one.seconds for one in times) for times in (short, long)]
    processor = [statistics.median(one.processor for one in times) for times in (short, long)]
    difference = seconds[1] - seconds[0]
    if difference < 0.1 * seconds[1]:  # starting up hides everything: the clip is too short to tell
        difference = float("nan")
    return Row(
        name,
        (many - few) / difference,
        many / seconds[1],
        (processor[1] - processor[0]) / (many - few),
        max(one.peak for one in long),
        **facts,
    )


# --- the network alone --------------------------------------------------------------------------------------


def compute_only(model: str, clip: Path, inner: int, engine: str, seconds: float) -> float:
    """Frames per second of the network and nothing else, in this process, with the threads of the pipeline."""
    import cv2

    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.media.reader import open_video
    from videoveil.pipeline.engines import NetworkWorker, Workshop
    from videoveil.pipeline.hands import HANDS
    from videoveil.pipeline.options import Options

    anonymizer = open_anonymizer(model)
    with open_video(clip) as video:
        pictures = list(video.read(list(range(4))))
    options = Options(inner=inner, engine=engine)  # type: ignore[arg-type]
    worker = Workshop().worker(anonymizer, pictures[0].shape[:2], None, options, hands=HANDS)
    assert isinstance(worker, NetworkWorker)
    network = worker.inner if worker.scaled else worker
    if worker.scaled:
        size = worker.engine.size[::-1]
        pictures = [cv2.resize(picture, size, interpolation=cv2.INTER_AREA) for picture in pictures]
    batch = [pictures[number % 4] for number in range(worker.batch)]

    def run(hand: int) -> float:
        network(batch)
        done, began = 0, time.perf_counter()
        while done < 3 or time.perf_counter() - began < seconds:
            network(batch)
            done += 1
        return done * worker.batch / (time.perf_counter() - began)

    # in threads beside the main one, as in the pipeline: OpenMP's threads wait differently for each other there
    with ThreadPoolExecutor(worker.hands, initializer=worker.begin) as pool:
        return sum(pool.map(run, range(worker.hands)))


# --- what is measured ---------------------------------------------------------------------------------------


def speed(options: argparse.Namespace, folder: Path) -> tuple[list[Row], dict[str, float]]:
    """A row per way, and the network alone for each of ours."""
    from videoveil.anonymizers.pixel import UNet, pixel

    model = str(pixel(UNet(width=options.width)).save_pretrained(folder / "model"))
    frames = (max(4, options.frames // 4), options.frames)
    clips = [shoot(folder / f"{count}.mp4", options.size[0], options.size[1], count) for count in frames]
    ours: dict[int, tuple[list[Timed], list[Timed]]] = {inner: ([], []) for inner in options.inner}
    theirs: tuple[list[Timed], list[Timed]] = ([], [])
    target = folder / "veiled.mp4"
    reports = {
        inner: veil(clips[1], target, model, "--inner", str(inner), "--engine", options.engine)[1]
        for inner in options.inner
    }
    engines = {inner: str(report["engine"]["name"]) for inner, report in reports.items()}
    network: dict[int, list[float]] = {inner: [] for inner in options.inner}
    for _ in range(options.rounds):  # in turn, so that a busy moment hits all of them
        for place, clip in enumerate(clips):
            for inner in options.inner:
                chosen = ("--inner", str(inner), "--engine", engines[inner])
                found, reports[inner] = veil(clip, target, model, *chosen)
                ours[inner][place].append(found)
            if options.deface:
                command = [options.deface, str(clip), "-o", str(folder / "deface.mp4"), "--backend", "onnxrt"]
                theirs[place].append(timed(command))
        for inner in options.inner:
            network[inner].append(compute_only(model, clips[0], inner, engines[inner], options.seconds))
    rows, alone = [], {}
    for inner, (short, long) in ours.items():
        made = reports[inner]
        name = f"veil, width {options.width}, {'all pixels' if not inner else f'inner {inner}'}"
        facts = {"engine": engines[inner], "bottleneck": str(made["bottleneck"])}
        rows.append(compare(name, short, long, frames, **facts))
        alone[name] = statistics.median(network[inner])
    if options.deface:
        rows.append(compare("deface", *theirs, frames))
    return rows, alone


def memory(options: argparse.Namespace, folder: Path) -> dict[str, int]:
    """Peak bytes of the process for one minute and for many."""
    from videoveil.anonymizers.pixel import UNet, pixel

    model = options.memory_with or str(pixel(UNet(width=4)).save_pretrained(folder / "small"))
    peaks = {}
    for minutes in (1.0, options.minutes):
        frames = round(minutes * 60 * RATE)
        clip = shoot(folder / "long.mp4", 160, 96, frames, different=30)
        found, report = veil(clip, folder / "veiled.mp4", model, "--engine", "torch", "--preset", "ultrafast")
        if report["frames"] != frames:
            raise SystemExit(f"{report['frames']} frames came out of {frames}")
        peaks[f"{minutes:g} min"] = found.peak
    return peaks


def judge(rows: list[Row], alone: dict[str, float], peaks: dict[str, int]) -> list[str]:
    """The goals, each with what was found; a missed one says so."""
    said = []
    deface = next((row for row in rows if row.name == "deface"), None)
    for row in rows:
        if row.name in alone:
            share = row.fps / alone[row.name]
            said.append(_goal(f"{row.name}: end to end ÷ network alone", share, OF_COMPUTE))
        if deface is not None and row is not deface:
            said.append(_goal(f"{row.name}: × deface", row.fps / deface.fps, TIMES_DEFACE))
    if len(peaks) == 2:
        one, many = peaks.values()
        share = many / one
        said.append(
            f"memory of the long one ÷ the short one: {share:.3f} (goal ≤ {MEMORY}) {_met(share <= MEMORY)}"
        )
    return said


def _goal(name: str, value: float, goal: float) -> str:
    if math.isnan(value):
        return f"{name}: MISSED, the clip is too short to tell; give more --frames"
    return f"{name}: {value:.2f} (goal ≥ {goal}) {_met(value >= goal)}"


def _met(met: bool) -> str:
    return "met" if met else "MISSED"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--deface", help="the executable of deface; without it, no comparison")
    parser.add_argument(
        "--frames", type=int, default=120, help="of the long clip; the short one has a quarter"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--width", type=int, default=16, help="of the UNet")
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--inner", type=int, nargs="+", default=[0, 512])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the network alone")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--memory-with", help="an anonymizer; else a small network")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    options = parse()
    here = sorted(os.sched_getaffinity(0))[: options.cores]
    os.sched_setaffinity(0, here)  # children have the same
    os.environ["OMP_NUM_THREADS"] = str(len(here))
    with tempfile.TemporaryDirectory() as temporary:
        rows, alone = ([], {}) if options.skip_speed else speed(options, Path(temporary))
        peaks = memory(options, Path(temporary)) if options.memory else {}
    print(
        f"{platform.processor() or platform.machine()}, {len(here)} cores, {options.size[0]}×{options.size[1]}"
    )
    for row in rows:
        network = f", network alone {alone[row.name]:.2f}" if row.name in alone else ""
        print(
            f"{row.name:32} {row.fps:8.2f} frames/s ({row.fps_with_start:.2f} with start){network}; "
            f"{row.processor_per_frame * 1000:.0f} ms of a core per frame, {row.peak_bytes / 2**20:.0f} MiB "
            f"{row.engine} {row.bottleneck}"
        )
    for name, peak in peaks.items():
        print(f"{name:32} {peak / 2**20:8.1f} MiB at most")
    said = judge(rows, alone, peaks)
    print("\n".join(said))
    if options.json:
        value = {"rows": [asdict(row) for row in rows], "network_alone": alone, "peaks": peaks, "goals": said}
        options.json.write_text(json.dumps(value, indent=1) + "\n")
    sys.exit(any("MISSED" in line for line in said))


if __name__ == "__main__":
    main()
