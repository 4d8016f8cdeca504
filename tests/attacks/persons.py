"""Features and small videos of people who can be told apart, several of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.media.make import encode
from tests.tasks.make_store import features, recipe
from videoveil.data.records import Dataset, Item
from videoveil.features.store import FeatureStore

Change = Callable[[np.ndarray], np.ndarray]


def person_store(
    root: Path,
    *,
    people: int = 16,
    each: int = 4,
    signal: float = 1.0,
    change: Change | None = None,
    splits: tuple[str, str] = ("train", "test"),
    width: int = 16,
) -> FeatureStore:
    """Half of the people are in the first split, half in the second. Loud noise is in the last four channels."""
    made = FeatureStore.create(root, {"name": "made-up", "hash": "0" * 64, "width": width}, recipe())
    rng = np.random.default_rng(0)
    looks = rng.normal(size=(people, width))
    looks[:, -4:] = 0
    items, keys = [], {}
    for person in range(people):
        for k in range(each):
            own = signal * looks[person] + 0.2 * rng.normal(size=width)
            own[-4:] += 2.0 * rng.normal(size=4)
            rows = own + 0.1 * rng.normal(size=(2, width))
            id_ = f"p{person:02d}-{k}"
            split = splits[0] if person < people // 2 else splits[1]
            item = Item(
                id_, Path(f"{id_}.mp4"), split, subject=f"p{person:02d}", extra={"camera": str(k % 2)}
            )
            keys[id_] = made.key(id_)
            made.write(keys[id_], features((change or (lambda x: x))(rows)), {"id": id_})
            items.append(item)
    made.write_index(Dataset("made-up", root, tuple(items)), keys)
    return made


def person_videos(
    root: Path,
    *,
    people: int = 8,
    each: int = 3,
    frames: int = 18,
    splits: tuple[str, str] = ("train", "test"),
) -> Dataset:
    """Everybody has a colour of their own above and below; the background and its brightness change with the video."""
    items = []
    for person in range(people):
        colours = np.random.default_rng([9, person]).uniform(20, 235, size=(2, 3))
        for k in range(each):
            rng = np.random.default_rng([1, person, k])
            shade = rng.uniform(40, 200)

            def picture(
                rng: np.random.Generator = rng, shade: float = shade, colours: np.ndarray = colours
            ) -> np.ndarray:
                image = rng.normal(shade, 6, (36, 48, 3))
                image[4:18, 12:36] = colours[0]
                image[18:34, 12:36] = colours[1]
                return np.clip(image, 0, 255).astype(np.uint8)

            id_ = f"v{person:02d}-{k}"
            path = encode(root / f"{id_}.mp4", images=(picture() for _ in range(frames)), size=(48, 36))
            split = splits[0] if person < people // 2 else splits[1]
            known = {"red": int(colours[0, 0] > 128), "even": int(k % 2 == 0)}
            items.append(Item(id_, path, split, subject=f"v{person:02d}", attributes=known))
    return Dataset("persons", root, tuple(items), attributes=("red", "even"))
