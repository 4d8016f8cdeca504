"""UCF101: 101 actions, 13,320 trimmed videos, three official splits.

    ROOT/UCF-101/<Class>/v_<Name>_g<group>_c<clip>.avi     (the folder may be called Videos, or be ROOT itself)
    ROOT/ucfTrainTestlist/classInd.txt                     "<1..101> <Class>"
                                                           (or action_classes.json, {"classes": {"<Class>": number}})
    ROOT/ucfTrainTestlist/trainlist0{1,2,3}.txt            "<Class>/<file>.avi <1..101>"
    ROOT/ucfTrainTestlist/testlist0{1,2,3}.txt             "<Class>/<file>.avi", some copies append the number

The lists may lie in ROOT as well. The class comes from the folder in the list; the number, where present, is checked
against it. Files of HandstandPushups are spelt v_HandStandPushups.
"""

from __future__ import annotations

import re
from pathlib import Path

from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    first_folder,
    numbered_lines,
    read_json,
    read_text,
    stem_of,
    whole,
)
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

CLASSES = 101
VARIANTS = ({"split": 1}, {"split": 2}, {"split": 3})
OFFICIAL = {
    "split=1": {"train": 9537, "test": 3783},
    "split=2": {"train": 9586, "test": 3734},
    "split=3": {"train": 9624, "test": 3696},
}
_GROUP = re.compile(r"_g(\d+)_c\d+$")


def parse_classes(text: str, path: Path, complaints: Complaints) -> dict[str, int]:
    """Class → number, from classInd.txt."""
    found: dict[str, int] = {}
    for line, row in numbered_lines(text):
        number, *name = row.split(maxsplit=1)
        try:
            found_number = whole(number)
        except ValueError:
            found_number = 0
        if found_number < 1 or not name:
            complaints.add(path, line, f"expected '<number> <class>', found {row!r}")
        elif name[0] in found or found_number in found.values():
            complaints.add(path, line, f"class {name[0]} or number {found_number} is there twice")
        else:
            found[name[0]] = found_number
    return found


def read_classes(folder: Path, complaints: Complaints) -> dict[str, int]:
    """Class → number, from whichever of the two files is there."""
    index, table = folder / "classInd.txt", folder / "action_classes.json"
    if index.is_file() or not table.is_file():
        return parse_classes(read_text(index), index, complaints)
    value = read_json(table)
    classes = value.get("classes") if isinstance(value, dict) else None
    if not isinstance(classes, dict) or not all(type(number) is int for number in classes.values()):
        raise AnnotationError(f'{table}: expected {{"classes": {{"<Class>": number, …}}}}')
    return classes


def parse_list(
    text: str, path: Path, classes: dict[str, int], split: str, complaints: Complaints
) -> list[Item]:
    """Items of one train or test list."""
    spelling = {name.lower(): name for name in classes}
    items = []
    for line, row in numbered_lines(text):
        name, *number = row.split()
        folder, slash, file = name.partition("/")
        label = spelling.get(folder.lower())
        if not slash or not file or len(number) > 1:
            complaints.add(path, line, f"expected '<class>/<file>' and at most a number, found {row!r}")
        elif label is None:
            complaints.add(path, line, f"class {folder!r} is not in classInd.txt")
        elif number and number[0] != str(classes[label]):
            complaints.add(path, line, f"class {label} is number {classes[label]}, the line says {number[0]}")
        else:
            group = _GROUP.search(stem_of(file))
            extra = {"group": group.group(1)} if group else {}
            items.append(
                Item(f"{label}/{stem_of(file)}", Path(label, file), split, action=label, extra=extra)
            )
    return items


def load(
    root: str | Path, *, split: int = 1, annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    root, complaints = Path(root), Complaints()
    lists = first_folder(root, "ucfTrainTestlist")
    classes = read_classes(lists, complaints)
    items: list[Item] = []
    for part in ("train", "test"):
        path = lists / f"{part}list0{split}.txt"
        items += parse_list(read_text(path), path, classes, part, complaints)
    complaints.settle("ucf101")
    finder = (
        None if annotations_only else MediaFinder(*(root / n for n in ("UCF-101", "Videos", "videos")), root)
    )
    names = sorted(classes, key=lambda name: classes[name])
    return assemble("ucf101", root, items, classes=names, finder=finder, skip_bad=skip_bad)
