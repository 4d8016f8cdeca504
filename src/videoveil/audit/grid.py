"""An attacker without a network: every picture as a coarse grid of colours, and classical learners on it.

A network sees crops made smaller and may be blind to what it was not built for: a mark in a corner, a time stamp, a
tint. Here the whole picture counts, to its edges: mean, darkest and brightest value of each cell and colour, over
frames that are spread over the video. Cheap, and hard to fool by accident.

Shapes: v frames of a video, cells of a grid, width d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from videoveil.attacks.attributes import Labels
from videoveil.attacks.features import attacker, split
from videoveil.attacks.pictures import ahead, attribute_names, item_truth
from videoveil.data.records import Item
from videoveil.media.sampling import equidistant
from videoveil.tasks.base import Clips, Progress
from videoveil.tasks.outcomes import AttributeOutcome, Outcome
from videoveil.training import seeds
from videoveil.training.clip_batches import Frames


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """How coarse, how many frames, and who learns."""

    rows: int = 6
    columns: int = 8
    frames: int = 4
    kinds: tuple[str, ...] = ("linear", "trees")
    validation: float = 0.2
    workers: int = 2


def cells(pictures: Tensor, config: GridConfig) -> Tensor:
    """(v, 3, H, W) in [0, 1] → (v, d): mean, darkest and brightest value of every cell and colour."""
    shape = (config.rows, config.columns)
    parts = [
        functional.adaptive_avg_pool2d(pictures, shape),
        functional.adaptive_max_pool2d(pictures, shape),
        -functional.adaptive_max_pool2d(-pictures, shape),
    ]
    return torch.cat([part.flatten(1) for part in parts], 1)


def rows(
    source: Clips, items: Sequence[Item], config: GridConfig, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m, d) of all items, seen through the source's anonymizer, and the item (m,) of every row."""
    frames, veil = Frames(paint=source.paint), source.veil()

    def look(item: Item, frames: Frames) -> Tensor:
        places = equidistant(frames.count(item), config.frames, 1)
        return frames.read(item, [clip.indices[0] for clip in places])  # (v, H, W, 3)

    found, numbers = [], []
    for number, (item, images) in enumerate(
        zip(items, ahead(items, partial(look, frames=frames), config.workers))
    ):
        pictures = images.permute(0, 3, 1, 2).float().div(255)
        if veil is not None:
            clip = pictures.transpose(0, 1)[None]  # (1, 3, v, H, W)
            pictures = veil(clip, seed=seeds.number(seed, "grid", item.id))[0].transpose(0, 1)
        made = cells(pictures, config).double().cpu().numpy()
        found.append(made)
        numbers += [number] * len(made)
    return np.concatenate(found), np.array(numbers)


def attack(
    train: Clips,
    test: Clips,
    labels: Labels,
    config: GridConfig,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Outcome]:
    """Learn from the training videos, choose on a part of them, and answer for the test videos."""
    learners, asked = (sorted(source.items(), key=lambda item: item.id) for source in (train, test))
    names = attribute_names(learners, labels)
    told = [item for item in learners if labels(item)]
    x, videos = rows(train, told, config, seed)
    y = item_truth(told, names, labels)[videos]
    groups = np.array([told[i].subject or told[i].id for i in videos])
    learn, choose = split(len(x), config.validation, seed, groups)
    test_x, test_videos = rows(test, asked, config, seed)
    truth = item_truth(asked, names, labels)[test_videos]
    found: dict[str, Outcome] = {}
    for done, kind in enumerate(config.kinds):
        held_out: Any = (x[choose], y[choose])
        fitted = attacker(kind).fit(x[learn], y[learn], held_out, seed)
        ids = tuple(item.id for item in asked)
        found[kind] = AttributeOutcome(names, truth, fitted.scores(test_x), test_videos, ids)
        if progress is not None:
            progress(done + 1, len(config.kinds), 0.0)
    return found
