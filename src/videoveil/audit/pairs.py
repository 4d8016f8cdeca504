"""Two folders, raw videos and what any tool made of them: an audit that does not need to know the tool.

A video and its anonymized version have the same path below their folders; the suffix may be another. They must have
the same number of frames, and the same shape, made smaller or larger or not. What an anonymized file gives away beside
its pictures (sound, tags, other streams, its size, the times of its frames) no attacker looks at: it is noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from videoveil import files
from videoveil.attacks.gait import GALLERY, PROBE
from videoveil.audit.subject import Side, Subject
from videoveil.data import registry
from videoveil.data.reading import stem_of, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, MediaError, MissingItems, UsageError

ASPECT = 0.02  # by which the shapes may differ: sizes are whole numbers
LATE = Fraction(1, 1000)  # seconds by which times may differ, beside the rounding of both files
SHOWN = 4  # sizes or tags that a note names


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file is: frames and shape must be alike, sound is noted."""

    frames: int
    width: int
    height: int
    audio: bool = False

    @property
    def size(self) -> str:
        return f"{self.width}×{self.height}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A video and its anonymized version, or what is wrong with them."""

    wrong: tuple[str, ...]
    raw: Facts | None = None
    anonymized: Facts | None = None
    on_time: bool = True  # frames lie as far from the first one in both files, but for rounding
    beside: tuple[str, ...] = ()  # what the anonymized file has beside pictures and sound


def open_pairs(
    raw: str,
    anonymized: str | Path,
    *,
    labels: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    name: str = "",
    workers: int = 2,
    **subject: Any,
) -> Subject:
    """The subject of an audit of `anonymized` against `raw`.

    raw: DATASET:ROOT with its own labels, or a folder of videos, whose labels a CSV file gives: `labels`, or
    videos.csv inside the folder (columns as in the dataset `csv`).
    """
    folder = Path(anonymized)
    if not folder.is_dir():
        raise UsageError(f"--anonymized {anonymized}: no such folder")
    dataset = _raw(raw, labels, options or {})
    if folder.resolve() == dataset.root.resolve():
        raise UsageError(f"--anonymized {anonymized}: is the raw folder itself")
    veiled, notes = match(dataset, folder)
    made = Subject(
        dataset.name,
        name or folder.name,
        Side("raw", dataset),
        Side("anonymized", veiled),
        twin=(dataset.root / ".twin").is_file(),
        **subject,
    ).with_splits()
    require_apart(made)
    return replace(made, notes=(*notes, *check(dataset, veiled, workers)))


def _raw(raw: str, labels: str | Path | None, options: Mapping[str, Any]) -> Dataset:
    known, colon, root = raw.partition(":")
    if colon and root and known in registry.names():
        if labels is not None:
            raise UsageError(
                f"--labels {labels}: {known} has its own labels; give the folder alone with --raw"
            )
        return registry.load(known, root, options)
    folder = Path(raw)
    if not folder.is_dir():
        raise UsageError(f"--raw {raw}: neither a folder nor DATASET:ROOT")
    table = folder / "videos.csv" if labels is None else Path(labels)
    if not table.is_file():
        raise UsageError(
            f"--raw {raw}: nothing says what is in these videos; give --labels FILE.csv with the columns "
            "path,label,split,subject,attr:NAME, or --raw DATASET:ROOT"
        )
    from videoveil.data import own_csv

    return own_csv.load(folder, file=str(table.absolute()))  # a whole path leads out of the folder


# --- matching -----------------------------------------------------------------------------------------------


def match(dataset: Dataset, folder: Path) -> tuple[Dataset, tuple[str, ...]]:
    """The dataset with the files of `folder` in the place of its own; everything that is missing is listed."""
    there: dict[str, list[Path]] = {}
    for path in videos_below(folder):
        there.setdefault(stem_of(path.relative_to(folder).as_posix()), []).append(path)
    items: list[Item] = []
    missing: list[str] = []
    twice: list[str] = []
    taken: set[str] = set()
    for item in dataset.items:
        place = _place(item, dataset.root)
        found = there.get(place, [])
        taken.add(place)
        if not found:
            missing.append(f"{item.id}: no {place}.* ")
        elif len(found) > 1:
            twice.append(f"{item.id}: {', '.join(path.name for path in found)}")
        else:
            items.append(replace(item, path=found[0]))
    if missing:
        raise MissingItems(
            f"{folder}: {len(missing)} of {len(dataset)} raw videos have no anonymized version with the same path:",
            [one.strip() for one in missing],
        )
    if twice:
        raise BadItems(f"{folder}: {len(twice)} videos are there more than once:", twice)
    spare = sorted(set(there) - taken)
    notes = (f"{len(spare)} anonymized videos have no raw version and were left out",) if spare else ()
    return replace(dataset, root=folder, items=tuple(items)), notes


def _place(item: Item, root: Path) -> str:
    path = item.path.absolute()
    top = root.absolute()
    if not path.is_relative_to(top):
        raise BadItems(
            f"{item.id}: {path} does not lie below {top}; pairs are matched by their path below it"
        )
    return stem_of(path.relative_to(top).as_posix())


def check(raw: Dataset, anonymized: Dataset, workers: int = 2) -> tuple[str, ...]:
    """Frames and shapes must be alike; every pair that is not is listed. What else a file gives away is a note."""
    with ThreadPoolExecutor(workers) as pool:
        pairs = [*pool.map(compare, raw.items, anonymized.items)]
    if wrong := [line for pair in pairs for line in pair.wrong]:
        raise BadItems(f"{len(wrong)} of {len(raw)} pairs do not belong together:", wrong)
    return (*_size_notes(pairs), *_time_notes(pairs), *_beside_notes(pairs))


def compare(raw: Item, anonymized: Item) -> Pair:
    """Both files of a video. Nothing is decoded where packets tell the number of frames and their times."""
    from videoveil.media.reader import open_video

    both: list[Facts] = []
    times: list[np.ndarray] = []
    wrong: list[str] = []
    rounding = LATE
    for item in (raw, anonymized):
        try:
            with open_video(item.path) as video:
                info, index = video.info, video.index()
        except MediaError as error:
            wrong.append(f"{raw.id}: {error}")
            continue
        both.append(Facts(len(index), info.width, info.height, info.has_audio))
        times.append((index - index[:1]) * float(info.time_base))
        rounding += info.time_base
    if wrong:
        return Pair(tuple(wrong))
    if different := _differences(raw, both[0], both[1]):
        return Pair(different)
    late = np.abs(times[0] - times[1]) > float(rounding)
    return Pair((), both[0], both[1], on_time=not late.any(), beside=beside(anonymized))


def beside(item: Item) -> tuple[str, ...]:
    """What a file has beside pictures and sound: streams and tags, by name; what tags say is not repeated."""
    from videoveil.pipeline.verify import telling
    from videoveil.pipeline.verify_reader import Reader

    try:
        with Reader(item.path) as file:
            streams = [kind for kind in file.streams() if kind not in ("video", "audio")]
            tags = [name.rpartition(": ")[2] for name, value in file.tags().items() if telling(name, value)]
            return tuple(dict.fromkeys((*streams, *tags, *(["chapters"] if file.chapters() else []))))
    except MediaError:  # our own reader opened it, and libav on its own does not: there is nothing to name
        return ()


def _differences(item: Item, one: Facts, other: Facts) -> tuple[str, ...]:
    found = []
    if one.frames != other.frames:
        found.append(f"{item.id}: {one.frames} frames raw, {other.frames} anonymized")
    if abs(one.width * other.height / (one.height * other.width) - 1) > ASPECT:
        found.append(f"{item.id}: {one.size} raw, {other.size} anonymized: another shape")
    return tuple(found)


# --- what is noted ------------------------------------------------------------------------------------------


def _size_notes(pairs: Sequence[Pair]) -> list[str]:
    became: dict[str, set[str]] = {}
    for pair in pairs:
        if pair.raw and pair.anonymized:
            became.setdefault(pair.raw.size, set()).add(pair.anonymized.size)
    changed = [f"{old} became {new}" for old, made in became.items() for new in made if new != old]
    if not changed:
        return []
    notes = [f"the pictures have another size: {_some(sorted(changed))}"]
    there = {size for made in became.values() for size in made}
    if len(there - set(became)) > 1 or any(len(made) > 1 for made in became.values()):
        notes.append(
            f"the anonymized pictures have {len(there)} sizes, which depend on the video: the size itself may tell "
            "something, and no attacker looks at it"
        )
    return notes


def _time_notes(pairs: Sequence[Pair]) -> list[str]:
    moved = sum(not pair.on_time for pair in pairs)
    if not moved:
        return []
    return [
        f"{moved} of {len(pairs)} anonymized videos show their frames at other times than the raw ones; frames were "
        "compared by number, and what their times tell was not looked at"
    ]


def _beside_notes(pairs: Sequence[Pair]) -> list[str]:
    notes = []
    if loud := sum(pair.anonymized is not None and pair.anonymized.audio for pair in pairs):
        notes.append(
            f"{loud} of {len(pairs)} anonymized files have sound: voices tell who speaks, and no attacker listens"
        )
    if telling := [pair.beside for pair in pairs if pair.beside]:
        every = sorted({name for names in telling for name in names})
        notes.append(
            f"{len(telling)} of {len(pairs)} anonymized files have tags or streams beside pictures and sound "
            f"({_some(every)}), which can tell of people, places or times, and no attacker reads them"
        )
    return notes


def _some(words: Sequence[str]) -> str:
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more


# --- copies -------------------------------------------------------------------------------------------------


def require_apart(subject: Subject) -> None:
    """Refuse raw videos that are byte for byte the same in different splits; all of them are listed.

    Who has learnt from a copy knows it by heart: raw scores rise, and with them falls what seems to leak. Only files of
    one length are read.
    """
    splits = {subject.train, subject.test, GALLERY, PROBE}
    by_length: dict[int, list[Item]] = {}
    for item in subject.raw.dataset.items:
        if item.split in splits and item.path.is_file():
            by_length.setdefault(item.path.stat().st_size, []).append(item)
    same: dict[tuple[str, Any], list[Item]] = {}
    for items in by_length.values():
        if len({item.split for item in items}) < 2:
            continue
        hashes = {path: files.file_hash(path) for path in {item.path for item in items}}
        for item in items:  # parts of one file are different videos
            same.setdefault((hashes[item.path], item.clip), []).append(item)
    copies = [items for items in same.values() if len({item.split for item in items}) > 1]
    if copies:
        raise BadItems(
            f"{subject.title}: {len(copies)} raw videos are in several splits, byte for byte; attackers would know "
            "what they are asked, and less would seem to leak; keep each in one split:",
            [" = ".join(f"{item.id} ({item.split})" for item in items) for items in copies],
        )
