"""Your own data, a folder per class.

ROOT/<class>/<video>                        split by a hash of the name: 70 % train, 10 % val, 20 % test
ROOT/{train,val,test}/<class>/<video>       split as the folders say
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from videoveil.data.reading import MediaFinder, assemble, videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

OFFICIAL: dict[str, dict[str, int]] = {}
SPLITS = ("train", "val", "test")


def hashed_split(name: str, seed: int = 0) -> str:
    """The same name goes to the same part on every machine, whatever else is there."""
    draw = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8]) / 2**64
    return "train" if draw < 0.7 else "val" if draw < 0.8 else "test"


def load(
    root: str | Path, *, seed: int = 0, annotations_only: bool = False, skip_bad: bool = False
) -> Dataset:
    root = Path(root)
    parted = sorted(p for p in root.iterdir() if p.is_dir() and p.name.lower() in SPLITS)
    items, loose = [], []
    if parted:
        outside = (p.relative_to(root) for p in videos_below(root))
        loose = [
            f"{p}: lies in none of train, val, test" for p in outside if p.parts[0].lower() not in SPLITS
        ]
    for base in parted or [root]:
        for path in videos_below(base):
            relative = path.relative_to(base)
            if len(relative.parts) < 2:
                loose.append(f"{path.relative_to(root)}: lies in no class folder")
                continue
            id_ = path.relative_to(root).with_suffix("").as_posix()
            split = base.name.lower() if parted else hashed_split(id_, seed)
            items.append(Item(id_, path.relative_to(root), split, action=relative.parts[0]))
    if loose:
        raise AnnotationError(f"{root}: move these into class folders, or extract without labels:", loose)
    if not items:
        raise AnnotationError(f"{root}: no videos in class folders below it")
    classes = sorted({str(item.action) for item in items})
    finder = None if annotations_only else MediaFinder(root)
    return assemble("folder", root, items, classes=classes, finder=finder, skip_bad=skip_bad)
