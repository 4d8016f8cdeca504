"""PA-HMDB51: private attributes, frame by frame, for 515 videos of HMDB51.

    ROOT/PrivacyAttributes/<class>.json
        {"<file>.avi": {"skin_color": [[first, last, value], …], "face": …, "gender": …, "nudity": …,
                        "relationship": …, "review": true, "note": ""}}
    ROOT/hmdb51_org/…, ROOT/testTrainMulti_7030_splits/…    as for HMDB51; without them only the labelled videos load

Frames count from 0 and `last` is included; a value is a number or a list (several people). Frames before the first
interval are unlabelled; of two overlapping intervals the later one holds. The labelled videos are the test set and all
other HMDB51 videos the training set, so that nobody is trained on what is tested.

Frame numbers are those of the original files, 30 a second; for files at another rate `at_rate(dataset, 15)` moves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from videoveil.data import hmdb51
from videoveil.data.reading import Complaints, assemble, first_folder, read_json, stem_of
from videoveil.data.records import AttributeSpan, Dataset, Item
from videoveil.errors import AnnotationError, UsageError

VALUES = {"skin_color": 4, "face": 3, "gender": 3, "nudity": 3, "relationship": 2}  # 0 up to, not including
ATTRIBUTES = tuple(VALUES)
CLASSES = 51
RATE = 30  # frames per second of the original files, which the annotations count in
OFFICIAL = {"": {"test": 515}}
OFFICIAL_LABELLED_FRAMES = 52_411  # with all five attributes
RULES = {
    "vita": ("a17_color", "a10_face_partial", "a4_gender", "a12_semi_nudity", "a64_rel_personal"),
    "spact": (
        "a17_color",
        "a4_gender",
        "a9_face_complete",
        "a10_face_partial",
        "a12_semi_nudity",
        "a64_rel_personal",
    ),
}
RULES["splavu"] = RULES["spact"]


def parse_video(value: Any) -> tuple[AttributeSpan, ...]:
    """The intervals of one video as the fewest spans with constant values; ValueError says what is wrong."""
    if not isinstance(value, dict):
        raise ValueError("expected an object per video")
    tracks: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {}
    for name in ATTRIBUTES:
        rows = value.get(name)
        if not isinstance(rows, list) or not rows:
            raise ValueError(f"expected a list of [first, last, value] for {name}")
        tracks[name] = [_interval(name, row) for row in rows]
    cuts = sorted({edge for rows in tracks.values() for first, stop, _ in rows for edge in (first, stop)})
    spans: list[AttributeSpan] = []
    for first, stop in pairwise(cuts):
        values = {
            name: found for name, rows in tracks.items() if (found := _value_at(rows, first)) is not None
        }
        if not values:
            continue
        if spans and spans[-1].values == values and spans[-1].stop == first:
            spans[-1] = replace(spans[-1], stop=stop)
        else:
            spans.append(AttributeSpan(first, stop, values))
    return tuple(spans)


def _interval(name: str, row: Any) -> tuple[int, int, tuple[int, ...]]:
    if not isinstance(row, list) or len(row) != 3 or not all(type(edge) is int for edge in row[:2]):
        raise ValueError(f"{name}: expected [first, last, value], found {row}")
    first, last, found = row
    values = found if isinstance(found, list) else [found]
    if not 0 <= first <= last:
        raise ValueError(f"{name}: frames {first} to {last} are no interval")
    if not values or not all(type(v) is int and 0 <= v < VALUES[name] for v in values):
        raise ValueError(f"{name}: expected values from 0 to {VALUES[name] - 1}, found {found}")
    return first, last + 1, tuple(values)


def _value_at(rows: list[tuple[int, int, tuple[int, ...]]], frame: int) -> tuple[int, ...] | None:
    """The value in a frame; the later of two overlapping intervals holds."""
    return next((values for first, stop, values in reversed(rows) if first <= frame < stop), None)


def binary(values: Mapping[str, tuple[int, ...]], rule: str = "spact") -> dict[str, int]:
    """A frame's attribute values as 0/1 under one of the papers' rules.

    `vita`: five labels, present means not 0. `spact` (and the penalty paper): six labels, complete and partial face
    apart, nudity present when not 0. `splavu`: the same six, nudity only when semi-nude (2).
    """
    if rule not in RULES:
        raise UsageError(f"rule {rule!r}: choose one of {', '.join(RULES)}")
    some = {name: int(any(values[name])) for name in ATTRIBUTES}
    labels = {
        "a17_color": some["skin_color"],
        "a4_gender": some["gender"],
        "a9_face_complete": int(2 in values["face"]),
        "a10_face_partial": some["face"] if rule == "vita" else int(1 in values["face"]),
        "a12_semi_nudity": int(2 in values["nudity"]) if rule == "splavu" else some["nudity"],
        "a64_rel_personal": some["relationship"],
    }
    return {name: labels[name] for name in RULES[rule]}


def frame_labels(item: Item, frame: int, rule: str = "spact") -> dict[str, int] | None:
    """Labels of one frame; None where not all five attributes are annotated."""
    for span in item.attribute_spans:
        if span.first <= frame < span.stop:
            return binary(span.values, rule) if len(span.values) == len(ATTRIBUTES) else None
    return None


def labelled_frames(item: Item) -> int:
    """Frames with all five attributes."""
    return sum(s.stop - s.first for s in item.attribute_spans if len(s.values) == len(ATTRIBUTES))


def at_rate(dataset: Dataset, rate: Fraction | int) -> Dataset:
    """The same labels for files that were re-encoded at `rate` frames per second: spans in the numbers of those files.

    Frame k of such a file is shown when frame k·30/rate of the original was, and has the labels of that frame. A span
    in which the new files have no frame is gone.
    """
    if rate <= 0:
        raise UsageError(f"rate={rate}: frames per second, above 0")
    return replace(dataset, items=tuple(_at_rate(item, Fraction(rate) / RATE) for item in dataset))


def _at_rate(item: Item, scale: Fraction) -> Item:
    """Original frames [first, stop) are the new frames k with first ≤ k/scale < stop."""
    moved = [replace(s, first=ceil(s.first * scale), stop=ceil(s.stop * scale)) for s in item.attribute_spans]
    return replace(item, attribute_spans=tuple(span for span in moved if span.first < span.stop))


def parse_file(value: Any, path: Path, complaints: Complaints) -> list[Item]:
    """The labelled videos of one class; the file is named after it."""
    if not isinstance(value, dict):
        complaints.add(path, None, "expected an object with a video per key")
        return []
    items = []
    for name, video in value.items():
        try:
            spans = parse_video(video)
        except ValueError as error:
            complaints.add(path, None, f"{name}: {error}")
            continue
        id_ = f"{path.stem}/{stem_of(name)}"
        items.append(Item(id_, Path(path.stem, name), "test", action=path.stem, attribute_spans=spans))
    return items


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    folder = first_folder(root, "PrivacyAttributes")
    paths = sorted(p for p in folder.iterdir() if p.suffix == ".json" and not p.name.startswith("."))
    if not paths:
        raise AnnotationError(f"{folder}: no <class>.json files; unpack PrivacyAttributes there")
    labelled = [item for path in paths for item in parse_file(read_json(path), path, complaints)]
    complaints.settle("pa-hmdb51")
    classes, rest = _others(root, {item.id for item in labelled})
    notes = [] if rest else ["no HMDB51 split files here: only the labelled (test) videos are listed"]
    return assemble(
        "pa-hmdb51",
        root,
        (*labelled, *rest),
        classes=sorted({*classes, *(p.stem for p in paths)}),
        attributes=ATTRIBUTES,
        notes=notes,
        finder=None if annotations_only else hmdb51.finder(root),
        skip_bad=skip_bad,
    )


def _others(root: Path, labelled: set[str]) -> tuple[list[str], list[Item]]:
    """HMDB51's classes and all its videos that are not labelled, as training set; nothing without its split files."""
    if not hmdb51.split_files(root, 1):
        return [], []
    classes, items = hmdb51.split_items(root, 1)
    return classes, [item.with_split("train") for item in items if item.id not in labelled]
