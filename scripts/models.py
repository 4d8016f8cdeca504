"""Make the anonymizers that come with the package, from scratch, with the seeds they were made with.

    python scripts/models.py NAME OUT [--device cuda]       # makes it in OUT/NAME, with its card
    python scripts/models.py --cards                        # writes the cards of all shipped ones anew
    python scripts/models.py --check                        # exit code 1 if a shipped card is not what would be written

What a card says was measured comes from docs/data, where the studies' figures are (`scripts/results.py --store`): the
shipped model itself was a row there (`benchmarks/pixel_study.py OUT --rows NAME …`; one that was trained is `=NAME`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videoveil import shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.card import Measurement, ModelCard

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
LICENSE = "mit"


@dataclass(frozen=True)
class Score:
    """A row of a card: which score of a study it is, and how people call it."""

    key: str
    kind: Any  # "utility" or "attack"
    name: str
    metric: str


@dataclass(frozen=True)
class Shipped:
    """One model: how it is made, and where its figures are."""

    make: Callable[[Path, str], publish.Published]  # folder to work in, device
    data: str  # docs/data/NAME.json
    row: str  # in it
    scores: Sequence[Score]
    training_data: str
    notes: str


# --- how they are made --------------------------------------------------------------------------------------


def line_drawing(folder: Path, device: str) -> publish.Published:
    from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig
    from videoveil.recipes import veil_pixel

    return PixelAnonymizer(PixelConfig(veil_pixel().stages))


PIXEL_SCORES = (
    Score("action", "utility", "actions, a fresh network", "top-1"),
    Score("anomaly", "utility", "unusual events, MGFN on features of a fresh network", "frame ROC-AUC"),
    Score(
        "frames", "attack", "14 attributes in frames, the better of a fresh and a raw-taught network", "cMAP"
    ),
    Score("clips", "attack", "the same in moving clips", "cMAP"),
    Score("reconstruction", "attack", "the same in frames that a UNet drew again from pairs", "cMAP"),
)
MODELS = {
    "veil-pixel": Shipped(
        line_drawing,
        "pixels-twins",
        "veil-pixel",
        PIXEL_SCORES,
        "none: a line drawing, of which nothing is learnt",
        "Measured on synthetic videos (twins of VP-HMDB51 and UCF-Crime, 64², 192 training and 96 test videos) with "
        "test seeds 20, 21, 22; intervals are Student's over the three; the attackers know the theatre. Known "
        "failures: shapes are kept, so build, long hair, a skirt or a stick can be told, and how somebody walks; a "
        "face that fills the frame keeps most of what tells gender, age and race (docs/results.md, real faces: .81 of "
        "raw above chance); writing that is large enough stays readable. Use it for scenes in which people are small "
        "against the frame.",
    ),
}


# --- cards --------------------------------------------------------------------------------------------------


def card(name: str) -> ModelCard:
    """What was measured, from the stored figures."""
    from benchmarks.intervals import interval

    one = MODELS[name]
    rows = json.loads((ROOT / "docs" / "data" / f"{one.data}.json").read_text("utf-8"))["rows"]
    measured = []
    for score in one.scores:
        mine, raw = rows[one.row].get(score.key), rows["raw"].get(score.key)
        if mine is None:
            continue
        value, low, high = (round(v, 4) for v in interval([record["value"] for record in mine]))
        before = None if raw is None else round(interval([record["value"] for record in raw])[0], 4)
        chance = round(mine[0]["chance"], 4)
        measured.append(
            Measurement(
                score.name, score.kind, score.metric, value, before, chance, max(low, 0.0), min(high, 1.0)
            )
        )
    notes = f"{one.notes}\n\nMade by `python scripts/models.py {name} OUT`."
    return ModelCard(one.training_data, tuple(measured), notes, LICENSE)


def stale() -> list[str]:
    """Shipped models whose card is not what the figures say."""
    found = []
    for name in shipped.names():
        kept = publish.load(shipped.folder(name))
        if name not in MODELS or kept.card != card(name):
            found.append(name)
    return found


def write_cards() -> None:
    for name in stale():
        model = publish.load(shipped.folder(name))
        model.card = card(name)
        model.save_pretrained(shipped.folder(name))
        print(f"{name}: card written")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=list(MODELS))
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cards", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if asked.cards:
        write_cards()
    elif asked.check:
        sys.exit(f"cards that are not what docs/data says: {', '.join(stale())}" if stale() else 0)
    elif asked.name and asked.out:
        made = MODELS[asked.name].make(asked.out / "work", asked.device)
        made.card = card(asked.name)
        print(made.save_pretrained(asked.out / asked.name))
    else:
        parser.error("give a NAME and a folder OUT, or --cards, or --check")


if __name__ == "__main__":
    main()
