"""What VPUCF and VPHMDB share: five private attributes per video, from a pickle or a CSV file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from videoveil.data.reading import Complaints, read_rows, stem_of
from videoveil.data.records import Dataset
from videoveil.data.safe_pickle import load_labels
from videoveil.errors import AnnotationError

ATTRIBUTES = (
    "skin_color",
    "face",
    "gender",
    "nudity",
    "relationship",
)  # column order of the published arrays
_FIVE = re.compile(r"\[\s*[01](\s*,\s*[01]){4}\s*\]")


def attach(dataset: Dataset, name: str, stem: str) -> Dataset:
    """Give every item its attributes; items without a row are errors, rows without an item (other parts) are noted.

    The class folder is spelt in more than one way (HandstandPushups), so names are compared regardless of case.
    """
    labels = {id_.lower(): values for id_, values in _read(dataset.root, stem).items()}
    lacking = [item.id for item in dataset if item.id.lower() not in labels]
    if lacking:
        raise AnnotationError(f"{name}: {len(lacking)} videos have no attributes:", lacking)
    items = tuple(replace(item, attributes=labels[item.id.lower()]) for item in dataset)
    spare = len(labels.keys() - {item.id.lower() for item in dataset})
    notes = (*dataset.notes, *([f"{spare} labelled videos are not in this split"] if spare else []))
    return replace(dataset, name=name, items=items, attributes=ATTRIBUTES, notes=notes)


def _read(root: Path, stem: str) -> dict[str, dict[str, int]]:
    for path in (root / f"{stem}.pickle", root / f"{stem}.pkl"):
        if path.is_file():
            return parse_arrays(load_labels(path), path)
    path = root / f"{stem}.csv"
    if path.is_file():
        return parse_csv(path)
    raise AnnotationError(f"{root}: neither {stem}.pickle nor {stem}.csv is there")


def parse_arrays(value: Any, path: Path) -> dict[str, dict[str, int]]:
    """`"<Class>/<stem>.mp4"` → array of shape (1, 5)."""
    if not isinstance(value, Mapping):
        raise AnnotationError(f"{path}: expected a dict, found a {type(value).__name__}")
    complaints, labels = Complaints(), {}
    for name, array in value.items():
        fits = isinstance(array, np.ndarray) and array.shape == (1, 5) and np.isin(array, (0, 1)).all()
        if not isinstance(name, str) or not fits:
            complaints.add(path, None, f"{name}: expected an array of shape (1, 5) of 0 and 1")
        else:
            labels[stem_of(name)] = {a: int(v) for a, v in zip(ATTRIBUTES, array[0])}
    complaints.settle(path.name)
    return labels


def parse_csv(path: Path) -> dict[str, dict[str, int]]:
    """Columns `File Path` and `Array Values`, the latter a bracketed list of five 0 or 1."""
    complaints, labels = Complaints(), {}
    for line, row in read_rows(path, ("File Path", "Array Values")):
        if not _FIVE.fullmatch(row["Array Values"]):
            complaints.add(path, line, f"expected a list of five 0 or 1, found {row['Array Values']!r}")
        else:
            values = (int(digit) for digit in re.findall("[01]", row["Array Values"]))
            labels["/".join(stem_of(row["File Path"]).split("/")[-2:])] = dict(zip(ATTRIBUTES, values))
    complaints.settle(path.name)
    return labels
