"""The demo: write a small twin, run the embedded encoder over it, and ask its features what happens and to whom.

python examples/demo.py FOLDER
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from videoveil.data import registry, twins
from videoveil.encoders import create
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore

CLIPS, SIZE = "3", "small"


def rows(
    store: FeatureStore, split: str, labels: dict[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clip features, their labels, and which video each came from."""
    features, targets, videos = [], [], []
    for number, stored in enumerate(store.items(split=split)):
        clips = store.read(stored).clip
        features.append(clips)
        targets += [labels[stored.item.id]] * len(clips)
        videos += [number] * len(clips)
    return np.concatenate(features), np.array(targets), np.array(videos)


def probe(store: FeatureStore, labels: dict[str, int]) -> tuple[float, float]:
    """Accuracy of a linear probe on whole test videos, and of always giving the commonest answer."""
    x, y, _ = rows(store, "train", labels)
    test_x, test_y, videos = rows(store, "test", labels)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000, C=0.05)).fit(x, y)
    scores = model.predict_proba(test_x)
    right, truth = 0, []
    for video in range(videos.max() + 1):
        guess = model.classes_[scores[videos == video].mean(0).argmax()]
        truth.append(test_y[videos == video][0])
        right += int(guess == truth[-1])
    return right / len(truth), float(np.bincount(truth).max() / len(truth))


def main(folder: Path, seed: int) -> None:
    began, console = time.perf_counter(), Console(width=100, highlight=False)
    root, store_path = folder / "hmdb51", folder / "features"
    for old in (root, store_path):  # of an earlier demo
        shutil.rmtree(old, ignore_errors=True)
    made = twins.make("vphmdb", root, seed=seed, size=SIZE, processes=2)
    console.print(
        f"twin      {made.files} files, {made.frames} frames rendered in {made.seconds:.0f} s → {root}"
    )
    dataset = registry.load("vphmdb", root)
    encoder = create("tiny")
    report = extract(dataset, store_path, encoder, recipe_for(encoder, clips=CLIPS, static=2))
    console.print(
        f"features  {report.clips} clips in {report.seconds:.0f} s, {report.clips_per_second:.0f} clips/s, "
        f"{report.bottleneck}-bound → {store_path}"
    )
    store = FeatureStore.open(store_path)
    table = Table(
        "what a linear probe reads from the raw features", "accuracy", "always the commonest", box=None
    )
    people = {shot.path: shot.play.roles[0].person for shot in twins.plan("vphmdb", seed, SIZE).shots()}
    persons = {item.id: people[item.path.relative_to(root).as_posix()] for item in dataset}
    questions = {
        "action (16 classes)": {item.id: dataset.label(item) for item in dataset},
        "gender presentation of the lead": {i: int(p.gender == "female") for i, p in persons.items()},
        "skin tone of the lead (3)": {
            i: ["light", "brown", "dark"].index(p.skin) for i, p in persons.items()
        },
    }
    for name, labels in questions.items():
        accuracy, chance = probe(store, labels)
        table.add_row(name, f"{100 * accuracy:.1f} %", f"{100 * chance:.1f} %")
    console.print()
    console.print(table)
    console.print(
        f"\nSynthetic data (twin of VPHMDB, seed {seed}). {time.perf_counter() - began:.0f} s in all."
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
