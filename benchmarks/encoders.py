"""Clips per second of the embedded encoder on this machine's CPU.

python benchmarks/encoders.py [NAME …]
"""

from __future__ import annotations

import sys
import time

import torch

from videoveil.encoders import create

GOALS = {"tiny": 40.0}  # clips/s on 2 cores
BATCH = 8


def clips_per_second(name: str, seconds: float = 4.0) -> float:
    encoder = create(name)
    spec = encoder.input
    clips, done = torch.rand(BATCH, 3, spec.frames, spec.size, spec.size), 0
    with torch.inference_mode():
        encoder(clips)
        began = time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            encoder(clips)
            done += BATCH
    return done / spent


def main(names: list[str]) -> int:
    """0 if every goal is met."""
    missed = 0
    for name in names:
        rate, goal = clips_per_second(name), GOALS.get(name)
        missed += goal is not None and rate < goal
        print(
            f"{name}: {rate:.1f} clips/s, {torch.get_num_threads()} threads"
            + (f" (goal ≥ {goal:g})" if goal else "")
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["tiny"]))
