"""What the task heads that come with the package are worth on people and films that nobody trained on.

    python benchmarks/heads.py OUT [--seeds 20 21 22] [--features STUDY] [--heads FOLDER] [--real DATA]
    python scripts/results.py --store shipped-heads OUT/results.json && python scripts/models.py --cards

Per seed: the features of twins of VP-HMDB51, THUMOS14 and UCF-Crime, rendered and extracted as `latent_study.py` does
(STUDY/seedS/raw; made there where they are missing), the same through `veil-tiny`, and every head on the test videos of
its twin: one for raw features on both, one for anonymized features on those alone. FOLDER is where heads are that are
not in the package yet. DATA holds `hmdb51-12` and `fights` as for `real_tasks.py`: what heads that know nothing but the
theatre say of real clips, of actions with the same name there and of fights. Nothing is trained and nothing is chosen
here. Writes OUT/results.json, prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.intervals import show
from benchmarks.latent_study import RAW, TWINS, Study
from videoveil import files, shipped
from videoveil.anonymizers import LatentAnonymizer
from videoveil.data import registry
from videoveil.encoders import create
from videoveil.features.anonymize import anonymize
from videoveil.features.extract import extract, recipe_for
from videoveil.features.store import FeatureStore
from videoveil.tasks import runs
from videoveil.tasks.base import Features
from videoveil.tasks.runs import Run

VEIL = "veil-tiny"
KINDS = {RAW: "raw features", VEIL: f"features through `{VEIL}`"}


def stores(study: Path, out: Path, seed: int, twin: str) -> dict[str, Path]:
    """Raw and anonymized features of a twin; the latter are made in OUT."""
    return both(study / f"seed{seed}" / RAW / f"{twin}-features", out / f"seed{seed}" / twin)


def both(raw: Path, safe: Path) -> dict[str, Path]:
    veil = LatentAnonymizer.from_pretrained(shipped.place(VEIL))
    safe = safe.with_name(f"{safe.name}-{veil.content_hash()[:12]}")  # another anonymizer, another store
    anonymize(raw, safe, veil, device="cpu")
    return {RAW: raw, VEIL: safe}


def measure(head: Run, found: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Kind of features → score; a head of anonymized features has nothing to say of raw ones."""
    scores = {}
    for kind in [VEIL] if "anonymizer" in head.source["encoder"] else [RAW, VEIL]:
        score = runs.score(head, Features(FeatureStore.open(found[kind]), split="test"), device="cpu")
        best = score.headline
        scores[KINDS[kind]] = {"value": best.value, "chance": best.chance, **score.to_json()}
    return scores


def real(head: Run, data: Path, out: Path) -> dict[str, Any] | None:
    """The score of a head on real clips, where there are any for its task."""
    from benchmarks.real_tasks import fights

    if head.task == "action":
        hmdb = registry.load("hmdb51", data / "hmdb51-12", {"split": 1})
        names = head.fitted().names
        known = [item for item in hmdb.split("test") if item.action in names]
        dataset = replace(hmdb, items=tuple(known))
    elif head.task == "anomaly":
        dataset = fights(data / "fights")
    else:
        return None
    encoder, store = create("tiny"), out / f"{dataset.name}-real"
    extract(dataset, store, encoder, recipe_for(encoder, clips=head.source["recipe"]["clips"]), device="cpu")
    kind = VEIL if "anonymizer" in head.source["encoder"] else RAW
    score = runs.score(head, Features(FeatureStore.open(both(store, store)[kind])), device="cpu")
    return {"items": score.items, "score": {"value": score.headline.value, "chance": score.headline.chance}}


def table(rows: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> str:
    """Markdown: head, features, score with its interval over seeds, blind guess; in percent."""
    lines = ["| head | on | score | blind guess |", "|---|---|---|---|"]
    for name, kinds in rows.items():
        for kind in sorted(kinds, key=lambda kind: kind != KINDS[RAW]):
            records = kinds[kind]
            value, chance = ([record[key] for record in records] for key in ("value", "chance"))
            lines.append(f"| `{name}` | {kind} | {show(value)} | {100 * sum(chance) / len(chance):.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--features", type=Path, metavar="STUDY", help="default: OUT")
    parser.add_argument("--heads", type=Path, metavar="FOLDER", default=shipped.HEADS)
    parser.add_argument("--real", type=Path, metavar="DATA", help="holds hmdb51-12 and fights")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    study = asked.features or asked.out
    Study(study, asked.seeds, jobs=asked.jobs, variants=()).features()
    heads = [Run.open(path.parent) for path in sorted(asked.heads.glob(f"*/{runs.RUN}"))]
    if not heads:
        parser.error(f"{asked.heads}: no heads there (*/{runs.RUN})")
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {head.name: {} for head in heads}
    for seed in asked.seeds:
        found = {task: stores(study, asked.out, seed, twin) for task, twin in TWINS.items()}
        for head in heads:
            for kind, score in measure(head, found[head.task]).items():
                rows[head.name].setdefault(kind, []).append({**score, "seed": seed})
                print(f"seed {seed} {head.name} on {kind}: {100 * score['value']:.1f}", flush=True)
    found_real = {head.name: real(head, asked.real, asked.out) for head in heads} if asked.real else {}
    kept = {name: score for name, score in found_real.items() if score is not None}
    made = {"seeds": asked.seeds, "size": "small", "anonymizer": shipped.facts(VEIL)["content_hash"]}
    made["heads"] = {head.name: head.weights for head in heads}
    files.write_json(asked.out / "results.json", {**made, "rows": rows, "real": kept})
    for name, record in kept.items():
        value, chance = (100 * record["score"][key] for key in ("value", "chance"))
        print(f"{record['items']} real clips, {name}: {value:.1f} (guess {chance:.1f})")
    print(table(rows))


if __name__ == "__main__":
    main()
