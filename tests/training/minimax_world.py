"""A small minimax on real videos, for the tests of its parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.media.make import encode
from videoveil import devices
from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig
from videoveil.anonymizers.pixel.config import UNet
from videoveil.data.records import Dataset, Item
from videoveil.training.clip_batches import Frames
from videoveil.training.minimax import MinimaxLoop
from videoveil.training.minimax_data import MinimaxBatch, MinimaxBatches, PrivacyStream, Sample, VideoStream
from videoveil.training.minimax_nets import BudgetNet, UtilityNet
from videoveil.training.minimax_settings import Budget, MinimaxSettings, Rates, Start, Utility

SIZE = 32
QUICK = MinimaxSettings(
    utility=Utility(encoder="tiny", frames=8, stride=1),
    budget=Budget(members=("mobilenet.v1-0.25",)),
    size=SIZE,
    epochs=2,
    batch=3,
    privacy_batch=4,
    rates=Rates(anonymizer=1e-3, utility=1e-3, budget=1e-3),
    start=Start(identity_epochs=0, utility_epochs=1, budget_epochs=1),
    checkpoint_every=1,
    keep_every=1,
)
ATTRIBUTES = ("tall", "old")
LATER = {  # settings that earlier versions did not know, by record
    "utility": ("sampler", "dropout"),
    "budget": ("weights",),
    "start": (
        "anonymizer_weights",
        "utility_batch",
        "utility_rate",
        "utility_warmup",
        "utility_cosine",
        "utility_freeze_norm",
    ),
}


def film(path: Path, label: int, number: int, frames: int) -> Path:
    """A square that goes to the right or to the left, before a wall whose colour is the video's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    wall = np.random.default_rng(number).integers(20, 235, 3)

    def picture(time: int) -> np.ndarray:
        image = np.empty((36, 48, 3), np.uint8)
        image[:] = wall
        place = 2 * time % 40
        image[12:24, slice(place, place + 8) if label else slice(40 - place, 48 - place)] = 255 - wall
        return image

    return encode(path, images=(picture(time) for time in range(frames)), size=(48, 36))


def videos(root: Path) -> Dataset:
    """Six training videos of two classes, with two attributes, one of them sometimes unknown."""
    items = []
    for n in range(8):
        path = film(root / f"f{n}.mp4", n % 2, n, 66 + n)
        known = {"tall": n % 2, **({"old": n // 2 % 2} if n % 3 else {})}
        split = "train" if n < 6 else "test"
        items.append(Item(path.stem, path, split, action=("right", "left")[n % 2], attributes=known))
    return Dataset("films", root, tuple(items), classes=("left", "right"))


def settings(**changes: Any) -> MinimaxSettings:
    return replace(QUICK, **changes)


def loop(
    dataset: Dataset, own: MinimaxSettings = QUICK, folder: Path | None = None, seed: int = 0, **options: Any
) -> MinimaxLoop:
    """All players on the training videos of a dataset."""
    frames = Frames(2**30)
    items = dataset.split("train")
    samples = [Sample(item, torch.tensor(dataset.label(item))) for item in items]
    stream = VideoStream(samples, frames, own.utility, own.size, seed)
    privacy, private, labels = None, [], 0
    if own.budget is not None:
        rows = [
            [float((item.attributes or {}).get(name, float("nan"))) for name in ATTRIBUTES] for item in items
        ]
        private = [Sample(item, torch.tensor(row)) for item, row in zip(items, rows)]
        privacy = PrivacyStream(private, frames, own.budget, own.utility, own.size, seed)
        labels = len(ATTRIBUTES)

    def member(place: int, again: int) -> BudgetNet:
        assert own.budget is not None
        name = own.budget.members[place]
        return BudgetNet(
            own.budget, name, own.size, own.utility, labels, seed=seed + 10 * (again + 1) + place
        )

    budgets = [member(place, 0) for place in range(len(own.budget.members))] if own.budget else []
    batches = MinimaxBatches(stream, privacy, own, seed)
    everything = torch.stack([sample.value for sample in private]) if private else None
    chance = budgets[0].chance(batches.sizes[-1], everything) if budgets else float("nan")
    return MinimaxLoop(
        PixelAnonymizer(PixelConfig((UNet(width=4),)), seed=seed),
        UtilityNet(own.utility, own.size, 2, seed=seed),
        budgets,
        batches,
        own,
        seed,
        options.pop("fabric", None) or devices.make_fabric("cpu", own.precision),
        chance,
        folder,
        fresh=member,
        **options,
    )


def first_batch(made: MinimaxLoop) -> MinimaxBatch:
    return next(iter(made.batches.epoch(0, 0, 1, torch.device("cpu"))))


def state(made: MinimaxLoop) -> dict[str, dict[str, torch.Tensor]]:
    """Copies of everything that could move, by player."""
    return {
        name: {key: value.clone() for key, value in network.state_dict().items()}
        for name, network in made.players.networks().items()
    }


def moved(before: dict[str, dict[str, torch.Tensor]], made: MinimaxLoop) -> set[str]:
    """Which players' tensors (weights or batch-norm buffers) are not what they were."""
    now = state(made)
    return {
        name for name in now if any(not torch.equal(now[name][key], before[name][key]) for key in now[name])
    }
