"""Does an attacker find more who trains on videos that the anonymizer was not made from?

    python benchmarks/latent_unseen.py STUDY [--seeds 20 21 22] [--variants "erase both 1/8"] [--json FILE]

STUDY is the folder of `latent_study.py`, whose raw features are used (`--only-features` makes them and nothing else).
There every attacker trains on the very videos that an anonymizer was made from. Here it is made from one half of the
training videos; one set of attackers trains on that half, another on the other half, both after it was applied, and
both are asked about the same test videos. Leakage is (cMAP − chance) / (raw − chance), raw attackers of the same half.
An anonymizer from half of the videos is weaker than one from all of them; the difference of the columns is the point.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.latent_study import TWINS, Job, cell, keyed, labels_of, raw_store
from benchmarks.latent_variants import VARIANTS
from videoveil import files
from videoveil.anonymizers import LatentAnonymizer
from videoveil.attacks.attributes import AttackConfig, AttributeAttack, leakage
from videoveil.features.anonymize import anonymize
from videoveil.features.store import FeatureStore, StoredItem
from videoveil.recipes import fit
from videoveil.tasks.base import Features

SEEN, UNSEEN = 0, 1
INPUTS = {"static": "static", "moving": "clip"}


@dataclass(frozen=True)
class Half(Features):
    """Every other video of a split, by name."""

    half: int = SEEN

    def items(self) -> tuple[StoredItem, ...]:
        return tuple(sorted(super().items(), key=lambda stored: stored.item.id)[self.half :: 2])


def found_in(job: Job, store: FeatureStore, half: int, what: str) -> dict[str, float]:
    """What the best of the attackers finds in the test videos who trained on one half."""
    task = AttributeAttack(AttackConfig(input=INPUTS[what]), labels_of(job))  # type: ignore[arg-type]
    fitted = task.fit(Half(store, split="train", half=half), seed=job.seed, device="cpu")
    best = fitted.score(Features(store, split="test")).headline
    return {"value": best.value, "chance": best.chance}


def measure(job: Job, store: FeatureStore) -> dict[str, dict[str, float]]:
    return {
        f"{what}, {name}": found_in(job, store, half, what)
        for what in INPUTS
        for name, half in (("seen", SEEN), ("unseen", UNSEEN))
    }


def anonymized(job: Job, raw: FeatureStore, out: Path) -> FeatureStore:
    """The action twin through an anonymizer that was made from the first half of its training videos."""
    variant = VARIANTS[job.variant]
    fit(variant.recipe, {"action": Half(raw, split="train")}, out / "run", seed=job.seed, device="cpu")
    anonymizer = keyed(LatentAnonymizer.from_pretrained(out / "run"), job.seed)
    anonymize(raw.root, out / "store", anonymizer, labels=True, device="cpu")
    return FeatureStore.open(out / "store")


def table(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Rows (name → a record per seed, `raw` among them) as Markdown."""
    raw = rows["raw"]
    columns = list(raw[0])
    lines = [f"| variant | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, found in rows.items():
        if name == "raw":
            continue
        cells = []
        for column in columns:
            pairs = [(own[column], other[column]) for own, other in zip(found, raw)]
            shares = [leakage(own["value"], other["value"], other["chance"]) for own, other in pairs]
            cells.append(cell(shares, percent=False))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--size", default="small")
    parser.add_argument("--variants", nargs="+", default=["erase both 1/8"], metavar="NAME")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if unfit := [name for name in asked.variants if name not in VARIANTS or VARIANTS[name].cross_sample]:
        parser.error(f"{', '.join(unfit)}: no variant, or one whose output depends on the batch")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ("raw", *asked.variants)}
    for seed in asked.seeds:
        for name in rows:
            job = Job(asked.study / f"seed{seed}", seed, asked.size, "unseen", name)
            raw = FeatureStore.open(raw_store(job, TWINS["action"]))
            with TemporaryDirectory() as place:
                store = raw if name == "raw" else anonymized(job, raw, Path(place))
                rows[name].append(measure(job, store))
            shown = {key: round(one["value"], 3) for key, one in rows[name][-1].items()}
            print(f"seed {seed} {name}: {json.dumps(shown)}", file=sys.stderr, flush=True)
    if asked.json:
        files.write_json(asked.json, {"seeds": asked.seeds, "size": asked.size, "rows": rows})
    print(table(rows))


if __name__ == "__main__":
    main()
