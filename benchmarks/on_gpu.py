"""What the pixel tables of docs/results.md need a GPU for, side by side in one call.

    python benchmarks/on_gpu.py DATA OUT [--minutes 28] [--jobs 13] [--again]

Two chains of commands share one GPU, through NVIDIA's MPS where its daemon is there: the study on twins
(`pixel_study.py --scale gpu`: actions, attackers and anomalies first, drawing frames again after it) and the rows on
real clips (`real_pixels.py`: first the cells that docs/data/pixels-real.json lacks, then, with `--again`, the rows that
learn once more). OUT/gathered.tgz is written anew every few seconds and holds what is small and worth keeping: results,
what was said of every test item, logs and pictures of the theatre; never a video, a photograph or weights. When the
minutes are over everything is stopped; the same call goes on from what is there. Then, where the archive was unpacked:

    python benchmarks/real_pixels.py DATA OUT/real --show --rows NAME …
    python scripts/results.py --add pixels-real OUT/real/results.json
    python scripts/results.py --store pixels-twins OUT/twins/results.json
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
STORED = ROOT / "docs" / "data" / "pixels-real.json"
LACKING = (
    "VITA, told",
    "Noisy-Features",
    "blacken, then veil-pixel",
    "blacken",
    "strong blur",
    "weak blur",
    "downsample 2×",
)
LEARNT = ("TeD-SPAD", "penalty, B=0.5", "SPAct", "penalty, B=0.15")

EVERY = 20.0  # seconds from one look to the next
KEPT = (".json", ".npz", ".log", ".png")
RAW = (
    "boxes",
    "vphmdb",
    "ucf-crime",
    "ucf-crime-features",
    "run",
    "target",
)  # folders with videos, weights, features
LARGEST = 2**20  # bytes of a file that is gathered
MPS = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class Step:
    """A command, and the name of its log."""

    name: str
    words: tuple[str, ...]


@dataclass
class Chain:
    """Commands that run one after the other; what fails does not keep the next from running."""

    steps: Sequence[Step]
    out: Path
    threads: int = 1
    running: subprocess.Popen[bytes] | None = None
    stopped: bool = False

    def run(self) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": str(self.threads)}
        for step in self.steps:
            if self.stopped:
                return
            began = time.monotonic()
            with (self.out / f"{step.name}.log").open("ab") as log:
                self.running = subprocess.Popen(
                    step.words, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
                )
                code = self.running.wait()
            print(
                f"{step.name}: exit code {code} after {(time.monotonic() - began) / 60:.1f} minutes",
                flush=True,
            )

    def stop(self) -> None:
        """The command with all of its processes."""
        self.stopped = True
        if self.running is not None and self.running.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.running.pid, signal.SIGKILL)


def chains(asked: argparse.Namespace) -> list[Chain]:
    def script(name: str, *words: str | Path) -> tuple[str, ...]:
        return (sys.executable, str(HERE / name), *map(str, words))

    twins, real = asked.out / "twins", asked.out / "real"
    study = ("--scale", "gpu", "--jobs", str(asked.jobs), "--workers", "1", "--device", "cuda")
    shown = ("--plot", twins / "frontier.png", "--strips", twins / "strips.png")
    rows = ("--device", "cuda", "--workers", "2")
    steps = [
        Step(
            "real-lacking",
            script(
                "real_pixels.py",
                asked.data,
                real,
                *rows,
                "--jobs",
                "3",
                "--missing",
                STORED,
                "--rows",
                *LACKING,
            ),
        )
    ]
    if asked.again:
        steps.append(
            Step(
                "real-learnt",
                script("real_pixels.py", asked.data, real, *rows, "--jobs", "4", "--rows", *LEARNT),
            )
        )
    return [
        Chain(
            (
                Step("twins", script("pixel_study.py", twins, *study, *shown, "--without", "reconstruction")),
                Step("twins-drawn", script("pixel_study.py", twins, *study)),
            ),
            asked.out,
        ),
        Chain(steps, asked.out, threads=2),
    ]


def gather(out: Path) -> Path:
    """OUT/gathered.tgz: what is small and shows nobody."""
    found = out / "gathered.tgz"
    temporary = found.with_suffix(".tmp")
    with tarfile.open(temporary, "w:gz") as archive:
        for path in worth_keeping(out):
            with contextlib.suppress(FileNotFoundError):  # was renamed meanwhile
                archive.add(path, path.relative_to(out), recursive=False)
    temporary.replace(found)
    return found


def worth_keeping(out: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(out):
        folders[:] = sorted(name for name in folders if name not in RAW)
        for name in sorted(names):
            path = Path(folder, name)
            if path.suffix in KEPT and path.stat().st_size <= LARGEST:
                yield path


def run(work: Sequence[Chain], out: Path, until: float) -> None:
    """All chains until they end or the moment comes; gathers all the while."""
    threads = [threading.Thread(target=chain.run, daemon=True) for chain in work]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            for thread in threads:
                thread.join(min(EVERY, max(0.0, until - time.monotonic())) / len(threads))
            gather(out)
    finally:
        for chain in work:
            chain.stop()
        for thread in threads:
            thread.join()
        gather(out)


@contextlib.contextmanager
def shared_gpu(out: Path) -> Iterator[None]:
    """Processes that compute at the same time instead of taking turns, where MPS is there and not already at work."""
    if shutil.which(MPS) is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = str(out / "mps")
    (out / "mps").mkdir(exist_ok=True)
    subprocess.run([MPS, "-d"], check=False)
    try:
        yield
    finally:
        subprocess.run([MPS], input=b"quit\n", check=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="as for real_pixels.py")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=28.0)
    parser.add_argument("--jobs", type=int, default=13, help="of the study on twins")
    parser.add_argument("--again", action="store_true", help="also the rows on real clips that learn")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    asked.out.mkdir(parents=True, exist_ok=True)
    with shared_gpu(asked.out):
        run(chains(asked), asked.out, until)
    print(f"{asked.out / 'gathered.tgz'}: {(asked.out / 'gathered.tgz').stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
