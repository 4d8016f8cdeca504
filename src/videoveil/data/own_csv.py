"""Your own data, videos with a CSV file.

    ROOT/videos.csv         path,label,split,subject,gender,start,end,attr:NAME,…
    ROOT/<path>             relative to ROOT

Only `path` is required. `split` is train, val or test (default: by a hash of the path), or gallery or probe where the
question is who is walking; `start` and `end` are seconds of the part that is meant; an `attr:NAME` column holds 0 or 1.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path, PurePosixPath

from videoveil.data.own_folder import SPLITS, hashed_split
from videoveil.data.reading import Complaints, MediaFinder, assemble, read_rows, seconds, stem_of
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

OFFICIAL: dict[str, dict[str, int]] = {}
RETRIEVAL = ("gallery", "probe")  # people whose walks are known, and walks to be told: `attacks.gait`
KNOWN = (*SPLITS, *RETRIEVAL)


def parse_row(row: dict[str, str], seed: int) -> Item:
    """One row as an item; ValueError says what is wrong."""
    path = PurePosixPath(row["path"].replace("\\", "/"))
    if not path.name or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"path {row['path']!r} must be relative to the root and stay inside it")
    split = row.get("split") or hashed_split(str(path), seed)
    if split not in KNOWN:
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
            item = parse_row(row, seed)
        except ValueError as error:
            complaints.add(table, line, str(error))
            continue
        if item.id in items:
            complaints.add(table, line, f"{item.id} is listed twice")
        items[item.id] = item
    complaints.settle("csv")
    if not items:
        raise AnnotationError(f"{table}: no rows; write one per video, e.g. 'walk/a.mp4' under 'path'")
    classes = sorted({item.action for item in items.values() if item.action})
    attributes = sorted({name for item in items.values() for name in item.attributes or {}})
    finder = None if annotations_only else MediaFinder(root)
    return assemble(
        "csv", root, items.values(), classes=classes, attributes=attributes, finder=finder, skip_bad=skip_bad
    )
