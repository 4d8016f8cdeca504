"""How much faster than real time the temporal tasks are, from features to answers.

    python benchmarks/tasks.py [--width 768] [--repeats 5]

TriDet (published size) on 2,304 feature steps of a video at 30 frames per second, one feature every 4 frames: 307.2 s.
MGFN (published size) on a video of one hour at 30 frames per second, one feature every 16 frames: 6,750 snippets.
Prints seconds of video ÷ seconds of wall time (the best and the median of the repeats) and ÷ CPU seconds; the goal is
200. Nothing is learnt for this: the weights are random, which leaves TriDet with all the candidates it may keep (2,000
per level), the slowest case of its suppression.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from statistics import median

import numpy as np
import torch

from videoveil.tasks.mgfn import FittedMGFN, MGFNConfig
from videoveil.tasks.mgfn.training import build as build_mgfn
from videoveil.tasks.mgfn.videos import AnomalyVideo
from videoveil.tasks.tridet import DetectionVideo, FittedTriDet, TriDetConfig, build

GOAL = 200
STEPS, STRIDE, WINDOW, RATE = 2304, 4, 16, 30
CLASSES = tuple(f"class {number}" for number in range(20))


def timed(work: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Best and median wall seconds, best CPU seconds, after one warm-up."""
    work()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return min(walls), median(walls), min(cpus)


def tridet(width: int, rng: np.random.Generator) -> tuple[Callable[[], object], float]:
    seconds = STEPS * STRIDE / RATE
    config = TriDetConfig()
    fitted = FittedTriDet(build(width, len(CLASSES), config, 0), CLASSES)
    features = rng.standard_normal((STEPS, width)).astype(np.float32)
    video = DetectionVideo("a", features, Fraction(RATE), STRIDE, WINDOW, Fraction(int(seconds * 10), 10))
    return lambda: fitted.detect([video]), seconds


def mgfn(width: int, rng: np.random.Generator) -> tuple[Callable[[], object], float]:
    snippets = 3600 * RATE // 16
    config = MGFNConfig()
    fitted = FittedMGFN(build_mgfn(width, config, 0), config, 0)
    features = rng.standard_normal((snippets, width)).astype(np.float32)
    video = AnomalyVideo("a", features, 1, 16)
    return lambda: fitted.scores([video]), 3600.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{torch.get_num_threads()} threads, features {asked.width} wide; goal ≥ {GOAL}× real time")
    for name, make in (("TriDet, 2304 steps", tridet), ("MGFN, 1 hour", mgfn)):
        work, seconds = make(asked.width, rng)
        best, middle, cpu = timed(work, asked.repeats)
        print(
            f"{name:20} {seconds:6.0f} s of video: {seconds / best:6.0f}× (median {seconds / middle:.0f}×) real time, "
            f"{seconds / cpu:.0f}× per CPU second"
        )


if __name__ == "__main__":
    main()
