"""VISPR: photographs with private attributes, 10,000 / 4,167 / 8,000 for train / val / test.

    ROOT/{train,val,test}2017.txt                    one relative annotation path per line
    ROOT/annotations/{split}2017/2017_XXXXXXXX.json  {"image_path": "images/…jpg", "labels": ["a4_gender", …]}
    ROOT/images/{split}2017/2017_XXXXXXXX.jpg        (or ROOT/{split}2017/…)
    ROOT/{train,test}_labels.pkl                     instead of the JSON files: stem → 7 numbers in VISPR1 order
                                                     (also {split}_VISPR{1,2}_labels.pkl)

Two attribute sets of seven: `vispr1` and `vispr2`. A split whose labels are nowhere keeps its items without attributes,
and a note says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from videoveil.data.reading import Complaints, MediaFinder, assemble, numbered_lines, read_text
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
OFFICIAL = {"": {"train": 10_000, "val": 4_167, "test": 8_000}}
OFFICIAL_POSITIVES = {
    "train": dict(zip(SETS["vispr1"], (4710, 4625, 3484, 2789, 588, 334, 694))),
    "test": dict(zip(SETS["vispr1"], (3781, 3715, 2792, 2326, 438, 253, 569))),
}


def parse_annotation(value: Any, names: tuple[str, ...]) -> tuple[str, dict[str, int]]:
    """(image path, 0/1 per attribute) of one JSON annotation; ValueError says what is wrong with it."""
    if not isinstance(value, dict) or not isinstance(value.get("labels"), list):
        raise ValueError("expected an object with a list 'labels'")
    if not isinstance(value.get("image_path"), str):
        raise ValueError("expected a string 'image_path'")
    present = {ALIASES.get(str(label), str(label)) for label in value["labels"]}
    return value["image_path"], {name: int(name in present) for name in names}


def load(
    root: str | Path, *, attributes: str = "vispr1", annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    root, complaints = Path(root), Complaints()
    names = SETS[attributes]
    items: list[Item] = []
    notes: list[str] = []
    for split in ("train", "val", "test"):
        listed = [line for _, line in numbered_lines(read_text(root / f"{split}2017.txt"))]
        pickled = _pickled(root, split, attributes)
        unlabelled = 0
        for relative in listed:
            stem = Path(relative).stem
            image, labels = _labels(root / relative, stem, split, names, pickled, complaints)
            unlabelled += labels is None
            items.append(Item(f"{split}2017/{stem}", Path(image), split, "image", attributes=labels))
        if unlabelled:
            notes.append(f"{split}: {unlabelled} of {len(listed)} images have no labels here")
    complaints.settle("vispr")
    finder = None if annotations_only else _Finder(root)
    return assemble("vispr", root, items, attributes=names, notes=notes, finder=finder, skip_bad=skip_bad)


def _pickled(root: Path, split: str, attributes: str) -> dict[str, Any]:
    """Labels from a pickle, if there is one for this set."""
    options = [f"{split}_{attributes.upper()}_labels.pkl"]
    if attributes == "vispr1":
        options.append(f"{split}_labels.pkl")
    path = next((root / name for name in options if (root / name).is_file()), None)
    if path is None:
        return {}
    value = load_labels(path)
    if not isinstance(value, dict) or any(getattr(v, "shape", None) != (7,) for v in value.values()):
        raise AnnotationError(f"{path}: expected a dict from image stems to arrays of 7 numbers")
    return value


def _labels(
    path: Path, stem: str, split: str, names: tuple[str, ...], pickled: dict[str, Any], complaints: Complaints
) -> tuple[str, dict[str, int] | None]:
    """Image path and labels of one image, from its JSON file or the pickle."""
    image = f"images/{split}2017/{stem}.jpg"
    if path.is_file():
        try:
            return parse_annotation(json.loads(path.read_text("utf-8")), names)
        except ValueError as error:
            complaints.add(path, None, str(error))
            return image, None
    if stem in pickled:
        return image, {name: int(value > 0.5) for name, value in zip(names, pickled[stem])}
    if pickled:
        complaints.add(path, None, f"{stem} has neither a JSON file nor an entry in the label pickle")
    return image, None


class _Finder(MediaFinder):
    """Images in the official folder, or directly in `{split}2017/`."""

    def __init__(self, root: Path):
        super().__init__(root)

    def find(self, relative: str) -> Path | None:
        return super().find(relative) or super().find(relative.removeprefix("images/"))
