"""Your own data without labels: every video below ROOT."""

from __future__ import annotations

from pathlib import Path

from videoveil.data.reading import videos_below
from videoveil.data.records import Dataset, Item
from videoveil.errors import AnnotationError

OFFICIAL: dict[str, dict[str, int]] = {}


def load(root: str | Path, *, annotations_only: bool = False, skip_bad: bool = False) -> Dataset:
    root = Path(root)
    items = tuple(Item(path.relative_to(root).as_posix(), path, "unused") for path in videos_below(root))
    if not items:
        raise AnnotationError(f"{root}: no videos below it")
    return Dataset("videos", root, items)
