"""The task heads that come with the package: how each is made, and what its card says.

`scripts/models.py NAME OUT` makes one; what was measured comes from docs/data/shipped-heads.json
(`benchmarks/heads.py`). All learn from the training videos of twins of one seed, in which nobody appears whom a study
reports on. Everything is on the CPU whatever the device: features and weights are then the same everywhere.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videoveil import files, shipped
from videoveil.anonymizers.card import Measurement, ModelCard
from videoveil.tasks import heads, registry
from videoveil.tasks.runs import MODEL, Run

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
LICENSE = "mit"
CAST = 5  # as for the anonymizers: studies report on 20 to 25 and chose on 10 and 11
DATA = "shipped-heads"
VEIL = "veil-tiny"
SPLITS = ("train", "test")  # the second to choose between trainings, and for nothing else


@dataclass(frozen=True)
class Head:
    """One head: what it learns, from which twin, and behind which anonymizer."""

    task: str
    twin: str
    preset: str
    metric: str  # what people call its first figure
    changes: Mapping[str, str] = field(default_factory=dict)
    trainings: int = 1  # of which the best on the test videos of its own twin is kept
    chosen: str = ""  # what else was chosen on test videos, for the card
    behind: str = ""  # an anonymizer by name


ACTION = Head("action", "vphmdb", "recommended", "top-1")
# A quarter of the width of `small`, which would be 14 MB, trained longer and faster for it: better on test videos of
# its own twin than half the width with the schedule of `small`. SGP convolutions that learn: better on seeds 0, 1, 2.
NARROW = {
    "width": "64",
    "mlp_width": "96",
    "learning_rate": "1e-3",
    "cosine_epochs": "27",
    "sgp_init": "gates",
}
CHOSEN = (
    "its width and schedule were chosen on the twin's own test videos, the start of its SGP convolutions on those of "
    "twins of seeds 0, 1, 2"
)
DETECTION = Head("detection", "thumos14", "small", "mAP, tIoU .3–.7", NARROW, chosen=CHOSEN)
# MGFN now and then fails to start on so few videos
ANOMALY = Head("anomaly", "ucf-crime", "small", "frame ROC-AUC", trainings=3)
RAW = {f"{head.task}-tiny": head for head in (ACTION, DETECTION, ANOMALY)}
HEADS = RAW | {f"{head.task}-{VEIL}": replace(head, behind=VEIL) for head in RAW.values()}


# --- how they are made ----------------------------------------------------------------------------------------


def make(name: str, out: Path) -> Path:
    """Render, extract, train and pack into OUT/NAME; twins and features in OUT/work serve all heads."""
    head = HEADS[name]
    store = features(head, out / "work")
    folder = out / "work" / f"{name}-{store.name}"  # another anonymizer, another store, another training
    run = best([train(head, store, folder / str(seed), seed) for seed in range(head.trainings)])
    return heads.pack(run, out / name, card(name, run))


def features(head: Head, work: Path) -> Path:
    """The features of the head's twin, raw or through its anonymizer; what is there is not made again."""
    from videoveil.anonymizers import LatentAnonymizer
    from videoveil.data import registry as data
    from videoveil.data import twins
    from videoveil.encoders import create
    from videoveil.features.anonymize import anonymize
    from videoveil.features.extract import extract, recipe_for

    root, raw = work / head.twin, work / f"{head.twin}-features"
    twins.make(head.twin, root, seed=CAST, size="small", processes=2)
    dataset = data.load(head.twin, root)
    wanted = SPLITS if head.trainings > 1 else SPLITS[:1]
    dataset = replace(dataset, items=tuple(item for item in dataset if item.split in wanted))
    encoder = create("tiny")
    extract(dataset, raw, encoder, recipe_for(encoder, clips=registry.kind(head.task).clips), device="cpu")
    if not head.behind:
        return raw
    anonymizer = LatentAnonymizer.from_pretrained(shipped.place(head.behind))
    safe = work / f"{head.twin}-{anonymizer.content_hash()[:12]}"
    anonymize(raw, safe, anonymizer, device="cpu")
    return safe


def train(head: Head, store: Path, folder: Path, seed: int) -> Run:
    from videoveil.features.store import FeatureStore
    from videoveil.tasks import runs
    from videoveil.tasks.base import Features

    kind = registry.kind(head.task)
    task = kind.make(kind.config(head.preset, head.changes))
    runs.train(task, Features(FeatureStore.open(store), split="train"), folder, seed=seed, device="cpu")
    return Run.open(folder)


def best(trained: Sequence[Run]) -> Run:
    """The one that scores best on the test videos of its own twin, of which no figure is reported."""
    from videoveil.tasks import runs

    if len(trained) == 1:
        return trained[0]
    return max(trained, key=lambda run: runs.score(run).headline.value or 0.0)


# --- cards ----------------------------------------------------------------------------------------------------


def card(name: str, run: Run) -> ModelCard:
    """What was measured, from the stored figures; a head without figures says so and cannot be shipped."""
    head = HEADS[name]
    stored = figures_of(name, run)
    rows: Mapping[str, Any] = stored.get("rows", {}).get(name, {})
    raw_first = sorted(rows.items(), key=lambda row: not row[0].startswith("raw"))
    measured = [_measurement(head, kind, records) for kind, records in raw_first]
    twin = f"`veil data make {head.twin} ROOT --seed {CAST} --size small`"
    through = f" through `{head.behind}`" if head.behind else ""
    trained = f"features{through} of the training videos of a synthetic twin ({twin}); no real video"
    if head.trainings > 1:
        trained += f"; the best of {head.trainings} trainings on the twin's own test videos, seed {run.seed}"
    if head.chosen:
        trained += f"; {head.chosen}"
    return ModelCard(trained, tuple(measured), _notes(name, stored), LICENSE)


def figures() -> dict[str, Any]:
    path = ROOT / "docs" / "data" / f"{DATA}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def figures_of(name: str, run: Run) -> dict[str, Any]:
    """What was measured of these very weights; nothing, where the figures are of others."""
    found = figures()
    weights = run.weights or files.file_hash(run.folder / MODEL)
    return found if found.get("heads", {}).get(name) == weights else {}


def _measurement(head: Head, kind: str, records: Sequence[Mapping[str, float]]) -> Measurement:
    from benchmarks.intervals import interval

    value, *ends = interval([record["value"] for record in records])
    low, high = (None if math.isnan(end) else round(min(max(end, 0.0), 1.0), 4) for end in ends)
    chance = round(sum(record["chance"] for record in records) / len(records), 4)
    return Measurement(kind, "utility", head.metric, round(value, 4), None, chance, low, high)


def _notes(name: str, stored: Mapping[str, Any]) -> str:
    head = HEADS[name]
    seeds = ", ".join(map(str, stored.get("seeds", ())))
    several = len(stored.get("seeds", ())) > 1
    scored = "intervals are Student's over them" if several else "a single seed, so there are no intervals"
    about = (
        f"Measured on the test videos of other twins of {head.twin} (size small, seeds {seeds or 'none yet'}: other "
        f"people and films than any that it, its anonymizer or its encoder learnt from); {scored}."
    )
    failures = f"{FAILURES[head.task]} {_real(name, stored)}"
    made = f"Made by `python scripts/models.py {name} OUT`."
    if stored:
        real = " --real DATA" if name in stored.get("real", {}) else ""
        made += f" Measured by `python benchmarks/heads.py OUT --seeds {seeds.replace(',', '')}{real}`."
    return "\n\n".join([about, failures, _veiled(head), made])


FAILURES = {
    "action": "Known failures: it knows the actions of the theatre under the names that the twin gives them, and the "
    "embedded encoder `tiny` has only ever seen the theatre.",
    "detection": "Known failures: it knows 12 actions of the theatre under the names that the twin gives them (the "
    "other 8 that it could say never occur there), one actor at a time, in films of half a minute with frames of one "
    "length; the embedded encoder `tiny` has only ever seen the theatre.",
    "anomaly": "Known failures: it knows the incidents of the theatre from labels of whole films. Its scores order the "
    "snippets of such films and are no probabilities; there is no threshold that holds elsewhere. The embedded encoder "
    "`tiny` has only ever seen the theatre.",
}


REAL = {
    "action": "top-1 of {items} test clips of HMDB51, of the actions whose names it knows,",
    "anomaly": "ROC-AUC of {items} clips of surveillance cameras, half of them fights,",
}


def _real(name: str, stored: Mapping[str, Any]) -> str:
    """What it is worth on real video, where that was measured."""
    found = stored.get("real", {}).get(name)
    if found is None:
        return "Real video was not measured: expect nothing of it there."
    score = found["score"]
    what = REAL[HEADS[name].task].format(items=found["items"])
    figures = f"{score['value']:.3f} (a blind guess {score['chance']:.3f})"
    return f"On real video: {what} is {figures}. Do not rely on it there."


def _veiled(head: Head) -> str:
    if head.behind:
        return (
            f"It takes features that went through `{head.behind}`; of a video, or of a store of raw features, "
            f"`veil predict` makes them by itself. What `{head.behind}` hides and what it does not is on its own card."
        )
    return (
        f"It takes raw features, which tell who is seen; what it is worth on features through `{VEIL}` is measured to "
        f"be known, and `{head.task}-{VEIL}` is the head for those."
    )


def stale() -> list[str]:
    """Shipped heads whose card is not what would be written now."""
    return [name for name in shipped.heads() if name not in HEADS or _stale(name)]


def _stale(name: str) -> bool:
    run = Run.open(shipped.head_place(name))
    due = card(name, run)
    shown = (run.folder / heads.CARD).read_text("utf-8")
    return (heads.card_of(run.folder), shown) != (due, heads.render(run, due))


def write_cards() -> None:
    for name in stale():
        run = Run.open(shipped.head_place(name))
        heads.describe(run, card(name, run))
        print(f"{name}: card written")
