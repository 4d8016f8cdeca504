"""Where detection videos come from: a feature store, or a folder of `.npy` files beside an annotation file."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from videoveil.data.records import Item
from videoveil.errors import BadItems, MissingItems, StoreError, UsageError
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures
from videoveil.tasks.tridet.activitynet import AnnotatedVideo
from videoveil.tasks.tridet.records import DetectionVideo


def window_of(recipe: FeatureRecipe) -> tuple[int, int]:
    """Feature stride and window of a recipe, in frames of the video."""
    window = (recipe.frames - 1) * recipe.stride + 1
    if recipe.clips == "all":
        return recipe.frames * recipe.stride, window
    if recipe.clips.startswith("dense:"):
        return int(recipe.clips.removeprefix("dense:")), window
    raise UsageError(
        f"features were made with clips={recipe.clips!r}; detection needs a grid in time that is the same for every "
        "video: extract with clips='dense:4' (or 'all')"
    )


def from_store(
    store: FeatureStore, name: str | None = None, split: str | None = None
) -> list[DetectionVideo]:
    """The videos of a dataset in a store; features are read from disk whenever they are needed.

    A video whose clips do not lie on the recipe's grid is an error, because its segments would be learnt elsewhere.
    """
    stride, _ = window_of(store.recipe)
    videos, wrong = [], []
    for stored in store.items(name, split):
        try:
            features = store.read(stored)
        except StoreError as error:  # listed with the others that are wrong
            wrong.append(f"{stored.item.id}: {error}")
            continue
        first = int(features.starts[0]) if len(features.starts) else 0
        expected = first + stride * np.arange(len(features.starts))
        rate = features.rate or stored.item.rate
        if not np.array_equal(features.starts, expected):
            wrong.append(f"{stored.item.id}: clips do not start every {stride} frames")
        elif rate is None:
            wrong.append(
                f"{stored.item.id}: neither the file nor the annotations state the frames per second"
            )
        elif first:
            wrong.append(f"{stored.item.id}: a part of a longer file; detection works on whole videos")
        else:
            read = _StoredFeatures(store, stored.key)
            videos.append(make_video(stored.item, read, features, rate, store.recipe))
    if wrong:
        raise BadItems(f"{store.root}: {len(wrong)} videos cannot be used for detection:", wrong)
    return videos


def make_video(
    item: Item,
    array: np.ndarray | Callable[[], np.ndarray],
    features: VideoFeatures,
    rate: Fraction,
    recipe: FeatureRecipe,
) -> DetectionVideo:
    """A video from its record and what its features were made with."""
    stride, window = window_of(recipe)
    return DetectionVideo(
        id=item.id,
        features=array,
        fps=rate,
        feat_stride=stride,
        num_frames=window,
        duration=item.duration or Fraction(features.frames) / rate,
        segments=item.segments,
    )


class _StoredFeatures:
    """Reads the features of one video when called."""

    def __init__(self, store: FeatureStore, key: str):
        self.store, self.key = store, key

    def __call__(self) -> np.ndarray:
        return self.store.read(self.key).clip


def from_files(
    annotated: list[AnnotatedVideo],
    folder: str | Path,
    *,
    feat_stride: int = 4,
    num_frames: int = 16,
    fps: Fraction | None = None,
    skip_missing: bool = False,
) -> list[DetectionVideo]:
    """Annotated videos with their features from `<folder>/<id>.npy`, (T, D), as published for THUMOS14.

    `fps` is for annotations that do not state it. A video without features is an error that lists all of them, unless
    `skip_missing` is set, as in the published code.
    """
    folder = Path(folder)
    missing = [v.id for v in annotated if not (folder / f"{v.id}.npy").is_file()]
    if missing and not skip_missing:
        raise MissingItems(f"{folder}: {len(missing)} annotated videos have no <id>.npy", missing)
    clockless = [v.id for v in annotated if v.fps is None and fps is None]
    if clockless:
        raise BadItems(f"{len(clockless)} videos have no fps in the annotations; give `fps`", clockless)
    absent = set(missing)
    return [
        DetectionVideo(
            id=v.id,
            features=_reader(folder / f"{v.id}.npy"),
            fps=v.fps or fps or Fraction(0),
            feat_stride=feat_stride,
            num_frames=num_frames,
            duration=v.duration,
            segments=v.segments,
        )
        for v in annotated
        if v.id not in absent
    ]


def _reader(path: Path) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        try:
            array: np.ndarray = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise BadItems(f"{path}: not a whole .npy file ({error})", [path.stem]) from error
        return array

    return read
