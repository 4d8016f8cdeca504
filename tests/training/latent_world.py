"""A small world of features in which it is known what tells the person, what tells the action, and where."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from videoveil.data.records import Dataset, Item, Segment
from videoveil.features.store import FeatureRecipe, FeatureStore, VideoFeatures
from videoveil.tasks.tridet.assign import Target
from videoveil.training.latent_data import ClipPool

WIDTH, ACTIONS, UNSEEN = 32, 4, 3
BASE = Fraction(1, 12800)


def _axes() -> Tensor:
    """Orthonormal rows (d, d), the same in every world."""
    return torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(42)))[0].T


@dataclass(frozen=True)
class World:
    """Videos of people doing something.

    Looks (6 axes) are in static and in moving clips, gait (4 axes) in moving ones only, both fixed for a video. The
    action (4 axes) and an unseen task (3 axes) are in moving clips only.
    """

    pool: ClipPool
    looks: Tensor  # (n,), 0 or 1: private, in all clips
    gait: Tensor  # (n,), 0 or 1: private, in moving clips
    unseen: Tensor  # (n,), of UNSEEN

    @property
    def actions(self) -> Tensor:
        assert self.pool.labels is not None
        return self.pool.labels


def world(videos: int = 96, *, seed: int = 0, clips: int = 3, static: int = 4, scale: float = 1.0) -> World:
    """`scale` is the size of all features."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw)

    axes = _axes()
    looks, gait = normal(videos, 6), normal(videos, 4)
    action = torch.arange(videos) % ACTIONS
    unseen = torch.randint(UNSEEN, (videos,), generator=draw)
    who = 1.5 * looks @ axes[:6]
    what = 3.0 * axes[10 + action] + 3.0 * axes[14 + unseen] + 1.5 * gait @ axes[6:10]
    counts = torch.tensor([clips if i % 8 else 1 for i in range(videos)])  # some have a single clip
    moving = (who + what).repeat_interleave(counts, 0) + 0.3 * normal(int(counts.sum()), WIDTH)
    still = who[:, None] + 0.3 * normal(videos, static, WIDTH)
    pool = ClipPool(
        ids=tuple(f"v{i:03d}" for i in range(videos)),
        rows=scale * moving,
        offsets=torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))),
        static=scale * still,
        labels=action,
        classes=tuple("abcd"),
    )
    return World(pool, (looks[:, 0] > 0).long(), (gait[:, 0] > 0).long(), unseen)


def linear(x: Tensor, y: Tensor, classes: int, steps: int = 200) -> nn.Linear:
    """A linear classifier to near convergence."""
    layer = nn.Linear(x.shape[1], classes)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05, weight_decay=1e-4)
    scale = x.std()
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(layer(x / scale), y).backward()
        optimizer.step()
    with torch.no_grad():
        layer.weight /= scale
    return layer


@torch.no_grad()
def accuracy(layer: nn.Module, x: Tensor, y: Tensor) -> float:
    return float((layer(x).argmax(1) == y).float().mean())


def untrimmed(videos: int = 12, *, seed: int = 0, length: int = 40, static: int = 4) -> ClipPool:
    """Long videos, every other one with a stretch in which the action axis 0 is on: for detection and anomaly."""
    draw = torch.Generator().manual_seed(100 + seed)
    axes = _axes()
    rows, targets, labels, offsets, still = [], [], [], [0], []
    for i in range(videos):
        steps = length + 3 * i
        who = 1.5 * torch.randn(6, generator=draw) @ axes[:6]
        x = who + 0.3 * torch.randn(steps, WIDTH, generator=draw)
        start = 5 + i
        x[start : start + 12] += 3.0 * axes[10 + i % 2] * (i % 2 or 1)
        if i % 2:
            x[start : start + 12] += 3.0 * axes[20]
        rows.append(x)
        still.append(who + 0.3 * torch.randn(static, WIDTH, generator=draw))
        targets.append(Target(torch.tensor([[float(start), float(start + 12)]]), torch.tensor([i % 2])))
        labels.append(i % 2)
        offsets.append(offsets[-1] + steps)
    return ClipPool(
        ids=tuple(f"u{i:02d}" for i in range(videos)),
        rows=torch.cat(rows),
        offsets=torch.tensor(offsets),
        static=torch.stack(still),
        labels=torch.tensor(labels),
        classes=("one", "two"),
        targets=tuple(targets),
    )


# --- stores -------------------------------------------------------------------------------------------------


def video_features(
    rows: np.ndarray, static: np.ndarray | None, *, step: int = 16, tokens: np.ndarray | None = None
) -> VideoFeatures:
    starts = step * np.arange(len(rows), dtype=np.int64)
    return VideoFeatures(
        clip=rows.astype(np.float32),
        starts=starts,
        pts=np.stack([starts, starts + 15], 1) * 512,
        time_base=BASE,
        frames=step * (len(rows) - 1) + 16,
        rate=Fraction(25),
        tokens=tokens,
        static=static,
        static_frames=None if static is None else np.arange(len(static), dtype=np.int64),
    )


ENCODER = {"name": "made-up", "hash": "ab" * 32, "width": WIDTH}


def store_of(
    root: Path,
    pool: ClipPool,
    *,
    kind: str = "action",
    tokens: int = 0,
    name: str = "made-up",
    static: bool = True,
) -> FeatureStore:
    """A pool as a store, all of it in the training split."""
    clips = "dense:4" if kind == "detection" else "all"
    assert pool.static is not None
    recipe = FeatureRecipe(16, 1, 32, 32, clips, pool.static.shape[1] if static else 0, bool(tokens))
    store = FeatureStore.create(root, ENCODER, recipe)
    step = 4 if kind == "detection" else 16
    items, keys = [], {}
    for i, id_ in enumerate(pool.ids):
        rows = pool.rows[pool.offsets[i] : pool.offsets[i + 1]].numpy()
        parts = None
        if tokens:  # tokens whose mean is the clip
            noise = np.random.default_rng(i).normal(size=(len(rows), tokens, WIDTH))
            parts = (rows[:, None] + noise - noise.mean(1, keepdims=True)).astype(np.float32)
        features = video_features(rows, pool.static[i].numpy() if static else None, step=step, tokens=parts)
        label = None if pool.labels is None else int(pool.labels[i])
        extra: dict = {"action": pool.classes[label or 0]} if kind == "action" else {}
        if kind == "anomaly":
            extra = {"anomaly": bool(label)}
        if kind == "detection":
            begin, end = ((s * 4 + 8) / 25 for s in pool.targets[i].segments[0].tolist())
            segment = Segment(
                pool.classes[label or 0],
                Fraction(round(begin * 1000), 1000),
                Fraction(round(end * 1000), 1000),
            )
            extra = {"segments": (segment,), "rate": Fraction(25), "duration": Fraction(features.frames, 25)}
        items.append(Item(id_, Path(f"{id_}.mp4"), "train", **extra))
        keys[id_] = store.key(f"{name} {id_}")
        store.write(keys[id_], features, {"content": f"video {id_}", "id": id_})
    store.write_index(Dataset(name, root, tuple(items), classes=pool.classes), keys)
    return store
