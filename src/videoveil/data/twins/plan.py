"""What a twin consists of before it is rendered, how large the sizes are, and the rendering itself."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.data.records import Item
from videoveil.data.theatre.cast import Identity, identity
from videoveil.data.theatre.chance import generator
from videoveil.data.theatre.play import Play
from videoveil.data.twins.film import MP4, Film, photograph, shoot
from videoveil.errors import UsageError

WIDTH, HEIGHT = 160, 120  # 4:3 like most of the originals, small enough to render in bulk
RATE = Fraction(25)
MARKER = ".twin"  # names what a folder holds; loaders do not look at it


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is made."""

    name: str
    per_class: int  # trimmed videos per action
    frames: int  # of a trimmed video
    untrimmed: int  # untrimmed or surveillance videos per split
    long_frames: int  # of those
    images: int  # per 1,000 of the original
    people: int  # subjects in sets with subject ids


SCALES = {
    scale.name: scale
    for scale in (
        Scale("tiny", per_class=3, frames=40, untrimmed=6, long_frames=250, images=6, people=6),
        Scale("small", per_class=20, frames=64, untrimmed=30, long_frames=750, images=80, people=20),
        Scale("medium", per_class=60, frames=100, untrimmed=90, long_frames=1500, images=300, people=40),
    )
}


@dataclass(frozen=True, slots=True)
class Reel:
    """A video to be rendered, at a path relative to the twin's root."""

    path: str
    play: Play
    film: Film = MP4


@dataclass(frozen=True, slots=True)
class Still:
    """A photograph to be rendered."""

    path: str
    play: Play


@dataclass(frozen=True)
class Twin:
    """Everything a twin's root will contain, and what the theatre knows about each item."""

    name: str
    reels: tuple[Reel, ...] = ()
    stills: tuple[Still, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    truth: tuple[Item, ...] = ()  # as the loader should return them; paths relative to the root

    def shots(self) -> list[Reel | Still]:
        """All that has to be rendered."""
        return [*self.reels, *self.stills]


@dataclass(frozen=True, slots=True)
class TwinReport:
    """What was written."""

    name: str
    root: str
    files: int
    frames: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "root": self.root,
            "files": self.files,
            "frames": self.frames,
            "seconds": self.seconds,
        }


def scale_of(size: str) -> Scale:
    if size not in SCALES:
        raise UsageError(f"size {size!r}: choose one of {', '.join(SCALES)}")
    return SCALES[size]


def person_for(seed: int, *key: str | int, pool: int = 60) -> Identity:
    """Somebody from a pool of people, chosen by the key: the same people turn up in every class."""
    return identity(seed, int(generator("person", seed, *key).integers(pool)))


def text(lines: list[str], newline: str = "\n") -> bytes:
    """Lines as a text file."""
    return "".join(line + newline for line in lines).encode()


def render(twin: Twin, root: str | Path, processes: int = 1) -> TwinReport:
    """Write a twin; a file that exists is left alone, so a killed run can be repeated. Annotations come last."""
    began, root = time.perf_counter(), Path(root)
    if processes < 1:
        raise UsageError(f"processes={processes}: must be at least 1")
    _mark(twin, root)
    todo = [shot for shot in twin.shots() if not (root / shot.path).exists()]
    if processes == 1 or len(todo) < 2:
        frames = sum(_render_one(shot, root) for shot in todo)
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            frames = sum(
                pool.map(
                    _render_one, todo, [root] * len(todo), chunksize=max(1, len(todo) // (8 * processes))
                )
            )
    for path, content in twin.files.items():
        files.write_bytes(root / path, content)
    count = len(twin.reels) + len(twin.stills) + len(twin.files)
    return TwinReport(twin.name, str(root), count, frames, time.perf_counter() - began)


def _mark(twin: Twin, root: Path) -> None:
    """Note which twin this folder holds, so that another one is never mixed into it."""
    marker = root / MARKER
    plays = hashlib.sha256(repr([(shot.path, shot.play) for shot in twin.shots()]).encode()).hexdigest()
    mine = f"{twin.name} {plays}\n"
    taken = root.is_dir() and any(not path.name.startswith(".") for path in root.iterdir())
    if taken and not marker.is_file():  # in this order: whoever renders marks the folder first
        raise UsageError(f"{root}: is not empty; a twin needs a folder of its own")
    files.create_text(marker, mine)
    if (there := marker.read_text("utf-8")) != mine:
        raise UsageError(f"{root}: holds another twin ({there.split()[0]}, other seed or size)")


def _render_one(shot: Reel | Still, root: Path) -> int:
    if isinstance(shot, Still):
        return photograph(shot.play, root / shot.path)
    return shoot(shot.play, root / shot.path, shot.film)
