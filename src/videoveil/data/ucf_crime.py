"""UCF-Crime: surveillance videos, 1,610 for training (video-level labels), 290 for testing (frame-level truth).

    ROOT/Anomaly_Train.txt, ROOT/Anomaly_Test.txt     "<Folder>/<file>.mp4"
    ROOT/Temporal_Anomaly_Annotation.txt              "<file>.mp4  <Class>  start1  end1  start2  end2", -1 for none
                                                      (or ..._for_Testing_Videos.txt)
    ROOT/<Folder>/<file>.mp4                          (or below Videos/)

Frame numbers are used as they are and `end` is included. A name with `Normal` in it is normal. The MATLAB form of the
temporal annotation is not read; the text form has the same content.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from videoveil.data.reading import (
    Complaints,
    MediaFinder,
    assemble,
    first_file,
    numbered_lines,
    read_text,
    stem_of,
)
from videoveil.data.records import Dataset, FrameSpan, Item

CLASSES = 13
OFFICIAL = {"": {"train": 1610, "test": 290}}


def class_of(stem: str) -> str:
    """`Abuse001_x264` → Abuse; anything with Normal in it → Normal."""
    if "Normal" in stem:
        return "Normal"
    found = re.match(r"[A-Za-z]+", stem)
    return found.group(0) if found else "Normal"


def parse_list(text: str, path: Path, split: str, complaints: Complaints) -> list[Item]:
    items = []
    for line, row in numbered_lines(text):
        _, slash, file = row.rpartition("/")
        if not slash:
            complaints.add(path, line, f"expected '<folder>/<file>', found {row!r}")
            continue
        label = class_of(stem_of(file))
        items.append(Item(stem_of(row), Path(row), split, anomaly=label != "Normal", anomaly_class=label))
    return items


def parse_spans(text: str, path: Path, complaints: Complaints) -> dict[str, tuple[FrameSpan, ...]]:
    """File stem → abnormal frames."""
    spans: dict[str, tuple[FrameSpan, ...]] = {}
    for line, row in numbered_lines(text):
        fields = row.split()
        try:
            name, label, edges = fields[0], fields[1], [int(v) for v in fields[2:6]]
            if len(edges) != 4 or len(fields) > 6:
                raise ValueError
        except (ValueError, IndexError):
            complaints.add(path, line, f"expected '<file> <class> start1 end1 start2 end2', found {row!r}")
            continue
        events = [(a, b) for a, b in (edges[:2], edges[2:]) if a >= 0]
        if any(b < a for a, b in events):
            complaints.add(path, line, f"an event ends before it starts: {row!r}")
            continue
        spans[stem_of(name)] = tuple(FrameSpan(a, b + 1, label) for a, b in events)
    return spans


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root, complaints = Path(root), Complaints()
    items: list[Item] = []
    for split in ("train", "test"):
        path = root / f"Anomaly_{split.title()}.txt"
        items += parse_list(read_text(path), path, split, complaints)
    notes_path = first_file(
        root, "Temporal_Anomaly_Annotation.txt", "Temporal_Anomaly_Annotation_for_Testing_Videos.txt"
    )
    spans = parse_spans(read_text(notes_path), notes_path, complaints)
    tested = {Path(item.id).name: item for item in items if item.split == "test"}
    for name in spans.keys() - tested.keys():
        complaints.add(notes_path, None, f"{name} is not in the test list")
    for name, item in tested.items():
        if name not in spans:
            complaints.add(notes_path, None, f"test video {name} has no row")
        elif item.anomaly != bool(spans[name]):
            complaints.add(notes_path, None, f"{name}: its name and its row disagree about being abnormal")
    complaints.settle("ucf-crime")
    items = [replace(i, anomaly_spans=spans[Path(i.id).name]) if i.split == "test" else i for i in items]
    classes = sorted({item.anomaly_class for item in items if item.anomaly and item.anomaly_class})
    finder = None if annotations_only else MediaFinder(root, root / "Videos", root / "videos")
    notes = (
        f"{len(spans)} rows of temporal annotation, {sum(map(bool, spans.values()))} of them with events",
    )
    return assemble("ucf-crime", root, items, classes=classes, notes=notes, finder=finder, skip_bad=skip_bad)
