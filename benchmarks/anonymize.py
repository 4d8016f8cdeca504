"""Whole videos through a learned anonymizer: end to end, the network alone, and `deface` on the same clip and cores.

    python benchmarks/anonymize.py [--deface PATH] [--frames 120] [--rounds 3] [--cores 2] [--trained 112 224 512]
                                   [--inner 0] [--with veil-pixel] [--memory] [--minutes 60] [--json FILE]

The clip is theatre footage at 1280×720. Everything runs in processes of its own on the same cores, in turn, and is
timed from start to end on a short and on a long clip: the difference of the two is the speed without starting up, which
is what a long video sees; the whole time of the long clip is told too. The engine is chosen once, by a run on the long
clip that is not timed, since a short clip may be given another one and measuring engines is part of no frame. The
network alone is what computes and nothing else: pictures of its size in, pictures of its size out, by as many threads
as in the pipeline. `deface` is a program of another environment (it brings its own OpenCV), with its onnxruntime
backend and its usual settings.

`--trained`: networks that say they were trained at that short side, as anybody runs them, without `--inner`. `--inner`:
one that says nothing, and the longest side of what it looks at (0: every pixel). `--with`: anonymizers by name.

Two shares of what could be are told. "÷ network alone" is end to end over the network by itself. One that looks at
a small picture can take less time than the large one takes to be read and coded; then no pipeline can come near it, and
the figure is told without a goal. "÷ network and coding" is end to end over a machine that only computes the network,
decodes the input and codes the result, never waits and checks nothing: what is missing there is our own.

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
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

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
    coding_per_frame: float = 0.0
    """Seconds of a core for decoding the input and coding the result, and nothing else."""
    engine: str = ""
    bottleneck: str = ""


@dataclass(frozen=True)
class Alone:
    """The network by itself: frames per second, and seconds of a core for each."""

    fps: float
    processor_per_frame: float


@dataclass(frozen=True)
class Case:
    """One anonymizer of ours, and what its network is told to look at; None: what it is by default."""

    name: str
    model: str
    inner: int | None = None

    def options(self, engine: str) -> tuple[str, ...]:
        inner = () if self.inner is None else ("--inner", str(self.inner))
        return (*inner, "--engine", engine)


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


def compare(name: str, short: list[Timed], long: list[Timed], frames: tuple[int, int], **facts: Any) -> Row:
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


def compute_only(case: Case, clip: Path, engine: str, seconds: float) -> Alone | None:
    """The network and nothing else, in this process, with the threads of the pipeline; None where there is none."""
    import cv2

    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.media.reader import open_video
    from videoveil.pipeline.engines import NetworkWorker, Workshop
    from videoveil.pipeline.hands import HANDS
    from videoveil.pipeline.options import EngineName, Options

    anonymizer = open_anonymizer(case.model)
    with open_video(clip) as video:
        pictures = list(video.read(list(range(4))))
    chosen: Any = engine if engine in get_args(EngineName) else "auto"
    options = Options(inner=case.inner, engine=chosen)
    worker = Workshop().worker(anonymizer, pictures[0].shape[:2], None, options, hands=HANDS)
    if not isinstance(worker, NetworkWorker):
        return None
    network = worker.inner if worker.scaled else worker
    if worker.scaled:
        size = worker.engine.size[::-1]
        pictures = [cv2.resize(picture, size, interpolation=cv2.INTER_AREA) for picture in pictures]
    batch = [pictures[number % 4] for number in range(worker.batch)]

    def run(hand: int) -> tuple[float, int]:
        network(batch)
        together.wait()
        done, began = 0, time.perf_counter()
        while done < 3 or time.perf_counter() - began < seconds:
            network(batch)
            done += 1
        return done * worker.batch / (time.perf_counter() - began), done * worker.batch

    used = list[float]()
    together = threading.Barrier(worker.hands, lambda: used.append(time.process_time()))
    # in threads beside the main one, as in the pipeline: OpenMP's threads wait differently for each other there
    with ThreadPoolExecutor(worker.hands, initializer=worker.begin) as pool:
        rates, frames = zip(*pool.map(run, range(worker.hands)))
    return Alone(sum(rates), (time.process_time() - used[0]) / sum(frames))


def coding_only(raw: Path, veiled: Path, target: Path) -> float:
    """Seconds of a core per frame for decoding the input and coding the result again."""
    from videoveil.media.reader import open_video
    from videoveil.media.writer import VideoWriter

    def through(path: Path, writer: VideoWriter | None = None) -> tuple[float, int]:
        began, count = time.process_time(), 0
        with open_video(path) as video:
            for one in video.decoded():
                count += 1
                if writer is not None:
                    writer.write(one.picture, one.time)
        return time.process_time() - began, count

    with open_video(veiled) as video:
        info = video.info
    reading, count = through(raw)
    again, _ = through(veiled)
    target.unlink(missing_ok=True)
    began = time.process_time()
    with VideoWriter(
        target, width=info.width, height=info.height, time_base=info.time_base, rate=RATE
    ) as writer:
        through(veiled, writer)
    return (reading + time.process_time() - began - again) / count


# --- what is measured ---------------------------------------------------------------------------------------


def cases(options: argparse.Namespace, folder: Path) -> list[Case]:
    from videoveil.anonymizers.pixel import UNet, pixel

    def network(trained: int) -> str:
        return str(
            pixel(UNet(width=options.width), size=trained).save_pretrained(folder / f"model-{trained}")
        )

    found = [Case(f"width {options.width}, trained at {side}", network(side)) for side in options.trained]
    for inner in options.inner:
        looks = f"inner {inner}" if inner else "every pixel"
        found.append(Case(f"width {options.width}, {looks}", network(0), inner))
    return [*found, *(Case(name, name) for name in options.named)]


def speed(options: argparse.Namespace, folder: Path) -> tuple[list[Row], dict[str, Alone]]:
    """A row per way, and the network alone for each of ours."""
    frames = (max(4, options.frames // 4), options.frames)
    clips = [shoot(folder / f"{count}.mp4", options.size[0], options.size[1], count) for count in frames]
    tried = cases(options, folder)
    ours: dict[str, tuple[list[Timed], list[Timed]]] = {case.name: ([], []) for case in tried}
    theirs: tuple[list[Timed], list[Timed]] = ([], [])
    target = folder / "veiled.mp4"
    reports = {
        case.name: veil(clips[1], target, case.model, *case.options(options.engine))[1] for case in tried
    }
    engines = {name: str(report["engine"]["name"]) for name, report in reports.items()}
    coding: dict[str, float] = {}
    network: dict[str, list[Alone]] = {case.name: [] for case in tried}
    for _ in range(options.rounds):  # in turn, so that a busy moment hits all of them
        for place, clip in enumerate(clips):
            for case in tried:
                chosen = engines[case.name] if "pictures" in reports[case.name]["engine"] else "auto"
                found, reports[case.name] = veil(clip, target, case.model, *case.options(chosen))
                ours[case.name][place].append(found)
                coding[case.name] = coding_only(clip, target, folder / "coded.mp4")
            if options.deface:
                command = [options.deface, str(clip), "-o", str(folder / "deface.mp4"), "--backend", "onnxrt"]
                theirs[place].append(timed(command))
        for case in tried:
            alone = compute_only(case, clips[0], engines[case.name], options.seconds)
            network[case.name] += [] if alone is None else [alone]
    rows = []
    for name, (short, long) in ours.items():
        facts = {"engine": engines[name], "bottleneck": str(reports[name]["bottleneck"])}
        rows.append(compare(name, short, long, frames, coding_per_frame=coding[name], **facts))
    if options.deface:
        rows.append(compare("deface", *theirs, frames))
    return rows, {name: _median(found) for name, found in network.items() if found}


def _median(found: Sequence[Alone]) -> Alone:
    return Alone(
        statistics.median(one.fps for one in found),
        statistics.median(one.processor_per_frame for one in found),
    )


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


def judge(rows: list[Row], alone: dict[str, Alone], peaks: dict[str, int], cores: int) -> list[str]:
    """The goals, each with what was found; a missed one says so."""
    said = []
    deface = next((row for row in rows if row.name == "deface"), None)
    for row in rows:
        if row.name in alone:
            said += _of_compute(row, alone[row.name], cores)
        if deface is not None and row is not deface:
            said.append(_goal(f"{row.name}: × deface", row.fps / deface.fps, TIMES_DEFACE))
    if len(peaks) == 2:
        one, many = peaks.values()
        share = many / one
        said.append(
            f"memory of the long one ÷ the short one: {share:.3f} (goal ≤ {MEMORY}) {_met(share <= MEMORY)}"
        )
    return said


def _of_compute(row: Row, network: Alone, cores: int) -> list[str]:
    """End to end ÷ network alone, where that can be near 1; and ÷ all that must be done in any case."""
    share = row.fps / network.fps
    needed = network.processor_per_frame + row.coding_per_frame
    reachable = network.processor_per_frame / needed
    name = f"{row.name}: end to end ÷ network alone"
    first = _goal(name, share, OF_COMPUTE)
    if reachable < OF_COMPUTE:
        first = f"{name}: {share:.2f}; no goal, since reading and coding leave {reachable:.2f} at most"
    return [
        first,
        _goal(f"{row.name}: end to end ÷ network and coding", row.fps * needed / cores, OF_COMPUTE),
    ]


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
    parser.add_argument("--trained", type=int, nargs="*", default=[112, 224, 512])
    parser.add_argument("--inner", type=int, nargs="*", default=[])
    parser.add_argument("--with", dest="named", nargs="*", default=["veil-pixel"])
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
        network = ""
        if found := alone.get(row.name):
            network = f", network alone {found.fps:.2f} ({found.processor_per_frame * 1000:.0f} ms)"
        print(
            f"{row.name:32} {row.fps:8.2f} frames/s ({row.fps_with_start:.2f} with start){network}; "
            f"{row.processor_per_frame * 1000:.0f} ms of a core per frame, coding alone "
            f"{row.coding_per_frame * 1000:.0f}, {row.peak_bytes / 2**20:.0f} MiB "
            f"{row.engine} {row.bottleneck}"
        )
    for name, peak in peaks.items():
        print(f"{name:32} {peak / 2**20:8.1f} MiB at most")
    said = judge(rows, alone, peaks, len(here))
    print("\n".join(said))
    if options.json:
        by_itself = {name: asdict(one) for name, one in alone.items()}
        value = {
            "rows": [asdict(row) for row in rows],
            "network_alone": by_itself,
            "peaks": peaks,
            "goals": said,
        }
        options.json.write_text(json.dumps(value, indent=1) + "\n")
    sys.exit(any("MISSED" in line for line in said))


if __name__ == "__main__":
    main()
