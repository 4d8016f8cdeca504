"""What videos are good for, as outcomes: one right or wrong per test video, or scores of tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videoveil.data.records import Item
from videoveil.tasks import feature_set
from videoveil.tasks.action.metrics import Prior, rank_of_truth
from videoveil.tasks.action.network import ActionNetwork, NetworkConfig
from videoveil.tasks.action.probe import ActionProbe, ProbeConfig
from videoveil.tasks.base import Clips, Features, Progress
from videoveil.tasks.outcomes import AttributeOutcome, MeanOutcome, Outcome
from videoveil.tasks.targets import Targets, targets


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
