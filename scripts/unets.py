"""The UNets that come with the package: from real clips and the theatre to an anonymizer and how its training went.

`scripts/models.py` makes and publishes them. Both learn from the training clips of HMDB51 (12 classes, split 1) and
from the training videos of a twin, as one dataset of 28 actions. Nothing private is told to anybody: the budget nets
compare frames of videos.

FOLDER/twin, FOLDER/NAME     the rendered videos, and the run as `fit_pixel` keeps it: a killed one goes on
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.pixel_rows import FAST, Scale, scaled
from benchmarks.real_data import actions, thinned
from benchmarks.real_pixels import REAL, STRIDE

from videoveil import devices
from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig, UNet
from videoveil.data import registry, twins
from videoveil.data.records import Dataset
from videoveil.errors import Diverged, NoHeadway, UsageError
from videoveil.recipes import PixelRecipe, fit_pixel, penalty
from videoveil.recipes.veil_pixel import veil_pixel_attackers
from videoveil.tasks.base import Clips
from videoveil.training import checkpoints
from videoveil.training.minimax import EPOCHS, HISTORY, KEPT_FORMAT
from videoveil.training.minimax_settings import Start

SEED, WIDTH, BOUND = 0, 16, 0.5
RESTARTS = 3  # of the budget nets in a training; ten epochs apart, as in the recipe, there would be none
SCALE = replace(
    REAL,
    width=WIDTH,
    own_width=WIDTH,
    stride=STRIDE,
    start=replace(
        REAL.start, identity_epochs=20, identity_warmup=2, identity_rate=2e-3
    ),  # 6 are too few for so narrow
)
QUICK = replace(  # to try the script on a few clips
    SCALE,
    size=32,
    frames=8,
    utility="tiny",
    budget="mobilenet.v1-0.25",
    start=Start(identity_epochs=1, utility_epochs=1, budget_epochs=1),
    epochs=3,
    batch=8,
    precision="32-true",
)
SOUND = 0.5  # of the training actions that f_T told right before the game, it must tell in it
Record = dict[str, Any]  # of an epoch, as `training.minimax` writes it
CPU = "cpu"
NEVER_TWICE = (
    "made again on a GPU its weights come out different, because PyTorch sums the gradient of a UNet's enlarging in "
    "any order (docs/pixel.md), and the figures above are not theirs"
)
TOLD = ("utility", "budget", "chance", "rms", "right")  # of an epoch's record, where it has them


@dataclass(frozen=True)
class Training:
    """How an anonymizer was trained; stands beside its weights, and its card says it."""

    seed: int
    clips: dict[str, int]  # of each dataset
    epochs: int  # of the game, after which these weights were kept
    planned: int
    stopped: str  # why they are not those of the last one
    last: dict[str, float]  # what is on record of that epoch, or of the nearest before it
    limit: int | None = None  # a few clips only, to try the script
    device: str = ""  # what it was trained on, by the name that its maker gave it; empty: not on record

    def said(self) -> str:
        """For the card."""
        count = " and ".join(f"{number} clips of {name}" for name, number in self.clips.items())
        text = (
            f"Trained with seed {self.seed} on {count}, {self.epochs} of {self.planned} epochs of the game."
        )
        if self.stopped:
            text += f" Not all of them: {self.stopped}."
        if self.last:
            shown = ", ".join(f"{name} {value:.3g}" for name, value in self.last.items())
            text += f" The record of that epoch: {shown}."
        where = (
            f"Trained on one {self.device}:" if self.device else "What it was trained on was not recorded;"
        )
        text += f" {where} {NEVER_TWICE}." if self.device != CPU else f" Trained on one {CPU}."
        return (
            text if self.limit is None else f"{text} Made with --limit, to try the script: good for nothing."
        )


def veil_unet(scale: Scale) -> PixelRecipe:
    """Privacy: a UNet before the line drawing, against budget nets that start anew."""
    recipe = scaled(veil_pixel_attackers(), scale)
    return recipe.changed("settings.budget.restart", max(1, scale.epochs // RESTARTS))


def penalty_unet(scale: Scale) -> PixelRecipe:
    """Utility: the penalty's game at the width of a UNet that runs everywhere; what it gives out is still a picture."""
    recipe = replace(scaled(penalty(BOUND), scale, rates=FAST), stages=(UNet(width=WIDTH),))
    # as the weights that come with the package were made
    for setting, value in {
        "utility.dropout": 0.0,
        "utility.sampler": "random",
        "budget.augment": "tclr",
    }.items():
        recipe = recipe.changed(f"settings.{setting}", value)
    return recipe


RECIPES: dict[str, Callable[[Scale], PixelRecipe]] = {"veil-unet": veil_unet, "penalty-unet": penalty_unet}


def fit(
    name: str, data: Path, folder: Path, *, cast: int, device: str, workers: int, limit: int | None = None
) -> tuple[PixelAnonymizer, Training]:
    """Train one, or go on with it, or find it done.

    A training that is stopped leaves what it had learnt; one that ends with blank pictures, what it was before.
    """
    recipe = recipe_of(name, workers, limit)
    source = Clips(joined(footage(data, folder / "twin", cast, limit)), "train")
    run, stopped, epochs = folder / name, "", recipe.settings.epochs
    try:
        made = fit_pixel(recipe, source, run, seed=SEED, device=device).anonymizer
    except (Diverged, NoHeadway) as error:
        epochs, stopped = before(run, error), str(error)
        made = after(recipe, run, epochs)
    history = records(run)
    sound = last_sound(history, epochs)
    if sound < epochs:
        stopped = f"{stopped}; " if stopped else ""
        stopped += (
            f"after epoch {sound} f_T told less than {SOUND:g} of the actions that it told before the game"
        )
        epochs = sound
        made = after(recipe, run, sound)
    names = [item.id.partition(":")[0] for item in source.items()]
    clips = {one: names.count(one) for one in dict.fromkeys(names)}
    planned = recipe.settings.epochs
    last, where = told(history, epochs), device_name(device)
    return made, Training(SEED, clips, epochs, planned, stopped, last, limit, where)


def device_name(device: str) -> str:
    chosen = devices.choose(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else chosen.type


def recipe_of(name: str, workers: int, limit: int | None) -> PixelRecipe:
    recipe = RECIPES[name](SCALE if limit is None else QUICK)
    kept = replace(recipe.settings, workers=workers, cache_gib=12.0, keep_every=1, checkpoint_every=3)
    return replace(recipe, name=name, settings=kept)


# --- what they learn from -----------------------------------------------------------------------------------


def footage(data: Path, twin: Path, cast: int, limit: int | None) -> list[Dataset]:
    """Real clips, and the twin, which is rendered where it is not there yet."""
    if not (data / "hmdb51-12").is_dir():
        raise UsageError(f"{data}: has no folder hmdb51-12 (classes of HMDB51 and their splits); give --data")
    size = "small" if limit is None else "tiny"
    twins.make("vphmdb", twin, seed=cast, size=size, processes=min(8, os.cpu_count() or 1))
    return [actions(data, limit), thinned(registry.load("vphmdb", twin), limit)]


def joined(datasets: Sequence[Dataset]) -> Dataset:
    """Several datasets as one: ids and actions begin with whose they are, so that no two become one by their name.

    What is private about people stays behind.
    """
    items = tuple(
        replace(item, id=f"{one.name}:{item.id}", action=f"{one.name}:{item.action}", attributes=None)
        for one in datasets
        for item in one
    )
    classes = tuple(f"{one.name}:{label}" for one in datasets for label in one.classes)
    return Dataset("+".join(one.name for one in datasets), datasets[0].root, items, classes=classes)


# --- what a training leaves ---------------------------------------------------------------------------------


def before(run: Path, error: Diverged | NoHeadway) -> int:
    """After how many epochs a stopped training was still good.

    Of one that went astray the last epoch on record does not count: it may have been on its way already.
    """
    kept = sorted(int(path.stem) for path in (run / EPOCHS).glob("*.safetensors"))
    if isinstance(error, Diverged):
        kept = kept[:-1]
    if not kept:
        raise error
    return kept[-1]


def after(recipe: PixelRecipe, run: Path, epoch: int) -> PixelAnonymizer:
    """The anonymizer as it was after an epoch of the game."""
    path = run / EPOCHS / f"{epoch:04d}.safetensors"
    made = PixelAnonymizer(PixelConfig(recipe.stages, size=recipe.settings.size), seed=SEED)
    checkpoints.fill(made, checkpoints.read(path, KEPT_FORMAT)[0], str(path))
    return made.eval()


def last_sound(history: Sequence[Record], epochs: int) -> int:
    """The last of the first `epochs` in which f_T still told the actions of training clips, by their records alone.

    Blank pictures are a way to win against budget nets, and nobody can use them. Where f_T never told any there is
    nothing to go by, and where no epoch is sound none is better than the last: both give `epochs`.
    """
    started = [record["right"] for record in history if record["act"] == "utility start"]
    least = SOUND * started[-1] if started else 0.0
    sound = [place for place, one in enumerate(played(history)[:epochs], 1) if one.get("right", 0.0) >= least]
    unknown = len(played(history)) < epochs  # a stopped run has not written its last records
    return epochs if unknown or not sound else sound[-1]


def told(history: Sequence[Record], epochs: int) -> dict[str, float]:
    record = (played(history)[:epochs] or [{}])[-1]
    return {name: round(float(record[name]), 4) for name in TOLD if name in record}


def played(history: Sequence[Record]) -> list[Record]:
    return [record for record in history if record["act"] == "minimax"]


def records(run: Path) -> list[Record]:
    lines = (run / HISTORY).read_text("utf-8").splitlines() if (run / HISTORY).is_file() else []
    return [json.loads(line) for line in lines]
