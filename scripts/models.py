"""Make the anonymizers and task heads that come with the package, from scratch, with the seeds they were made with.

    python scripts/models.py NAME OUT [--device cuda]       # makes it in OUT/NAME, with its card
    python scripts/models.py veil-unet OUT --data DATA      # one that learns from real clips: DATA/hmdb51-12
    python scripts/models.py --cards                        # writes the cards of all shipped ones anew
    python scripts/models.py --check                        # exit code 1 if a shipped card is not what would be written

What a card says was measured comes from docs/data, where the studies' figures are (`scripts/results.py --store`): the
shipped model itself was a row there (`benchmarks/pixel_study.py OUT --rows NAME …`; one that has learnt numbers is
`=NAME`, as in `benchmarks/latent_study.py OUT --variants =veil-tiny`). One that is not in the package yet is measured
by its folder (`=OUT/veil-unet`); without figures its card says so, and it is no part of the package.
How heads are made and measured is in `scripts/heads.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from videoveil import files, shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.card import Measurement, ModelCard, render
from videoveil.errors import UsageError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
LICENSE = "mit"
TRAINING = "training.json"  # beside the weights of one that was trained on a GPU: `unets.Training`
CAST = 5  # the seed of the twin that shipped models learn from; studies report on 20 to 25 and chose on 10 and 11
CASTS = (CAST, 30, 31, 32)  # of the one that has to know what people differ in


@dataclass(frozen=True)
class Score:
    """A row of a card: which score of a study it is, and how people call it."""

    key: str  # PART/FIGURE where a part has several
    kind: Any  # "utility" or "attack"
    name: str
    metric: str


@dataclass(frozen=True)
class Figures:
    """Where figures of a model are."""

    data: str  # docs/data/NAME.json
    row: str  # in it
    scores: Sequence[Score]

    def stored(self) -> dict[str, Any]:
        """The file; nothing where the model has not been measured yet."""
        path = ROOT / "docs" / "data" / f"{self.data}.json"
        found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        return found if self.row in found.get("rows", {}) else {}


@dataclass(frozen=True)
class Shipped:
    """One model: how it is made, and where its figures are."""

    # folder to work in, device; None: `unets.py` trains it from real clips
    make: Callable[[Path, str], publish.Published] | None
    data: str  # docs/data/NAME.json
    row: str  # in it
    scores: Sequence[Score]
    training_data: str
    notes: str
    real: Sequence[Figures] = ()  # measured on real clips and faces, which are rows of their own

    def figures(self) -> tuple[Figures, ...]:
        return (Figures(self.data, self.row, self.scores), *self.real)


# --- how they are made --------------------------------------------------------------------------------------


def line_drawing(folder: Path, device: str) -> publish.Published:
    from videoveil.anonymizers.pixel import PixelAnonymizer, PixelConfig
    from videoveil.recipes import veil_pixel

    return PixelAnonymizer(PixelConfig(veil_pixel().stages))


def kept_behind_tiny(folder: Path, device: str) -> publish.Published:
    """Our default for features, for those of the embedded encoder: rendered, extracted and solved in closed form.

    From several casts, and all videos of each, because it is for people it has not seen. On the CPU whatever the
    device: the features that it takes its numbers from are then the same everywhere.
    """
    import torch

    from videoveil.anonymizers import LatentAnonymizer, LatentConfig
    from videoveil.anonymizers.config import EncoderReference
    from videoveil.data import registry, twins
    from videoveil.encoders import create
    from videoveil.features.extract import extract, recipe_for
    from videoveil.features.store import FeatureStore
    from videoveil.recipes import veil
    from videoveil.tasks.base import Features
    from videoveil.training.latent_data import join, load_action

    encoder, pools = create("tiny"), []
    cut = recipe_for(encoder, clips="all", static=6)
    for cast in CASTS:
        twin, store = folder / f"twin-{cast}", folder / f"features-{cast}"
        twins.make("vphmdb", twin, seed=cast, size="small", processes=2)
        extract(registry.load("vphmdb", twin), store, encoder, cut, device="cpu")
        pools.append(load_action(Features(FeatureStore.open(store))))
    every, owners = join(pools), join(pools).owners()
    actions = torch.cat([pool.labels for pool in pools if pool.labels is not None])
    reference = EncoderReference(encoder.name, encoder.content_hash())
    made = LatentAnonymizer(LatentConfig(encoder.width, veil().stages, "clip", reference)).eval()
    return made.fit_from(every.rows, videos=every.static, owners=owners, actions=actions[owners])


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
SYNTHETIC_SCORES = tuple(replace(score, name=f"synthetic: {score.name}") for score in PIXEL_SCORES)
REAL_SCORES = (
    Score("action", "utility", "real: 12 actions of HMDB51, a fresh R3D-18", "top-1"),
    Score(
        "faces",
        "attack",
        "real: gender, race, age group of faces of UTKFace, the best of fresh networks",
        "cMAP",
    ),
    Score("drawn_faces", "attack", "real: the same in faces that a UNet drew again from pairs", "cMAP"),
)
DETECTED_SCORES = (
    Score("faces in clips/found", "attack", "real: faces in clips of HMDB51, found again by YuNet", "share"),
    Score("people in clips/found", "attack", "real: people there, found again by FastestDet", "share"),
)
UNET_DATA = (
    "840 training clips of 12 classes of HMDB51 (split 1; films and web videos, for research) and the 192 training "
    f"videos of a synthetic twin of VP-HMDB51 (`veil data make vphmdb ROOT --seed {CAST} --size small`), with their "
    "actions; no private label"
)
UNET_NOTES = (
    "{what} Rows that begin with `synthetic:` were measured on twins of VP-HMDB51 and UCF-Crime at 64² (192 training "
    "and 96 test videos) of other people and films than any that it learnt from, {seeds}; the attackers know the "
    "theatre; it was trained at 112². Rows that begin with `real:` were measured at 112² on the 360 test clips of "
    "HMDB51 split 1, where it has seen the training clips of the networks that judge it, and on faces of UTKFace, of "
    "which it has seen none: one training, intervals are a bootstrap over test items. The chance of a detector is what "
    "published frames of another film give it. Known failures: a face that fills the frame leaks; whoever has pairs of "
    "raw and published frames learns to draw from published ones; {known}; how somebody walks is not hidden."
)


def unet(name: str, what: str, known: str) -> Shipped:
    """One that `scripts/unets.py` trains."""
    return Shipped(
        None,
        "shipped-pixels-twins",
        f"={name}",
        SYNTHETIC_SCORES,
        UNET_DATA,
        UNET_NOTES.replace("{what}", what).replace("{known}", known),
        (
            Figures("shipped-pixels-real", f"={name}", REAL_SCORES),
            Figures("shipped-detectors-real", name, DETECTED_SCORES),
        ),
    )


MODELS = {
    "veil-tiny": Shipped(
        kept_behind_tiny,
        "shipped-veil-tiny",
        "=veil-tiny",
        LATENT_SCORES,
        f"features of all videos of {len(CASTS)} synthetic twins of VP-HMDB51 (`veil data make vphmdb ROOT --seed S "
        f"--size small`, seeds {', '.join(map(str, CASTS))}) with their actions; no private label",
        LATENT_NOTES.replace(
            "{known}",
            "it keeps 32 numbers of a feature and knows only what happens in the theatre, so what other tasks would "
            "need beyond that is gone; on real clips, behind an encoder trained on them, make one from them "
            "(`veil train veil`) and attack it with videos that it was not made from (docs/results.md)",
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
    "veil-unet": unet(
        "veil-unet",
        "For privacy: a UNet of width 16 before the line drawing of `veil-pixel`, trained for actions and against "
        "budget nets that start anew (recipe `veil-pixel-attackers`).",
        "shapes are kept, so build, long hair or a skirt can be told",
    ),
    "penalty-unet": unet(
        "penalty-unet",
        "For utility: a UNet of width 16 by the penalty recipe with B = .5; what it gives out looks like pictures.",
        "nothing is thrown away behind the network, so that much of the raw picture can be drawn again",
    ),
}


# --- cards --------------------------------------------------------------------------------------------------


def card(name: str, folder: Path | None = None) -> ModelCard:
    """What was measured, from the stored figures, and how it was trained, where its folder says so."""
    one = MODELS[name]
    stored = [(figures, figures.stored()) for figures in one.figures()]
    measured = [row for figures, found in stored if found for row in measurements(figures, found["rows"])]
    twins = stored[0][1]
    seeds = twins["seeds"][: _count(twins["rows"][one.row])] if twins else ()
    notes = [one.notes.replace("{seeds}", _seeds(seeds))]
    if folder is not None and (folder / TRAINING).is_file():
        from scripts.unets import Training

        notes.append(Training(**json.loads((folder / TRAINING).read_text("utf-8"))).said())
    notes.append(f"Made by `python scripts/models.py {name} OUT{'' if one.make else ' --data DATA'}`.")
    return ModelCard(one.training_data, tuple(measured), "\n\n".join(notes), LICENSE)


def is_measured(name: str) -> bool:
    """Whether there are figures of every kind; what is not measured does not come with the package."""
    return all(figures.stored() for figures in MODELS[name].figures())


def measurements(figures: Figures, rows: Any) -> list[Measurement]:
    """The rows of a card that a study gives; a score that some seed lacks is left out."""
    found, count = [], _count(rows[figures.row])
    for score in figures.scores:
        mine, raw = (_score(rows[row], score.key) for row in (figures.row, "raw"))
        if mine is None or (isinstance(mine, list) and len(mine) < count):
            continue
        value, low, high, chance = _figure(mine)
        before = None if raw is None else _figure(raw[:count] if isinstance(raw, list) else raw)[0]
        found.append(Measurement(score.name, score.kind, score.metric, value, before, chance, low, high))
    return found


def _count(row: Any) -> int:
    """Seeds that a row has; one where its figures are not by seed."""
    return max(len(records) if isinstance(records, list) else 1 for records in row.values())


def _score(row: Any, key: str) -> Any:
    for part in key.split("/"):
        row = None if row is None else row.get(part)
    return row


def _figure(one: Any) -> tuple[float, float | None, float | None, float | None]:
    """Value, ends and chance, of records by seed or of a figure that has its interval already."""
    from benchmarks.intervals import interval

    if isinstance(one, list):
        value, *ends = interval([record["value"] for record in one])
        chance = one[0]["chance"]
    else:
        value, *ends = (one[key] for key in ("value", "low", "high"))
        chance = one.get("chance")
    low, high = (None if math.isnan(end) else round(min(max(end, 0.0), 1.0), 4) for end in ends)
    return round(value, 4), low, high, None if chance is None else round(chance, 4)


def _seeds(seeds: Sequence[int]) -> str:
    """Which seeds a study had, and what its intervals are."""
    named = ", ".join(map(str, seeds))
    if not seeds:
        return "not measured yet"
    if len(seeds) == 1:
        return f"test seed {named}; a single seed, so there are no intervals"
    return f"test seeds {named}; intervals are Student's over them"


def stale() -> list[str]:
    """Shipped models whose card is not what would be written now."""
    return [name for name in shipped.names() if name not in MODELS or _stale(name)]


def _stale(name: str) -> bool:
    model, due = publish.load(shipped.folder(name)), card(name, shipped.folder(name))
    if model.card != due:
        return True
    return (shipped.folder(name) / publish.CARD).read_text("utf-8") != render(model)


def write_cards() -> None:
    for name in stale():
        model = publish.load(shipped.folder(name))
        model.card = card(name, shipped.folder(name))
        model.save_pretrained(shipped.folder(name))
        print(f"{name}: card written")


def make(
    name: str, out: Path, device: str, data: Path | None = None, workers: int = 2, limit: int | None = None
) -> Path:
    """Make one in OUT/NAME; what that takes is kept in OUT/work."""
    from scripts import heads, unets

    if name in heads.HEADS:
        return heads.make(name, out)
    one, folder, work = MODELS[name], out / name, out / "work"
    if one.make is not None:
        made = one.make(work, device)
    elif data is None:
        raise UsageError(f"{name} learns from real clips: give the folder that holds hmdb51-12 with --data")
    else:
        made, training = unets.fit(name, data, work, cast=CAST, device=device, workers=workers, limit=limit)
        files.write_json(folder / TRAINING, asdict(training))
        print(training.said(), flush=True)
    made.card = card(name, folder)
    return made.save_pretrained(folder)


def main() -> None:
    from scripts import heads

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=[*MODELS, *heads.HEADS])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", type=Path, help="holds hmdb51-12, for those that learn from real clips")
    parser.add_argument("--workers", type=int, default=2, help="threads that decode")
    parser.add_argument("--limit", type=int, help="a few clips and epochs, to try the script")
    parser.add_argument("--cards", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    if asked.cards:
        write_cards()
        heads.write_cards()
    elif asked.check:
        old = [*stale(), *heads.stale()]
        sys.exit(f"cards that are not what docs/data says: {', '.join(old)}" if old else 0)
    elif asked.name and asked.out:
        print(make(asked.name, asked.out, asked.device, asked.data, asked.workers, asked.limit))
    else:
        parser.error("give a NAME and a folder OUT, or --cards, or --check")


if __name__ == "__main__":
    main()
