"""Where anomaly videos come from: a feature store, or a folder of `.npy` features made elsewhere.

Both are read one video at a time and may be gone through again, so a corpus never has to fit in memory. The truth of
the frames is made from the dataset's own annotations for exactly the frames that the features stand for.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from videoveil.data.frame_truth import check_truth, frame_truth
from videoveil.data.records import Item
from videoveil.errors import AnnotationError, MissingItems, StoreError, UsageError
from videoveil.features.store import FeatureRecipe, FeatureStore, StoredItem
from videoveil.tasks.mgfn.videos import NORMAL, AnomalyVideo


@dataclass(frozen=True)
class LazyVideos(Sequence[AnomalyVideo]):
    """A list whose videos are read when they are asked for."""

    loaders: tuple[Callable[[], AnomalyVideo], ...]

    def __len__(self) -> int:
        return len(self.loaders)

    @overload
    def __getitem__(self, index: int) -> AnomalyVideo: ...

    @overload
    def __getitem__(self, index: slice) -> LazyVideos: ...

    def __getitem__(self, index: int | slice) -> AnomalyVideo | LazyVideos:
        if isinstance(index, slice):
            return LazyVideos(self.loaders[index])
        return self.loaders[index]()

    def __iter__(self) -> Iterator[AnomalyVideo]:
        return (load() for load in self.loaders)


def frames_per_snippet(store: FeatureStore) -> int:
    """Source frames that one feature stands for; only non-overlapping clips have such a number."""
    recipe = store.recipe
    if recipe.clips not in ("all", "ted-spad"):
        raise UsageError(
            f"{store.root}: its clips were taken as {recipe.clips!r}; anomaly detection needs consecutive clips "
            "(clips='all' or 'ted-spad')"
        )
    return recipe.frames * recipe.stride


def snippet(recipe: FeatureRecipe, frames: int) -> int:
    """The same for a video of so many frames: TeD-SPAD takes one that is shorter than a clip with stride 1."""
    whole = recipe.frames * recipe.stride
    return recipe.frames if recipe.clips == "ted-spad" and frames < whole else whole


def from_store(
    store: FeatureStore, dataset: str | None = None, split: str | None = None, *, with_truth: bool = False
) -> LazyVideos:
    """The videos of a store; `with_truth` where the split has frame-level annotations (test splits)."""
    span = frames_per_snippet(store)
    stored = store.items(dataset, split)
    _require_labels([entry.item for entry in stored])
    if with_truth:
        _require_spans([entry.item for entry in stored])
    return LazyVideos(tuple(_StoreLoader(store, entry, span, with_truth) for entry in stored))


@dataclass(frozen=True)
class _StoreLoader:
    store: FeatureStore
    entry: StoredItem
    span: int
    with_truth: bool

    def __call__(self) -> AnomalyVideo:
        item = self.entry.item
        try:
            features = self.store.read(self.entry)
        except StoreError as error:
            return _unreadable(item, self.span, str(error))
        span = snippet(self.store.recipe, features.frames)
        return make_video(item, features.clip, span, with_truth=self.with_truth, video_frames=features.frames)


def make_video(
    item: Item,
    features: np.ndarray,
    frames_per_snippet: int,
    *,
    with_truth: bool = False,
    video_frames: int | None = None,
) -> AnomalyVideo:
    """A video from its record and its features; its truth has one entry for every frame the features stand for.

    Annotations that do not fit the video (of `video_frames` frames, where that is known) become its `problems`, so
    that all such videos are named together.
    """
    frames = len(features) * frames_per_snippet
    problems: tuple[str, ...] = ()
    truth = None
    if with_truth:
        try:
            check_truth(item, video_frames or frames)
            truth = frame_truth(item, frames)
        except AnnotationError as error:
            problems = (str(error).removeprefix(f"{item.id}: "),)
    return AnomalyVideo(
        item.id, features, int(bool(item.anomaly)), frames_per_snippet, _class_name(item), truth, problems
    )


def _class_name(item: Item) -> str:
    return item.anomaly_class or ("Anomaly" if item.anomaly else NORMAL)


def _unreadable(item: Item, span: int, reason: str) -> AnomalyVideo:
    """A stand-in without snippets: whoever checks the videos lists it with the others that are wrong."""
    nothing = np.zeros((0, 0), dtype=np.float32)
    return AnomalyVideo(
        item.id, nothing, int(bool(item.anomaly)), span, _class_name(item), problems=(reason,)
    )


def from_npy(
    folder: str | Path, items: Sequence[Item], frames_per_snippet: int, *, with_truth: bool = False
) -> LazyVideos:
    """Public feature files: `<name>.npy` or `<name>_<encoder>.npy` of (T, C) or (T, crops, C), or `<name>__<crop>.npy`.

    `frames_per_snippet` is what the files were made with: 16 for the common I3D features, 32 for TeD-SPAD's.
    """
    _require_labels(items)
    if with_truth:
        _require_spans(items)
    index = _NpyIndex.of(Path(folder))
    found = [index.files(Path(item.id).name) for item in items]
    absent = [f"{item.id}: no {Path(item.id).name}[_…].npy" for item, paths in zip(items, found) if not paths]
    if absent:
        raise MissingItems(f"{folder}: {len(absent)} of {len(items)} videos have no feature file", absent)
    return LazyVideos(
        tuple(_NpyLoader(i, tuple(p), frames_per_snippet, with_truth) for i, p in zip(items, found))
    )


@dataclass(frozen=True)
class _NpyLoader:
    item: Item
    paths: tuple[Path, ...]  # one, or one per crop
    span: int
    with_truth: bool

    def __call__(self) -> AnomalyVideo:
        try:
            crops = [np.load(path, allow_pickle=False) for path in self.paths]
            features = crops[0] if len(crops) == 1 else np.stack(crops, axis=1)  # (T, n, C)
            if not isinstance(features, np.ndarray) or features.ndim == 0:
                raise ValueError("not an array of snippets")
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            names = ", ".join(path.name for path in self.paths)
            return _unreadable(self.item, self.span, f"{names}: {error}")
        return make_video(self.item, features, self.span, with_truth=self.with_truth)


@dataclass(frozen=True)
class _NpyIndex:
    """Feature files by the name of their video."""

    exact: dict[str, Path]
    crops: dict[str, dict[int, Path]]  # name → crop number → file
    suffixed: dict[str, list[Path]]  # name without its last _part

    @classmethod
    def of(cls, folder: Path) -> _NpyIndex:
        index = cls({}, {}, {})
        for path in sorted(folder.rglob("*.npy")):
            if match := re.fullmatch(r"(.+)__(\d+)", path.stem):
                index.crops.setdefault(match.group(1), {})[int(match.group(2))] = path
            index.exact[path.stem] = path
            index.suffixed.setdefault(path.stem.rpartition("_")[0], []).append(path)
        return index

    def files(self, name: str) -> list[Path]:
        """The file of a video, or its crop files in the order of their numbers; empty if there is none."""
        if name in self.exact:
            return [self.exact[name]]
        if name in self.crops:
            return [path for _, path in sorted(self.crops[name].items())]
        close = self.suffixed.get(name, [])
        return close if len(close) == 1 else []


def _require_labels(items: Sequence[Item]) -> None:
    unlabelled = [item.id for item in items if item.anomaly is None]
    if unlabelled:
        raise AnnotationError("videos without a normal/anomalous label", unlabelled)


def _require_spans(items: Sequence[Item]) -> None:
    silent = [item.id for item in items if item.anomaly and not item.anomaly_spans]
    if silent:
        raise AnnotationError(
            "anomalous videos of which nothing says which frames are (training videos?)", silent
        )
