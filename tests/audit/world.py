"""Small videos in which an action and private attributes can be seen, and a canary in one corner."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from tests.media.make import encode
from videoveil.attacks.linear import LinearAttacker
from videoveil.audit import grid, registry, utilities
from videoveil.audit.grid import GridConfig
from videoveil.audit.participant import Answers, Participant, Trial
from videoveil.audit.rules import Rules
from videoveil.audit.settings import Settings
from videoveil.data.records import Dataset, FrameSpan, Item, Segment
from videoveil.tasks.action.metrics import Prior
from videoveil.tasks.targets import Targets

WIDTH, HEIGHT, FRAMES, CORNER = 48, 36, 8, 4
ACTIONS = ("above", "below")
LOSSLESS = {"crf": "4", "preset": "ultrafast", "sc_threshold": "0"}


def film(path: Path, action: int, tinted: int, canary: int, number: int, frames: int = FRAMES) -> Path:
    """Bright above or below (the action), reddish or not, and a white corner or a black one."""
    rng = np.random.default_rng([action, tinted, canary, number])
    path.parent.mkdir(parents=True, exist_ok=True)

    def picture() -> np.ndarray:
        image = rng.normal(70, 8, (HEIGHT, WIDTH, 3))
        half = slice(0, HEIGHT // 2) if action == 0 else slice(HEIGHT // 2, HEIGHT)
        image[half] += 90
        image[HEIGHT // 3 : 2 * HEIGHT // 3, WIDTH // 3 : 2 * WIDTH // 3, 0] += 60 * tinted
        image[-CORNER:, -CORNER:] = 255 * canary
        return np.clip(image, 0, 255).astype(np.uint8)

    return encode(path, images=(picture() for _ in range(frames)), size=(WIDTH, HEIGHT), options=LOSSLESS)


def dataset(root: Path, *, train: int = 16, test: int = 12) -> Dataset:
    items = []
    for n in range(train + test):
        split = "train" if n < train else "test"
        action, tinted, canary = n % 2, n // 2 % 2, n // 4 % 2
        path = film(root / f"v{n:02d}.mp4", action, tinted, canary, n)
        known = {"tinted": tinted, "canary": canary}
        subject = f"person {n % 8}"  # of each the same is known in all of their videos
        items.append(Item(path.stem, path, split, action=ACTIONS[action], attributes=known, subject=subject))
    return Dataset("made-up", root, tuple(items), classes=ACTIONS, attributes=("canary", "tinted"))


LENGTH, EVENT, RATE = 48, 16, 25


def events(root: Path, *, train: int = 6, test: int = 4) -> Dataset:
    """Longer videos, grey noise; in every other one it becomes bright above or below for a while, and only then."""
    items = []
    for n in range(train + test):
        rng = np.random.default_rng(n)
        first, kind = 16 * int(rng.integers(0, 3)), n // 2 % 2
        half = slice(0, HEIGHT // 2) if kind == 0 else slice(HEIGHT // 2, HEIGHT)

        def picture(number: int, n: int = n, first: int = first, half: slice = half) -> np.ndarray:
            image = np.random.default_rng([n, number]).normal(70, 8, (HEIGHT, WIDTH, 3))
            if n % 2 and first <= number < first + EVENT:
                image[half] += 150
            return np.clip(image, 0, 255).astype(np.uint8)

        path = root / f"e{n:02d}.mp4"
        encode(path, images=map(picture, range(LENGTH)), size=(WIDTH, HEIGHT), options=LOSSLESS, rate=RATE)
        item = Item(path.stem, path, "train" if n < train else "test", anomaly=bool(n % 2))
        if n % 2:
            ends = Fraction(first, RATE), Fraction(first + EVENT, RATE)
            item = replace(
                item,
                anomaly_spans=(FrameSpan(first, first + EVENT),),
                segments=(Segment(ACTIONS[kind], *ends),),
            )
        items.append(item)
    return Dataset("events", root, tuple(items), classes=ACTIONS)


def table(dataset: Dataset, path: Path, **changes: str) -> Path:
    """The same as a CSV file; `changes` replaces columns of all rows."""
    with open(path, "w", newline="") as handle:
        writer = csv.DictWriter(handle, ["path", "label", "split", "subject", "attr:tinted", "attr:canary"])
        writer.writeheader()
        for item in dataset:
            known = item.attributes or {}
            row = {
                "path": item.path.relative_to(dataset.root).as_posix(),
                "label": item.action or "",
                "split": item.split,
                "subject": item.subject or "",
                "attr:tinted": str(known["tinted"]),
                "attr:canary": str(known["canary"]),
            }
            writer.writerow({**row, **changes})
    return path


GRID = GridConfig(rows=3, columns=4, kinds=("linear",), frames=1, workers=1)


def recognise(trial: Trial, config: GridConfig) -> Answers:
    """Actions from the same grid of colours: a real model that learns in a moment."""
    train, test = trial.clips("train"), trial.clips("test")
    items = sorted(test.items(), key=lambda item: item.id)
    told = sorted(train.items(), key=lambda item: item.id)
    seen = grid.see(train, told, config, trial.seed)
    y = np.array([ACTIONS.index(str(told[i].action)) for i in seen.videos], dtype=float)
    fitted = LinearAttacker().fit(seen.rows, y, seed=trial.seed)
    said = fitted.scores(grid.see(test, items, config, trial.seed).rows).reshape(len(items), -1, 2).mean(1)
    truth = Targets(ACTIONS, np.array([ACTIONS.index(str(item.action)) for item in items]))
    if trial.progress is not None:
        trial.progress(1, 1, 0.0)
    return {"linear": utilities.of_probabilities(said, items, truth, Prior((0.5, 0.5)))}


RECOGNISER = Participant(
    "recogniser",
    "recognises actions from a grid of colours",
    registry.ACTIONS,
    "utility",
    "clips",
    0.5,
    recognise,
    lambda gpu: GRID,
    lambda subject: "",
)


def learner() -> Participant:
    """The grid again, in the place of a network that learns from pictures."""
    (own,) = registry.named(("grid",), {"grid": GRID})
    return replace(own, name="network", learns=True)


def settings(*others: str, seeds: int = 2, **changes: object) -> Settings:
    """Those who are quick: a grid of colours, for the attacker and for the utility; and those asked for."""
    chosen = (RECOGNISER, *registry.named(("grid", *others), {"grid": GRID}))
    return Settings(rules=Rules(seeds=seeds, resamples=100), participants=chosen, device="cpu", **changes)  # type: ignore[arg-type]
