"""From features to actions in seconds: network → candidates of every level → soft-NMS.

The padded length of a video depends on that video alone, and only videos of equal padded length share a batch: the
group norms and the mean over time see the padding, so anything else would make a result depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from videoveil.errors import BadItems
from videoveil.tasks.tridet.checks import feature_problems
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.grid import segments_in_seconds
from videoveil.tasks.tridet.losses import pad
from videoveil.tasks.tridet.network import Level, TriDet
from videoveil.tasks.tridet.nms import soft_nms
from videoveil.tasks.tridet.records import Detections, DetectionVideo
from videoveil.tasks.tridet.trident import decode_at


@dataclass(frozen=True)
class Candidates:
    """What one video may contain, before suppression. n candidates, in feature steps."""

    segments: Tensor  # (n, 2)
    labels: Tensor  # (n,)
    scores: Tensor  # (n,)


def padded_length(steps: int, config: TriDetConfig) -> int:
    """The length at inference: `max_seq_len`, or for longer videos the next multiple of the coarsest stride."""
    return max(config.max_seq_len, -(-steps // config.coarsest) * config.coarsest)


def level_candidates(level: Level, video: int, stride: int, config: TriDetConfig) -> Candidates:
    """The best (instant, class) pairs of one level for one video of the batch, with their decoded ends."""
    scores = (
        level.logits[video].float().sigmoid() * level.mask[video]
    ).T.flatten()  # (T_l·K,), instant first
    chosen = (scores > config.pre_nms_score).nonzero()[:, 0]
    order = scores[chosen].sort(descending=True, stable=True).indices[: config.pre_nms_top]
    chosen = chosen[order]
    classes = level.logits.shape[1]
    instants, labels = chosen // classes, chosen % classes
    reach = decode_at(level, torch.full_like(instants, video), labels, instants, config.bins) * stride
    time = (instants * stride).to(reach.dtype)
    segments = torch.stack((time - reach[:, 0], time + reach[:, 1]), 1)
    long = segments[:, 1] - segments[:, 0] > config.min_duration
    return Candidates(segments[long], labels[long], scores[chosen][long])


def candidates(levels: Sequence[Level], video: int, config: TriDetConfig) -> Candidates:
    """The candidates of all levels for one video of the batch."""
    found = [level_candidates(level, video, s, config) for level, s in zip(levels, config.strides)]
    return Candidates(
        *(torch.cat([getattr(c, name) for c in found]) for name in ("segments", "labels", "scores"))
    )


def suppress(
    found: Candidates, video: DetectionVideo, classes: tuple[str, ...], config: TriDetConfig
) -> Detections:
    """What is left after soft-NMS, in seconds."""
    kept, scores = soft_nms(
        found.segments,
        found.scores,
        found.labels,
        sigma=config.nms_sigma,
        min_score=config.nms_min_score,
        top=config.max_segments,
    )
    segments = found.segments.double().cpu()[kept].numpy()
    labels = found.labels.cpu()[kept].numpy()
    return Detections(video.id, classes, segments_in_seconds(segments, video), labels, scores.numpy())


@torch.no_grad()
def detect(
    network: TriDet,
    videos: Sequence[DetectionVideo],
    classes: tuple[str, ...],
    *,
    batch_size: int = 1,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[Detections]:
    """The actions in every video, in the order of `videos`; neither order nor `batch_size` changes a result.

    The features of at most `batch_size` videos are in memory at a time. `progress(done, total, 0.0)` after each batch.
    """
    network.eval()
    config, device = network.config, next(network.parameters()).device
    found: dict[int, Detections] = {}
    for batch, features in _batches(videos, network.width, config, batch_size):
        sequences = [torch.from_numpy(np.ascontiguousarray(f.T)).to(device) for f in features]
        length = padded_length(max(x.shape[-1] for x in sequences), config)
        levels = network(*pad(sequences, length))
        for place, number in enumerate(batch):
            found[number] = suppress(candidates(levels, place, config), videos[number], classes, config)
        if progress:
            progress(len(found), len(videos), 0.0)
    return [found[number] for number in range(len(videos))]


def _batches(
    videos: Sequence[DetectionVideo], width: int, config: TriDetConfig, size: int
) -> Iterator[tuple[list[int], list[np.ndarray]]]:
    """Numbers and features of videos with equal padded length, up to `size` at a time, reading each video once."""
    waiting: list[int] = []
    features: list[np.ndarray] = []
    for number, video in enumerate(videos):
        array = video.array()
        if problems := feature_problems(video, array, width):
            raise BadItems("features that cannot be searched:", problems)
        if waiting and padded_length(len(array), config) != padded_length(len(features[0]), config):
            yield waiting, features
            waiting, features = [], []
        waiting.append(number)
        features.append(array.astype(np.float32, copy=False))
        if len(waiting) >= size:
            yield waiting, features
            waiting, features = [], []
    if waiting:
        yield waiting, features
