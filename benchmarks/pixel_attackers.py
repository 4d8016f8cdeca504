"""What fresh networks find out about people in frames and clips of a twin, and how long they take to learn it.

    python benchmarks/pixel_attackers.py OUT [--device cuda] [--size 64] [--networks resnet.18 …] [--clip-networks …]

Renders a twin of VP-HMDB51 (288 videos of 64 frames for training and test; the leading person's gender, skin, age,
build and hair) and trains every attacker afresh on raw pictures and on pictures that untrained stages have thrown
information out of. The attacker that was trained on raw pictures is also scored on each of the others (raw-pretrained).
Prints cMAP by views and by videos beside chance, and the seconds of training and of scoring; `--json FILE` keeps them.
The goal: an image attacker learns in well under a minute on one H200, and in a few minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from videoveil.anonymizers.pixel import Grey, LowResolution, PixelAnonymizer, pixel
from videoveil.attacks.frames import ClipAttack, ClipConfig, FittedPictureAttack, FrameAttack, FrameConfig
from videoveil.data import registry, twins
from videoveil.data.twins.people import lead_attributes
from videoveil.tasks.base import Clips

TWIN, SEED = "vphmdb", 20


def anonymizers() -> dict[str, PixelAnonymizer | None]:
    """What the pictures go through; nothing here is trained."""
    return {
        "raw": None,
        "grey": pixel(Grey()),
        "low resolution, 14": pixel(LowResolution(14)),
        "grey, 7": pixel(Grey(), LowResolution(7)),
    }


def attacks(asked: argparse.Namespace, labels: Any) -> list[FrameAttack | ClipAttack]:
    common = {
        "size": asked.size,
        "epochs": asked.epochs,
        "workers": asked.workers,
        "precision": asked.precision,
    }
    found: list[FrameAttack | ClipAttack] = []
    if asked.networks:
        found.append(FrameAttack(replace(FrameConfig(networks=tuple(asked.networks)), **common), labels))
    if asked.clip_networks:
        found.append(ClipAttack(replace(ClipConfig(networks=tuple(asked.clip_networks)), **common), labels))
    return found


def measure(task: FrameAttack | ClipAttack, source: Clips, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """One record per anonymizer: fresh attackers, and those that learnt from raw pictures."""
    found: list[dict[str, Any]] = []
    experienced: FittedPictureAttack | None = None
    for name, anonymizer in anonymizers().items():
        seen = source.with_anonymizer(anonymizer)
        began = time.perf_counter()
        fitted = task.fit(seen.with_split("train"), seed=asked.seed, device=asked.device)
        learnt = time.perf_counter()
        score = fitted.score(seen.with_split("test"))
        took = learnt - began, time.perf_counter() - learnt
        experienced = experienced or fitted
        old = experienced.score(seen.with_split("test"))
        record = {
            "attack": task.name,
            "pictures": name,
            "training_seconds": took[0],
            "scoring_seconds": took[1],
            "epochs": len(fitted.history),
            "raw_pretrained": old.headline.to_json(),
            **score.to_json(),
        }
        found.append(record)
        print(line(record), flush=True)
    return found


def line(record: dict[str, Any]) -> str:
    metrics = record["metrics"]
    views, videos, old = metrics["cmap"], metrics["cmap_video"], record["raw_pretrained"]
    cells = [f"{100 * one['value']:.1f} ({100 * one['chance']:.1f})" for one in (views, videos, old)]
    seconds = f"{record['training_seconds']:.0f} + {record['scoring_seconds']:.0f}"
    return f"| {record['attack']} | {record['pictures']} | {' | '.join(cells)} | {seconds} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--twin-size", default="small")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--networks", nargs="*", default=["resnet.18", "tiny@own"])
    parser.add_argument("--clip-networks", nargs="*", default=["tiny@own"])
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2, help="that render")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    root = asked.out / TWIN
    twins.make(TWIN, root, seed=SEED, size=asked.twin_size, processes=asked.processes)  # what is there stays
    labels = lead_attributes(TWIN, root, seed=SEED, size=asked.twin_size)
    source = Clips(registry.load(TWIN, root))
    print(
        "| attack | pictures | cMAP, views (chance) | cMAP, videos | raw-pretrained | seconds, learn + score |"
    )
    print("|---|---|---|---|---|---|")
    found = [record for task in attacks(asked, labels) for record in measure(task, source, asked)]
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
