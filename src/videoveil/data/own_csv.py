"""Your own data, videos with a CSV file.

    ROOT/videos.csv         path,label,split,subject,gender,start,end,attr:NAME,…
    ROOT/<path>             relative to ROOT

Only `path` is required. `split` is train, val or test, or gallery or probe where the question is who is walking;
without it rows are dealt out by a hash of the subject, or of the path where nobody is named, so that a person is in one
of train, val and test with all of their videos, and a file with all of its parts; people who share a file go together.
`start` and `end` are seconds of the part that is meant; an `attr:NAME` column holds 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path, PurePosixPath

from videoveil.data.own_folder import SPLITS, hashed_split
from videoveil.data.reading import Complaints, MediaFinder, assemble, read_rows, seconds, stem_of
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

OFFICIAL: dict[str, dict[str, int]] = {}
RETRIEVAL = ("gallery", "probe")  # people whose walks are known, and walks to be told: `attacks.gait`
KNOWN = (*SPLITS, *RETRIEVAL)
UNSAID = ""  # the split of an item whose row names none


def parse_row(row: dict[str, str]) -> Item:
    """One row as an item, of split UNSAID where it names none; ValueError says what is wrong."""
    path = PurePosixPath(row["path"].replace("\\", "/"))
    if not path.name or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"path {row['path']!r} must be relative to the root and stay inside it")
    split = row.get("split") or UNSAID
    if split not in (*KNOWN, UNSAID):
        raise ValueError(f"split {split!r} is none of {', '.join(KNOWN)}")
    clip = _part(row.get("start", ""), row.get("end", ""))
    attributes = {}
    for name, value in row.items():
        if name.startswith("attr:"):
            if value not in ("0", "1"):
                raise ValueError(f"{name} is {value!r}, not 0 or 1")
            attributes[name.removeprefix("attr:")] = int(value)
    id_ = stem_of(path.as_posix()) + ("" if clip is None else f"@{clip[0]}-{clip[1]}")
    return Item(
        id_,
        Path(path),
        split,
        action=row.get("label") or None,
        attributes=attributes or None,
        clip=clip,
        subject=row.get("subject") or None,
        gender=row.get("gender") or None,
    )


def dealt(items: Iterable[Item], seed: int) -> dict[str, str]:
    """Item → its part of train, val and test, for those whose rows name none.

    Who is in a part of a file goes with everybody else who is in it; the first of their names then stands for all, so
    that more videos of people who are there already move nobody.
    """
    loose = [item for item in items if item.split == UNSAID]
    above: dict[tuple[int, str], tuple[int, str]] = {}  # a name → one before it that goes the same way

    def first(name: tuple[int, str]) -> tuple[int, str]:
        while (other := above.setdefault(name, name)) != name:
            above[name] = name = above[other]
        return name

    for item in loose:
        low, high = sorted(first(name) for name in (_file(item), _whose(item)))
        above[high] = low
    return {item.id: hashed_split(first(_whose(item))[1], seed) for item in loose}


def _whose(item: Item) -> tuple[int, str]:
    """Who is in an item, or else its file; people come before files."""
    return (0, item.subject) if item.subject else _file(item)


def _file(item: Item) -> tuple[int, str]:
    return 1, item.path.as_posix()


def _part(start: str, end: str) -> tuple[Fraction, Fraction] | None:
    if not start and not end:
        return None
    try:
        edges = seconds(start or "0"), seconds(end)
    except ValueError:
        raise ValueError(f"start {start!r} and end {end!r} must be seconds") from None
    if edges[0] >= edges[1]:
        raise ValueError(f"start {start} must be before end {end}")
    return edges


def load(
    root: str | Path,
    *,
    file: str = "videos.csv",
    seed: int = 0,
    annotations_only: bool = False,
    skip_bad: bool = False,
) -> Dataset:
    root, complaints = Path(root), Complaints()
    table = root / file
    items: dict[str, Item] = {}
    for line, row in read_rows(table, ("path",)):
        try:
            item = parse_row(row)
        except ValueError as error:
            complaints.add(table, line, str(error))
            continue
        if item.id in items:
            complaints.add(table, line, f"{item.id} is listed twice")
        items[item.id] = item
    complaints.settle("csv")
    if not items:
        raise AnnotationError(f"{table}: no rows; write one per video, e.g. 'walk/a.mp4' under 'path'")
    items |= {id_: replace(items[id_], split=split) for id_, split in dealt(items.values(), seed).items()}
    classes = sorted({item.action for item in items.values() if item.action})
    attributes = sorted({name for item in items.values() for name in item.attributes or {}})
    finder = None if annotations_only else MediaFinder(root)
    return assemble(
        "csv", root, items.values(), classes=classes, attributes=attributes, finder=finder, skip_bad=skip_bad
    )
