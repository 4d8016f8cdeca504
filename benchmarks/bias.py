"""Gender bias on twins: does an injected bias show in a probe on raw features, and does anonymizing features shrink it?

    python benchmarks/bias.py OUT [--seeds 20 21 22] [--size small]

A seed is another cast, other films and another training. Per seed: twins of HMDB51 (from whose training videos the
anonymizers are made, without any word of gender) and of NTU RGB+D 60. Of the latter's training part 95 % of the videos
of every action are by one gender and 5 % by the other, turned round for one action (NTU-Bias-F and -M); `balanced`
has as many of either. A linear probe learns from it and is tested on a balanced part with other people.

Printed is the difference that the bias makes: accuracy on the favoured gender minus that on the other, mean of F and M,
which noise alone leaves at 0, and the papers' gap |female − male|. The probe is the published one; beside it the same
for our own, which standardises features. Writes OUT/results.json. Finished parts are not done
again. About 8 minutes of one core for a seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.intervals import show
from videoveil import files
from videoveil.data import twins
from videoveil.protocols.measures import ActionProbe, GenderGap
from videoveil.protocols.scales import scale
from videoveil.protocols.subjects import Subject, from_run, raw
from videoveil.protocols.workshop import Workshop
from videoveil.recipes import LatentRecipe, fit, recipe

ACTIONS, PEOPLE = "hmdb51", "ntu60"
SCHEDULE: dict[str, Any] = {
    "batch": 64,
    "epochs": 60,
    "learning_rate": 8e-3,
}  # as many steps as a small twin needs; the published schedule would change next to nothing


def rows() -> dict[str, LatentRecipe | None]:
    return {
        "raw": None,
        "splavu": replace(recipe("splavu-hmdb51"), **SCHEDULE),
        "splavu-adversaries": replace(recipe("splavu-adversaries"), **SCHEDULE),
        "veil": recipe("veil"),
        "veil-erase": recipe("veil-erase"),
        "veil-static": recipe("veil-static"),
    }


def workshop(out: Path, seed: int, size: str) -> Workshop:
    """Twins of a seed, and where it is measured."""
    roots = {}
    for name in (ACTIONS, PEOPLE):
        roots[name] = out / f"seed{seed}" / name
        twins.make(name, roots[name], seed=seed, size=size)
    return Workshop(out / f"seed{seed}" / "work", roots, scale("small"), seed, device="cpu")


def subject(shop: Workshop, name: str, chosen: LatentRecipe | None) -> Subject:
    """The anonymizer of a row, made from the training videos of the action twin."""
    if chosen is None:
        return raw()
    folder = shop.out.parent / "anonymizers" / name
    fit(chosen, {"action": shop.features(ACTIONS, raw(), "train")}, folder, seed=shop.seed, device="cpu")
    return from_run(f"{name}={folder}")


def measure(shop: Workshop, who: Subject) -> dict[str, float]:
    """Signed differences and gaps of the biased and the balanced training set, and what is left of the actions."""
    found = {bias: shop.measured(GenderGap(PEOPLE, bias), who) for bias in ("F", "M", "balanced")}
    value = {bias: float(one["difference"].value or 0.0) for bias, one in found.items()}
    ours = {
        b: shop.measured(GenderGap(PEOPLE, b, own_probe=True), who)["difference"].value for b in ("F", "M")
    }
    own = (float(ours["F"] or 0.0) - float(ours["M"] or 0.0)) / 2
    return {
        "by bias": (value["F"] - value["M"]) / 2,  # F favours men, M women
        "balanced": value["balanced"],
        "gap F": float(found["F"]["gap"].value or 0.0),
        "gap M": float(found["M"]["gap"].value or 0.0),
        "overall F": float(found["F"]["overall"].value or 0.0),
        "overall M": float(found["M"]["overall"].value or 0.0),
        "by bias, our probe": own,
        "hmdb51": float(shop.measured(ActionProbe(ACTIONS), who)["top1"].value or 0.0),
    }


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """Markdown: means and 95 % intervals over seeds, in points; differences from raw seed by seed."""
    names = list(next(iter(found.values()))[0])
    lines = [f"| row | {' | '.join(names)} | by bias, less than raw |", "|---" * (len(names) + 2) + "|"]
    for row, records in found.items():
        cells = [points([one[name] for one in records]) for name in names]
        less = [before["by bias"] - one["by bias"] for before, one in zip(found["raw"], records)]
        lines.append(f"| {row} | {' | '.join(cells)} | {points(less)} |")
    return "\n".join(lines)


def page(found: dict[str, list[dict[str, float]]]) -> str:
    """The table of docs/results.md: the papers' gap, what of it is gone seed by seed, the part that the bias makes."""
    heads = ("features", "gap, F", "gap, M", "less than raw", "on how many seeds", "by bias", "top-1")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row, records in found.items():
        gaps = [[one[f"gap {bias}"] for one in records] for bias in "FM"]
        right = [(one["overall F"] + one["overall M"]) / 2 for one in records]
        less = [gap(before) - gap(one) for before, one in zip(found["raw"], records)]
        change = ["–", "–"] if row == "raw" else [points(less), f"{sum(v > 0 for v in less)} of {len(less)}"]
        cells = [*map(points, gaps), *change, points([one["by bias"] for one in records]), points(right)]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gap(record: dict[str, float]) -> float:
    """The papers' gap, mean of F and M."""
    return (record["gap F"] + record["gap M"]) / 2


def points(values: Sequence[float]) -> str:
    """`show` ends intervals at 0, and differences go below it."""
    from benchmarks.intervals import interval

    mean, low, high = interval(values)
    return f"{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]" if len(values) > 1 else show(values)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--size", default="small")
    asked = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    for seed in asked.seeds:
        shop = workshop(asked.out, seed, asked.size)
        for name, chosen in rows().items():
            record = measure(shop, subject(shop, name, chosen))
            found.setdefault(name, []).append(record)
            print(seed, name, {key: round(100 * value, 1) for key, value in record.items()}, flush=True)
    files.write_json(asked.out / "results.json", {"seeds": asked.seeds, "size": asked.size, "rows": found})
    print(table(found))


if __name__ == "__main__":
    main()
