"""What videos are good for, as outcomes: right or wrong per video, scores of tags or frames, or detected actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from videoveil.audit.detections import DetectionOutcome, of_detections
from videoveil.data.records import Item
from videoveil.errors import BadItems
from videoveil.tasks import feature_set
from videoveil.tasks.action.metrics import Prior, rank_of_truth
from videoveil.tasks.action.network import ActionNetwork, NetworkConfig
from videoveil.tasks.action.probe import ActionProbe, ProbeConfig
from videoveil.tasks.anomaly import AnomalyDetection
from videoveil.tasks.base import Clips, Features, Progress
from videoveil.tasks.detection import ActionDetection, detection_videos
from videoveil.tasks.mgfn import AnomalyVideo, MGFNConfig, from_store
from videoveil.tasks.mgfn.evaluation import frame_scores
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome, Outcome, RankOutcome
from videoveil.tasks.targets import Targets, targets
from videoveil.tasks.tridet import TriDetConfig

MOST_FRAMES = 100_000  # of all test videos together; a thousand draws of more take minutes


def of_probabilities(
    probabilities: np.ndarray, items: Sequence[Item], labels: Targets, prior: Prior
) -> Outcome:
    """(n, C) of classes: top-1 beside the commonest class of the training videos; (n, k) of tags: cMAP."""
    ids = tuple(item.id for item in items)
    if labels.several:
        truth = labels.values.astype(np.float64)
        return AttributeOutcome(labels.names, truth, probabilities, np.arange(len(ids)), ids)
    right = rank_of_truth(probabilities, labels.values) == 0
    guessed = np.isin(labels.values, prior.commonest(1))
    return MeanOutcome("top1", ids, right.astype(np.float64), guessed.astype(np.float64))


def probe(
    train: Features, test: Features, config: ProbeConfig, *, seed: int, progress: Progress | None = None
) -> Outcome:
    """A linear layer on features."""
    fitted = ActionProbe(config).fit(train, seed=seed, device="cpu", progress=progress)
    data = feature_set.load(test, fitted.layer.in_features)
    labels = targets(data.items, fitted.names, config.target)
    return of_probabilities(fitted.probabilities(data), data.items, labels, fitted.prior)


def network(
    train: Clips,
    test: Clips,
    config: NetworkConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress | None = None,
) -> Outcome:
    """A whole video network, trained afresh on what its side shows."""
    fitted = ActionNetwork(config).fit(train, seed=seed, device=device, progress=progress)
    items = tuple(sorted(test.items(), key=lambda item: item.id))
    labels = targets(items, fitted.names, config.target)
    said = fitted.probabilities(items, veil=test.veil(), paint=test.paint)
    return of_probabilities(said, items, labels, fitted.prior)


def of_frames(scores: Mapping[str, np.ndarray], videos: Iterable[AnomalyVideo]) -> RankOutcome:
    """Snippet scores by video id → ROC-AUC over frames; every k-th one of each video where there are too many."""
    ordered = sorted(videos, key=lambda video: video.id)
    step = max(1, -(-sum(video.frames for video in ordered) // MOST_FRAMES))
    truth, said, rows = [], [], []
    for place, video in enumerate(ordered):
        if video.truth is None:
            raise BadItems("the frames of test videos must be known as normal or anomalous:", [video.id])
        own = frame_scores(scores[video.id], video.frames_per_snippet)[::step]
        truth.append(video.truth[::step].astype(np.float64))
        said.append(own.astype(np.float64))
        rows.append(np.full(len(own), place))
    ids = tuple(video.id for video in ordered)
    return RankOutcome(np.concatenate(truth), np.concatenate(said), np.concatenate(rows), ids)


def anomalies(
    train: Features,
    test: Features,
    config: MGFNConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress | None = None,
) -> Outcome:
    """MGFN, which learns from one label per video and is scored frame by frame."""
    fitted = AnomalyDetection(config).fit(train, seed=seed, device=device, progress=progress)
    videos = from_store(test.store, test.dataset, test.split, with_truth=True)
    return of_frames(fitted.model.scores(videos), videos)


def detection(
    train: Features,
    test: Features,
    config: TriDetConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress | None = None,
) -> DetectionOutcome:
    """TriDet beside segments of each class's usual length; annotations outside their video are cut."""
    fitted = ActionDetection(config, cut=True).fit(train, seed=seed, device=device, progress=progress)
    videos = detection_videos(test, cut=True)
    return of_detections(fitted.detect(videos), fitted.blind.detections(videos), videos)
