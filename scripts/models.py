"""Make the anonymizers and task heads that come with the package, from scratch, with the seeds they were made with.

    python scripts/models.py NAME OUT [--device cuda]       # makes it in OUT/NAME, with its card
    python scripts/models.py veil-unet OUT --data DATA      # one that learns from real clips: DATA/hmdb51-12
    python scripts/models.py --cards                        # writes the cards of all shipped ones anew
    python scripts/models.py --check                        # exit code 1 if a shipped card is not what would be written

What a card says was measured comes from docs/data, where the studies' figures are (`scripts/results.py --store`): the
shipped model itself was a row there (`benchmarks/pixel_study.py OUT --rows NAME …`; one that has learnt numbers is
`=NAME`, as in `benchmarks/latent_study.py OUT --variants =veil-tiny`). One that is not in the package yet is measured
by its folder (`=OUT/veil-unet`); without figures its card says so, and it is no part of the package.
How heads are made and measured is in `scripts/heads.py`; what the card of the embedded encoder says in
`scripts/tiny_card.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil import files, shipped
from videoveil.anonymizers import publish
from videoveil.anonymizers.card import Measurement, ModelCard, render
from videoveil.attacks.fidelity import MOST
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from videoveil.anonymizers.config import EncoderReference
    from videoveil.recipes.latent import LatentRecipe
    from videoveil.training.latent_data import ClipPool

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
LICENSE = "mit"
TRAINING = "training.json"  # beside the weights of one that was trained on a GPU: `unets.Training`
CAST = 5  # the seed of the twin that shipped models learn from; studies report on 20 to 25 and chose on 10 and 11
CASTS = (CAST, 30, 31, 32)  # of those that have to know what people differ in
SEED, EPOCHS = 0, 234  # of what is trained on features: three steps an epoch, in all the paper's 700


@dataclass(frozen=True)
class Score:
    """A row of a card: which score of a study it is, and how people call it."""

    key: str  # PART/FIGURE where a part has several
    kind: Any  # "utility" or "attack"
    name: str
    metric: str
    lacking: str  # what a card without it says was not measured, in the plural; empty beside one that says it
    twin: str = ""  # of which dataset it was measured on a twin
    most: float = 1.0  # where its intervals end


@dataclass(frozen=True)
class Figures:
    """Where figures of a model are."""

    data: str  # docs/data/NAME.json
    row: str  # in it
    scores: Sequence[Score]
    command: str  # that measures them

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
    figures: Sequence[Figures]  # on twins first; on real clips and faces, which are rows of their own
    training_data: str
    notes: str
    half: bool = False  # weights are rounded to half precision and stored so: half the bytes


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
    from videoveil.anonymizers import LatentAnonymizer, LatentConfig
    from videoveil.recipes import veil

    every = features_of_casts(folder)
    owners, actions = every.owners(), every.labels
    assert actions is not None
    made = LatentAnonymizer(LatentConfig(every.width, veil().stages, "clip", tiny())).eval()
    return made.fit_from(every.rows, videos=every.static, owners=owners, actions=actions[owners])


def splavu_behind_tiny(folder: Path, device: str) -> publish.Published:
    """SPLAVU's published objective for actions, for features of the embedded encoder, from the videos of `veil-tiny`.

    The paper's number of steps at its learning rate. The adapter has one layer (`table8/attn1`): three would make the
    package too large. On the CPU, as all that learns from these features.
    """
    from videoveil.anonymizers import LatentAnonymizer, LatentConfig
    from videoveil.features.store import FeatureStore
    from videoveil.recipes import fitting
    from videoveil.tasks.base import Features
    from videoveil.training.latent_data import LatentData
    from videoveil.training.latent_heads import raw_heads

    every, recipe = features_of_casts(folder), splavu_tiny()
    first = Features(FeatureStore.open(folder / f"features-{CAST}"))
    heads = raw_heads({"action": first}, recipe.heads, seed=SEED, device="cpu")
    made = LatentAnonymizer(LatentConfig(every.width, recipe.stages, "clip", tiny()), seed=SEED)
    fitting.make_loop(made, recipe, LatentData(action=every), heads, seed=SEED).run()
    rounded = {name: tensor.half().to(tensor.dtype) for name, tensor in made.state_dict().items()}
    made.load_state_dict(rounded)
    return made.eval()


def splavu_tiny() -> LatentRecipe:
    """The recipe of `splavu-tiny`."""
    from videoveil.recipes import ablations, splavu_actions

    stages = ablations()["table8/attn1"].recipe.stages
    return replace(splavu_actions(), name="splavu-tiny", stages=stages, epochs=EPOCHS)


def features_of_casts(folder: Path) -> ClipPool:
    """All videos of the casts that shipped models learn from, with their actions, as `tiny` sees them."""
    import torch

    from videoveil.data import registry, twins
    from videoveil.encoders import create
    from videoveil.features.extract import extract, recipe_for
    from videoveil.features.store import FeatureStore
    from videoveil.tasks.base import Features
    from videoveil.training.latent_data import join, load_action

    encoder, pools = create("tiny"), []
    cut = recipe_for(encoder, clips="all", static=6)
    for cast in CASTS:
        twin, store = folder / f"twin-{cast}", folder / f"features-{cast}"
        twins.make("vphmdb", twin, seed=cast, size="small", processes=2)
        extract(registry.load("vphmdb", twin), store, encoder, cut, device="cpu")
        pools.append(load_action(Features(FeatureStore.open(store))))
    actions = torch.cat([pool.labels for pool in pools if pool.labels is not None])
    return replace(join(pools), labels=actions, classes=pools[0].classes)


def tiny() -> EncoderReference:
    """The embedded encoder, as a configuration names it."""
    from videoveil.anonymizers.config import EncoderReference
    from videoveil.encoders import create

    encoder = create("tiny")
    return EncoderReference(encoder.name, encoder.content_hash())


def motion_behind_tiny(folder: Path, device: str) -> publish.Published:
    """Motion only, for features of the embedded encoder; it has no numbers of its own."""
    import torch

    from videoveil.anonymizers import LatentAnonymizer, LatentConfig
    from videoveil.encoders import create
    from videoveil.recipes import recipe

    width = create("tiny").width
    made = LatentAnonymizer(LatentConfig(width, recipe("veil-motion").stages, "clip", tiny())).eval()
    still = torch.zeros(2, width)
    made.fit_from(still, static=still)  # says that it is ready: there is nothing to find
    return made


ACTIONS, UNTRIMMED, INCIDENTS = "VP-HMDB51", "THUMOS14", "UCF-Crime"
PIXEL_SCORES = (
    Score("action", "utility", "synthetic: actions, a fresh network", "top-1", "actions", ACTIONS),
    Score(
        "anomaly",
        "utility",
        "synthetic: unusual events, MGFN on features of a fresh network",
        "frame ROC-AUC",
        "anomalies",
        INCIDENTS,
    ),
    Score(
        "frames",
        "attack",
        "synthetic: 14 attributes in frames, the better of a fresh and a raw-taught network",
        "cMAP",
        "attributes in frames",
        ACTIONS,
    ),
    Score(
        "clips",
        "attack",
        "synthetic: the same in moving clips",
        "cMAP",
        "attributes in moving clips",
        ACTIONS,
    ),
    Score(
        "reconstruction",
        "attack",
        "synthetic: the same in frames that a UNet drew again from pairs",
        "cMAP",
        "attributes in frames drawn again",
        ACTIONS,
    ),
)
REAL_SCORES = (
    Score(
        "action", "utility", "real: 12 actions of HMDB51, a fresh R3D-18", "top-1", "actions of real clips"
    ),
    Score(
        "faces",
        "attack",
        "real: gender, race, age group of faces of UTKFace, the best of fresh networks",
        "cMAP",
        "attributes of real faces",
    ),
    Score(
        "drawn_faces",
        "attack",
        "real: the same in faces that a UNet drew again from pairs",
        "cMAP",
        "real faces drawn again",
    ),
    Score(
        "drawn",
        "attack",
        "real: frames of clips of HMDB51 that a UNet drew again from pairs, against the raw ones",
        "PSNR, dB",
        "real clips drawn again",
        most=math.inf,
    ),
    Score("ssim_drawn", "attack", "real: the same", "SSIM", ""),
)
LOWERED = ", with the score lowered"  # by somebody who looks for more
DETECTED_SCORES = (
    Score(
        "faces in clips/found",
        "attack",
        "real: faces in clips of HMDB51, found again by YuNet",
        "share",
        "faces that a detector finds",
    ),
    Score("faces in clips/lowered", "attack", f"real: the same faces{LOWERED}", "share", ""),
    Score(
        "faces in photographs/found",
        "attack",
        "real: faces in photographs of UTKFace, found again by YuNet",
        "share",
        "faces in photographs that a detector finds",
    ),
    Score("faces in photographs/lowered", "attack", f"real: the same photographs{LOWERED}", "share", ""),
    Score(
        "people in clips/found",
        "attack",
        "real: people in the clips, found again by FastestDet",
        "share",
        "people that a detector finds",
    ),
    Score("people in clips/lowered", "attack", f"real: the same people{LOWERED}", "share", ""),
)
LATENT_SCORES = (
    Score("action", "utility", "actions, a fresh linear probe", "top-1", "actions", ACTIONS),
    Score(
        "detection",
        "utility",
        "actions in long videos, a fresh TriDet",
        "mAP",
        "actions in long videos",
        UNTRIMMED,
    ),
    Score("anomaly", "utility", "unusual events, a fresh MGFN", "frame ROC-AUC", "anomalies", INCIDENTS),
    Score(
        "static",
        "attack",
        "14 attributes in still clips, the best of six fresh attackers",
        "cMAP",
        "attributes in still clips",
        ACTIONS,
    ),
    Score("moving", "attack", "the same in moving clips", "cMAP", "attributes in moving clips", ACTIONS),
)

# What stands in braces is filled in from the stored figures: see `card`.
LATENT_NOTES = (
    "Measured on features of synthetic videos (twins of {twins}, size small%s), {seeds}; the attackers know the "
    "theatre.{lacking} Known failures: it is for features of the embedded encoder `tiny` and for the theatre that "
    "encoder was trained on; %s; how somebody walks is not hidden (docs/latent.md)."
)
PIXEL_NOTES = (
    "%s Rows that begin with `synthetic:` were measured on twins of {twins} at 64² (192 training and 96 test videos of "
    "actions)%s, {seeds}; the attackers know the theatre%s. Rows that begin with `real:` were measured at 112² on the "
    "360 test clips of HMDB51 split 1%s: one training, intervals are a bootstrap over test items. Those of detectors "
    "are of three frames of each of these clips at their own size and of photographs of UTKFace, and nothing was "
    "trained for them; `with the score lowered` is by somebody who goes down with it until one published frame in ten "
    "has a detection that fits nobody, chosen on training clips and other photographs; intervals are a bootstrap over "
    "clips (photographs), and where five of them or fewer have anything found the upper end is the exact binomial one; "
    "their chance is what published frames of another film or photograph give: where a face fills the picture every "
    "one is hit by any, so of photographs read the share and not how far it is from chance. The chance of drawn frames "
    "is the mean training frame; of their SSIM neither an interval nor the mean frame's was kept. "
    f"{MOST:.2f} dB is a raw frame against itself, the most that is counted."
    "{lacking} Known failures: %s"
)
UNET_DATA = (
    "840 training clips of 12 classes of HMDB51 (split 1; films and web videos, for research) and the 192 training "
    f"videos of a synthetic twin of VP-HMDB51 (`veil data make vphmdb ROOT --seed {CAST} --size small`), with their "
    "actions; no private label"
)
UNET_LICENSE = (
    "The licence is that of these weights. The clips of HMDB51 that they learnt from are for research only: for any "
    "other use look at the terms of that data yourself first."
)


def latent(name: str, parts: str = "") -> tuple[Figures, ...]:
    """Where figures of one for features are."""
    own = {"splavu-tiny": "shipped-splavu-tiny", "veil-tiny": "shipped-veil-tiny"}
    data = own.get(name, "shipped-latent")
    command = f"python benchmarks/latent_study.py OUT --seeds {{seeds}} --variants ={name}{parts}"
    return (Figures(data, f"={name}", LATENT_SCORES, command),)


def pixel(row: str, prefix: str = "") -> tuple[Figures, ...]:
    """Where figures of one for frames are; one with learnt numbers is a row `=NAME` of two studies."""
    name = row.removeprefix("=")
    return (
        Figures(
            f"{prefix}pixels-twins",
            row,
            PIXEL_SCORES,
            f"python benchmarks/pixel_study.py OUT --scale gpu --seeds {{seeds}} --rows {row} --device cuda",
        ),
        Figures(
            f"{prefix}pixels-real",
            row,
            REAL_SCORES,
            f"python benchmarks/real_pixels.py DATA OUT --rows {row} --device cuda",
        ),
        Figures(
            f"{prefix}detectors-real",
            name,
            DETECTED_SCORES,
            f"python benchmarks/detectors.py DATA OUT --rows {name}",
        ),
    )


def unet(name: str, what: str, known: str) -> Shipped:
    """One that `scripts/unets.py` trains."""
    notes = PIXEL_NOTES % (
        what,
        " of other people and films than any that it learnt from",
        "; it was trained at 112²",
        ", where it has seen the training clips of the networks that judge it, and on faces of UTKFace, of which it "
        "has seen none",
        "a face that fills the frame leaks; whoever has pairs of raw and published frames learns to draw from "
        f"published ones; {known}; how somebody walks is not hidden.",
    )
    return Shipped(None, pixel(f"={name}", "shipped-"), UNET_DATA, f"{notes}\n\n{UNET_LICENSE}")


MODELS = {
    "splavu-tiny": Shipped(
        splavu_behind_tiny,
        latent("splavu-tiny", " --parts action static moving"),
        f"features of all videos of {len(CASTS)} synthetic twins of VP-HMDB51 (`veil data make vphmdb ROOT --seed S "
        f"--size small`, seeds {', '.join(map(str, CASTS))}) with their actions; no private label",
        "It keeps its task and hides nothing: fresh attackers find {leakage} of what they find in raw features (chance "
        "taken off, the worse of still and moving clips). It is SPLAVU's published objective (recipe `splavu-actions`, "
        "adapter of one layer as in Table 8), for research and comparison, not for publishing: what comes out of it "
        "tells about people what raw features tell. Its weights are rounded to half precision. "
        + LATENT_NOTES
        % (
            ", of other people and films than any that it was made from",
            "whoever trains on what it gives out finds who is seen; to hide that there is `veil-tiny`",
        ),
        half=True,
    ),
    "veil-tiny": Shipped(
        kept_behind_tiny,
        latent("veil-tiny"),
        f"features of all videos of {len(CASTS)} synthetic twins of VP-HMDB51 (`veil data make vphmdb ROOT --seed S "
        f"--size small`, seeds {', '.join(map(str, CASTS))}) with their actions; no private label",
        LATENT_NOTES
        % (
            ", of other people and films than any that it was made from",
            "it keeps 32 numbers of a feature and knows only what happens in the theatre, so what other tasks would "
            "need beyond that is gone; on real clips, behind an encoder trained on them, make one from them "
            "(`veil train veil`) and attack it with videos that it was not made from (docs/results.md)",
        ),
    ),
    "veil-motion-tiny": Shipped(
        motion_behind_tiny,
        latent("veil-motion-tiny"),
        "none: a clip's features minus the mean of its video's still ones, of which nothing is learnt",
        LATENT_NOTES
        % (
            "; nothing was made from any of them",
            "there it hides little: attackers find half of what they find in raw still clips and most of it in moving "
            "ones, and `veil-tiny` leaves less. Motion only is worth more behind an encoder that was trained on "
            "real clips, for still faces (docs/results.md): make one for that encoder (`veil train veil-motion`), this "
            "one refuses its features. It needs still clips beside the moving ones (`veil extract --static 6`)",
        ),
    ),
    "veil-pixel": Shipped(
        line_drawing,
        pixel("veil-pixel"),
        "none: a line drawing, of which nothing is learnt",
        PIXEL_NOTES
        % (
            "Nothing of it is learnt, so there is no data that it has seen.",
            "",
            "",
            " and on faces of UTKFace",
            "shapes are kept, so build, long hair, a skirt or a stick can be told, and how somebody walks; a face that "
            "fills the frame keeps most of what tells gender, age and race; writing that is large enough stays "
            "readable. Use it for scenes in which people are small against the frame.",
        ),
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
        "nothing is thrown away behind the network, so that much of the raw picture can be drawn again, and detectors "
        "find faces and people in it, most faces of photographs among them",
    ),
}


# --- cards --------------------------------------------------------------------------------------------------


def card(name: str, folder: Path | None = None) -> ModelCard:
    """What was measured, from the stored figures, and how it was trained, where its folder says so."""
    one = MODELS[name]
    found = {figures: figures.stored() for figures in one.figures}
    rows = {figures: measurements(figures, stored["rows"]) for figures, stored in found.items() if stored}
    measured = {score: row for part in rows.values() for score, row in part.items()}
    every = [score for figures in one.figures for score in figures.scores]
    twins = one.figures[0]
    told = {
        "seeds": _seeds(_studied(twins, found[twins])),
        "twins": _joined(
            dict.fromkeys(s.twin for s in (*measured, *(every if not rows.get(twins) else ())) if s.twin)
        ),
        "lacking": _lacking([score for score in every if score not in measured]),
        "leakage": _leakage([measured[score] for score in LATENT_SCORES if score in measured]),
    }
    notes = [one.notes.format(**told)]
    if folder is not None and (folder / TRAINING).is_file():
        from scripts.unets import Training

        notes.append(Training(**json.loads((folder / TRAINING).read_text("utf-8"))).said())
    notes.append(
        f"Made by `python scripts/models.py {name} OUT{'' if one.make else ' --data DATA --device cuda'}`."
    )
    if rows:
        notes[-1] += f" Measured by {_joined(f'`{_command(figures, found[figures])}`' for figures in rows)}."
    return ModelCard(one.training_data, tuple(measured.values()), "\n\n".join(notes), LICENSE, name)


def is_measured(name: str) -> bool:
    """Whether there are figures of every kind; what is not measured does not come with the package."""
    return all(figures.stored() for figures in MODELS[name].figures)


def measurements(figures: Figures, rows: Any) -> dict[Score, Measurement]:
    """The rows of a card that a study gives; a score that some seed lacks is left out."""
    found, count = {}, _count(rows[figures.row])
    for score in figures.scores:
        mine, raw = (_score(rows[row], score.key) for row in (figures.row, "raw"))
        if mine is None or (isinstance(mine, list) and len(mine) < count):
            continue
        value, low, high, chance = _figure(mine, score.most)
        before = None if raw is None else _figure(raw[:count] if isinstance(raw, list) else raw)[0]
        found[score] = Measurement(score.name, score.kind, score.metric, value, before, chance, low, high)
    return found


def _count(row: Any) -> int:
    """Seeds that a row has; one where its figures are not by seed."""
    return max(len(records) if isinstance(records, list) else 1 for records in row.values())


def _score(row: Any, key: str) -> Any:
    for part in key.split("/"):
        row = None if row is None else row.get(part)
    return row


def _figure(one: Any, most: float = 1.0) -> tuple[float, float | None, float | None, float | None]:
    """Value, ends and chance, of records by seed or of a figure that has its interval already, or has none."""
    from benchmarks.intervals import interval

    if isinstance(one, list):
        value, *ends = interval([record["value"] for record in one])
        chance = sum(record["chance"] for record in one) / len(one)
    else:
        value, *ends = (one.get(key, math.nan) for key in ("value", "low", "high"))
        chance = one.get("chance")
    low, high = (None if math.isnan(end) else round(min(max(end, 0.0), most), 4) for end in ends)
    return round(value, 4), low, high, None if chance is None else round(chance, 4)


def _studied(figures: Figures, stored: Any) -> Sequence[int]:
    """The seeds that a model was measured on, which may be fewer than the study's."""
    seeds: Sequence[int] = stored["seeds"][: _count(stored["rows"][figures.row])] if stored else ()
    return seeds


def _command(figures: Figures, stored: Any) -> str:
    """What measures it again: on the seeds that it was measured on, where the study has several."""
    if "{seeds}" not in figures.command:
        return figures.command
    return figures.command.format(seeds=" ".join(map(str, _studied(figures, stored))))


def _joined(words: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _lacking(scores: Sequence[Score]) -> str:
    named = [score.lacking for score in scores if score.lacking]
    if not named:
        return ""
    words = _joined(named)
    return f" {words[0].upper()}{words[1:]} were not measured."


def _leakage(rows: Iterable[Measurement]) -> str:
    """The most that an attacker of a card finds, as a share of what is found in raw features."""
    shares = [share for one in rows if one.kind == "attack" and (share := one.share) is not None]
    return f"{max(shares):.2f}" if shares else "an unknown part"


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
        write(model, name, shipped.folder(name))
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
    return write(made, name, folder)


def write(model: publish.Published, name: str, folder: Path) -> Path:
    """Into its folder; of one that was rounded, in as many bytes as its numbers need."""
    model.save_pretrained(folder)
    path = folder / publish.WEIGHTS
    if MODELS[name].half:
        from safetensors.torch import load_file, save_file

        tensors = {key: tensor.half() for key, tensor in load_file(path).items()}
        with files.atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata={"format": model.format})
    path.chmod(0o644)  # safetensors writes for its owner alone, and these are for everybody
    return folder


def main() -> None:
    from scripts import heads, tiny_card

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
        tiny_card.write_card()
    elif asked.check:
        old = [*stale(), *heads.stale(), *tiny_card.stale()]
        sys.exit(f"cards that are not what docs/data says: {', '.join(old)}" if old else 0)
    elif asked.name and asked.out:
        print(make(asked.name, asked.out, asked.device, asked.data, asked.workers, asked.limit))
    else:
        parser.error("give a NAME and a folder OUT, or --cards, or --check")


if __name__ == "__main__":
    main()
