"""The three utility tasks on twins, from nothing to scores: render, extract with `tiny`, train, score.

    python benchmarks/twin_tasks.py OUT [--seeds 0 1 2] [--size small] [--sgp]

A seed is another twin (other people, other films) and another training. Writes OUT/results.json and prints a table of
means with 95 % intervals over the seeds, the level of a blind guess, and the seconds each task took. --sgp also trains
the detector with the other starts of its SGP convolutions. Finished parts are not done again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.intervals import interval, show
from videoveil import files
from videoveil.data import registry as data
from videoveil.data import twins
from videoveil.encoders import create
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.tasks import registry, runs
from videoveil.tasks.base import Features

PLAN = {  # task → twin, preset
    "action": ("hmdb51", "recommended"),
    "detection": ("thumos14", "small"),
    "anomaly": ("ucf-crime", "small"),
}
STARTS = ("gates", "normal")  # of the SGP convolutions; "zero" is the default
FIGURES = {  # of the page: task → what people call it, and its metrics
    "action": ("action recognition, linear probe", {"top1": "top-1", "top5": "top-5"}),
    "detection": (
        "detection, TriDet",
        {"mAP": "mAP, tIoU .3–.7", "mAP@0.3": "mAP at .3", "mAP@0.5": "mAP at .5", "mAP@0.7": "mAP at .7"},
    ),
    "anomaly": (
        "anomalies, MGFN",
        {
            "roc_auc": "frame ROC-AUC",
            "ap": "frame AP",
            "roc_auc_abnormal_videos": "ROC-AUC, anomalous videos only",
        },
    ),
}


def features(task: str, folder: Path, seed: int, size: str) -> tuple[Features, float]:
    """The features of a task's twin and the seconds they took."""
    began = time.perf_counter()
    twin, _ = PLAN[task]
    root = folder / twin
    twins.make(twin, root, seed=seed, size=size, processes=2)  # what is there stays
    encoder = create("tiny")
    extract(
        data.load(twin, root),
        folder / f"{twin}-features",
        encoder,
        recipe_for(encoder, clips=registry.kind(task).clips),
    )
    return Features(
        FeatureStore.open(folder / f"{twin}-features"), split="train"
    ), time.perf_counter() - began


def measure(
    task: str, folder: Path, seed: int, size: str, changes: dict[str, str], name: str
) -> dict[str, Any]:
    """Train and score once; a finished run is only read."""
    done = folder / name / "done.json"
    if done.is_file():
        found: dict[str, Any] = json.loads(done.read_text())
        return found
    source, prepared = features(task, folder, seed, size)
    began = time.perf_counter()
    kind = registry.kind(task)
    runs.train(kind.make(kind.config(PLAN[task][1], changes)), source, folder / name, seed=seed, device="cpu")
    trained = time.perf_counter()
    score = runs.score(runs.Run.open(folder / name))
    seconds = {"features": prepared, "training": trained - began, "scoring": time.perf_counter() - trained}
    value = {**score.to_json(), "seed": seed, "seconds": seconds}
    files.write_json(done, value)
    print(f"{name} seed {seed}: {score.headline.name} {100 * score.headline.value:.1f}", seconds, flush=True)
    return value


def table(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Markdown: one line per task."""
    lines = ["| task | figure | score | blind guess | seconds of training |", "|---|---|---|---|---|"]
    for name, found in rows.items():
        for metric in found[0]["metrics"]:
            cells = [[one["metrics"][metric][key] for one in found] for key in ("value", "chance")]
            took = max(one["seconds"]["training"] for one in found)
            lines.append(f"| {name} | {metric} | {show(cells[0])} | {show(cells[1])} | ≤ {took:.0f} |")
    return "\n".join(lines)


def page(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Two tables of docs/results.md: the tasks, and the detector's starts, seed by seed."""
    seeds = ", ".join(str(one["seed"]) for one in rows["action"])
    lines = [
        f"| task | twin, preset | figure | seeds {seeds} | mean [95 %] | blind guess |",
        "|---|---|---|---|---|---|",
    ]
    for task, (called, figures) in FIGURES.items():
        first = f"| {called} | {data.entry(PLAN[task][0]).title}, `{PLAN[task][1]}` |"
        for metric, name in figures.items():
            value, blind = (
                [one["metrics"][metric][key] for one in rows[task]] for key in ("value", "chance")
            )
            each = ", ".join(f"{100 * one:.1f}" for one in value)
            lines.append(f"{first} {name} | {each} | {show(value)} | {100 * interval(blind)[0]:.1f} |")
            first = "| | |"
    return "\n".join([*lines, "", *starts(rows)])


def starts(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """How the start of the SGP convolutions changes the detector; a mean only where every seed was run."""
    seeds = [one["seed"] for one in rows["detection"]]
    lines = [
        f"| start | {' | '.join(f'seed {seed}' for seed in seeds)} | mean |",
        "|---" * (len(seeds) + 2) + "|",
    ]
    named = {"`zero` (released, default)": "detection"}
    named |= {f"`{start}`": f"detection, sgp_init={start}" for start in STARTS}
    for name, row in named.items():
        found = {one["seed"]: one["metrics"]["mAP"]["value"] for one in rows.get(row, [])}
        cells = [f"{100 * found[seed]:.1f}" if seed in found else "–" for seed in seeds]
        mean = f"{100 * interval(list(found.values()))[0]:.1f}" if len(found) == len(seeds) else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {mean} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--size", default="small")
    parser.add_argument("--tasks", nargs="+", choices=list(PLAN), default=list(PLAN))
    parser.add_argument("--sgp", action="store_true")
    asked = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {}
    for seed in asked.seeds:
        folder = asked.out / f"seed{seed}"
        for task in asked.tasks:
            rows.setdefault(task, []).append(measure(task, folder, seed, asked.size, {}, task))
        for start in STARTS if asked.sgp else ():
            name = f"detection, sgp_init={start}"
            rows.setdefault(name, []).append(
                measure("detection", folder, seed, asked.size, {"sgp_init": start}, f"detection-{start}")
            )
        files.write_json(asked.out / "results.json", {"size": asked.size, "rows": rows})
    print(table(rows))


if __name__ == "__main__":
    main()
