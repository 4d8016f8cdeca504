"""UCF-Crime: surveillance videos, 1,610 for training (video-level labels), 290 for testing (frame-level truth).

    ROOT/Anomaly_Train.txt, ROOT/Anomaly_Test.txt     "<Folder>/<file>.mp4"
    ROOT/Temporal_Anomaly_Annotation.txt              "<file>.mp4  <Class>  start1  end1  start2  end2", -1 for none
                                                      (or ..._for_Testing_Videos.txt)
    ROOT/<Folder>/<file>.mp4                          (or one folder deeper, as in the parts of the download)

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
    whole,
)
from videoveil.data.records import Dataset, FrameSpan, Item

CLASSES = 13
OFFICIAL = {"": {"train": 1610, "test": 290}}


def class_of(stem: str) -> str:
    """`Abuse001_x264` → Abuse; anything with Normal in it → Normal. ValueError where no class is in the name."""
    if "Normal" in stem:
        return "Normal"
    found = re.match(r"[A-Za-z]+", stem)
    if found is None:
        raise ValueError(f"{stem!r} does not begin with a class")
    return found.group(0)


def parse_list(text: str, path: Path, split: str, complaints: Complaints) -> list[Item]:
    items = []
    for line, row in numbered_lines(text):
        folder, slash, file = row.rpartition("/")
        if not slash:
            complaints.add(path, line, f"expected '<folder>/<file>', found {row!r}")
            continue
        try:
            label = class_of(stem_of(file))
        except ValueError as error:
            complaints.add(path, line, str(error))
            continue
        if label != ("Normal" if "Normal" in folder else folder.rsplit("/", 1)[-1]):
            complaints.add(path, line, f"the folder says {folder}, the file name {label}")
        items.append(Item(stem_of(row), Path(row), split, anomaly=label != "Normal", anomaly_class=label))
    return items


def parse_spans(text: str, path: Path, complaints: Complaints) -> dict[str, tuple[FrameSpan, ...]]:
    """File stem → abnormal frames."""
    spans: dict[str, tuple[FrameSpan, ...]] = {}
    for line, row in numbered_lines(text):
        fields = row.split()
        try:
            name, label, edges = fields[0], fields[1], [whole(v) for v in fields[2:]]
            if len(edges) != 4:
                raise ValueError
        except (ValueError, IndexError):
            complaints.add(path, line, f"expected '<file> <class> start1 end1 start2 end2', found {row!r}")
            continue
        events = [(a, b) for a, b in (edges[:2], edges[2:]) if a >= 0]
        if any(b < a for a, b in events) or any((a < 0) != (b < 0) for a, b in (edges[:2], edges[2:])):
            complaints.add(path, line, f"an event ends before it starts: {row!r}")
            continue
        if stem_of(name) in spans:
            complaints.add(path, line, f"{name} has two rows")
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
    for name in sorted(spans.keys() - tested.keys()):
        complaints.add(notes_path, None, f"{name} is not in the test list")
    for name, item in tested.items():
        if name not in spans:
            complaints.add(notes_path, None, f"test video {name} has no row")
        elif item.anomaly != bool(spans[name]):
            complaints.add(notes_path, None, f"{name}: its name and its row disagree about being abnormal")
        elif spans[name] and spans[name][0].value != item.anomaly_class:
            complaints.add(notes_path, None, f"{name}: its row says {spans[name][0].value}")
    complaints.settle("ucf-crime")
    items = [replace(i, anomaly_spans=spans[Path(i.id).name]) if i.split == "test" else i for i in items]
    classes = sorted({item.anomaly_class for item in items if item.anomaly and item.anomaly_class})
    finder = None if annotations_only else _Finder(root, *sorted(p for p in root.iterdir() if p.is_dir()))
    notes = (
        f"{len(spans)} rows of temporal annotation, {sum(map(bool, spans.values()))} of them with events",
    )
    return assemble("ucf-crime", root, items, classes=classes, notes=notes, finder=finder, skip_bad=skip_bad)


class _Finder(MediaFinder):
    """Also looks for the file without its folder: parts of the download hold normal videos directly."""

    def find(self, relative: str) -> Path | None:
        return super().find(relative) or super().find(relative.rsplit("/", 1)[-1])
