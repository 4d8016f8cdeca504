"""Toyota Smarthome: 31 activities of 18 older people, seven cameras; cross-subject split.

ROOT/mp4/<Activity>_pNN_rNN_vNN_cNN.mp4     (or videos/, ROOT itself)
ROOT/gender.json                            {"p02": "female", …}; not part of the dataset, optional
"""

from __future__ import annotations

import re
from pathlib import Path

from videoveil.data.ntu60 import read_genders
from videoveil.data.reading import MediaFinder, assemble, first_folder, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

CLASSES = 31
OFFICIAL: dict[str, dict[str, int]] = {}
TRAIN_SUBJECTS = frozenset((3, 4, 6, 7, 9, 12, 13, 15, 17, 19, 25))
_NAME = re.compile(r"(.+)_p(\d+)_r(\d+)_v(\d+)_c(\d+)")


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root = Path(root)
    folder = first_folder(root, "mp4", "videos")
    genders = read_genders(root / "gender.json")
    items, notes = [], []
    for path in videos_below(folder):
        match = _NAME.fullmatch(path.stem)
        if match is None:
            notes.append(f"{path.name}: not a Toyota Smarthome name, left out")
            continue
        activity, person, repetition, video, camera = match.groups()
        subject = f"p{int(person):02d}"
        items.append(
            Item(
                path.stem,
                Path(path.relative_to(folder)),
                "train" if int(person) in TRAIN_SUBJECTS else "test",
                action=activity,
                subject=subject,
                gender=genders.get(subject),
                extra={"repetition": repetition, "video": video, "camera": camera},
            )
        )
    if not items:
        raise AnnotationError(
            f"{folder}: no <Activity>_pNN_rNN_vNN_cNN.mp4 files; the names are the annotation"
        )
    classes = sorted({str(item.action) for item in items})
    finder = None if annotations_only else MediaFinder(folder)
    return assemble(
        "toyota-smarthome", root, items, classes=classes, notes=notes, finder=finder, skip_bad=skip_bad
    )
