"""CASIA-B gait: 124 people, 11 views, 10 walks each (nm-01…06 normal, bg-01,02 with a bag, cl-01,02 in a coat).

    ROOT/SSS-cc-NN-VVV.avi     (or videos/, DatasetB-1/video/)

Gallery: nm-01 to nm-04. Probe: all other walks; the papers' figure uses the probes of condition nm.
"""

from __future__ import annotations

import re
from pathlib import Path

from videoveil.data.reading import MediaFinder, assemble, first_folder, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

OFFICIAL = {"": {"gallery": 124 * 11 * 4, "probe": 124 * 11 * 6}}
_NAME = re.compile(r"(\d{3})-(nm|bg|cl)-(\d{2})-(\d{3})")


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root = Path(root)
    folder = first_folder(root, "videos", "DatasetB-1/video")
    items, notes = [], []
    for path in videos_below(folder):
        match = _NAME.fullmatch(path.stem)
        if match is None:
            notes.append(f"{path.name}: not a CASIA-B name, left out")
            continue
        subject, condition, number, view = match.groups()
        gallery = condition == "nm" and int(number) <= 4
        items.append(
            Item(
                path.stem,
                Path(path.relative_to(folder)),
                "gallery" if gallery else "probe",
                subject=subject,
                extra={"condition": condition, "number": number, "view": view},
            )
        )
    if not items:
        raise AnnotationError(f"{folder}: no SSS-cc-NN-VVV.avi files; the names are the annotation")
    finder = None if annotations_only else MediaFinder(folder)
    return assemble("casia-b", root, items, notes=notes, finder=finder, skip_bad=skip_bad)
