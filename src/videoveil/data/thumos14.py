"""THUMOS14 temporal action detection: 200 validation videos (train), 212 test videos, 20 actions.

    ROOT/thumos14.json (or thumos14_actionformer.json)
        {"version": …, "database": {"video_validation_0000051": {"subset": "Validation", "duration": s, "fps": f,
            "annotations": [{"label": "…", "label_id": n, "segment": [start_s, end_s]}, …]}}}
    or the official text files ROOT/annotation/<Class>_{val,test}.txt      "<video>  <start>  <end>" in seconds
    ROOT/videos/<video>.mp4     (or validation/, test/, TH14_test_set_mp4/, ROOT itself)

Segments that end after the stated duration are kept as published and noted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    first_folder,
    numbered_lines,
    read_json,
    read_text,
    seconds,
)
from videoveil.data.records import Dataset, Item, Segment
from videoveil.errors import AnnotationError

CLASSES = 20
OFFICIAL = {"": {"train": 200, "test": 212}}
SUBSETS = {"validation": "train", "test": "test"}


def parse_database(value: Any, path: Path, complaints: Complaints) -> tuple[list[str], list[Item], list[str]]:
    """Classes (by label id), items and notes of the JSON file."""
    if not isinstance(value, dict) or not isinstance(value.get("database"), dict):
        raise AnnotationError(f"{path}: expected an object with 'database'")
    items: list[Item] = []
    notes: list[str] = []
    ids: dict[str, int] = {}
    for name, video in value["database"].items():
        try:
            item, found = _video(name, video)
        except (KeyError, TypeError, ValueError) as error:
            complaints.add(path, None, f"{name}: {type(error).__name__} {error}")
            continue
        for label, number in found:
            if ids.setdefault(label, number) != number:
                complaints.add(path, None, f"{name}: {label} has two label ids")
        items.append(item)
        notes += [
            f"{name}: {s.label} ends at {float(s.end)} s, the video at {float(item.duration)} s"
            for s in item.segments
            if item.duration is not None and s.end > item.duration
        ]
    if len(set(ids.values())) != len(ids):
        complaints.add(path, None, "two labels share one label id")
    return sorted(ids, key=lambda label: ids[label]), items, notes


def _video(name: str, video: Any) -> tuple[Item, list[tuple[str, int]]]:
    """The item and its (label, label id) pairs; KeyError, TypeError or ValueError say what is wrong."""
    split = SUBSETS[str(video["subset"]).lower()]
    duration, rate = seconds(video["duration"]), seconds(video["fps"])
    if not duration or not rate:
        raise ValueError("duration and fps must be above 0")
    segments, pairs = [], []
    for row in video["annotations"]:
        label, number = row["label"], row["label_id"]
        if not isinstance(label, str) or type(number) is not int:
            raise TypeError(f"label {label!r} must be text and label_id {number!r} a whole number")
        start, end = row["segment"]
        segments.append(_segment(label, start, end))
        pairs.append((label, number))
    path = Path(f"{name}.mp4")
    return Item(name, path, split, segments=tuple(segments), duration=duration, rate=rate), pairs


def _segment(label: str, start: float | str, end: float | str) -> Segment:
    segment = Segment(label, seconds(start), seconds(end))
    if segment.start >= segment.end:
        raise ValueError(f"segment {start} to {end} s ends before it starts")
    return segment


def parse_text_files(folder: Path, complaints: Complaints) -> tuple[list[str], list[Item]]:
    """Classes and items of the official text files; durations are not in them."""
    found: dict[str, dict[str, list[Segment]]] = {"train": {}, "test": {}}
    labels = set()
    for path in sorted(folder.glob("*.txt")):
        label, _, part = path.stem.rpartition("_")
        split = {"val": "train", "test": "test"}.get(part)
        if split is None or label in ("", "Ambiguous"):
            continue
        labels.add(label)
        for line, row in numbered_lines(read_text(path)):
            try:
                name, start, end = row.split()
                segment = _segment(label, start, end)
            except ValueError as error:
                complaints.add(path, line, f"expected '<video> <start> <end>', found {row!r} ({error})")
                continue
            found[split].setdefault(name, []).append(segment)
    items = [
        Item(
            name,
            Path(f"{name}.mp4"),
            split,
            segments=tuple(sorted(rows, key=lambda s: (s.start, s.end, s.label))),
        )
        for split, videos in found.items()
        for name, rows in sorted(videos.items())
    ]
    return sorted(labels), items


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    path = next(
        (root / n for n in ("thumos14.json", "thumos14_actionformer.json") if (root / n).is_file()), None
    )
    notes: list[str] = []
    if path is not None:
        classes, items, notes = parse_database(read_json(path), path, complaints)
    else:
        classes, items = parse_text_files(first_folder(root, "annotation", "annotations"), complaints)
    complaints.settle("thumos14")
    if not items:
        raise AnnotationError(f"{root}: neither thumos14.json nor <Class>_val.txt files are there")
    folders = (root / name for name in ("videos", "validation", "test", "TH14_test_set_mp4"))
    finder = None if annotations_only else MediaFinder(*folders, root)
    return assemble("thumos14", root, items, classes=classes, notes=notes, finder=finder, skip_bad=skip_bad)
