"""Run folders: what was trained on what, its weights, and what it is worth.

RUN/run.json               task, settings, seed, where the data was and what it was made with
RUN/checkpoint.safetensors what a killed run goes on from
RUN/model.safetensors      the result
RUN/history.json           one record per epoch
RUN/metrics.json           the last score, with the data it was taken on
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import videoveil
from videoveil import devices, files
from videoveil.data import registry as data
from videoveil.errors import CheckpointError, UsageError
from videoveil.features.store import FeatureStore
from videoveil.tasks import registry, settings, suits
from videoveil.tasks.base import Clips, Features, Fitted, Progress, Score, Source, Task

if TYPE_CHECKING:
    from lightning.fabric import Fabric

FORMAT = "videoveil-run-1"
RUN, MODEL, HISTORY, METRICS = "run.json", "model.safetensors", "history.json", "metrics.json"
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Run:
    """What a run folder says about itself."""

    folder: Path
    task: str
    settings: Mapping[str, Any]
    seed: int
    source: Mapping[str, Any]
    weights: str = ""  # the hash of the model file, where the run was packed with a card (`tasks.heads`)

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        folder = Path(folder)
        path = folder / RUN
        if not path.is_file():
            raise UsageError(
                f"{folder}: not a run (no {RUN}); make one with `veil train-task TASK --out {folder}`"
            )
        try:
            value = json.loads(path.read_text("utf-8"))
            if value["format"] != FORMAT:
                raise CheckpointError(f"{path}: format {value['format']!r}, this version reads {FORMAT!r}")
            return cls(
                folder,
                value["task"],
                value["settings"],
                value["seed"],
                value["source"],
                value.get("weights", ""),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: damaged ({error!r})") from error

    @property
    def name(self) -> str:
        """For people: a packed head has a name of its own, any other run the place where it is."""
        return self.folder.name if self.weights else str(self.folder)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "task": self.task,
            "settings": dict(self.settings),
            "seed": self.seed,
            "source": dict(self.source),
        }

    def header(self) -> dict[str, Any]:
        return {**self.to_json(), "software": f"videoveil {videoveil.__version__}"}

    def fitted(self) -> Any:
        """The trained task."""
        model = self.folder / MODEL
        if not model.is_file():
            raise UsageError(f"{self.folder}: not trained to the end; run the same `veil train-task` again")
        if self.weights and files.file_hash(model) != self.weights:
            raise CheckpointError(f"{model}: not the weights that its {RUN} names; fetch the folder again")
        return registry.kind(self.task).from_json(self.settings).load(model)

    def data(self, split: str | None) -> Source:
        """The data it was trained on, another split of it."""
        source = self.source
        if source["kind"] == "features":
            if "store" not in source:
                raise UsageError(f"{self.name}: comes without its data; give features with --features")
            return Features(FeatureStore.open(source["store"]), source["dataset"], split)
        if "anonymizer" in source:
            raise UsageError(
                f"{self.folder}: trained on pictures that anonymizer {source['anonymizer']['hash'][:12]} made; give "
                "the data with it (--data and --anonymizer)"
            )
        if "paint" in source:
            raise UsageError(f"{self.folder}: trained on frames in which people were covered; give such data")
        if "origin" not in source:
            raise UsageError(f"{self.folder}: does not say how its data was opened; give it with --data")
        return Clips(data.open_source(source["origin"], source.get("options", {})), split)


def train(
    task: Task,
    source: Source,
    folder: str | Path,
    *,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    fabric: Fabric | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Fitted:
    """Fit a task into a run folder. The same call goes on with a run that was killed, or finds it done."""
    folder = Path(folder)
    described = {**source.describe(), **(origin or {})}
    run = Run(folder, task.name, settings.to_json(task.config), seed, described)
    _claim(run)
    fitted = task.fit(source, run=folder, seed=seed, device=device, progress=progress, fabric=fabric)
    if fabric is None or fabric.is_global_zero:
        files.write_json(folder / RUN, run.header())
        files.write_json(folder / HISTORY, [dict(record) for record in getattr(fitted, "history", ())])
    return fitted


def _claim(run: Run) -> None:
    """The folder is new or holds a run of the same task.

    Whether a run that has begun may go on with these settings and this data is for its loop to say, which knows what
    changes the result and what (workers, the place of the store, more epochs of MGFN) does not.
    """
    folder = run.folder
    # a store that was extracted for this run may be there; anything else is not ours to write into
    strange = folder.exists() and any(
        p.name != "features" and not p.name.startswith((".", RUN)) for p in folder.iterdir()
    )
    if not (folder / RUN).is_file():  # looked for last: another process of this run may just have made it
        if strange:
            raise UsageError(f"{folder}: exists and is not a run; choose an empty or new folder")
        files.create_json(folder / RUN, run.header())
    there = Run.open(folder).task
    if there != run.task and any((folder / name).is_file() for name in (CHECKPOINT, MODEL)):
        raise UsageError(f"{folder}: holds a run of {there}, not of {run.task}; use another folder")


def score(run: Run, test: Source | None = None, *, split: str = "test", device: str = "auto") -> Score:
    """Score a run on test data (by default the other split of its own) and keep the result in its folder.

    Features must be those of the encoder that it was trained on, raw or behind any anonymizer: what a model is worth
    on features that went through another one than it knows is a fair question. What a packed head is worth is printed
    on its card, and its folder is left as it is.
    """
    source = test or run.data(split)
    if isinstance(source, Features):
        suits.require_encoder(run.source, source.store, run.name)
        if run.task in ("detection", "anomaly"):
            suits.require_grid(run.source, source.store, run.name)
    fitted = run.fitted()
    if hasattr(fitted, "to"):  # a whole network; the others are quick wherever they are
        fitted.to(devices.choose(device))
    found = fitted.score(source)
    if not run.weights:
        value = {**found.to_json(), "source": source.describe(), "run": run.to_json()}
        files.write_json(run.folder / METRICS, value)
    return found  # type: ignore[no-any-return]
