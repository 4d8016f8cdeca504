"""Stored features as a few large tensors that stay on the device: what a latent anonymizer is fitted and trained on.

Shapes: n videos, M moving clips of all of them one after the other, S tokens of a clip, K static clips of a video,
width d.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from videoveil.anonymizers.config import Tokens
from videoveil.data.records import Item
from videoveil.errors import BadItems, StoreError, UsageError
from videoveil.features.store import VideoFeatures
from videoveil.tasks.base import Features
from videoveil.tasks.feature_set import feature_problems

if TYPE_CHECKING:
    from videoveil.tasks.tridet.assign import Target

LEAST_STATIC = 2  # a pair has two


@dataclass(frozen=True)
class ClipPool:
    """Videos by id. Rows `offsets[i]` to `offsets[i + 1]` are the moving clips of video i, in time."""

    ids: tuple[str, ...]
    rows: Tensor  # (M, d) or (M, S, d) float32
    offsets: Tensor  # (n + 1,) int64
    static: Tensor | None = None  # (n, K, d) float32
    labels: Tensor | None = None  # (n,) int64: action, or 0 normal and 1 anomalous
    classes: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()  # actions in untrimmed videos, on the feature grid

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def width(self) -> int:
        return int(self.rows.shape[-1])

    @property
    def counts(self) -> Tensor:
        """Clips of every video, (n,)."""
        return self.offsets.diff()

    def owners(self) -> Tensor:
        """The number of the video of every clip, (M,)."""
        places = torch.arange(len(self), device=self.offsets.device)
        return places.repeat_interleave(self.counts)

    def still(self) -> Tensor:
        """The mean static feature of every video, (n, d)."""
        if self.static is None:
            raise UsageError(
                "the features have no static clips; extract them with static=10 (`--static 10`), at least "
                f"{LEAST_STATIC}"
            )
        return self.static.mean(1)

    def to(self, device: torch.device) -> ClipPool:
        """The same on a device; what is read by the processor (targets) stays with it."""
        moved = {
            name: value.to(device)
            for name in ("rows", "offsets", "static", "labels")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, **moved)

    def fingerprint(self) -> str:
        """Changes with every bit that training sees."""
        digest = hashlib.sha256(repr((self.ids, self.classes)).encode())
        tensors = [self.rows, self.offsets, self.static, self.labels]
        tensors += [part for target in self.targets for part in (target.segments, target.labels)]
        for tensor in tensors:
            digest.update(repr(None if tensor is None else tuple(tensor.shape)).encode())
            if tensor is not None:
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()


def join(pools: Sequence[ClipPool]) -> ClipPool:
    """Several sets as one, without their labels: what pairs of static or moving clips are drawn from."""
    if len(pools) == 1:
        return replace(pools[0], labels=None, classes=(), targets=())
    offsets = [torch.zeros(1, dtype=torch.int64, device=pools[0].offsets.device)]
    for pool in pools:
        offsets.append(pool.offsets[1:] + offsets[-1][-1])
    static = [pool.static for pool in pools if pool.static is not None]
    same = len(static) == len(pools)
    fewest = min((s.shape[1] for s in static), default=0)
    return ClipPool(
        ids=tuple(f"{number}/{id_}" for number, pool in enumerate(pools) for id_ in pool.ids),
        rows=torch.cat([pool.rows for pool in pools]),
        offsets=torch.cat(offsets),
        static=torch.cat([s[:, :fewest] for s in static]) if same else None,
    )


@dataclass(frozen=True)
class LatentData:
    """The sets of the tasks that are trained for; a task that is not has none."""

    action: ClipPool | None = None
    detection: ClipPool | None = None
    anomaly: ClipPool | None = None

    def __post_init__(self) -> None:
        if not self.pools():
            raise UsageError(
                "no features to train on: give those of at least one of action, detection, anomaly"
            )
        widths = {pool.width for pool in self.pools().values()}
        if len(widths) > 1:
            raise UsageError(f"features of several widths {sorted(widths)}: all must come from one encoder")

    def pools(self) -> dict[str, ClipPool]:
        named = {name: getattr(self, name) for name in ("action", "detection", "anomaly")}
        return {name: pool for name, pool in named.items() if pool is not None}

    @property
    def width(self) -> int:
        return next(iter(self.pools().values())).width

    def base(self) -> ClipPool:
        """Where pairs come from: the action videos, or those of the other tasks where there are none."""
        return self.action or join([pool for pool in (self.detection, self.anomaly) if pool is not None])

    def to(self, device: torch.device) -> LatentData:
        return LatentData(**{name: pool.to(device) for name, pool in self.pools().items()})

    def fingerprint(self) -> dict[str, str]:
        return {name: pool.fingerprint() for name, pool in self.pools().items()}


# --- from stores --------------------------------------------------------------------------------------------


def load_action(source: Features, tokens: Tokens = "clip") -> ClipPool:
    """Trimmed videos with one action each."""
    from videoveil.tasks.targets import label_problems, targets, vocabulary

    names = vocabulary(source.records(), "action")
    items = [entry.item for entry in source.items()]
    pool, ordered = _load(source, tokens, label_problems(items, names, "action"))
    labels = torch.from_numpy(targets(ordered, names, "action").values)
    return replace(pool, labels=labels, classes=names)


def load_anomaly(source: Features, tokens: Tokens = "clip") -> ClipPool:
    """Untrimmed videos, normal or anomalous."""
    items = [entry.item for entry in source.items()]
    wrong = [f"{item.id}: neither normal nor anomalous" for item in items if item.anomaly is None]
    pool, ordered = _load(source, tokens, wrong)
    labels = torch.tensor([int(bool(item.anomaly)) for item in ordered], dtype=torch.int64)
    return replace(pool, labels=labels, classes=("normal", "anomalous"))


def load_detection(source: Features, tokens: Tokens = "clip", *, cut: bool = False) -> ClipPool:
    """Untrimmed videos with actions in them; `cut` as in the task."""
    from videoveil.tasks.detection import detection_videos
    from videoveil.tasks.tridet import grid

    pool, _ = _load(source, tokens)
    classes = source.records().classes
    videos = {video.id: video for video in detection_videos(source, cut=cut)}
    targets = tuple(grid.target(videos[id_], classes) for id_ in pool.ids)
    return replace(pool, classes=classes, targets=targets)


def load_plain(source: Features, tokens: Tokens = "clip") -> ClipPool:
    """Videos of which nothing is known but their features."""
    return _load(source, tokens)[0]


def _load(source: Features, tokens: Tokens, also: Sequence[str] = ()) -> tuple[ClipPool, tuple[Item, ...]]:
    """All items of a source by id; otherwise `BadItems` with every offender."""
    stored = sorted(source.items(), key=lambda entry: entry.item.id)
    store = source.store
    if not stored:
        raise BadItems(f"{store.root}: no items in split {source.split!r}")
    if tokens == "temporal" and not store.recipe.tokens:
        raise UsageError(f"{store.root}: has no temporal tokens; extract with tokens=True (`--tokens`)")
    wrong = list(also)
    read: list[VideoFeatures] = []
    for entry in stored:
        try:
            features = store.read(entry)
        except StoreError as error:
            wrong.append(f"{entry.item.id}: {error}")
            continue
        wrong += [f"{entry.item.id}: {problem}" for problem in _problems(features, store.encoder, tokens)]
        read.append(features)
    if not wrong:
        wrong += _static_problems([entry.item.id for entry in stored], read)
    if wrong:
        raise BadItems(f"{store.root}: {len(wrong)} problems with {len(stored)} items:", wrong)
    kept = [f.tokens if tokens == "temporal" and f.tokens is not None else f.clip for f in read]
    offsets = np.concatenate(([0], np.cumsum([len(array) for array in kept])))
    still = [f.static for f in read if f.static is not None]
    pool = ClipPool(
        ids=tuple(entry.item.id for entry in stored),
        rows=torch.from_numpy(np.concatenate(kept).astype(np.float32, copy=False)),
        offsets=torch.from_numpy(offsets.astype(np.int64)),
        static=torch.from_numpy(np.stack(still).astype(np.float32, copy=False)) if still else None,
    )
    return pool, tuple(entry.item for entry in stored)


def _problems(features: VideoFeatures, encoder: object, tokens: Tokens) -> list[str]:
    width = encoder.get("width") if isinstance(encoder, dict) else None
    found = feature_problems(features.clip, width)
    if features.static is not None:
        found += [f"static: {problem}" for problem in feature_problems(features.static, width)]
    if tokens == "temporal":
        if features.tokens is None:
            found.append("no temporal tokens")
        elif not np.isfinite(features.tokens).all():
            found.append("tokens are NaN or infinite")
    return found


def _static_problems(ids: Sequence[str], read: Sequence[VideoFeatures]) -> list[str]:
    """All videos have the same number of static clips, or none has any."""
    counts = [0 if f.static is None else len(f.static) for f in read]
    usual = max(set(counts), key=counts.count)
    odd = [
        f"{id_}: {count} static clips, the others have {usual}"
        for id_, count in zip(ids, counts)
        if count != usual
    ]
    if not odd and usual and usual < LEAST_STATIC:
        odd = [f"{usual} static clip for each video, at least {LEAST_STATIC} are needed for a pair"]
    return odd
