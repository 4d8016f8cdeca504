"""Audits of anonymizers whose worth is known: does the audit say what it must?

    python benchmarks/audit.py OUT [--rows identity black …] [--budget 15] [--seeds 3] [--quick] [--json FILE]

Renders a twin of VP-HMDB51 (192 videos for training, 96 for test; the leading person's gender, skin, age, build and
hair) and audits, with the same command that users have: nothing at all (must FAIL on privacy), black frames (must FAIL
on utility), strong blur and downsampling of the whole picture, a pixel anonymizer trained against attackers, and
SPLAVU and our own anonymizer on features. Then a canary: a mark in one corner that says something about the person, in
videos whose every other pixel is black (the mark must be found). What was found on raw videos is shared by all audits
(`--cache`). Prints a Markdown table and whether each expectation holds; the exit code is 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import Tensor

from videoveil import files
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.attacks.attributes import AttackConfig
from videoveil.audit import registry
from videoveil.audit.conclusions import Result
from videoveil.audit.rules import Rules
from videoveil.audit.run import audit
from videoveil.audit.settings import Settings
from videoveil.audit.subject import Stores, Subject, open_anonymizer
from videoveil.data import registry as data
from videoveil.data import twins
from videoveil.data.records import Item
from videoveil.data.twins.people import lead_attributes

TWIN, SEED, SIZE = "vphmdb", 20, "small"
CORNER = 0.05  # of the picture's height and width
CANARY = "canary"


@dataclass(frozen=True)
class Expected:
    """What must come out; None: whatever does."""

    privacy: str | None = None
    utility: str | None = None


ROWS: dict[str, Expected] = {
    "identity": Expected("FAIL", "PASS"),
    "black": Expected("PASS", "FAIL"),
    "blur": Expected(),
    "downsample:4": Expected(),
    "downsample:8": Expected(),
    "veil-pixel": Expected(),  # this and the next come with the package
    "veil-unet": Expected(),
    "veil-pixel-attackers": Expected(),
    "splavu": Expected(),
    "veil": Expected(),
    CANARY: Expected("FAIL", None),
}
QUICK = ("linear", "kernel")


class Marked(Classical):
    """Everything black but one corner."""

    kind = "all but a corner"

    def transform_frames(self, frames: Tensor) -> Tensor:
        height, width = (max(1, round(CORNER * side)) for side in frames.shape[-2:])
        out = torch.zeros_like(frames)
        out[..., -height:, -width:] = frames[..., -height:, -width:]
        return out

    def settings(self) -> Mapping[str, Any]:
        return {"corner": CORNER}


class Mark:
    """Paints the canary: one corner is white in videos of women and black in those of men."""

    def __init__(self, labels: Callable[[Item], Mapping[str, int] | None]):
        self.labels = labels

    def __call__(self, item: Item, indices: Any, images: Any) -> Any:
        height, width = (max(1, round(CORNER * side)) for side in images.shape[1:3])
        out = images.copy()
        out[:, -height:, -width:] = 255 * (self.labels(item) or {}).get("female", 0)
        return out

    def content_hash(self) -> str:
        return f"canary {CORNER}"


# --- anonymizers that have to be made first -----------------------------------------------------------------


def made(name: str, out: Path, subject: Subject, cache: Path) -> Any:
    """The anonymizer of a row, trained on the training videos where it is one that learns."""
    if name in ("splavu", "veil"):
        return _latent(name, out, subject, cache)
    if name == "veil-pixel-attackers":
        return _pixel(name, out, subject)
    return open_anonymizer(name)


def _latent(name: str, out: Path, subject: Subject, cache: Path) -> Any:
    from videoveil.recipes import fit, recipe
    from videoveil.tasks.base import Features

    stores = Stores(subject, cache / "for-training", cache / "unused")
    source = Features(stores.make("raw"), split="train")
    fit(
        recipe({"splavu": "splavu-hmdb51"}.get(name, name)),
        {"action": source},
        out / "runs" / name,
        seed=SEED,
    )
    return open_anonymizer(str(out / "runs" / name))


def _pixel(name: str, out: Path, subject: Subject) -> Any:
    from benchmarks.pixel_rows import SCALES, scaled
    from videoveil.recipes import fit_pixel
    from videoveil.recipes.veil_pixel import veil_pixel_attackers
    from videoveil.tasks.base import Clips

    recipe = scaled(veil_pixel_attackers(), SCALES["cpu"])
    fit_pixel(recipe, Clips(subject.dataset, split="train"), out / "runs" / name, seed=SEED)
    return open_anonymizer(str(out / "runs" / name))


# --- the benchmark ------------------------------------------------------------------------------------------


def subject_of(name: str, root: Path, out: Path, cache: Path) -> Subject:
    dataset = data.load(TWIN, root)
    labels = lead_attributes(TWIN, root, seed=SEED, size=SIZE)
    raw = Subject.of(dataset, open_anonymizer("identity"), labels=labels)
    if name != CANARY:
        return Subject.of(dataset, made(name, out, raw, cache), name=name, labels=labels)
    found = Subject.of(dataset, Marked(), name=name, labels=labels, paint=Mark(labels))
    return replace(found, raw=replace(found.raw, paint=Mark(labels)))


def settings(asked: argparse.Namespace) -> Settings:
    changes = {}
    if asked.quick:
        changes = {
            "features-static": AttackConfig(input="static", kinds=QUICK),
            "features-moving": AttackConfig(input="clip", kinds=QUICK),
        }
    participants = registry.named(tuple(asked.only or ()), changes)
    return Settings(rules=Rules(seeds=asked.seeds), participants=participants, budget=asked.budget)


def record(name: str, found: Result, seconds: float) -> dict[str, Any]:
    attack = [q for q in found.questions if q.role == "attack" and q.leakage.value is not None]
    useful = next((q for q in found.questions if q.role == "utility" and q.kept.value is not None), None)
    worst = max(attack, key=lambda q: q.leakage.value or 0.0, default=None)
    expected = ROWS[name]
    wrong = [
        f"{part} is {word}, must be {must}"
        for part, word, must in (
            ("privacy", found.verdict.privacy, expected.privacy),
            ("utility", found.verdict.utility, expected.utility),
        )
        if must is not None and word != must
    ]
    return {
        "name": name,
        "privacy": found.verdict.privacy,
        "utility": found.verdict.utility,
        "leakage": None if worst is None else files_of(worst.leakage),
        "strongest": None if worst is None else worst.strongest,
        "took_part": list(found.metrics["took_part"]),
        "kept": None if useful is None else files_of(useful.kept),
        "parts": {} if worst is None else {part.name: part.leakage.value for part in worst.parts},
        "risks": {one.kind: one.risk for one in found.risks},
        "left_out": [one.name for one in found.left_out],
        "wrong": wrong,
        "minutes": seconds / 60,
    }


def files_of(estimate: Any) -> list[float | None]:
    return [estimate.value, estimate.low, estimate.high]


def line(one: Mapping[str, Any]) -> str:
    def cell(values: Any) -> str:
        if values is None:
            return "–"
        return " ".join([f"{values[0]:.2f}", "[{:.2f}, {:.2f}]".format(*values[1:])])

    cells = [one["name"], cell(one["leakage"]), cell(one["kept"]), one["privacy"], one["utility"]]
    cells += [str(one["strongest"]), "; ".join(one["wrong"]) or "as it must", f"{one['minutes']:.1f}"]
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| anonymizer | leakage above chance | utility kept | privacy | utility | strongest | | minutes |",
    "|---|---|---|---|---|---|---|---|",
)


def page(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """For the documentation: what `main` prints, without what must come out, with who took part."""
    lines = [HEAD[0].replace("strongest | |", "strongest attacker | took part |"), HEAD[1]]
    for one in rows.values():
        cells = line(one).strip("| ").split(" | ")
        cells[6] = ", ".join(f"`{name}`" for name in one["took_part"])
        lines.append(f"| {' | '.join([*cells[:5], f'`{cells[5]}`', *cells[6:]])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--budget", type=float, help="minutes of every audit")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="participants")
    parser.add_argument("--quick", action="store_true", help="two attackers on features instead of six")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    root, cache = asked.out / TWIN, asked.out / "cache"
    twins.make(TWIN, root, seed=SEED, size=SIZE, processes=2)  # what is there stays
    print(*HEAD, sep="\n")
    found: dict[str, dict[str, Any]] = {}
    for name in asked.rows:
        subject = subject_of(name, root, asked.out, cache)
        began = time.perf_counter()
        result = audit(subject, asked.out / name.replace(":", "-"), settings(asked), cache=cache)
        found[name] = record(name, result, time.perf_counter() - began)
        print(line(found[name]), flush=True)
    written = {"budget": asked.budget, "seeds": asked.seeds, "quick": asked.quick, "rows": found}
    files.write_json(asked.out / "results.json", written)
    if asked.json:
        asked.json.write_text(json.dumps(written, indent=1) + "\n")
    if any(one["wrong"] for one in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
