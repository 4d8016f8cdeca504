"""Scores of an anonymizer whose output depends on what is in the batch: for comparison, never for export.

Rows go through in batches: shuffled, or in the order of what is asked for, so that neighbours share the answer. The
published evaluation sends 1,024 at once out of thousands; a twin of that size would be one batch, in which the order
cannot matter, so batches are smaller here in proportion.

Shapes: m rows, width d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from videoveil.anonymizers import LatentAnonymizer
from videoveil.attacks import split, suite
from videoveil.attacks.attributes import AttackConfig, rows
from videoveil.features.store import FeatureStore
from videoveil.tasks import feature_set
from videoveil.tasks.action import metrics, probe
from videoveil.tasks.base import Features
from videoveil.tasks.targets import targets, vocabulary

BATCH = 64


@torch.no_grad()
def through(anonymizer: LatentAnonymizer, x: np.ndarray, order: np.ndarray) -> np.ndarray:
    """x (m, d), in batches of consecutive rows of `order`, given back in the order of x."""
    out = np.empty_like(x)
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        out[chosen] = anonymizer.transform(torch.from_numpy(x[chosen])).numpy()
    return out


def arrange(keys: np.ndarray, order: str, seed: int) -> np.ndarray:
    """Row numbers: shuffled, or sorted by keys (m, k), the first column first."""
    if order == "shuffled":
        return np.random.default_rng(seed).permutation(len(keys))
    return np.lexsort(keys.T[::-1])


def measure(
    run: Path, store: Path, what: str, order: str, seed: int, labels: Callable[..., Any]
) -> dict[str, Any]:
    anonymizer = LatentAnonymizer.from_pretrained(run)
    source = Features(FeatureStore.open(store))
    if what == "action":
        return action(anonymizer, source, order, seed)
    return attack(anonymizer, source, "static" if what == "static" else "clip", order, seed, labels)


def action(anonymizer: LatentAnonymizer, source: Features, order: str, seed: int) -> dict[str, Any]:
    names = vocabulary(source.records(), "action")
    sets, truths = [], []
    for part in ("train", "test"):
        found = feature_set.load(source.with_split(part))
        truth = targets(found.items, names, "action")
        keys = np.repeat(truth.values, found.counts())[:, None]
        sets.append(replace(found, rows=through(anonymizer, found.rows, arrange(keys, order, seed))))
        truths.append(truth)
    fitted = probe.fit(sets[0], truths[0], seed=seed, device="cpu")
    score = metrics.score("action", fitted.probabilities(sets[1]), truths[1], fitted.prior)
    return {"value": score.headline.value, "chance": score.headline.chance}


def attack(
    anonymizer: LatentAnonymizer,
    source: Features,
    kind: Any,
    order: str,
    seed: int,
    labels: Callable[..., Any],
) -> dict[str, Any]:
    config = AttackConfig(input=kind)
    train = source.with_split("train")
    names = tuple(sorted({n for e in train.items() for n in labels(e.item) or {}}))
    data = [rows(source.with_split(part), names, config, labels) for part in ("train", "test")]
    x = [through(anonymizer, one.x, arrange(one.y, order, seed)) for one in data]
    learn, choose = split(len(x[0]), config.validation, seed, data[0].videos)
    y = data[0].y
    found = suite((x[0][learn], y[learn]), (x[1], data[1].y), (x[0][choose], y[choose]), seed=seed)
    return {"value": found.worst.score, "chance": found.worst.chance, **found.to_json()}
