"""VISPR: photographs with private attributes, 10,000 / 4,167 / 8,000 for train / val / test.

    ROOT/{train,val,test}2017.txt                    one relative annotation path per line
    ROOT/annotations/{split}2017/2017_XXXXXXXX.json  {"image_path": "images/…jpg", "labels": ["a4_gender", …]}
                                                     (or ROOT/{split}2017/…, ROOT/{split}2017_annotations/…)
    ROOT/images/{split}2017/2017_XXXXXXXX.jpg        (or ROOT/{split}2017/…)
    ROOT/{train,test}_labels.pkl                     instead of the JSON files: stem → 7 numbers in VISPR1 order
                                                     (also {split}_VISPR{1,2}_labels.pkl)
    ROOT/attributes.tsv                              optional: idx, attribute_id, group, description of all 68 ids

Two attribute sets of seven: `vispr1` and `vispr2`. A split whose labels are nowhere keeps its items without attributes,
and a note says so. Labels that attributes.tsv does not know are ignored, and a note counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    numbered_lines,
    read_json,
    read_rows,
    read_text,
    whole,
)
from videoveil.data.records import Dataset, Item
from videoveil.data.safe_pickle import load_labels
from videoveil.errors import AnnotationError

SETS = {
    "vispr1": (
        "a17_color",
        "a4_gender",
        "a9_face_complete",
        "a10_face_partial",
        "a12_semi_nudity",
        "a64_rel_personal",
        "a65_rel_social",
    ),
    "vispr2": (
        "a6_hair_color",
        "a16_race",
        "a59_sports",
        "a1_age_approx",
        "a2_weight_approx",
        "a73_landmark",
        "a11_tattoo",
    ),
}
ALIASES = {"a65_rel_soci": "a65_rel_social"}
_IMAGES = {"train": 10_000, "val": 4_167, "test": 8_000}
OFFICIAL = dict.fromkeys(("", *(f"attributes={name}" for name in SETS)), _IMAGES)
OFFICIAL_POSITIVES = {
    "train": dict(zip(SETS["vispr1"], (4710, 4625, 3484, 2789, 588, 334, 694))),
    "test": dict(zip(SETS["vispr1"], (3781, 3715, 2792, 2326, 438, 253, 569))),
}


def parse_table(rows: list[tuple[int, dict[str, str]]], path: Path, complaints: Complaints) -> dict[str, int]:
    """Attribute id → index, from attributes.tsv; rows without an index are groups, not attributes."""
    found: dict[str, int] = {}
    for line, row in rows:
        if not row["idx"]:
            continue
        try:
            found[row["attribute_id"]] = whole(row["idx"])
        except ValueError as error:
            complaints.add(path, line, f"idx: {error}")
    return found


def parse_annotation(value: Any, names: tuple[str, ...]) -> tuple[str, dict[str, int], list[str]]:
    """(image path, 0/1 per attribute, all labels) of one JSON annotation; ValueError says what is wrong with it."""
    if not isinstance(value, dict) or not isinstance(value.get("labels"), list):
        raise ValueError("expected an object with a list 'labels'")
    if not isinstance(value.get("image_path"), str):
        raise ValueError("expected a string 'image_path'")
    present = [ALIASES.get(str(label), str(label)) for label in value["labels"]]
    return value["image_path"], {name: int(name in present) for name in names}, present


def load(
    root: str | Path, *, attributes: str = "vispr1", annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    root, complaints = Path(root), Complaints()
    names = SETS[attributes]
    items: list[Item] = []
    notes: list[str] = []
    labels = _Labels(root, names, complaints)
    for split in ("train", "val", "test"):
        listed = [line for _, line in numbered_lines(read_text(root / f"{split}2017.txt"))]
        pickled = _pickled(root, split, attributes)
        written = any(labels.annotation(relative, split) for relative in listed)
        part = [labels.item(relative, split, pickled, written) for relative in listed]
        unlabelled = sum(item.attributes is None for item in part)
        if unlabelled:
            notes.append(f"{split}: {unlabelled} of {len(listed)} images have no labels here")
        items += part
    complaints.settle("vispr")
    notes += [f"unknown label {label!r} in {number} images" for label, number in labels.unknown.most_common()]
    finder = None if annotations_only else _Finder(root)
    return assemble("vispr", root, items, attributes=names, notes=notes, finder=finder, skip_bad=skip_bad)


def _pickled(root: Path, split: str, attributes: str) -> dict[str, np.ndarray]:
    """Labels from a pickle, if there is one for this set."""
    options = [f"{split}_{attributes.upper()}_labels.pkl"]
    if attributes == "vispr1":
        options.append(f"{split}_labels.pkl")
    path = next((root / name for name in options if (root / name).is_file()), None)
    if path is None:
        return {}
    value = load_labels(path)
    if not isinstance(value, dict):
        raise AnnotationError(
            f"{path}: expected a dict from image stems to arrays, found a {type(value).__name__}"
        )
    wrong = [
        f"{stem}: {array!r:.60}"
        for stem, array in value.items()
        if not isinstance(array, np.ndarray) or array.shape != (7,) or not np.isin(array, (0, 1)).all()
    ]
    if wrong:
        raise AnnotationError(f"{path}: expected arrays of seven 0 or 1:", wrong)
    return value


class _Labels:
    """The labels of the images of one root, from JSON files or from a pickle."""

    def __init__(self, root: Path, names: tuple[str, ...], complaints: Complaints):
        self.root, self.names, self.complaints = root, names, complaints
        self.finder = MediaFinder(root)
        self.unknown: Counter[str] = Counter()
        table = root / "attributes.tsv"
        self.known: Container[str] | None = (
            parse_table(read_rows(table, ("idx", "attribute_id"), "\t"), table, complaints)
            if table.is_file()
            else None
        )

    def item(self, relative: str, split: str, pickled: dict[str, np.ndarray], written: bool) -> Item:
        """One image; where its split has labels (a pickle, or some are `written`), an image without is a mistake."""
        stem = Path(relative).stem
        image, labels = f"images/{split}2017/{stem}.jpg", None
        if path := self.annotation(relative, split):
            image, labels = self._from_json(path, image)
        elif stem in pickled:
            labels = {name: int(value) for name, value in zip(self.names, pickled[stem])}
        elif pickled or written:
            what = f"{stem} has neither a JSON file nor an entry in a label pickle"
            self.complaints.add(self.root / f"{split}2017.txt", None, what)
        return Item(f"{split}2017/{stem}", Path(image), split, "image", attributes=labels)

    def annotation(self, relative: str, split: str) -> Path | None:
        """The annotation file as listed, or in one of the folders where copies have it."""
        name = relative.rpartition("/")[2]
        options = (relative, f"{split}2017/{name}", f"{split}2017_annotations/{name}")
        return next(filter(None, map(self.finder.find, options)), None)

    def _from_json(self, path: Path, image: str) -> tuple[str, dict[str, int] | None]:
        try:
            image, labels, present = parse_annotation(read_json(path), self.names)
        except (ValueError, AnnotationError) as error:
            self.complaints.add(path, None, str(error))
            return image, None
        if self.known is not None:
            self.unknown.update(label for label in present if label not in self.known)
        return image, labels


class _Finder(MediaFinder):
    """Images in the official folder, or directly in `{split}2017/`."""

    def find(self, relative: str) -> Path | None:
        return super().find(relative) or super().find(relative.removeprefix("images/"))
