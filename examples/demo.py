"""The demo: write small twins, run the embedded encoder over them, and ask its features what happens and to whom.

python examples/demo.py FOLDER [SEED]
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from videoveil.data import registry as data
from videoveil.data import twins
from videoveil.data.records import Dataset, Item
from videoveil.encoders import create
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.report.timeline import draw
from videoveil.tasks import feature_set, registry, runs
from videoveil.tasks.action import metrics, probe
from videoveil.tasks.base import Features, Score
from videoveil.tasks.predict import Span, predict
from videoveil.tasks.targets import targets

TASKS = {  # task → twin, its size, clips, preset, changes
    "action": ("vphmdb", "small", "3", "recommended", {}),
    "detection": ("thumos14", "tiny", "dense:4", "small", {"warmup_epochs": "5", "cosine_epochs": "55"}),
    "anomaly": ("ucf-crime", "tiny", "all", "small", {"epochs": "30"}),
}


def prepare(task: str, folder: Path, seed: int, console: Console) -> FeatureStore:
    """Render the task's twin and extract its features."""
    twin, size, clips, _, _ = TASKS[task]
    made = twins.make(twin, folder / twin, seed=seed, size=size, processes=2)
    encoder = create("tiny")
    store = folder / f"{twin}-features"
    report = extract(
        data.load(twin, folder / twin), store, encoder, recipe_for(encoder, clips=clips, static=2)
    )
    console.print(
        f"{twin:10} {made.files} files, {made.frames} frames rendered in {made.seconds:.0f} s; {report.clips} clips "
        f"encoded in {report.seconds:.0f} s ({report.clips_per_second:.0f} clips/s)"
    )
    return FeatureStore.open(store)


def train(task: str, store: FeatureStore, folder: Path, seed: int) -> Score:
    """Train and score a task in a run folder, as `veil train-task` and `veil score` do."""
    *_, preset, changes = TASKS[task]
    kind = registry.kind(task)
    runs.train(
        kind.make(kind.config(preset, changes)), Features(store, split="train"), folder / task, seed=seed
    )
    return runs.score(runs.Run.open(folder / task))


def who(store: FeatureStore, seed: int) -> dict[str, Score]:
    """What a linear probe reads about the leading person, whom the twin's plan knows."""
    dataset, split = store.dataset(), Features(store)
    people = {shot.path: shot.play.roles[0].person for shot in twins.plan("vphmdb", seed, "small").shots()}
    found = {}
    for name in ("gender", "skin"):

        def labelled(item: Item, name: str = name, dataset: Dataset = dataset) -> Item:
            person = people[item.path.relative_to(dataset.root).as_posix()]
            return replace(item, action=getattr(person, name))

        sets = [feature_set.load(split.with_split(part)) for part in ("train", "test")]
        known, asked = (replace(one, items=tuple(map(labelled, one.items))) for one in sets)
        names = sorted({str(item.action) for item in known.items})
        labels = targets(known.items, names, "action")
        fitted = probe.fit(known, labels, seed=seed)
        truth = targets(asked.items, names, "action")
        found[name] = metrics.score(name, fitted.probabilities(asked), truth, fitted.prior)
    return found


def picture(folder: Path) -> Path:
    """The anomaly curve of a test video with its truth."""
    run = runs.Run.open(folder / "anomaly")
    items = [
        item for item in data.load("ucf-crime", folder / "ucf-crime") if item.split == "test" and item.anomaly
    ]
    item = items[0]
    rate = 25  # frames per second of the twin
    truth = [Span(s.first / rate, s.stop / rate, s.value or "anomaly", 1.0) for s in item.anomaly_spans]
    draw(predict(item.path, run, "anomaly", truth=truth), folder / "anomaly.png")
    return folder / "anomaly.png"


def main(folder: Path, seed: int) -> None:
    began, console = time.perf_counter(), Console(width=110, highlight=False)
    for task, (twin, *_) in TASKS.items():  # what an earlier demo left
        for old in (twin, f"{twin}-features", task):
            shutil.rmtree(folder / old, ignore_errors=True)
    stores = {task: prepare(task, folder, seed, console) for task in TASKS}
    table = Table("what raw features tell", "figure", "score", "blind guess", box=None)

    def add(name: str, score: Score) -> None:
        metric = score.headline
        cells = ("-" if v is None else f"{100 * v:.1f} %" for v in (metric.value, metric.chance))
        table.add_row(name, metric.name, *cells)

    add("which action (linear probe)", train("action", stores["action"], folder, seed))
    add("which actions and when (TriDet)", train("detection", stores["detection"], folder, seed))
    add("when something unusual happens (MGFN)", train("anomaly", stores["anomaly"], folder, seed))
    for name, score in who(stores["action"], seed).items():
        add(f"{name} of the leading person", score)
    console.print()
    console.print(table)
    console.print(f"\nanomaly scores of one test video, with the truth: {picture(folder)}")
    console.print(f"Synthetic data (twins, seed {seed}). {time.perf_counter() - began:.0f} s in all.")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
