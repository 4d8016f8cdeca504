"""Make the anonymizers that come with the package, from scratch, with the seeds they were made with.

    python scripts/models.py NAME OUT [--device cuda]       # makes it in OUT/NAME, with its card
    python scripts/models.py --cards                        # writes the cards of all shipped ones anew
    python scripts/models.py --check                        # exit code 1 if a shipped card is not what would be written

What a card says was measured comes from docs/data, where the studies' figures are (`scripts/results.py --store`): the
shipped model itself was a row there (`benchmarks/pixel_study.py OUT --rows NAME …`; one that has learnt numbers is
`=NAME`, as in `benchmarks/latent_study.py OUT --variants =veil-tiny`).
"""

from __future__ import annotations

import argparse
import json
import math
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
CAST = 5  # the seed of the twin that shipped models learn from; studies report on 20 to 25 and chose on 10 and 11


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


def erased_behind_tiny(folder: Path, device: str) -> publish.Published:
    """Our default for features, for those of the embedded encoder: rendered, extracted and solved in closed form.

    On the CPU whatever the device: the features that it takes its numbers from are then the same everywhere.
    """
    from videoveil.data import registry, twins
    from videoveil.encoders import create
    from videoveil.features.extract import extract, recipe_for
    from videoveil.features.store import FeatureStore
    from videoveil.recipes import fit, veil
    from videoveil.tasks.base import Features

    twins.make("vphmdb", folder / "twin", seed=CAST, size="small", processes=2)
    encoder, store = create("tiny"), folder / "features"
    cut = recipe_for(encoder, clips="all", static=6)
    extract(registry.load("vphmdb", folder / "twin"), store, encoder, cut, device="cpu")
    train = Features(FeatureStore.open(store), split="train")
    return fit(veil(), {"action": train}, folder / "run", seed=0, device="cpu")


def motion_behind_tiny(folder: Path, device: str) -> publish.Published:
    """Motion only, for features of the embedded encoder; it has no numbers of its own."""
    import torch

    from videoveil.anonymizers import LatentAnonymizer, LatentConfig
    from videoveil.anonymizers.config import EncoderReference
    from videoveil.encoders import create
    from videoveil.recipes import recipe

    encoder = create("tiny")
    reference = EncoderReference(encoder.name, encoder.content_hash())
    made = LatentAnonymizer(
        LatentConfig(encoder.width, recipe("veil-motion").stages, "clip", reference)
    ).eval()
    still = torch.zeros(2, encoder.width)
    made.fit_from(still, static=still)  # says that it is ready: there is nothing to find
    return made


PIXEL_SCORES = (
    Score("action", "utility", "actions, a fresh network", "top-1"),
    Score("anomaly", "utility", "unusual events, MGFN on features of a fresh network", "frame ROC-AUC"),
    Score(
        "frames", "attack", "14 attributes in frames, the better of a fresh and a raw-taught network", "cMAP"
    ),
    Score("clips", "attack", "the same in moving clips", "cMAP"),
    Score("reconstruction", "attack", "the same in frames that a UNet drew again from pairs", "cMAP"),
)
LATENT_SCORES = (
    Score("action", "utility", "actions, a fresh linear probe", "top-1"),
    Score("detection", "utility", "actions in long videos, a fresh TriDet", "mAP"),
    Score("anomaly", "utility", "unusual events, a fresh MGFN", "frame ROC-AUC"),
    Score("static", "attack", "14 attributes in still clips, the best of six fresh attackers", "cMAP"),
    Score("moving", "attack", "the same in moving clips", "cMAP"),
)
LATENT_NOTES = (
    "Measured on features of synthetic videos (twins of VP-HMDB51 and UCF-Crime, size small, of other people and films "
    "than any that it was made from), {seeds}; the attackers know the theatre. Known failures: it is for features of "
    "the embedded encoder `tiny` and for the theatre that encoder was trained on; {known}; how somebody walks is not "
    "hidden (docs/latent.md)."
)
MODELS = {
    "veil-tiny": Shipped(
        erased_behind_tiny,
        "shipped-latent",
        "=veil-tiny",
        LATENT_SCORES,
        "features of the 192 training videos of a synthetic twin of VP-HMDB51 "
        f"(`veil data make vphmdb ROOT --seed {CAST} --size small`) with their actions; no private label",
        LATENT_NOTES.replace(
            "{known}",
            "what it erases is what tells the people and films apart that it was made from. Of other people, which is "
            "what was measured here, attackers who train on their features find most of what they find in raw ones; "
            "whoever wants to be hidden makes one from videos of their own (`veil train veil`) and attacks it with "
            "videos that it was not made from. On real faces it hides next to nothing (docs/results.md)",
        ),
    ),
    "veil-motion-tiny": Shipped(
        motion_behind_tiny,
        "shipped-latent",
        "=veil-motion-tiny",
        LATENT_SCORES,
        "none: a clip's features minus the mean of its video's still ones, of which nothing is learnt",
        LATENT_NOTES.replace(
            "{known}",
            "in the theatre attackers find half of what they find in raw still clips and most of it in moving ones: it "
            "is for encoders of real faces (docs/results.md). It needs still clips beside the moving ones "
            "(`veil extract --static 6`)",
        ),
    ),
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
    stored = json.loads((ROOT / "docs" / "data" / f"{one.data}.json").read_text("utf-8"))
    rows = stored["rows"]
    count = max(len(records) for records in rows[one.row].values())  # seeds that this row has
    measured = []
    for score in one.scores:
        mine, raw = rows[one.row].get(score.key), rows["raw"].get(score.key)
        if mine is None or len(mine) < count:
            continue
        value, *ends = interval([record["value"] for record in mine])
        low, high = (None if math.isnan(end) else round(min(max(end, 0.0), 1.0), 4) for end in ends)
        before = None if raw is None else round(interval([record["value"] for record in raw[:count]])[0], 4)
        chance = round(mine[0]["chance"], 4)
        measured.append(
            Measurement(score.name, score.kind, score.metric, round(value, 4), before, chance, low, high)
        )
    about = one.notes.replace("{seeds}", _seeds(stored["seeds"][:count]))
    notes = f"{about}\n\nMade by `python scripts/models.py {name} OUT`."
    return ModelCard(one.training_data, tuple(measured), notes, LICENSE)


def _seeds(seeds: Sequence[int]) -> str:
    """Which seeds a study had, and what its intervals are."""
    named = ", ".join(map(str, seeds))
    if len(seeds) == 1:
        return f"test seed {named}; a single seed, so there are no intervals"
    return f"test seeds {named}; intervals are Student's over them"


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
