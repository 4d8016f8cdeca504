"""Frames per second of pixel anonymizers: every engine against plain PyTorch in float32, and how far its output is off.

    python benchmarks/pixel_inference.py [--device cpu|cuda] [--threads 2] [--seconds 4] [--only NAME …] [--json FILE]

On a CPU UNet width 16 at 224²; on a GPU UNet width 64 at 112² and 224². The plain network is measured before and after
the engines, in the same run. Weights are random; batch norms have seen frames and the last layer is scaled so that
outputs reach from black to white, as after training: without that every engine would look exact. Ends with 1 if a goal
is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from videoveil.anonymizers.pixel import PixelAnonymizer, UNet, engine, pixel

PLAIN = "plain fp32"


@dataclass(frozen=True)
class Case:
    """What is measured, and the goal of the fastest engine."""

    width: int
    size: int
    batch: int
    goal: float
    where: str  # the machine that the goal is for


CASES = {
    "cpu": (Case(16, 224, 4, 90, "2 cores with bfloat16 instructions"),),
    "cuda": (Case(64, 112, 256, 20_000, "one H200"), Case(64, 224, 64, 5_500, "one H200")),
}


@dataclass(frozen=True)
class Row:
    """One engine on one case."""

    width: int
    size: int
    engine: str
    frames_per_second: float
    ratio: float  # to the plain network of the same run
    maximum: float
    mean: float
    changed: float
    start_seconds: float


def frames(count: int, size: int, seed: int = 0) -> Tensor:
    """Bytes (count, 3, size, size): large shapes under a little grain."""
    generator = torch.Generator().manual_seed(seed)
    shapes = nn.functional.interpolate(
        torch.rand(count, 3, 7, 7, generator=generator), size=(size, size), mode="bicubic"
    )
    grain = 0.02 * torch.randn(count, 3, size, size, generator=generator)
    return ((shapes + grain).clamp(0, 1) * 255).round().to(torch.uint8)


@torch.no_grad()
def settled(case: Case) -> PixelAnonymizer:
    """A random UNet whose activations have the sizes that training would give them."""
    anonymizer = pixel(UNet(case.width))
    norms = [m for m in anonymizer.modules() if isinstance(m, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    x = frames(4, case.size, seed=1).float() / 255
    anonymizer.train()
    anonymizer.transform(x)
    anonymizer.eval()
    network = anonymizer.stages[0]
    assert isinstance(network, nn.Module)
    last = network.outc.conv
    logits = anonymizer.transform(x).logit()
    last.weight.mul_(2 / logits.std())
    last.bias.sub_(last.bias + (logits.mean() - last.bias.mean()) * 2 / logits.std())
    return anonymizer


def rate(run: Callable[[], object], frames_a_run: int, seconds: float, device: str) -> float:
    """Frames per second over at least `seconds`, after two runs that do not count."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    run(), run(), wait()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        run()
        wait()
        done += frames_a_run
    return done / (time.perf_counter() - began)


def engines(device: str) -> dict[str, dict[str, object]]:
    """Name → options of `engine`."""
    numbers = ("fp32", "bf16") if device == "cpu" else ("fp32", "bf16", "fp16")
    found: dict[str, dict[str, object]] = {}
    for compiled in (False, True):
        for number in numbers:
            name = f"{number}, compiled" if compiled else number
            found[name] = {"precision": number, "compile": compiled}
    if device == "cpu" and importlib.util.find_spec("openvino"):
        found["openvino fp32"] = {"precision": "fp32", "compile": False, "backend": "openvino"}
        found["openvino bf16"] = {"precision": "bf16", "compile": False, "backend": "openvino"}
    return found


@torch.no_grad()
def measure(case: Case, device: str, seconds: float, only: list[str] | None = None) -> list[Row]:
    """All engines, or the named ones, on one case."""
    anonymizer = settled(case).to(device)
    given = frames(case.batch * (8 if device == "cuda" else 2), case.size).to(device)
    floats = (given[: case.batch].float() / 255).contiguous()

    def plain() -> Tensor:
        return anonymizer.transform(floats)

    before = rate(plain, len(floats), seconds, device)
    measured = []
    for name, options in engines(device).items():
        if only and name not in only:
            continue
        began = time.perf_counter()
        fast = engine(anonymizer, case.size, device, batch=case.batch, **options)  # type: ignore[arg-type]
        fast(given)
        start = time.perf_counter() - began
        speed = rate(lambda fast=fast: fast(given), len(given), seconds, device)  # type: ignore[misc]
        measured.append((name, speed, fast.accuracy(floats), start))
    baseline = (before + rate(plain, len(floats), seconds, device)) / 2
    rows = [Row(case.width, case.size, PLAIN, baseline, 1.0, 0.0, 0.0, 0.0, 0.0)]
    for name, speed, off, start in measured:
        rows.append(
            Row(case.width, case.size, name, speed, speed / baseline, **asdict(off), start_seconds=start)
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=list(CASES), default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: as PyTorch chooses")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--only", nargs="+", help="engines by name, as in the table")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = True
    place = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {options.device} ({place})")
    print(
        f"{'UNet':>10} {'engine':>16} {'frames/s':>9} {'÷ plain':>8} {'max off':>8} {'mean off':>9} {'changed':>8}"
    )
    rows, missed = [], 0
    for case in CASES[options.device]:
        found = measure(case, options.device, options.seconds, options.only)
        for row in found:
            print(
                f"{row.width:>5} {row.size:>3}² {row.engine:>16} {row.frames_per_second:>9,.0f} {row.ratio:>8.2f} "
                f"{row.maximum:>8.4f} {row.mean:>9.5f} {row.changed:>8.4f}",
                flush=True,
            )
        best = max(found, key=lambda row: row.frames_per_second)
        reached = best.frames_per_second >= case.goal
        missed += not reached
        print(
            f"best: {best.engine}; goal ≥ {case.goal:,} on {case.where}: {'reached' if reached else 'missed'}"
        )
        rows += found
    if options.json:
        facts = {"torch": torch.__version__, "device": options.device, "place": place}
        options.json.write_text(json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
