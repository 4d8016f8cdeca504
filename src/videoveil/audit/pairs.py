"""Two folders, raw videos and what any tool made of them: an audit that does not need to know the tool.

A video and its anonymized version have the same path below their folders; the suffix may be another. They must have
the same number of frames, and the same shape, made smaller or larger or not. Files whose names were mixed up are
refused: attackers would learn nothing from them, and nothing would seem to leak. What an anonymized file gives away
beside its pictures (sound, tags, other streams, its size, the times of its frames) no attacker looks at: it is noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from videoveil import files
from videoveil.attacks.gait import GALLERY, PROBE
from videoveil.attacks.reconstructor import same_shape
from videoveil.audit.subject import Side, Subject
from videoveil.data import registry
from videoveil.data.reading import stem_of, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, MediaError, MissingItems, UsageError

LATE = Fraction(1, 1000)  # seconds by which times may differ, beside the rounding of both files
SHOWN = 4  # sizes or tags that a note names
# whether an anonymized video looks like the raw one of its name
COMPARED, RUN = 128, 32  # videos, and how many of them lie one after the other
FRAMES, REACH = 12, 24  # frames that are looked at, in the middle, and how many they are taken from
CELLS = (12, 16)  # of a picture, rows and columns
FINE = 4  # pixels of a cell, in which outlines are looked for
FAINT = 1e-3  # grey levels; what differs less between videos is nothing to go by
LIKE, CLEARLY = 0.4, 0.1  # correlation of two that belong together, and by how much others must stay behind
LEAST_MIXED, FEW_MIXED = 4, 1 / 16  # that make a mistake of names: videos, or this share of those compared


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
    require_no_raw(dataset, veiled)
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
    """Frames, shapes and what can be seen must be alike; pairs that are not are listed.

    What else a file gives away is a note.
    """
    with ThreadPoolExecutor(workers) as pool:
        pairs = [*pool.map(compare, raw.items, anonymized.items)]
    if wrong := [line for pair in pairs for line in pair.wrong]:
        raise BadItems(f"{len(wrong)} of {len(raw)} pairs do not belong together:", wrong)
    require_named(raw, anonymized, [pair.raw.frames for pair in pairs if pair.raw], workers)
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
    if not same_shape((one.height, one.width), (other.height, other.width)):
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
    """Refuse raw videos that are byte for byte the same in different splits, or overlapping parts of one.

    All of them are listed.
    Who has learnt from a copy knows it by heart: raw scores rise, and with them falls what seems to leak. Only files of
    one length are read.
    """
    splits = {subject.train, subject.test, GALLERY, PROBE}
    by_length: dict[int, list[Item]] = {}
    for item in subject.raw.dataset.items:
        if item.split in splits and item.path.is_file():
            by_length.setdefault(item.path.stat().st_size, []).append(item)
    same: dict[str, list[Item]] = {}
    for items in by_length.values():
        if len({item.split for item in items}) < 2:
            continue
        hashes = {path: files.file_hash(path) for path in {item.path for item in items}}
        for item in items:
            same.setdefault(hashes[item.path], []).append(item)
    copies = [
        part for items in same.values() for part in _overlapping(items) if len({i.split for i in part}) > 1
    ]
    if copies:
        raise BadItems(
            f"{subject.title}: {len(copies)} raw videos are in several splits, byte for byte or as parts of one file "
            "that overlap; attackers would know what they are asked, and less would seem to leak; keep each in one:",
            [" = ".join(f"{item.id} ({item.split})" for item in items) for items in copies],
        )


def _overlapping(items: Sequence[Item]) -> list[list[Item]]:
    """Items of one file in runs that overlap; parts that do not are different videos.

    An item that names no part is the whole file.
    """
    parts = [(item.clip, item) for item in items if item.clip is not None]
    if len(parts) < len(items):
        return [list(items)]
    runs: list[list[Item]] = []
    reached = Fraction(0)
    for (start, end), item in sorted(parts, key=lambda part: (part[0], part[1].id)):
        if not runs or start >= reached:
            runs.append([])
        runs[-1].append(item)
        reached = max(reached, end)
    return runs


def require_no_raw(raw: Dataset, anonymized: Dataset) -> None:
    """Refuse anonymized files that are byte for byte the raw file of another video; all of them are listed.

    Only files of one length are read. A raw video that is there twice may stand for either.
    """
    content = cache(files.file_hash)
    by_length: dict[int, dict[Path, str]] = {}
    for item in raw.items:
        if item.path.is_file():
            by_length.setdefault(item.path.stat().st_size, {}).setdefault(item.path, item.id)
    wrong = []
    for own, made in zip(raw.items, anonymized.items):
        there = by_length.get(made.path.stat().st_size, {})
        others = {path: name for path, name in there.items() if path != own.path}
        same = [name for path, name in others.items() if content(path) == content(made.path)]
        if same and not (own.path in there and content(own.path) == content(made.path)):
            wrong.append(f"{own.id}: is the raw video of {same[0]}")
    if wrong:
        raise BadItems(
            f"{anonymized.root}: {len(wrong)} of {len(raw)} anonymized files are raw files of other videos, byte for "
            "byte; name every anonymized file as its raw video is named:",
            wrong,
        )


# --- names that were mixed up -------------------------------------------------------------------------------


def require_named(raw: Dataset, anonymized: Dataset, frames: Sequence[int], workers: int = 2) -> None:
    """Refuse anonymized videos a good part of which clearly shows what another raw video shows.

    `frames`: how many each video has. Where an anonymizer leaves nothing to go by, nothing is said.
    """
    chosen = exchangeable([item.path for item in raw.items], frames)
    both = [(raw.items[n], anonymized.items[n]) for n in chosen]
    with ThreadPoolExecutor(workers) as pool:
        seen = [*pool.map(lambda pair: (_look(pair[0]), _look(pair[1])), both)]
    kept = [n for n, looks in enumerate(seen) if looks[0] is not None and looks[1] is not None]
    if len(kept) < LEAST_MIXED:
        return
    ids = [both[n][0].id for n in kept]
    alike = likeness([seen[n][1] for n in kept], [seen[n][0] for n in kept])  # type: ignore[misc]
    found = told(alike)
    mixed = {n: other for n, other in found.items() if n != other}
    if len(mixed) < max(LEAST_MIXED, FEW_MIXED * len(kept), len(found) / 4):
        return
    raise BadItems(
        f"{anonymized.root}: {len(mixed)} of {len(kept)} anonymized videos that were compared show what another raw "
        "video shows (outlines and movement); name every anonymized file as its raw video is named:",
        [
            f"{ids[n]}: looks like {ids[other]} ({alike[n, other]:.2f}; like {ids[n]} {alike[n, n]:.2f})"
            for n, other in mixed.items()
        ][: 3 * SHOWN],
    )


def exchangeable(paths: Sequence[Path], frames: Sequence[int]) -> list[int]:
    """Places of files that could be mistaken for one another, since they are of one length; COMPARED at most.

    Of many, runs of neighbours are taken, spread over all: a list that slipped by one is found in them.
    """
    first = {path: place for place, path in reversed([*enumerate(paths)])}  # parts of one file are one
    by_frames: dict[int, list[int]] = {}
    for place in sorted(first.values()):
        by_frames.setdefault(frames[place], []).append(place)
    places = [n for count in sorted(by_frames) if len(by_frames[count]) > 1 for n in by_frames[count]]
    if len(places) <= COMPARED:
        return places
    starts = np.linspace(0, len(places) - RUN, COMPARED // RUN).astype(int)
    return [places[n] for n in sorted({int(start) + k for start in starts for k in range(RUN)})]


@dataclass(frozen=True, slots=True)
class Look:
    """What colours, a blur or a line drawing leave of a video, by cells of the picture."""

    outlines: np.ndarray  # (cells,) grey levels from pixel to pixel, mean over frames
    movement: np.ndarray  # ((FRAMES − 1) · cells,) grey levels from frame to frame


def _look(item: Item) -> Look | None:
    """None where it cannot be decoded: who reads all of it will say why."""
    from videoveil.media.reader import open_video

    try:
        with open_video(item.path) as video:
            count = video.count()
            reach = min(count, REACH)
            first = (count - reach) // 2
            grey = {frame.index: _grey(frame.image) for frame in video.frames(first, first + reach)}
    except MediaError:
        return None
    numbers = first + np.linspace(0, reach - 1, FRAMES).round().astype(int)
    return look(np.stack([grey[int(n)] for n in numbers]))


def _grey(image: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 → small grey picture of float32."""
    from PIL import Image

    size = FINE * CELLS[1], FINE * CELLS[0]
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX).convert("L"), np.float32)


def look(frames: np.ndarray) -> Look:
    """(FRAMES, FINE · rows, FINE · columns) grey levels → what is compared."""
    across = np.abs(np.diff(frames, axis=2, append=frames[:, :, -1:]))
    down = np.abs(np.diff(frames, axis=1, append=frames[:, -1:]))
    moved = np.abs(np.diff(frames, axis=0))
    return Look(_cells(across + down).mean(0).ravel(), _cells(moved).ravel())


def _cells(frames: np.ndarray) -> np.ndarray:
    """Means over cells."""
    rows, columns = CELLS
    return np.asarray(frames.reshape(len(frames), rows, FINE, columns, FINE).mean((2, 4)))


def likeness(veiled: Sequence[Look], raw: Sequence[Look]) -> np.ndarray:
    """(n, n): correlation of every anonymized video with every raw one, mean of outlines and movement."""
    each = [
        _distinct(np.stack([getattr(one, part) for one in veiled]))
        @ _distinct(np.stack([getattr(one, part) for one in raw])).T
        for part in ("outlines", "movement")
    ]
    return np.asarray(np.mean(each, 0))


def _distinct(rows: np.ndarray) -> np.ndarray:
    """(n, d): in what each differs from the mean of all, as vectors of length 1; 0 where it does not."""
    rows = rows - rows.mean(0)
    rows = rows - rows.mean(1, keepdims=True)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    there = length > FAINT * np.sqrt(rows.shape[1])
    return np.where(there, rows / np.where(there, length, 1.0), 0.0)


def told(alike: np.ndarray) -> dict[int, int]:
    """Anonymized video → the raw one that it shows, of (n, n) likenesses, for those of which it is clear.

    The two are nearest to each other, and every other video of either side stays well behind.
    """
    found = {}
    for n, other in enumerate(alike.argmax(1)):
        rivals = max(np.delete(alike[n], other).max(), np.delete(alike[:, other], n).max())
        if alike[n, other] >= LIKE and alike[n, other] - rivals >= CLEARLY:
            found[n] = int(other)
    return found
