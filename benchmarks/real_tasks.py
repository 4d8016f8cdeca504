"""Action recognition and anomaly detection on real clips.

    python benchmarks/real_tasks.py DATA OUT [--seeds 0 1 2] [--encoder tiny] [--device cuda] [--only-network]

DATA holds `hmdb51-12` (12 classes of HMDB51 in the official layout, 15 frames per second) and `fights` (short CCTV
clips in `fight` and `noFight`, with `sources.txt` saying which video each was cut from).

1. A network trained on the training clips of HMDB51 split 1 and scored on its test clips (mean softmax of ten). `tiny`
   starts from the weights it learnt on the theatre, other encoders from random ones.
2. A linear probe on the features of `tiny` as it is, which has seen nothing but the theatre, on the same split.
3. MGFN on `fights`, on the features of the network of step 1 and of `tiny` as it is: five folds, every source in one
   fold only, each clip a video with one label. Frame-level ROC-AUC of each fold, and inside sources with both kinds.
   Beside it a logistic regression on the mean feature of each clip, same folds: what the features allow.

Writes OUT/results.json and prints tables. A network that is there already is not trained again, so the first step may
be done on another machine. No number is chosen on test clips: the epoch is the last one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.intervals import show
from videoveil import files
from videoveil.data import registry as data
from videoveil.data.records import Dataset, FrameSpan, Item
from videoveil.encoders import Encoder, create
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.media.reader import open_video
from videoveil.tasks import mgfn, registry, runs
from videoveil.tasks.action.network import ENCODER
from videoveil.tasks.anomaly import as_score
from videoveil.tasks.base import Clips, Features, Score
from videoveil.tasks.metrics import roc_auc
from videoveil.training import seeds as chance

FOLDS = 5
NETWORKS = {  # of the page: row → what was trained, and which of its metrics are shown
    "network": ("`tiny`, fine-tuned from its theatre weights", {"top1": "top-1", "top5": "top-5"}),
    "network r3d.18": ("R3D-18 from random weights", {"top1": "top-1"}),
    "probe": ("linear probe on `tiny` as it is (theatre only)", {"top1": "top-1"}),
}
FEATURES = {"anomaly tiny": "`tiny` as it is", "anomaly trained": "`tiny` trained on hmdb51-12 (seed 0)"}


def sources(listing: Path) -> dict[str, str]:
    """Clip name → where it was cut from; clips of which nothing is said share one source."""
    found: dict[str, str] = {}
    source = ""
    for line in listing.read_text("utf-8").splitlines():
        line = line.strip()
        if "://" in line:
            source = line
        elif match := re.match(r"(fi|nofi)(\d+)\s*-\s*(?:fi|nofi)(\d+)\s*:", line):
            kind, first, last = match.groups()
            for number in range(int(first), int(last) + 1):  # two sets whose ranges overlap: one source
                found[f"{kind}{number:03}"] = "other datasets"
        elif match := re.match(r"((?:fi|nofi)\d+)\s*:", line):
            found[match.group(1)] = source
    return found


def fights(root: Path) -> Dataset:
    """Every clip as a video: a fight in all of its frames, or in none."""
    origin = sources(root / "sources.txt")
    items = []
    for folder, abnormal in (("fight", True), ("noFight", False)):
        for path in sorted((root / folder).glob("*.mp4")):
            with open_video(path) as video:
                frames = video.count()
            items.append(
                Item(
                    f"{folder}/{path.stem}",
                    path,
                    "train",
                    anomaly=abnormal,
                    anomaly_class="Fighting" if abnormal else None,
                    anomaly_spans=(FrameSpan(0, frames, "Fighting"),) if abnormal else (),
                    extra={"source": origin.get(path.stem, "not listed")},
                )
            )
    return Dataset("fights", root, tuple(items), classes=("Fighting",))


def folds(dataset: Dataset, seed: int) -> list[set[str]]:
    """Sources dealt out so that the folds have about equally many clips."""
    sizes = Counter(item.extra["source"] for item in dataset)
    names = sorted(sizes)
    order = [names[i] for i in chance.rng(seed, "folds").permutation(len(names))]
    parts: list[set[str]] = [set() for _ in range(FOLDS)]
    for source in sorted(order, key=lambda name: -sizes[name]):
        smallest = min(range(FOLDS), key=lambda k: sum(sizes[name] for name in parts[k]))
        parts[smallest].add(source)
    return parts


def anomalies(store: FeatureStore, dataset: Dataset, seed: int, device: str) -> dict[str, Any]:
    """Cross-validation over sources, or what it gave before."""
    done = store.root.with_name(f"{store.root.name}-anomalies-seed{seed}.json")
    if not done.is_file():
        files.write_json(done, cross_validated(store, dataset, seed, device))
    found: dict[str, Any] = json.loads(done.read_text())
    return found


def cross_validated(store: FeatureStore, dataset: Dataset, seed: int, device: str) -> dict[str, Any]:
    """MGFN trained and scored on every fold."""
    source = {item.id: item.extra["source"] for item in dataset}
    videos = list(mgfn.from_store(store, dataset.name, with_truth=True))
    config = replace(mgfn.small(), checkpoint_every=30)
    found: list[Any] = []
    scored: dict[str, Any] = {}
    for part in folds(dataset, seed):
        train = [replace(v, truth=None) for v in videos if source[v.id] not in part]
        test = [v for v in videos if source[v.id] in part]
        fitted = mgfn.fit(train, config, seed=seed, device=device)
        found.append(as_score(fitted.score(test)))
        scored |= {k: float(v.mean()) for k, v in fitted.scores(test).items()}
    labels = {v.id: v.label for v in videos}
    return {
        "seed": seed,
        "folds": [one.to_json() for one in found],
        "within_sources": within(scored, labels, source),
        "linear": linear({v.id: v.features.mean(0) for v in videos}, labels, source, folds(dataset, seed)),
    }


def linear(
    means: dict[str, np.ndarray], labels: dict[str, int], source: dict[str, str], parts: list[set[str]]
) -> dict[str, Any]:
    """Logistic regression on clip means, fold by fold."""
    areas: list[Any] = []
    scored: dict[str, Any] = {}
    for part in parts:
        train, test = ([i for i in means if (source[i] in part) is held_out] for held_out in (False, True))
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
        model.fit(np.stack([means[i] for i in train]), [labels[i] for i in train])
        scores = model.decision_function(np.stack([means[i] for i in test]))
        areas.append(roc_auc(np.array([labels[i] for i in test], dtype=np.float32), scores))
        scored |= dict(zip(test, scores.tolist()))
    return {"folds": areas, "within_sources": within(scored, labels, source)}


def within(scores: dict[str, float], labels: dict[str, int], source: dict[str, str]) -> dict[str, Any]:
    """ROC-AUC of the clips of one source, averaged over sources with fights and without, weighted by pairs."""
    pairs, right = 0, 0.0
    for name in sorted(set(source.values())):
        mine = [i for i in scores if source[i] == name]
        truth = np.array([labels[i] for i in mine], dtype=np.float32)
        area = roc_auc(truth, np.array([scores[i] for i in mine]))
        if area is not None:
            count = int(truth.sum() * (len(truth) - truth.sum()))
            pairs, right = pairs + count, right + area * count
    return {"roc_auc": right / pairs, "pairs": pairs, "chance": 0.5}


def stored(
    dataset: Dataset, encoder: Encoder, out: Path, clips: str, workers: int, device: str
) -> FeatureStore:
    recipe = recipe_for(encoder, clips=clips)
    extract(dataset, out, encoder, recipe, workers=workers, device=device, batch=16)
    return FeatureStore.open(out)


def network(hmdb: Dataset, run: Path, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train and score, or read what was scored."""
    if (run / runs.METRICS).is_file():
        there: dict[str, Any] = json.loads((run / runs.METRICS).read_text())
        return there
    changes = {"encoder": asked.encoder, "epochs": str(asked.epochs), "batch": str(asked.batch)}
    changes |= {"workers": str(asked.workers), "cache_gib": "12", "stride": "1"}
    if asked.device != "cpu":
        changes |= {"precision": "bf16-mixed"}
    kind = registry.kind("action-network")
    task = kind.make(kind.config("scratch", changes))
    runs.train(task, Clips(hmdb, "train"), run, seed=seed, device=asked.device)
    score: Score = runs.Run.open(run).fitted().to(asked.device).score(Clips(hmdb, "test"))
    files.write_json(run / runs.METRICS, score.to_json())
    return score.to_json()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--encoder", default="tiny")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only-network", action="store_true")
    asked = parser.parse_args()
    hmdb = data.load("hmdb51", asked.data / "hmdb51-12", {"split": 1})
    rows: dict[str, list[Any]] = {"network": [], "probe": [], "anomaly trained": [], "anomaly tiny": []}
    for seed in asked.seeds:
        found = network(hmdb, asked.out / f"{asked.encoder}-seed{seed}", seed, asked)
        rows["network"].append({**found, "seed": seed})
        print("network", seed, rows["network"][-1]["metrics"], flush=True)
    if not asked.only_network:
        on_features(rows, hmdb, asked)
    value = {"encoder": asked.encoder, "seeds": asked.seeds, "rows": rows}
    files.write_json(asked.out / "results.json", value)
    print("\n".join(report(rows, asked.encoder)))


def on_features(rows: dict[str, list[Any]], hmdb: Dataset, asked: argparse.Namespace) -> None:
    """The probe and the anomalies."""
    cctv, tiny, probe = fights(asked.data / "fights"), create("tiny"), registry.kind("action")
    general = stored(hmdb, tiny, asked.out / "hmdb51-tiny", "5", asked.workers, asked.device)
    watched = stored(cctv, tiny, asked.out / "fights-tiny", "all", asked.workers, asked.device)
    for seed in asked.seeds:
        run = asked.out / f"probe-seed{seed}"
        runs.train(probe.make(probe.config()), Features(general, split="train"), run, seed=seed, device="cpu")
        rows["probe"].append({**runs.score(runs.Run.open(run)).to_json(), "seed": seed})
        print("probe", seed, rows["probe"][-1]["metrics"], flush=True)
        weights = asked.out / f"{asked.encoder}-seed{seed}" / ENCODER
        learnt = stored(
            cctv,
            create(asked.encoder, weights=weights),
            asked.out / f"fights-{asked.encoder}-seed{seed}",
            "all",
            asked.workers,
            asked.device,
        )
        rows["anomaly trained"].append(anomalies(learnt, cctv, seed, asked.device))
        rows["anomaly tiny"].append(anomalies(watched, cctv, seed, asked.device))
        print("inside sources", rows["anomaly trained"][-1]["within_sources"], flush=True)


def report(rows: dict[str, list[Any]], encoder: str) -> list[str]:
    """Means and intervals over the seeds."""
    lines = ["| data | model | figure | score | blind guess |", "|---|---|---|---|---|"]
    for name, model in (
        ("network", f"`{encoder}` trained on it"),
        ("probe", "linear probe on `tiny` as it is"),
    ):
        for metric in ("top1", "top5", "mean_per_class") if rows[name] else ():
            cells = [one["metrics"][metric] for one in rows[name]]
            value, blind = ([cell[key] for cell in cells] for key in ("value", "chance"))
            lines.append(f"| hmdb51-12 | {model} | {metric} | {show(value)} | {show(blind[:1])} |")
    for name, model in (
        ("anomaly trained", f"MGFN on `{encoder}` trained on hmdb51-12"),
        ("anomaly tiny", "MGFN on `tiny`"),
    ):
        if rows[name]:
            area = [
                np.mean([fold["metrics"]["roc_auc"]["value"] for fold in one["folds"]]) for one in rows[name]
            ]
            inside = [one["within_sources"]["roc_auc"] for one in rows[name]]
            lines.append(f"| fights | {model} | ROC-AUC, mean of folds | {show(area)} | 50.0 |")
            lines.append(f"| fights | {model} | ROC-AUC inside sources | {show(inside)} | 50.0 |")
            area = [float(np.mean(one["linear"]["folds"])) for one in rows[name]]
            inside = [one["linear"]["within_sources"]["roc_auc"] for one in rows[name]]
            plain = model.replace("MGFN", "logistic regression")
            lines.append(f"| fights | {plain} | ROC-AUC, mean of folds | {show(area)} | 50.0 |")
            lines.append(f"| fights | {plain} | ROC-AUC inside sources | {show(inside)} | 50.0 |")
    return lines


def page(rows: dict[str, list[Any]]) -> str:
    """The table of docs/results.md; scores seed by seed."""
    lines = ["| data | model | figure | score | blind guess |", "|---|---|---|---|---|"]
    for name, (model, figures) in NETWORKS.items():
        first = f"| hmdb51-12 | {model}"
        for metric, called in figures.items() if rows.get(name) else ():
            cells = [one["metrics"][metric] for one in rows[name]]
            which = (
                f"seeds {', '.join(str(one['seed']) for one in rows[name])}" if len(cells) > 1 else "one seed"
            )
            value = ", ".join(f"{100 * cell['value']:.1f}" for cell in cells)
            lines.append(f"{first} | {called}, {which} | {value} | {100 * cells[0]['chance']:.1f} |")
            first = "| | "
    for name, features in FEATURES.items():
        for one in rows.get(name, []):
            areas = [fold["metrics"]["roc_auc"]["value"] for fold in one["folds"]]
            plain = one["linear"]
            for model, folds, inside in (
                ("MGFN", areas, one["within_sources"]),
                ("logistic regression", plain["folds"], plain["within_sources"]),
            ):
                score = f"{100 * float(np.mean(folds)):.1f} / {100 * inside['roc_auc']:.1f}"
                figure = "ROC-AUC, mean of folds / inside sources"
                lines.append(f"| fights | {model} on {features}, {FOLDS} folds | {figure} | {score} | 50.0 |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
