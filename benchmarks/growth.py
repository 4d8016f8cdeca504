"""How cost grows: processor seconds against frames, videos, clips and workers, with the exponent that fits.

    python benchmarks/growth.py [--quick] [--only frames …] [--json FILE]
    python benchmarks/growth.py --plot FILE.json PICTURE.png     # draws what was measured before

frames    `anonymize_file` with the line drawing on theatre footage of growing length, in one process
videos    `extract` with the embedded encoder on growing choices of a twin, into a new store each
clips     making the latent anonymizer `veil` (closed form) from growing numbers of random clip features, 256 wide
workers   `veil corpus` on the same videos by more and more workers, all processes together

Cost is the time that processors spent, so that it does not matter what else the machine does; seconds on the clock are
kept beside it. Of two measurements of a point the smaller counts. The exponent is the slope of a line through the
logarithms: 1 is proportional, 0 is constant, and what starting up costs pulls it down. Of workers it should be near 0:
more of them should cost no more, and only take less time where there are cores for them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.anonymize import shoot
from videoveil import files

SIZES = {  # what is measured, and what by --quick
    "frames": ((120, 240, 480, 960), (60, 120, 240)),
    "videos": ((4, 8, 16, 32), (3, 6, 12)),
    "clips": ((2_000, 8_000, 32_000, 128_000), (2_000, 8_000, 32_000)),
    "workers": ((1, 2, 4), (1, 2)),
}
ROUNDS = 2
Point = dict[str, float]


def spent() -> float:
    """Processor seconds of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """Processor seconds and seconds on the clock."""
    began, clock = spent(), time.perf_counter()
    work()
    return spent() - began, time.perf_counter() - clock


def measured(sizes: Sequence[int], make: Callable[[int], Callable[[], object]], rounds: int) -> list[Point]:
    """A point per size; `make(size)` prepares and gives what is timed. Once before, so that libraries are loaded."""
    make(sizes[0])()
    found = []
    for size in sizes:
        times = [cost(make(size)) for _ in range(rounds)]
        found.append({"size": size, "cost": min(t[0] for t in times), "clock": min(t[1] for t in times)})
    return found


def exponent(points: Sequence[Mapping[str, float]]) -> float:
    """k of cost = c · size^k, by least squares on logarithms."""
    sizes, costs = (np.log([point[key] for point in points]) for key in ("size", "cost"))
    return float(np.polyfit(sizes, costs, 1)[0])


# --- what is measured ---------------------------------------------------------------------------------------


def frames(folder: Path, sizes: Sequence[int], rounds: int) -> list[Point]:
    from videoveil.anonymizers.named import open_anonymizer
    from videoveil.pipeline.anonymize import anonymize_file

    clips = {count: shoot(folder / f"{count}.mp4", 320, 240, count, different=30) for count in sizes}
    drawing = open_anonymizer("veil-pixel")

    def make(count: int) -> Callable[[], object]:
        out = Path(tempfile.mkdtemp(dir=folder)) / "out.mp4"
        return lambda: anonymize_file(clips[count], out, drawing)

    return measured(sizes, make, rounds)


def videos(folder: Path, sizes: Sequence[int], rounds: int) -> list[Point]:
    from videoveil.data import registry, twins
    from videoveil.encoders import create
    from videoveil.features.extract import extract, recipe_for

    twins.make("vphmdb", folder / "twin", size="tiny", processes=1)
    whole, encoder = registry.load("vphmdb", folder / "twin"), create("tiny")
    recipe = recipe_for(encoder, clips="2")

    def make(count: int) -> Callable[[], object]:
        chosen = {item.id for item in whole.items[:count]}
        store = Path(tempfile.mkdtemp(dir=folder))
        return lambda: extract(
            whole.where(lambda item: item.id in chosen), store, encoder, recipe, device="cpu"
        )

    return measured(sizes, make, rounds)


def clips(folder: Path, sizes: Sequence[int], rounds: int) -> list[Point]:
    import torch

    from videoveil.anonymizers import Keep, latent

    width, each = 256, 4
    generator = torch.Generator().manual_seed(0)

    def make(count: int) -> Callable[[], object]:
        people = count // each
        rows = torch.randn(count, width, generator=generator)
        still = torch.randn(people, 2, width, generator=generator)
        owners = torch.arange(people).repeat_interleave(each)
        anonymizer = latent(width, Keep(share=1 / 8))
        return lambda: anonymizer.fit_from(rows, videos=still, owners=owners, actions=owners % 16)

    return measured(sizes, make, rounds)


def workers(folder: Path, sizes: Sequence[int], rounds: int) -> list[Point]:
    archive = folder / "archive"
    archive.mkdir()
    for number in range(8):
        shoot(archive / f"{number}.mp4", 320, 240, 120, different=30)

    def make(count: int) -> Callable[[], object]:
        out = Path(tempfile.mkdtemp(dir=folder))
        words = ["corpus", str(archive), str(out / "safe"), "--with", "veil-pixel", "--workers", str(count)]
        command = [sys.executable, "-m", "videoveil.cli", *words]
        return lambda: subprocess.run(command, check=True, capture_output=True)

    return measured(sizes, make, rounds)


CURVES: dict[str, Callable[[Path, Sequence[int], int], list[Point]]] = {
    "frames": frames,
    "videos": videos,
    "clips": clips,
    "workers": workers,
}


def grow(quick: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    """Curve → its points and exponent, or why it was not measured."""
    found: dict[str, Any] = {}
    for name, curve in CURVES.items():
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            try:
                points = curve(Path(temporary), SIZES[name][int(quick)], 1 if quick else ROUNDS)
            except ImportError as error:
                found[name] = {"not_run": f"{error.name} is not installed"}
                continue
            except subprocess.CalledProcessError as error:
                found[name] = {"not_run": f"`{' '.join(error.cmd[2:4])}` ended with {error.returncode}"}
                continue
        found[name] = {"points": points, "exponent": exponent(points)}
        print(f"{name}: {told(found[name])}", flush=True)
    return found


def told(curve: Mapping[str, Any]) -> str:
    """One curve in a line."""
    if "not_run" in curve:
        return f"not run: {curve['not_run']}"
    points = ", ".join(f"{point['size']:,.0f}: {point['cost']:.2f} s" for point in curve["points"])
    return f"{points}; cost ∝ size^{curve['exponent']:.2f}"


def table(curves: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = ["| against | processor seconds | exponent |", "|---|---|---|"]
    for name, curve in curves.items():
        cells = told(curve).split("; cost ∝ size^")
        lines.append(f"| {name} | {cells[0]} | {cells[1] if len(cells) > 1 else '–'} |")
    return "\n".join(lines)


def mark(curves: Mapping[str, Any]) -> str:
    """What a picture was drawn from, so that an old one is noticed."""
    return files.value_hash(dict(curves))


def plot(curves: Mapping[str, Any], picture: Path) -> None:
    """Every curve by itself, both axes logarithmic, beside the line that would be good."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    there = {name: one for name, one in curves.items() if "points" in one}
    figure, axes = pyplot.subplots(1, len(there), figsize=(3.2 * len(there), 3.0), squeeze=False)
    for axis, (name, curve) in zip(axes[0], there.items()):
        sizes, costs = (np.array([point[key] for point in curve["points"]]) for key in ("size", "cost"))
        power = 0 if name == "workers" else 1  # more workers should cost no more
        word = "proportional" if power else "constant"
        axis.plot(sizes, costs[0] * (sizes / sizes[0]) ** power, color="0.7", linestyle="--", label=word)
        axis.plot(sizes, costs, marker="o", color="#2a6f97", label="measured")
        axis.set(xscale="log", yscale="log", title=f"{name}: exponent {curve['exponent']:.2f}", xlabel=name)
        axis.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
        axis.set_yticks(costs, [f"{cost:.2f}" for cost in costs])
        axis.minorticks_off()
        axis.legend(frameon=False, loc="upper left")
    axes[0][0].set_ylabel("processor seconds")
    figure.tight_layout()
    figure.savefig(picture, dpi=120, metadata={"Software": None, "Description": mark(curves)})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(CURVES), default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("FILE", "PICTURE"))
    asked = parser.parse_args()
    if asked.plot:
        plot(json.loads(asked.plot[0].read_text("utf-8"))["rows"], asked.plot[1])
        return
    found = grow(asked.quick, asked.only)
    print(table(found))
    if asked.json:
        asked.json.write_text(json.dumps({"quick": asked.quick, "rows": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
