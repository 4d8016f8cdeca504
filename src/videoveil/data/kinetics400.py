"""Kinetics-400: official CSV lists, ten-second clips cut by the downloader.

    ROOT/annotations/{train,val,test}.csv        (or kinetics-400_{train,val,test}.csv, or in ROOT itself)
        label,youtube_id,time_start,time_end,split
    ROOT/{train,val,test}/<label>/<youtube_id>_<start:06d>_<end:06d>.mp4

The class folder may use underscores for blanks, or be left out. A list that is absent is left out and noted, as long
as one is there. Links rot, so a download is rarely complete: what is missing is listed (see --skip-bad).
"""

from __future__ import annotations

from pathlib import Path

from videoveil.data.reading import Complaints, MediaFinder, assemble, first_folder, read_rows, seconds
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

CLASSES = 400
OFFICIAL: dict[str, dict[str, int]] = {}  # no number that anybody could still meet: videos vanish
COLUMNS = ("youtube_id", "time_start", "time_end")  # and label, which the test list of some copies lacks
SPELLINGS = {"validate": "val", "validation": "val"}


def parse_rows(
    rows: list[tuple[int, dict[str, str]]], path: Path, split: str, complaints: Complaints
) -> list[Item]:
    items = []
    for line, row in rows:
        try:
            start, end = seconds(row["time_start"]), seconds(row["time_end"])
        except ValueError:
            complaints.add(path, line, f"times {row['time_start']!r} and {row['time_end']!r} are not seconds")
            continue
        if not row["youtube_id"] or end <= start:
            complaints.add(path, line, f"needs an id and time_end after time_start, found {row}")
            continue
        stated = row.get("split") or split
        if SPELLINGS.get(stated, stated) != split:
            complaints.add(path, line, f"the row says {stated}, the file is the list of {split}")
            continue
        stem = f"{row['youtube_id']}_{round(start):06d}_{round(end):06d}"
        label = row.get("label") or None
        items.append(Item(stem, Path(split, label or "", f"{stem}.mp4"), split, action=label))
    return items


class _Finder(MediaFinder):
    """Also accepts underscores in class folders and flat folders."""

    def find(self, relative: str) -> Path | None:
        split, *middle, file = relative.split("/")
        label = "/".join(middle)
        for folder in (label, label.replace(" ", "_")):
            if folder and (path := super().find(f"{split}/{folder}/{file}")):
                return path
        return super().find(f"{split}/{file}") or super().find(file)


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    lists = first_folder(root, "annotations")
    items: list[Item] = []
    notes = []
    for split in ("train", "val", "test"):
        words = [split, *(word for word, meant in SPELLINGS.items() if meant == split)]
        names = [f"{prefix}{word}.csv" for word in words for prefix in ("", "kinetics-400_", "kinetics_")]
        path = next((lists / name for name in names if (lists / name).is_file()), None)
        if path is None:
            notes.append(f"no list for {split} ({' or '.join(names)})")
            continue
        items += parse_rows(read_rows(path, COLUMNS), path, split, complaints)
    complaints.settle("kinetics400")
    if not items:
        raise AnnotationError(f"{lists}: no {{train,val,test}}.csv with the columns {', '.join(COLUMNS)}")
    classes = sorted({item.action for item in items if item.action})
    finder = None if annotations_only else _Finder(root, root / "videos")
    return assemble(
        "kinetics400", root, items, classes=classes, notes=notes, finder=finder, skip_bad=skip_bad
    )
