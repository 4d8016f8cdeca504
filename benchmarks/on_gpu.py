"""What the pixel tables of docs/results.md need a GPU for, side by side in one call.

    python benchmarks/on_gpu.py DATA OUT [--minutes 28] [--jobs 12] [--beside 4] [--again] [--gathered FILE]

The study on twins (`pixel_study.py --scale gpu`: actions, attackers and anomalies of STUDIED, then drawing their frames
again, then all other rows), and beside it rows on real clips (`real_pixels.py`: of LACKING what
docs/data/pixels-real.json has no figure for, with `--again` also LEARNT from the beginning; actions and faces of all
rows before anything is drawn again; then HELD on three seeds). The study's clock is that of a machine which does both.
Processes compute at the same time through NVIDIA's MPS where its daemon is there. FILE, or else OUT/gathered.tgz, is
written anew every twenty seconds and holds what is small and worth keeping: results, what was said of every test item,
logs, the frontier and the strips of the theatre; never a video, a photograph or weights. When the minutes are over
everything is stopped. The same call goes on from what is in OUT; an unpacked archive has no weights, and can only be
shown:

    python benchmarks/real_pixels.py DATA OUT/real --show
    python scripts/results.py --add pixels-real OUT/real/results.json
    python benchmarks/real_pixels.py DATA OUT/real-seeds --seeds 0 1 2 --show
    python scripts/results.py --store pixels-real-seeds OUT/real-seeds/results.json
    python scripts/results.py --store pixels-twins OUT/twins/results.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from videoveil import files

HERE = Path(__file__).parent
ROOT = HERE.parent
STORED = ROOT / "docs" / "data" / "pixels-real.json"
STUDIED = (  # on twins, first: the methods of the papers, their baselines, our default
    "downsample 2×",
    "downsample 4×",
    "blacken",
    "strong blur",
    "weak blur",
    "SPAct",
    "TeD-SPAD",
    "penalty, B=0.15",
    "penalty, B=0.5",
    "VITA, told",
    "Noisy-Features",
    "veil-pixel",
)
LACKING = (  # on real clips, in stored results
    "VITA, told",
    "Noisy-Features",
    "weak blur",
    "blacken, then veil-pixel",
    "blacken faces",
    "blacken faces, then veil-pixel",
    "blacken faces, then veil-unet",
    "blacken",
    "strong blur",
    "downsample 2×",
)
LEARNT = ("TeD-SPAD", "penalty, B=0.5", "SPAct")  # with `--again`
HELD = (
    "blacken faces",
    "blacken faces, then veil-pixel",
    "blacken, then veil-pixel",
)  # bars hang on them: more seeds

EVERY = 20.0  # seconds from one look to the next
KEPT = (".json", ".npz", ".log")
PICTURES = ("twins/frontier.png", "twins/strips.png")  # of the theatre alone
LEFT_OUT = ("boxes", "boxes-of-faces", "vphmdb", "ucf-crime", "ucf-crime-features", "run", "target", "mps")
LARGEST = 4 * 2**20  # bytes of a file that is gathered; what was said of 1,181 faces takes 1.8 million
PATIENCE = 20.0  # seconds for a thread whose command was killed
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
    running: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)  # nothing begins while it is being stopped

    def run(self) -> None:
        for step in self.steps:
            began = time.monotonic()
            with (self.out / f"{step.name}.log").open("ab") as log:
                process = self._begin(step, log)
                if process is None:
                    return
                code = process.wait()
            _kill(process)  # whoever it left behind must not share the GPU with the next
            minutes = (time.monotonic() - began) / 60
            print(f"{step.name}: exit code {code} after {minutes:.1f} minutes", flush=True)

    def _begin(self, step: Step, log: io.BufferedWriter) -> subprocess.Popen[bytes] | None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        with self.lock:
            if self.stopped:
                return None
            self.running = subprocess.Popen(
                step.words, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
            return self.running

    def stop(self) -> None:
        """The command with all of its processes."""
        with self.lock:
            self.stopped = True
            if self.running is not None:
                _kill(self.running)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Everybody in its group, also where the leader is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def stages(asked: argparse.Namespace) -> list[Chain]:
    """The study on twins, and rows on real clips."""

    def script(name: str, *words: str | int | Path) -> tuple[str, ...]:
        return (sys.executable, str(HERE / name), *map(str, words))

    def study(*words: str | int | Path) -> tuple[str, ...]:
        return script("pixel_study.py", twins, "--scale", "gpu", *own, "--jobs", asked.jobs, *words)

    def clips(out: Path, *words: str | int | Path) -> tuple[str, ...]:
        return script("real_pixels.py", asked.data, out, *own, "--jobs", asked.beside, *words)

    own = ("--workers", 1, "--device", "cuda")
    twins, real, held = (asked.out / name for name in ("twins", "real", "real-seeds"))
    shown = ("--plot", twins / "frontier.png", "--strips", twins / "strips.png")
    undrawn, seen = ("--without", "reconstruction"), ("--parts", "action", "faces")
    stored = asked.out / "stored.json"
    known = json.loads(STORED.read_text("utf-8"))
    again = LEARNT if asked.again else ()
    files.write_json(stored, {"rows": {n: row for n, row in known["rows"].items() if n not in again}})
    lacking = ("--missing", stored, "--rows", *LACKING[:3], *again, *LACKING[3:])
    on_twins = (
        Step("twins", study(*undrawn, "--rows", *STUDIED)),
        Step("twins-drawn", study("--rows", *STUDIED)),
        Step("twins-more", study(*shown)),
    )
    on_clips = (
        Step("real-seen", clips(real, *seen, *lacking)),
        Step("real", clips(real, *lacking)),
        Step("real-seeds", clips(held, "--seeds", 0, 1, 2, *seen, "--rows", *HELD)),
    )
    return [Chain(on_twins, asked.out), Chain(on_clips, asked.out)]


def gather(out: Path, found: Path) -> None:
    """What is small and shows nobody, each file as it is at this moment; `found` is whole at every moment."""
    temporary = found.with_suffix(".tmp")
    with tarfile.open(temporary, "w:gz") as archive:
        for path in worth_keeping(out):
            try:
                data = path.read_bytes()
            except OSError:  # was renamed meanwhile: the next look finds it
                continue
            name = str(path.relative_to(out))
            if len(data) > LARGEST:
                print(f"{name}: {len(data):,} bytes are too many, not gathered", flush=True)
                continue
            about = tarfile.TarInfo(name)
            about.size, about.mtime = len(data), int(time.time())
            archive.addfile(about, io.BytesIO(data))
    temporary.replace(found)


def worth_keeping(out: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(out):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in sorted(names):
            path = Path(folder, name)
            if name.startswith(files.TEMPORARY):
                continue
            if path.suffix in KEPT or str(path.relative_to(out)) in PICTURES:
                yield path


def run(work: Sequence[Chain], out: Path, found: Path, until: float) -> None:
    """The chains until they end or the moment comes; gathers all the while."""
    threads = [threading.Thread(target=chain.run, daemon=True) for chain in work]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            _join(threads, min(EVERY, until - time.monotonic()))
            gather(out, found)
    finally:
        for chain in work:
            chain.stop()
        _join(threads, PATIENCE)
        gather(out, found)


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    """Wait for all of them, but not longer."""
    latest = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, latest - time.monotonic()))


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
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([MPS], input=b"quit -t 10\n", check=False, timeout=30)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="as for real_pixels.py")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=28.0)
    parser.add_argument("--jobs", type=int, default=12, help="processes of the study on twins")
    parser.add_argument("--beside", type=int, default=4, help="and of rows on real clips")
    parser.add_argument("--again", action="store_true", help="also rows on real clips that learn")
    parser.add_argument("--gathered", type=Path, help="an archive elsewhere than OUT/gathered.tgz")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops the commands too
    asked.out.mkdir(parents=True, exist_ok=True)
    found = asked.gathered or asked.out / "gathered.tgz"
    with shared_gpu(asked.out):
        run(stages(asked), asked.out, found, until)
    print(f"{found}: {found.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
