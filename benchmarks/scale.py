"""A corpus of 1,000 hours on 8 accelerators, simulated from the rates of its stages.

    python benchmarks/scale.py RATES.json [--hours 1000] [--accelerators 8] [--cores 16] [--chunk 3000] [--mtbf 24]

RATES.json has frames per second of one core or one accelerator, each stage alone, and what a chunk costs beside:
{"decode": 420, "anonymize": 800, "check": 300, "encode": 150, "start": 10, "chunk": 0.5}; `benchmarks/rates.py`
measures them. The simulation hands out the chunks of `pipeline.corpus` one by one: a worker has one accelerator and its
share of the cores, which decode, check and code together while the accelerator computes, so a chunk takes as long as
the slower of the two, plus what it costs beside. Workers die at random, every `--mtbf` hours each, lose the chunk they
are at and start again. Lengths of videos are log-normal around `--minutes`. Prints how long it takes, what limits it,
and how it grows; nothing of it is measured but the rates.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.intervals import interval
from videoveil.pipeline.corpus import bounds

RATE = 25  # frames per second of the videos
STAGES = ("cores", "accelerator")


@dataclass(frozen=True)
class Machine:
    """Rates are frames per second; `start` and `chunk` are seconds per start of a worker and per chunk."""

    decode: float  # of one core
    anonymize: float  # of one accelerator
    check: float  # of one core
    encode: float  # of one core
    start: float
    chunk: float

    @classmethod
    def read(cls, value: Mapping[str, float]) -> Machine:
        return cls(**{name: float(value[name]) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Cluster:
    accelerators: int
    cores: int  # of each accelerator's machine
    mtbf: float  # hours between two deaths of a worker; inf: none dies
    chunk: int


def stage_rates(machine: Machine, cores: int) -> dict[str, float]:
    """Frames per second of one worker's cores, which do everything but the network, and of its accelerator."""
    seconds = 1 / machine.decode + 1 / machine.check + 1 / machine.encode
    return {"cores": cores / seconds, "accelerator": machine.anonymize}


def simulate(
    machine: Machine, cluster: Cluster, videos: Sequence[int], seed: int
) -> tuple[float, float, int]:
    """Hours until all is done, the share of them in which a worker was at frames, and how many died."""
    draw = random.Random(seed)
    slowest = min(stage_rates(machine, cluster.cores).values())
    pieces = [b - a for frames in videos for a, b in pairwise(bounds(frames, cluster.chunk))]
    waiting = [machine.chunk + frames / slowest for frames in pieces][::-1]
    free = [(machine.start, worker) for worker in range(cluster.accelerators)]
    heapq.heapify(free)
    ends, useful, died = 0.0, 0.0, 0
    while waiting:
        now, worker = heapq.heappop(free)
        seconds = waiting.pop()
        dies = draw.expovariate(1 / (3600 * cluster.mtbf)) if math.isfinite(cluster.mtbf) else math.inf
        if dies < seconds:  # the piece is handed out again
            waiting.append(seconds)
            died += 1
            heapq.heappush(free, (now + dies + machine.start, worker))
            continue
        useful += seconds - machine.chunk
        ends = max(ends, now + seconds)
        heapq.heappush(free, (now + seconds, worker))
    return ends / 3600, useful / (ends * cluster.accelerators), died


def lengths(hours: float, minutes: float, seed: int) -> list[int]:
    """Frames of videos that are `hours` long together."""
    draw, left, found = random.Random(seed), hours * 3600 * RATE, []
    while left > 0:
        frames = min(left, max(RATE, draw.lognormvariate(math.log(minutes * 60 * RATE), 1.0)))
        found.append(int(frames) or 1)
        left -= frames
    return found


def line(machine: Machine, cluster: Cluster, videos: Sequence[int], seeds: int) -> str:
    runs = [simulate(machine, cluster, videos, seed) for seed in range(seeds)]
    hours, low, high = interval([run[0] for run in runs])
    played = sum(videos) / RATE / 3600
    rates = stage_rates(machine, cluster.cores)
    limit = min(rates, key=lambda name: rates[name])
    return (
        f"| {cluster.accelerators} | {cluster.cores} | {cluster.chunk:,} | {cluster.mtbf:g} | "
        f"{hours:.2f} [{low:.2f}, {high:.2f}] | {played / hours:.0f} × | "
        f"{100 * sum(run[1] for run in runs) / seeds:.1f} % | {sum(run[2] for run in runs) / seeds:.1f} | {limit} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rates", type=Path)
    parser.add_argument("--hours", type=float, default=1000)
    parser.add_argument("--accelerators", type=int, default=8)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--chunk", type=int, default=3000)
    parser.add_argument("--mtbf", type=float, default=24.0)
    parser.add_argument("--minutes", type=float, default=10.0, help="median length of a video")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    machine = Machine.read(json.loads(asked.rates.read_text()))
    videos = lengths(asked.hours, asked.minutes, 0)
    first = Cluster(asked.accelerators, asked.cores, asked.mtbf, asked.chunk)
    rates = stage_rates(machine, asked.cores)
    print(f"{len(videos):,} videos, {asked.hours:g} h at {RATE} frames/s. One worker: ", end="")
    print(", ".join(f"{name} {rates[name]:,.0f}" for name in STAGES), "frames/s\n")
    print(
        "| accelerators | cores each | chunk | hours between deaths | hours | real time | at frames | died | limit |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    others = [
        *(replace(first, accelerators=n) for n in (1, 2, 4, 16) if n != first.accelerators),
        *(replace(first, cores=n) for n in (4, 8, 32, 64) if n != first.cores),
        *(replace(first, chunk=n) for n in (300, 30_000, 10**9) if n != first.chunk),
        *(replace(first, mtbf=hours) for hours in (1.0, math.inf) if hours != first.mtbf),
    ]
    for cluster in (first, *others):
        print(line(machine, cluster, videos, asked.seeds), flush=True)


if __name__ == "__main__":
    main()
