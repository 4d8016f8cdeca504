"""P-HVU: the part of HVU whose videos have action, object and scene tags at once.

    ROOT/HVU_{Train,Val}_V1.0.csv           Tags,youtube_id,time_start,time_end     (tags separated by |)
    ROOT/HVU_Tags_Categories_V1.0.csv       Tag,Category
    ROOT/videos/<youtube_id>_<start:06d>_<end:06d>.mp4     (rounded seconds; or in ROOT itself)

Test: validation videos with at least one tag of each of the three kinds. Train: training videos likewise, keeping only
tags that occur in the test set; a training video that is left without tags of one kind stays, with none of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from videoveil.data.reading import Complaints, MediaFinder, assemble, read_rows, seconds
from videoveil.data.records import Dataset, Item

KINDS = ("action", "object", "scene")
CATEGORIES = (*KINDS, "attribute", "concept", "event")  # the others are not used
OFFICIAL = {"": {"test": 16_012}}
FILES = {"train": "HVU_Train_V1.0.csv", "test": "HVU_Val_V1.0.csv"}


@dataclass(frozen=True, slots=True)
class Tagged:
    """A row: file stem and tags by kind."""

    stem: str
    tags: Mapping[str, frozenset[str]]


def parse_categories(
    rows: list[tuple[int, dict[str, str]]], path: Path, complaints: Complaints
) -> dict[str, str]:
    """Tag → category."""
    kinds = {}
    for line, row in rows:
        if not row["Tag"] or row["Category"] not in CATEGORIES:
            complaints.add(path, line, f"expected a tag with one of {', '.join(CATEGORIES)}, found {row}")
        else:
            kinds[row["Tag"]] = row["Category"]
    return kinds


def parse_rows(
    rows: list[tuple[int, dict[str, str]]], path: Path, kinds: Mapping[str, str], complaints: Complaints
) -> list[Tagged]:
    found = []
    for line, row in rows:
        try:
            start, end = seconds(row["time_start"]), seconds(row["time_end"])
        except ValueError:
            complaints.add(path, line, f"times {row['time_start']!r} and {row['time_end']!r} are not seconds")
            continue
        if not row["youtube_id"] or end <= start:
            complaints.add(path, line, f"needs an id and time_end after time_start, found {row}")
            continue
        words = [word.strip() for word in row["Tags"].split("|") if word.strip()]
        unknown = [word for word in words if word not in kinds]
        if unknown:
            complaints.add(path, line, f"tags without a category: {', '.join(unknown)}")
            continue
        tags = {kind: frozenset(word for word in words if kinds[word] == kind) for kind in KINDS}
        found.append(Tagged(f"{row['youtube_id']}_{round(start):06d}_{round(end):06d}", tags))
    return found


def select(train: list[Tagged], test: list[Tagged]) -> tuple[list[Tagged], list[Tagged]]:
    """The P-HVU rule: a tag of every kind, and training tags only where the test set has them."""
    kept_test = [row for row in test if all(row.tags.values())]
    known = {kind: frozenset(t for row in kept_test for t in row.tags[kind]) for kind in KINDS}
    whole = [row for row in train if all(row.tags.values())]
    narrowed = [Tagged(row.stem, {kind: row.tags[kind] & known[kind] for kind in KINDS}) for row in whole]
    return narrowed, kept_test


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    table = root / "HVU_Tags_Categories_V1.0.csv"
    kinds = parse_categories(read_rows(table, ("Tag", "Category")), table, complaints)
    columns = ("Tags", "youtube_id", "time_start", "time_end")
    rows = {
        split: parse_rows(read_rows(root / file, columns), root / file, kinds, complaints)
        for split, file in FILES.items()
    }
    complaints.settle("phvu")
    train, test = select(rows["train"], rows["test"])
    items = [
        Item(
            row.stem,
            Path(f"{row.stem}.mp4"),
            split,
            actions=tuple(sorted(row.tags["action"])),
            objects=tuple(sorted(row.tags["object"])),
            scenes=tuple(sorted(row.tags["scene"])),
        )
        for split, part in (("train", train), ("test", test))
        for row in part
    ]
    classes = sorted({tag for row in test for tag in row.tags["action"]})
    finder = None if annotations_only else MediaFinder(root / "videos", root)
    return assemble("phvu", root, items, classes=classes, finder=finder, skip_bad=skip_bad)
