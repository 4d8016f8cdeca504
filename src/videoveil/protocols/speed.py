"""How fast privacy is reached: y = ½·(accuracy + 1 − leakage) against the seconds of training (SPLAVU Eq. 14).

The recipe of every run that is given is trained again on HMDB51 (and on THUMOS14 and UCF-Crime where it trains for
them), and asked along the way: accuracy of HMDB51 by a fresh probe, leakage of VISPR by the published attacker. Seconds
are those of training alone. `minutes` adds the extraction of the features (Table 14); a run that was made from videos
is trained from videos again, the encoder in the loop, and has none to add. Seconds are never the same twice.

A run of a pixel anonymizer is not trained again: its loop cannot be asked along the way. It is one point instead of a
curve, at the seconds that its run noted, on whatever machine that was.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, ClassVar

from videoveil import files
from videoveil.errors import UsageError
from videoveil.protocols.base import Cell, Evaluation, Panel, Reading, Readings, Want, own_table
from videoveil.protocols.measures import ActionProbe, FeatureAttributes
from videoveil.protocols.papers import PaperColumn, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from videoveil.anonymizers import LatentAnonymizer, NoiseKey
    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop
    from videoveil.recipes.latent import LatentRecipe
    from videoveil.tasks.base import Features

DATA = ("hmdb51", "vispr")
SOURCES = {"action": "hmdb51", "detection": "thumos14", "anomaly": "ucf-crime"}
CURVE = "curve.json"
ASKED = 5  # times along the way
Y = PaperColumn("y (Eq. 14)", "y", "1", "higher", DATA)
ACCURACY = PaperColumn("HMDB51 top-1", "top1", "%", "higher", ("hmdb51",))
LEAKAGE = PaperColumn("VISPR cMAP", "cmap", "%", "lower", ("vispr",))
MINUTES = PaperColumn("training minutes", "minutes", "min", "lower", DATA)


def combined(accuracy: float, leakage: float) -> float:
    """SPLAVU Eq. 14, both as shares."""
    for name, value in (("accuracy", accuracy), ("leakage", leakage)):
        if not 0 <= value <= 1:
            raise UsageError(f"{name}={value}: must be a share in [0, 1]")
    return 0.5 * (accuracy + 1 - leakage)


@dataclass(frozen=True)
class Speed:
    """Train the recipe of a subject once more, asking along the way."""

    kind: str = "mlp2"
    on_features: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        return DATA

    @property
    def may(self) -> tuple[str, ...]:
        return tuple(name for name in SOURCES.values() if name not in DATA)

    @property
    def tests(self) -> tuple[str, ...]:
        return DATA

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return f"{workshop.encoder_words(subject)}; on this machine"

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        if subject.latent is None:
            return self._still(workshop, subject)
        recipe = _recipe_of(subject)
        if away := [SOURCES[task] for task in recipe.tasks if not workshop.has((SOURCES[task],))]:
            raise UsageError(
                f"{subject.row} trains for {', '.join(recipe.tasks)}: give --data {away[0]}:ROOT"
            )
        return self._trained(workshop, subject, recipe)

    def _still(self, workshop: Workshop, subject: Subject) -> dict[str, Reading]:
        """Raw features, or what a finished pixel run leaves of them: nothing is trained."""
        accuracy = workshop.measured(ActionProbe("hmdb51"), subject)["top1"]
        leakage = workshop.measured(FeatureAttributes(self.kind), subject)[f"cmap_{self.kind}"]
        return {
            "top1": accuracy,
            "cmap": leakage,
            "y": Reading(_both(accuracy.value, leakage.value)),
            "minutes": Reading(0.0 if subject.pixels is None else _noted_minutes(subject)),
            "whole": Reading(None),
        }

    def _trained(self, workshop: Workshop, subject: Subject, recipe: LatentRecipe) -> dict[str, Reading]:
        from videoveil.protocols.subjects import raw
        from videoveil.recipes import fit

        dense = f"dense:{workshop.scale.dense}"
        tasks = dict.fromkeys(("action", *recipe.tasks))  # actions are asked about whatever it trains for
        sources = {
            task: workshop.features(
                SOURCES[task], raw(), "train", clips=dense if task == "detection" else "all"
            )
            for task in tasks
        }
        folder = workshop.run_folder(self, subject)
        assert subject.latent is not None
        asked = _Asked(self, workshop, sources["action"], subject.latent.key)
        watched = _watched(workshop, subject)
        every = max(1, recipe.epochs // ASKED)
        recipe = replace(recipe, evaluate_every=every)
        began = time.perf_counter()
        made = fit(
            recipe, sources | watched, folder, seed=workshop.seed, device=workshop.device, evaluate=asked
        )
        elapsed = time.perf_counter() - began
        accuracy: float | None
        leakage: float | None
        if points := curve_of(folder):  # seconds without those of asking
            accuracy, leakage, elapsed = points[-1].accuracy, points[-1].leakage, points[-1].seconds
            if None in (accuracy, leakage):  # the loop wrote NaN, which is no JSON
                files.write_json(folder / CURVE, [asdict(point) for point in points])
        else:
            accuracy, leakage = (_known(share) for share in asked(made, 0))
        extracted = 0.0 if watched else workshop.extraction_seconds(sources["action"])
        whole = None if extracted is None else (elapsed + extracted) / 60
        return {
            "top1": Reading(accuracy),
            "cmap": Reading(leakage),
            "y": Reading(_both(accuracy, leakage)),
            "minutes": Reading(elapsed / 60),
            "whole": Reading(whole),
        }


@dataclass
class _Asked:
    """Accuracy and leakage of an anonymizer in training, through stores that are gone afterwards.

    One that adds noise has no key of its own while it is trained; it is asked with that of the subject.
    """

    measure: Speed
    workshop: Workshop
    train: Features
    key: NoiseKey | None = None

    def __call__(self, anonymizer: LatentAnonymizer, epoch: int) -> tuple[float, float]:
        from videoveil.features.anonymize import anonymize
        from videoveil.features.store import FeatureStore
        from videoveil.protocols.measures import attack_on_features
        from videoveil.protocols.subjects import raw
        from videoveil.tasks.action.probe import ActionProbe as Probe
        from videoveil.tasks.base import Features

        work = self.workshop
        pictures = work.features("vispr", raw(), "train")
        anonymizer.key = self.key  # training draws its noise from the seed and asks for no key
        with tempfile.TemporaryDirectory() as temporary:
            stores = {}
            for name, source in (("hmdb51", self.train), ("vispr", pictures)):
                anonymize(
                    source.store.root, Path(temporary) / name, anonymizer, labels=True, device=work.device
                )
                stores[name] = Features(FeatureStore.open(Path(temporary) / name), split="train")
            probe = Probe(work.scale.probe()).fit(stores["hmdb51"], seed=work.seed, device=work.device)
            top1 = probe.score(stores["hmdb51"].with_split("test"))["top1"].value
            attack: Any = attack_on_features(work, stores["vispr"], self.measure.kind)
            cmap = attack.score(stores["vispr"].with_split("test"))[f"cmap_{self.measure.kind}"].value
        # the loop wants numbers: what the items do not define is no number, and never 0, which would be perfect
        return _number(top1), _number(cmap)


def _number(share: float | None) -> float:
    return math.nan if share is None else float(share)


def _known(share: float | None) -> float | None:
    return None if share is None or math.isnan(share) else share


def _both(accuracy: float | None, leakage: float | None) -> float | None:
    """Eq. 14; None where one of them is not measurable."""
    return None if accuracy is None or leakage is None else combined(accuracy, leakage)


def _noted_minutes(subject: Subject) -> float | None:
    """Of training, as a pixel run noted them epoch by epoch; None where nothing was trained or noted."""
    path = None if subject.folder is None else subject.folder / "history.jsonl"
    if path is None or not path.is_file():
        return None
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return sum(float(record["seconds"]) for record in records) / 60


@dataclass(frozen=True, slots=True)
class Moment:
    """How far a training has come after these seconds; None where the test items do not define it."""

    seconds: float
    accuracy: float | None
    leakage: float | None
    score: float | None


def curve_of(folder: Path) -> list[Moment]:
    """The points of RUN/curve.json; none where nothing was asked along the way."""
    path = folder / CURVE
    if not path.is_file():
        return []
    names = ("accuracy", "leakage", "score")
    return [
        Moment(float(point["seconds"]), *(_known(point[name]) for name in names))
        for point in json.loads(path.read_text("utf-8"))
    ]


def pictures(
    shops: Sequence[Workshop], subjects: Sequence[Subject], cells: Sequence[Cell]
) -> dict[str, Figure]:
    """Eq. 14 against the minutes of training, every run a line, means over seeds; raw features are a level."""
    from videoveil.report import plots

    lines, levels = [], []
    for subject in subjects:
        curve = _mean_curve(shops, subject)
        if subject.latent is None and subject.pixels is None:
            levels += [plots.Level(subject.row, y) for _, y in curve]
        elif curve:
            lines.append(plots.Line(subject.row, *zip(*curve)))
    most = len(plots.SERIES)
    parts = [lines[first : first + most] for first in range(0, len(lines), most)]
    return {
        f"speed-curves{number or ''}": plots.curves(part, "minutes of training", "y (Eq. 14)", levels)
        for number, part in enumerate(parts)
    }


def _mean_curve(shops: Sequence[Workshop], subject: Subject) -> list[tuple[float, float]]:
    """(minutes, y) at every moment that all seeds define; one that was not asked along the way has its last only."""
    each = [curve_of(shop.run_folder(SPEED, subject)) for shop in shops]
    if not all(each):
        each = [[_last(shop, subject)] for shop in shops]
    found = []
    for same in zip(*each):
        scores = [moment.score for moment in same if moment.score is not None]
        if len(scores) == len(same):
            found.append((mean(moment.seconds for moment in same) / 60, mean(scores)))
    return found


def _last(shop: Workshop, subject: Subject) -> Moment:
    found = shop.measured(SPEED, subject)
    minutes = found["minutes"].value
    score = None if minutes is None else found["y"].value
    return Moment(60 * (minutes or 0.0), found["top1"].value, found["cmap"].value, score)


def _watched(workshop: Workshop, subject: Subject) -> dict[str, Any]:
    """The action videos with the encoder that looks at them, where the run was made from videos; else nothing."""
    from videoveil.protocols.subjects import raw
    from videoveil.recipes import EncodedClips
    from videoveil.recipes.fitting import from_videos

    if subject.folder is None or not from_videos(subject.folder):
        return {}
    videos = workshop.clips(SOURCES["action"], raw(), "train")
    return {"action": EncodedClips(videos, workshop.encoder_of(raw()), workers=workshop.scale.workers)}


def _recipe_of(subject: Subject) -> LatentRecipe:
    from videoveil.recipes.fitting import run_recipe

    if subject.folder is None:
        raise UsageError(f"{subject.row}: has no run folder, so its recipe is not known")
    return run_recipe(subject.folder)


SPEED = Speed()
OWN = own_table(
    "speed", "Accuracy, leakage and both together (Eq. 14) after training", (Y, ACCURACY, LEAKAGE, MINUTES)
)
PROTOCOLS = (
    Evaluation(
        "speed",
        "How fast privacy is reached",
        (
            Panel(
                OWN,
                {
                    Y.name: Want(SPEED, "y"),
                    ACCURACY.name: Want(SPEED, "top1"),
                    LEAKAGE.name: Want(SPEED, "cmap"),
                    MINUTES.name: Want(SPEED, "minutes"),
                },
            ),
            Panel(table("splavu/T14"), {"minutes": Want(SPEED, "whole")}),
        ),
        may=("thumos14", "ucf-crime"),
        trained_on=("hmdb51",),
        pictures=pictures,
        note=(
            "Curves are in OUT/runs/*/curve.json and drawn in OUT/speed-curves.png. Minutes depend on the machine. "
            "Runs of pixel anonymizers are one point each, with the minutes that their own training noted; their "
            "curves, which the paper compares SPLAVU's with, are not made here."
        ),
    ),
)
