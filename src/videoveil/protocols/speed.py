"""How fast privacy is reached: y = ½·(accuracy + 1 − leakage) against the seconds of training (SPLAVU Eq. 14).

The recipe of every run that is given is trained again on HMDB51 (and on THUMOS14 and UCF-Crime where it trains for
them), and asked along the way: accuracy of HMDB51 by a fresh probe, leakage of VISPR by the published attacker. Seconds
are those of training alone. `minutes` adds the extraction of the features (Table 14). Seconds are never the same twice.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil.errors import UsageError
from videoveil.protocols.base import Evaluation, Panel, Reading, Readings, Want, own_table
from videoveil.protocols.measures import ActionProbe, FeatureAttributes
from videoveil.protocols.papers import PaperColumn, table

if TYPE_CHECKING:
    from videoveil.anonymizers import LatentAnonymizer
    from videoveil.protocols.subjects import Subject
    from videoveil.protocols.workshop import Workshop
    from videoveil.recipes.latent import LatentRecipe
    from videoveil.tasks.base import Features

DATA = ("hmdb51", "vispr")
SOURCES = {"action": "hmdb51", "detection": "thumos14", "anomaly": "ucf-crime"}
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

    @property
    def needs(self) -> tuple[str, ...]:
        return DATA

    def about(self, workshop: Workshop) -> str:
        return f"features of {workshop.encoder_name}; on this machine"

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        if subject.latent is None:
            if subject.pixels is not None:
                raise UsageError(f"{subject.row}: only recipes of latent anonymizers are timed")
            return self._still(workshop, subject)
        recipe = _recipe_of(subject)
        if away := [SOURCES[task] for task in recipe.tasks if not workshop.has((SOURCES[task],))]:
            raise UsageError(
                f"{subject.row} trains for {', '.join(recipe.tasks)}: give --data {away[0]}:ROOT"
            )
        return self._trained(workshop, subject, recipe)

    def _still(self, workshop: Workshop, subject: Subject) -> dict[str, Reading]:
        """Raw features: nothing is trained."""
        accuracy = workshop.measured(ActionProbe("hmdb51"), subject)["top1"]
        leakage = workshop.measured(FeatureAttributes(self.kind), subject)[f"cmap_{self.kind}"]
        y = None
        if accuracy.value is not None and leakage.value is not None:
            y = combined(accuracy.value, leakage.value)
        return {
            "top1": accuracy,
            "cmap": leakage,
            "y": Reading(y),
            "minutes": Reading(0.0),
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
        asked = _Asked(self, workshop, sources["action"])
        every = max(1, recipe.epochs // ASKED)
        recipe = replace(recipe, evaluate_every=every)
        began = time.perf_counter()
        made = fit(recipe, sources, folder, seed=workshop.seed, device=workshop.device, evaluate=asked)
        elapsed = time.perf_counter() - began
        curve = folder / "curve.json"
        if curve.is_file():  # seconds without those of asking
            last = json.loads(curve.read_text("utf-8"))[-1]
            accuracy, leakage, elapsed = last["accuracy"], last["leakage"], last["seconds"]
        else:
            accuracy, leakage = asked(made, 0)
        extracted = workshop.extraction_seconds(sources["action"])
        whole = None if extracted is None else (elapsed + extracted) / 60
        return {
            "top1": Reading(accuracy),
            "cmap": Reading(leakage),
            "y": Reading(combined(accuracy, leakage)),
            "minutes": Reading(elapsed / 60),
            "whole": Reading(whole),
        }


@dataclass
class _Asked:
    """Accuracy and leakage of an anonymizer in training, through copies of its features in memory."""

    measure: Speed
    workshop: Workshop
    train: Features

    def __call__(self, anonymizer: LatentAnonymizer, epoch: int) -> tuple[float, float]:
        from videoveil.features.anonymize import anonymize
        from videoveil.features.store import FeatureStore
        from videoveil.protocols.measures import attack_on_features
        from videoveil.protocols.subjects import raw
        from videoveil.tasks.action.probe import ActionProbe as Probe
        from videoveil.tasks.base import Features

        work = self.workshop
        pictures = work.features("vispr", raw(), "train")
        with tempfile.TemporaryDirectory() as temporary:
            stores = {}
            for name, source in (("hmdb51", self.train), ("vispr", pictures)):
                anonymize(source.store.root, Path(temporary) / name, anonymizer, device=work.device)
                stores[name] = Features(FeatureStore.open(Path(temporary) / name), split="train")
            probe = Probe(work.scale.probe()).fit(stores["hmdb51"], seed=work.seed, device=work.device)
            top1 = probe.score(stores["hmdb51"].with_split("test"))["top1"].value
            attack: Any = attack_on_features(work, stores["vispr"], self.measure.kind)
            cmap = attack.score(stores["vispr"].with_split("test"))[f"cmap_{self.measure.kind}"].value
        return float(top1 or 0.0), float(cmap or 0.0)


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
        note="Curves are in OUT/runs/*/curve.json. Minutes depend on the machine.",
    ),
)
