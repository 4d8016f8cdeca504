"""HMDB51: 51 actions, 6,766 trimmed videos, three official splits.

    ROOT/hmdb51_org/<class>/<file>.avi                              (or videos/, or ROOT itself)
    ROOT/testTrainMulti_7030_splits/<class>_test_split{1,2,3}.txt   "<file>.avi <flag>": 1 train, 2 test, 0 unused
                                                                    (or splits/, or ROOT itself)

The classes are those that have a split file, so a download of some classes loads as it is. File names contain all
sorts of characters; they are never used as patterns.
"""

from __future__ import annotations

from pathlib import Path

from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    first_folder,
    numbered_lines,
    read_text,
    stem_of,
)
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

CLASSES = 51
VARIANTS = ({"split": 1}, {"split": 2}, {"split": 3})
OFFICIAL = {f"split={n}": {"train": 3570, "test": 1530, "unused": 1666} for n in (1, 2, 3)}
FLAGS = {"1": "train", "2": "test", "0": "unused"}


def film(item: Item) -> str:
    """The film that a clip was cut from: stems are <film>_<action>_<five facts>_<number>. It shows the same people."""
    stem = item.id.rpartition("/")[2]
    before, found, _ = stem.partition(f"_{item.action}_")
    return before if found else stem


def parse_split(text: str, path: Path, label: str, complaints: Complaints) -> list[Item]:
    """Items of one class in one split."""
    items = []
    for line, row in numbered_lines(text):
        name, *flag = row.rsplit(maxsplit=1)
        if len(flag) != 1 or flag[0] not in FLAGS:
            complaints.add(path, line, f"expected '<file> <0|1|2>', found {row!r}")
        else:
            items.append(Item(f"{label}/{stem_of(name)}", Path(label, name), FLAGS[flag[0]], action=label))
    return items


def split_files(root: Path, split: int) -> dict[str, Path]:
    """Class → its file of this split, in whichever folder holds them; a class may be the beginning of another."""
    folder, suffix = first_folder(root, "testTrainMulti_7030_splits", "splits"), f"_test_split{split}.txt"
    named = {p.name.removesuffix(suffix): p for p in folder.iterdir() if p.name.endswith(suffix)}
    return {label: named[label] for label in sorted(named) if label and not label.startswith(".")}


def split_items(root: Path, split: int) -> tuple[list[str], list[Item]]:
    """Classes and items of a split."""
    paths = split_files(root, split)
    if not paths:
        raise AnnotationError(
            f"{root}: no '<class>_test_split{split}.txt' files; unpack the splits archive there"
        )
    complaints, items = Complaints(), []
    for label, path in paths.items():
        items += parse_split(read_text(path), path, label, complaints)
    complaints.settle("hmdb51")
    return list(paths), items


def finder(root: Path) -> MediaFinder:
    return MediaFinder(*(root / name for name in ("hmdb51_org", "videos")), root)


def load(
    root: str | Path, *, split: int = 1, annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    root = Path(root)
    classes, items = split_items(root, split)
    where = None if annotations_only else finder(root)
    return assemble("hmdb51", root, items, classes=classes, finder=where, skip_bad=skip_bad)
