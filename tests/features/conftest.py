"""A few real videos, and what extraction needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from videoveil.data.records import Dataset, Item
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.data.twins.film import AVI, MP4, shoot

ACTIONS = ("walk", "wave", "squat")


def film_folder(root: Path, videos: int, frames: int, longer: int = 5) -> Path:
    """Videos of different lengths, each `longer` frames longer than the one before, in two containers."""
    for k in range(videos):
        play = trimmed("films", k, action=ACTIONS[k % 3], person=identity(0, k), frames=frames + longer * k)
        film, suffix = (MP4, "mp4") if k % 2 == 0 else (AVI, "avi")
        shoot(play, root / f"v{k:02d}.{suffix}", film)
    return root


def as_dataset(folder: Path, name: str = "films") -> Dataset:
    paths = sorted(p for p in folder.iterdir() if p.suffix in (".mp4", ".avi"))
    items = tuple(Item(id=p.stem, path=p, split="train", action=ACTIONS[i % 3]) for i, p in enumerate(paths))
    return Dataset(name, folder, items, classes=tuple(sorted(ACTIONS)))


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return film_folder(tmp_path_factory.mktemp("films"), videos=5, frames=40)


def tree(root: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
