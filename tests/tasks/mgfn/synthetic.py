"""Small anomaly sets: noise, and in anomalous videos a stretch that leans in one direction."""

from __future__ import annotations

import numpy as np

from videoveil.tasks.mgfn.videos import AnomalyVideo

CLASSES = ("Abuse", "Fighting")


def make_videos(
    count: int,
    *,
    seed: int = 0,
    width: int = 16,
    crops: int | None = None,
    part: float = 0.4,
    strength: float = 2.0,
    span: int = 16,
    lengths: tuple[int, int] = (20, 60),
) -> list[AnomalyVideo]:
    """Every other video is anomalous in `part` of its snippets."""
    random = np.random.default_rng(seed)
    direction = np.random.default_rng(99).standard_normal(width)
    return [_video(i, random, direction, crops, part, strength, span, lengths) for i in range(count)]


def _video(
    i: int,
    random: np.random.Generator,
    direction: np.ndarray,
    crops: int | None,
    part: float,
    strength: float,
    span: int,
    lengths: tuple[int, int],
) -> AnomalyVideo:
    length = int(random.integers(*lengths))
    shape = (length, len(direction)) if crops is None else (length, crops, len(direction))
    features = random.standard_normal(shape)
    truth = np.zeros(length * span, dtype=np.float32)
    if i % 2:
        duration = max(2, int(length * part))
        start = int(random.integers(0, length - duration))
        features[start : start + duration] += strength * direction
        truth[start * span : (start + duration) * span] = 1
    name = CLASSES[i // 2 % 2] if i % 2 else "Normal"
    return AnomalyVideo(f"v{i:03d}", features.astype(np.float32), i % 2, span, name, truth)
