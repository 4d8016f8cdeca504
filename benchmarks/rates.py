"""How fast each stage of `veil anonymize` is by itself: what `benchmarks/scale.py` simulates a corpus with.

    python benchmarks/rates.py RATES.json [--device cuda] [--width 16] [--size 1280 720] [--inner 0] [--frames 120]

Theatre footage. Decoding, checking and coding are timed on one core each, the network on the whole device with the
engine that `auto` chooses, in the batches that it chooses, pictures in and pictures out. `start` is a fresh process
until its engine is ready; `chunk` is a piece of two frames with a ready engine: opening, closing, syncing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.anonymize import RATE, shoot

FRESH = """
import sys
from videoveil.anonymizers.named import open_anonymizer
from videoveil.pipeline.engines import Workshop
from videoveil.pipeline.options import Options
model, height, width, inner, device = sys.argv[1:]
options = Options(inner=int(inner), device=device)
Workshop().worker(open_anonymizer(model), (int(height), int(width)), 3000, options)
"""


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Frames per second of `work`, which says how many it did; once to warm up, then again and again."""
    work()
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds or not done:
        done += work()
    return done / (time.perf_counter() - began)


def measure(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.anonymizers.pixel import UNet, pixel
    from videoveil.media.reader import open_video
    from videoveil.media.writer import VideoWriter
    from videoveil.pipeline.anonymize import Part, anonymize_file
    from videoveil.pipeline.checks import FrameChecks
    from videoveil.pipeline.engines import Workshop
    from videoveil.pipeline.options import Options

    width, height = asked.size
    model = str(pixel(UNet(width=asked.width)).save_pretrained(folder / "model"))
    clip = shoot(folder / "clip.mp4", width, height, asked.frames)
    anonymizer = open_anonymizer(model)
    options, workshop = Options(inner=asked.inner, device=asked.device), Workshop()
    with open_video(clip) as video:
        raw = [frame.image.copy() for frame in video.frames(0, 16)]
    worker = workshop.worker(anonymizer, (height, width), 3000, options)
    batch = [raw[number % len(raw)] for number in range(worker.batch)]
    made = worker(raw[: worker.batch])
    pictures = [made[number % len(made)] for number in range(len(raw))]

    def network() -> int:
        return len(worker(batch))

    def decode() -> int:
        with open_video(clip, threads=1) as video:
            return sum(1 for _ in video.frames())

    checks = FrameChecks(anonymizer)

    def check() -> int:
        return len([checks.frame(one, two) for one, two in zip(raw, pictures)])

    def encode() -> int:
        target = folder / "coded.mp4"
        target.unlink(missing_ok=True)
        with VideoWriter(target, width=width, height=height, time_base=1 / (RATE * 512), rate=RATE) as writer:
            for number in range(asked.frames):
                writer.write(pictures[number % len(pictures)], number / RATE)
        return asked.frames

    def piece() -> int:
        target = folder / "piece.mp4"
        target.unlink(missing_ok=True)
        anonymize_file(clip, target, anonymizer, options, workshop=workshop, part=Part(0, 2))
        return 1

    rates: dict[str, Any] = {"anonymize": per_second(network, asked.seconds)}
    rates["chunk"] = 1 / per_second(piece, asked.seconds)
    command = [sys.executable, "-c", FRESH, model, str(height), str(width), str(asked.inner), asked.device]
    began = time.perf_counter()
    subprocess.run(command, check=True)
    rates["start"] = time.perf_counter() - began
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # from here on one core
    for name, work in {"decode": decode, "check": check, "encode": encode}.items():
        rates[name] = per_second(work, asked.seconds)
    os.sched_setaffinity(0, cores)
    return {name: round(value, 3) for name, value in rates.items()} | {"engine": worker.facts()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rates", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--width", type=int, default=16, help="of the UNet")
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 720), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--inner", type=int, default=0)
    parser.add_argument("--frames", type=int, default=120, help="of the clip")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each stage")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(asked, Path(temporary))
    found |= {"size": list(asked.size), "width": asked.width, "inner": asked.inner}
    asked.rates.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
