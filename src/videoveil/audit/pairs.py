"""Two folders, raw videos and what any tool made of them: an audit that does not need to know the tool.

A video and its anonymized version have the same path below their folders; the suffix may be another. They must have
the same number of frames, and the same shape, made smaller or larger or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from videoveil.audit.subject import Side, Subject
from videoveil.data import registry
from videoveil.data.reading import stem_of, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import BadItems, MediaError, MissingItems, UsageError

ASPECT = 0.02  # by which the shapes may differ: sizes are whole numbers


@dataclass(frozen=True, slots=True)
class Facts:
    """What must be alike."""

    frames: int
    width: int
    height: int


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
    notes += check(dataset, veiled, workers)
    made = Subject(
        dataset.name,
        name or folder.name,
        Side("raw", dataset),
        Side("anonymized", veiled),
        twin=(dataset.root / ".twin").is_file(),
        notes=notes,
        **subject,
    )
    return made.with_splits()


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
    """Frames and shapes must be alike; every pair that is not is listed. A common change of size is a note."""
    with ThreadPoolExecutor(workers) as pool:
        before = [*pool.map(facts, raw.items)]
        after = [*pool.map(facts, anonymized.items)]
    wrong: list[str] = []
    sizes: set[str] = set()
    for item, one, other in zip(raw.items, before, after):
        wrong += _differences(item, one, other)
        if isinstance(one, Facts) and isinstance(other, Facts) and one != other:
            sizes.add(f"{one.width}×{one.height} became {other.width}×{other.height}")
    if wrong:
        raise BadItems(f"{len(wrong)} of {len(raw)} pairs do not belong together:", wrong)
    return (f"the pictures have another size: {', '.join(sorted(sizes)[:4])}",) if sizes else ()


def facts(item: Item) -> Facts | str:
    """What a file is, or what is wrong with it."""
    from videoveil.media.reader import open_video

    try:
        with open_video(item.path) as video:
            info = video.info
            return Facts(info.frames if info.frames is not None else video.count(), info.width, info.height)
    except MediaError as error:
        return str(error)


def _differences(item: Item, one: Facts | str, other: Facts | str) -> Sequence[str]:
    broken = [f"{item.id}: {part}" for part in (one, other) if isinstance(part, str)]
    if isinstance(one, str) or isinstance(other, str):
        return broken
    found = []
    if one.frames != other.frames:
        found.append(f"{item.id}: {one.frames} frames raw, {other.frames} anonymized")
    if abs(one.width * other.height / (one.height * other.width) - 1) > ASPECT:
        found.append(
            f"{item.id}: {one.width}×{one.height} raw, {other.width}×{other.height} anonymized: another shape"
        )
    return found
