"""Everything that can go wrong, brought about by real means, and the canaries that would give a leak away.

    with fault_of("full disk").at(tmp_path) as scene:       # input, model, output folder, limits
        result = scene.veil("anonymize", …)                # a real child process
        assert scene.leaks() == {}

Faulty anonymizers are real ones with a flaw; a child process knows them by name (`python tests/pipeline/faults.py ARGS`
is `veil ARGS` with those names). Signals are sent to real processes; disks are really full or read-only.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from videoveil import files
from videoveil.anonymizers import named
from videoveil.anonymizers.obfuscate import STRONG, WEAK, WholeBlur
from videoveil.anonymizers.obfuscate.base import Classical

SECRET = 20_07
FRAMES = 30
SIZE = (96, 64)
FAILS_AT = 12  # the frame at which a faulty anonymizer shows its flaw
HOLD = "VEIL_TEST_HOLD"  # names a file: while it is there, a slow or held anonymizer goes no further than that frame


# --- faulty anonymizers ---------------------------------------------------------------------------------------


class Faulty(Classical):
    """Blurs well, until a frame at which it does something else."""

    kind = "faulty"

    def __init__(self, flaw: str):
        super().__init__()
        self.flaw, self.seen, self.kernel = flaw, 0, STRONG

    def forward(self, x: torch.Tensor, *, content: Any = None) -> torch.Tensor:
        first, self.seen = self.seen, self.seen + len(x)
        good = WholeBlur(self.kernel)(x)
        if self.seen > FAILS_AT:
            return self._flawed(x, good, max(0, FAILS_AT - first))
        return good

    def _flawed(self, x: torch.Tensor, good: torch.Tensor, place: int) -> torch.Tensor:
        match self.flaw:
            case "exception":  # with as many raw pixels in its text as an exception can carry
                raw = x[place].permute(1, 2, 0).contiguous().numpy()
                raise ValueError(f"cannot work on {raw.tolist()} {raw.tobytes()!r}")
            case "out of memory":
                np.empty(2**46, np.uint8)
            case "device out of memory":
                torch.empty(2**46, dtype=torch.uint8)
            case "raw frame":
                good[place] = x[place]
            case "half a raw frame":
                good[place, :, :, : x.shape[-1] // 2] = x[place, :, :, : x.shape[-1] // 2]
            case "wrong shape":
                return good[..., 1:]
            case "floats":
                return good.float() / 255
            case "too few":
                return good[1:]
            case "nothing":
                return None  # type: ignore[return-value]
            case "changed weights":
                self.kernel = WEAK
            case "slow" | "held":
                if place == 0:  # what came before is on its way out by now
                    hold_up()
                if self.flaw == "slow":
                    time.sleep(0.12 * len(x))  # who is told to stop hears of it before the film is over
        return good

    def settings(self) -> Mapping[str, Any]:
        return {"flaw": self.flaw, "taps": self.kernel.taps}


FLAWS = (
    "exception",
    "out of memory",
    "device out of memory",
    "raw frame",
    "half a raw frame",
    "wrong shape",
    "floats",
    "too few",
    "nothing",
    "changed weights",
    "slow",
    "held",
)


def hold_up(longest: float = 600.0) -> None:
    """Wait while the file is there that holds this process up; a test that broke off may have left it."""
    end = time.monotonic() + longest
    while os.path.exists(os.environ.get(HOLD, "")) and time.monotonic() < end:  # noqa: PTH110
        time.sleep(0.01)


def register() -> None:
    """Make the faulty ones known by name in this process: "faulty exception", …"""
    for flaw in FLAWS:
        named.WHOLE[f"faulty {flaw}"] = lambda flaw=flaw: Faulty(flaw)  # type: ignore[misc]


def nan_model(folder: Path) -> str:
    """A run folder whose network has a NaN among its weights; its hash is right."""
    made = _network(0)
    with torch.no_grad():
        next(made.parameters())[0] = float("nan")
    return str(made.save_pretrained(folder / "nan"))


def wrong_weights(folder: Path) -> str:
    """A run folder with the weights of another run."""
    one, other = _network(0).save_pretrained(folder / "one"), _network(1).save_pretrained(folder / "other")
    (one / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    return str(one)


def _network(seed: int) -> Any:
    from videoveil.anonymizers.pixel import UNet, pixel

    return pixel(UNet(width=4), seed=seed)


# --- inputs with canaries -------------------------------------------------------------------------------------


def marked(first: int = 0, count: int = FRAMES) -> list[np.ndarray]:
    """Frames of the theatre, each with the canary of its number."""
    from tests.pipeline import films
    from videoveil.pipeline.canaries import mark

    return [mark(films.scene(number, *SIZE), number, SECRET) for number in range(first, first + count)]


def plain(path: Path, **options: Any) -> Path:
    from tests.pipeline import films

    return films.coded(path, marked(), crf=16, **options)


def truncated(path: Path) -> Path:
    """Breaks off in the middle of its pictures, after an index that promises all of them."""
    import av

    whole = plain(path.with_suffix(".whole.mp4"))
    with (
        av.open(str(whole)) as source,
        av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as output,
    ):
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    whole.unlink()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    return path


def audio_first(path: Path) -> Path:
    return plain(path, sound=True, sound_first=True)


def two_videos(path: Path) -> Path:
    """A second picture stream, which nobody may forget: it shows the same people."""
    import av

    with av.open(str(path), "w", format="mp4") as output:
        streams = []
        for _ in range(2):
            stream = output.add_stream("libx264", rate=25, options={"crf": "16", "threads": "1"})
            stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
            streams.append(stream)
        for number, image in enumerate(marked()):
            for place, stream in enumerate(streams):
                shown = image if place == 0 else marked(number + FRAMES, 1)[0]
                frame = av.VideoFrame.from_ndarray(shown, format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 25)
                output.mux(stream.encode(frame))
        for stream in streams:
            output.mux(stream.encode(None))
    return path


def variable_rate(path: Path) -> Path:
    steps = np.random.default_rng(5).integers(1, 40, FRAMES)
    return plain(path, times=[int(t) for t in np.cumsum(steps)], time_base=Fraction(1, 1000))


def rotated(path: Path) -> Path:
    """Stored lying on its side, with a note to turn it."""
    path.write_bytes(with_turn(plain(path).read_bytes()))
    return path


def with_turn(film: bytes) -> bytes:
    """The same mp4 with a note to turn its pictures by a quarter: the matrix in the header of the track."""
    data = bytearray(film)
    place, one = data.index(b"tkhd") + 44, 1 << 16
    for row, value in enumerate((0, one, 0, -one, 0, 0, 0, 0, 1 << 30)):
        data[place + 4 * row : place + 4 * row + 4] = value.to_bytes(4, "big", signed=True)
    return bytes(data)


# --- outputs --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def usual(folder: Path) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    yield folder


@contextlib.contextmanager
def _mounted(folder: Path, options: str) -> Iterator[bool]:
    """A file system of its own at `folder`; False where this user may not mount."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """Room for a few kilobytes: a tiny file system, or where none can be mounted a limit on the size of files."""
    with _mounted(folder, "size=4k") as mounted:
        if not mounted:
            (folder / LIMITED).touch()
        yield folder


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A folder that cannot be written: a read-only file system, else by permission, else (root) no folder at all."""
    with _mounted(folder, "ro,size=64k") as mounted:
        if mounted:
            yield folder
        elif os.geteuid():
            folder.chmod(0o555)
            yield folder
            folder.chmod(0o755)
        else:
            folder.rmdir()
            folder.touch()
            yield folder


LIMITED = ".small"  # a mark: files written here may have 2048 bytes
SMALL = 2048


# --- the matrix -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong. `code`: the exit code for a single file; `folder_code`: for a folder it is in."""

    name: str
    code: int
    folder_code: int
    model: str | Callable[[Path], str] = "blur"
    source: Callable[[Path], Path] = plain
    output: Callable[[Path], contextlib.AbstractContextManager[Path]] = usual
    send: signal.Signals | None = None
    options: tuple[str, ...] = ()

    @property
    def released(self) -> bool:
        """Whether there is a result in the end."""
        return self.code == 0

    @contextlib.contextmanager
    def at(self, folder: Path) -> Iterator[Scene]:
        """Everything in place below `folder`."""
        (folder / "raw").mkdir()
        (folder / "tmp").mkdir()
        (folder / "logs").mkdir()
        source = self.source(folder / "raw" / "film.mp4")
        model = self.model if isinstance(self.model, str) else self.model(folder)
        with self.output(folder / "out") as out:
            yield Scene(self, folder, source, model, out)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("NaN", 3, 3, model=nan_model),
        Fault("exception", 3, 3, model="faulty exception"),
        Fault("out of memory", 3, 3, model="faulty out of memory"),
        Fault("device out of memory", 3, 3, model="faulty device out of memory"),
        Fault("raw frame", 3, 3, model="faulty raw frame"),
        Fault("half a raw frame", 3, 3, model="faulty half a raw frame"),
        Fault("wrong shape", 3, 3, model="faulty wrong shape"),
        Fault("floats", 3, 3, model="faulty floats"),
        Fault("too few", 3, 3, model="faulty too few"),
        Fault("nothing", 3, 3, model="faulty nothing"),
        Fault("changed weights", 3, 3, model="faulty changed weights"),
        Fault("wrong weights", 2, 2, model=wrong_weights),
        Fault("truncated input", 2, 3, source=truncated),
        Fault("full disk", 3, 3, model="downsample:2", output=full_disk, options=("--crf", "2")),
        Fault("read-only output", 3, 3, output=read_only),
        Fault("SIGKILL", -9, -9, model="faulty slow", send=signal.SIGKILL),
        Fault("SIGTERM", 3, 3, model="faulty slow", send=signal.SIGTERM),
        Fault("SIGINT", 3, 3, model="faulty slow", send=signal.SIGINT),
        Fault("audio-first container", 0, 0, source=audio_first, options=("--audio",)),
        Fault("two video streams", 0, 0, source=two_videos),
        Fault("variable frame rate", 0, 0, source=variable_rate),
        Fault("rotation", 0, 0, source=rotated),
    )
}


def fault_of(name: str) -> Fault:
    return FAULTS[name]


@dataclass
class Scene:
    """A fault that is waiting to happen."""

    fault: Fault
    folder: Path
    source: Path
    model: str
    out: Path
    log: Path = field(init=False)
    hold: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "logs" / "veil.txt"
        self.hold = self.folder / "hold"

    def command(
        self, target: Path, *more: str, source: Path | None = None, model: str | None = None
    ) -> tuple[str, ...]:
        """`veil anonymize` of the fault's input with the fault's model, or of others."""
        return ("anonymize", str(source or self.source), str(target), "--with", model or self.model, *more)

    def veil(self, *arguments: str, patience: float = 300.0) -> int:
        """Run `veil` in a process of its own, send it the fault's signal in the middle; the exit code.

        Everything it says is in `log`; its temporary folder is `folder / "tmp"`.
        """
        process = self.start(*arguments)
        if self.fault.send is not None:
            self.wait_for_work(process)
            process.send_signal(self.fault.send)
            process.wait_for_notice(patience)
            self.hold.unlink()
        return process.wait(patience)

    def start(self, *arguments: str) -> Child:
        """With a signal to come it is held up in the middle, however late that is sent."""
        if self.fault.send is not None:
            self.hold.touch()
        environment = {"TMPDIR": str(self.folder / "tmp"), "OMP_NUM_THREADS": "1", HOLD: str(self.hold)}
        if (self.out / LIMITED).is_file():
            environment["VEIL_TEST_SMALL"] = str(SMALL)
        return Child(arguments, environment, self.log)

    def wait_for_work(self, process: Child, patience: float = 300.0) -> None:
        """Until an output has been begun."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if process.poll() is not None:
                raise AssertionError(f"ended too early: {self.log.read_text()}")
            begun = [p for p in self.out.rglob(f"{files.TEMPORARY}*") if p.suffix in (".mp4", ".jpg")]
            if begun:
                time.sleep(0.5)
                return
            time.sleep(0.02)
        raise AssertionError("no output was begun")

    def harmless(self, code: int, wanted: Collection[int], *, like: Path | None = None) -> str:
        """What holds whatever went wrong: the exit code tells, nothing raw is anywhere, nothing unfinished is left
        (but by a kill), and no traceback is shown. Gives what was said."""
        said = self.log.read_text()
        assert code in wanted, said
        assert self.leaks(like) == {}
        assert "Traceback" not in said
        if self.fault.send is not signal.SIGKILL:
            assert list(self.out.rglob(f"{files.TEMPORARY}*")) == []
        return said

    def leaks(self, like: Path | None = None) -> dict[str, list[int]]:
        """Every file beside the input in which there is a raw frame, with the frames' numbers.

        `like`: whose header helps to read what a killed writer leaves; else the input.
        """
        from videoveil.pipeline.canaries import find_all

        found: dict[str, list[int]] = {}
        for place in (self.out, self.folder / "tmp", self.folder / "logs"):
            if place.exists():
                found |= find_all(place, SECRET, like=like or self.source)
        return found

    def results(self) -> list[Path]:
        """What looks like a result: no temporary file, no record."""
        if not self.out.is_dir():
            return []
        everything = (path for path in self.out.rglob("*") if path.is_file())
        return [
            p for p in everything if files.TEMPORARY not in p.name and p.suffix in (".mp4", ".jpg", ".png")
        ]


# --- processes ------------------------------------------------------------------------------------------------


@functools.cache
def _nursery() -> Any:
    """Forks processes off one that has imported torch already: real processes, without seconds of imports each."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "tests.pipeline.faults",
            "videoveil.cli",
            "videoveil.pipeline.engines",
            "videoveil.pipeline.folder",
            "videoveil.media.writer",
        ]
    )
    return context


class Child:
    """`veil ARGUMENTS` in a process of its own."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path):
        self._process = _nursery().Process(target=_run_child, args=(arguments, dict(environment), str(log)))
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_for_notice(self, patience: float) -> None:
        """Until a signal to stop has arrived: after the first, a second SIGTERM ends the process as usual."""
        end = time.monotonic() + patience
        with contextlib.suppress(OSError):  # it is gone already
            while self._catches(signal.SIGTERM):
                assert time.monotonic() < end, "the signal was not heard"
                time.sleep(0.02)

    def _catches(self, number: signal.Signals) -> bool:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)

    def wait(self, patience: float) -> int:
        self._process.join(patience)
        if self._process.exitcode is None:
            self._process.kill()
            raise AssertionError(f"still at work after {patience} s")
        return int(self._process.exitcode)


def _run_child(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ.update(environment)
    tempfile.tempdir = None  # to be asked anew
    sys.argv = ["veil", *arguments]
    main()


def main() -> None:
    """`veil` as it is, which also knows the faulty anonymizers; with VEIL_TEST_SMALL, files cannot grow larger."""
    from videoveil.cli import main as veil

    register()
    if small := os.environ.get("VEIL_TEST_SMALL"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(small), int(small)))
    veil()


if __name__ == "__main__":
    main()
