"""Small feature stores and videos without an encoder, for the tests of the tasks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.media.make import encode
from videoveil.data.records import Dataset, FrameSpan, Item
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures
from videoveil.tasks.base import Features
from videoveil.tasks.mgfn.videos import AnomalyVideo
from videoveil.tasks.tridet import DetectionVideo

RATE = Fraction(25)
BASE = Fraction(1, 12800)
ACTIONS = ("jump", "run", "walk")
WIDTH = 12


def recipe(clips: str = "all") -> FeatureRecipe:
    return FeatureRecipe(frames=16, stride=1, resize=32, size=32, clips=clips)


def features(rows: np.ndarray, *, step: int = 16, frames: int | None = None) -> VideoFeatures:
    """Clips of 16 frames, one every `step`, at 25 frames per second."""
    starts = step * np.arange(len(rows), dtype=np.int64)
    tick = int(1 / (RATE * BASE))
    return VideoFeatures(
        clip=rows.astype(np.float32),
        starts=starts,
        pts=np.stack([starts, starts + 15], 1) * tick,
        time_base=BASE,
        frames=frames if frames is not None else step * max(len(rows) - 1, 0) + 16,
        rate=RATE,
    )


def write_store(
    root: Path,
    items: Sequence[Item],
    rows: Sequence[np.ndarray],
    *,
    name: str = "made-up",
    classes: tuple[str, ...] = (),
    clips: str = "all",
    encoder: dict[str, Any] | None = None,
    salt: str = "",
) -> FeatureStore:
    """A store of these items; `salt` changes the names of its files."""
    width = rows[0].shape[-1]
    store = FeatureStore.create(
        root, encoder or {"name": "made-up", "hash": "0" * 64, "width": width}, recipe(clips)
    )
    step = int(clips.removeprefix("dense:")) if clips.startswith("dense:") else 16
    keys = {}
    for item, array in zip(items, rows, strict=True):
        keys[item.id] = store.key(f"{salt}{name} {item.id}")
        store.write(keys[item.id], features(array, step=step), {"content": item.id})
    store.write_index(Dataset(name, root, tuple(items), classes=classes), keys)
    return store


def damage(store: FeatureStore, id_: str, clip: np.ndarray) -> None:
    """Put clip features into a stored file that the store itself would not have written."""
    (entry,) = (entry for entry in store.items() if entry.item.id == id_)

    facts = store.read(entry).provenance
    rows = len(clip) if clip.ndim else 0
    tensors = {"clip": clip, "starts": np.arange(rows) * 16, "pts": np.zeros((rows, 2), np.int64)}
    save_file(tensors, store.path(entry.key), metadata={"provenance": json.dumps(facts)})


# --- actions ------------------------------------------------------------------------------------------------


def action_rows(number: int, label: int, clips: int, *, seed: int = 0, noise: float = 1.0) -> np.ndarray:
    """Noise around the class's own direction."""
    centre = 2.0 * np.random.default_rng(77).standard_normal((len(ACTIONS), WIDTH))[label]
    rng = np.random.default_rng([seed, number])
    return (centre + noise * rng.standard_normal((clips, WIDTH))).astype(np.float32)


def action_items(train: int = 24, test: int = 15) -> list[Item]:
    return [
        Item(f"v{n:03d}", Path(f"v{n:03d}.mp4"), "train" if n < train else "test", action=ACTIONS[n % 3])
        for n in range(train + test)
    ]


def action_store(
    root: Path, *, train: int = 24, test: int = 15, seed: int = 0, **options: Any
) -> FeatureStore:
    """Videos of three actions with one to seven clips each."""
    items = action_items(train, test)
    rows = [action_rows(n, n % 3, 1 + n % 7, seed=seed) for n in range(len(items))]
    return write_store(root, items, rows, classes=ACTIONS, **options)


def seen(store: FeatureStore) -> Features:
    return Features(store, split="train")


def unseen(store: FeatureStore) -> Features:
    return Features(store, split="test")


# --- detection and anomalies --------------------------------------------------------------------------------


def detection_store(
    root: Path,
    train: Sequence[DetectionVideo],
    test: Sequence[DetectionVideo],
    classes: tuple[str, ...],
    clips: str = "dense:4",
) -> FeatureStore:
    """The same videos in a store of dense clips, every four frames unless said otherwise."""
    videos = [("train", v) for v in train] + [("test", v) for v in test]
    items = [
        Item(
            f"{split}_{v.id}",
            Path(f"{v.id}.mp4"),
            split,
            segments=v.segments,
            duration=v.duration,
            rate=v.fps,
        )
        for split, v in videos
    ]
    return write_store(root, items, [v.array() for _, v in videos], classes=classes, clips=clips)


def anomaly_store(root: Path, train: Sequence[AnomalyVideo], test: Sequence[AnomalyVideo]) -> FeatureStore:
    """The same videos in a store of consecutive clips."""
    videos = [("train", v) for v in train] + [("test", v) for v in test]
    items = [
        Item(
            f"{split}_{v.id}",
            Path(f"{v.id}.mp4"),
            split,
            anomaly=bool(v.label),
            anomaly_class=v.class_name,
            anomaly_spans=_spans(v) if split == "test" else (),
        )
        for split, v in videos
    ]
    return write_store(root, items, [v.features for _, v in videos])


def _spans(video: AnomalyVideo) -> tuple[FrameSpan, ...]:
    assert video.truth is not None
    edges = np.flatnonzero(np.diff(np.concatenate(([0], video.truth, [0]))))
    return tuple(FrameSpan(int(a), int(b), video.class_name) for a, b in edges.reshape(-1, 2))


# --- videos -------------------------------------------------------------------------------------------------


def grey_video(path: Path, label: int, number: int, *, frames: int = 24) -> Path:
    """Two kinds of film that differ at a glance: bright above or bright below, with noise of its own."""
    rng = np.random.default_rng([label, number])
    path.parent.mkdir(parents=True, exist_ok=True)

    def picture() -> np.ndarray:
        image = rng.normal(60, 8, (36, 48, 3))
        image[:18] += 120 * (label == 0)
        image[18:] += 120 * (label == 1)
        return np.clip(image, 0, 255).astype(np.uint8)

    return encode(path, images=(picture() for _ in range(frames)), size=(48, 36))


def grey_dataset(root: Path, *, train: int = 6, test: int = 4, frames: int = 24) -> Dataset:
    """Small real videos of two classes."""
    items = []
    for n in range(train + test):
        label, split = n % 2, "train" if n < train else "test"
        path = grey_video(root / f"f{n:02d}.mp4", label, n, frames=frames + 3 * n)
        items.append(Item(path.stem, path, split, action=("above", "below")[label]))
    return Dataset("greys", root, tuple(items), classes=("above", "below"))


def reordered(dataset: Dataset) -> Dataset:
    return dataclasses.replace(dataset, items=dataset.items[::-1])
