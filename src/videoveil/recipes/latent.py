"""The record of a latent recipe: everything that decides an anonymizer but the data and the seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from videoveil.anonymizers.config import (
    MLP,
    Attention,
    AttentionOnly,
    Erase,
    Keep,
    StageConfig,
    Tokens,
    stage_from_json,
    stage_to_json,
)
from videoveil.errors import UsageError
from videoveil.objectives import SplavuWeights
from videoveil.objectives.adversaries import Adversaries
from videoveil.objectives.consistency import Reduction
from videoveil.recipes import text
from videoveil.tasks import settings
from videoveil.tasks.action.probe import ProbeConfig
from videoveil.tasks.mgfn import MGFNConfig
from videoveil.tasks.tridet import TriDetConfig
from videoveil.training.identity import IdentitySettings
from videoveil.training.latent import Decay, LatentSchedule, Precision
from videoveil.training.latent_heads import TASKS, HeadSettings
from videoveil.training.latent_step import Objective, Pairs, Reference

LATER = {"adversaries": None, "reference": "static"}  # came later: left out where they change nothing
ENCODERS = {"VideoMAE-B": "videomae.b", "VideoMAEv2-G": "videomaev2.g"}  # the paper's words → our names
HEADS: dict[str, type[Any]] = {"action": ProbeConfig, "detection": TriDetConfig, "anomaly": MGFNConfig}


@dataclass(frozen=True)
class Origin:
    """What a published number was made with, in words; the features that are really used are given to `fit`."""

    encoder: str = ""
    actions: str = ""  # the action dataset

    def departure(self, encoder: str, actions: str = "") -> str:
        """How features of this encoder (and action dataset, where there is one) are not the published ones, in words.

        Empty where they are, or where nothing is known of the published ones. An encoder that has no counterpart here
        is never the published one.
        """
        other = bool(self.encoder) and ENCODERS.get(self.encoder, self.encoder) != encoder
        elsewhere = bool(self.actions and actions) and self.actions != actions
        if not other and not elsewhere:
            return ""
        published = " on ".join(filter(None, (self.encoder, self.actions if actions else "")))
        here = " on ".join(filter(None, (encoder, actions)))
        return f"published with {published}, made here with {here}"


@dataclass(frozen=True, kw_only=True)
class LatentRecipe:
    """Stages, objective, schedule. An ablation is a recipe with one field replaced.

    With `epochs=0` nothing is trained: the stages take their numbers from the features in closed form.
    """

    name: str
    stages: tuple[StageConfig, ...]
    tokens: Tokens = "clip"
    origin: Origin = field(default_factory=Origin)
    tasks: tuple[str, ...] = ("action",)  # utilities that are trained for; none with epochs=0
    spare: bool = False  # directions of the raw action head are not erased
    # objective, paper Eq. 7
    w_consistency: float = 100.0
    w_utility: float = 1.0
    w_budget: float = 1.0
    w_temporal: float = 0.0
    temperature: float = 0.1
    reduction: Reduction = "mean"
    margin: float | None = None
    pairs: Pairs = "static"
    reference: Reference = "static"  # what the temporal budget takes away from moving clips
    adversaries: Adversaries | None = None  # that learn in alternation with the anonymizer
    # schedule
    epochs: int = 100
    batch: int = 512
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    gradient_clip: float = 1.0
    decay: Decay = "constant"
    precision: Precision = "32-true"
    checkpoint_every: int = 25
    evaluate_every: int = 10
    identity: IdentitySettings = field(
        default_factory=IdentitySettings
    )  # for stages that do not start as one
    heads: HeadSettings = field(default_factory=HeadSettings)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.tasks) - set(TASKS)):
            raise UsageError(f"{self.name}: no task {', '.join(unknown)}; there are {', '.join(TASKS)}")
        if len(set(self.tasks)) != len(self.tasks):
            raise UsageError(f"{self.name}: a task is named twice in {', '.join(self.tasks)}")
        if not self.stages:
            raise UsageError(f"{self.name}: needs at least one stage, or raw features would come out")
        if self.epochs < 0:
            raise UsageError(f"{self.name}: epochs={self.epochs} must be 0 or more")
        if self.epochs:
            self.schedule()
            if not self.tasks:
                raise UsageError(f"{self.name}: training needs the videos of at least one task")
        self.objective()

    @property
    def starts_as_identity(self) -> bool:
        """Whether every learned stage gives back what it gets before it is trained."""
        adapters = [stage for stage in self.stages if isinstance(stage, Attention | AttentionOnly | MLP)]
        return all(stage.init == "zero" for stage in adapters)

    @property
    def finds_directions(self) -> bool:
        """Whether a stage takes directions from static and moving clips."""
        return any(isinstance(stage, Erase | Keep) for stage in self.stages)

    def objective(self) -> Objective:
        weights = SplavuWeights(self.w_consistency, self.w_utility, self.w_budget, self.w_temporal)
        return Objective(
            weights,
            self.temperature,
            self.reduction,
            self.margin,
            self.pairs,
            adversaries=self.adversaries,
            reference=self.reference,
        )

    def schedule(self) -> LatentSchedule:
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(LatentSchedule)}
        return LatentSchedule(**own)

    # --- text -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        value = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        value["stages"] = [stage_to_json(stage) for stage in self.stages]
        value["tasks"] = list(self.tasks)
        value["origin"] = dataclasses.asdict(self.origin)
        value["identity"] = dataclasses.asdict(self.identity)
        heads: dict[str, Any] = {name: settings.to_json(getattr(self.heads, name)) for name in HEADS}
        value["heads"] = {**heads, "cut": self.heads.cut}
        if self.adversaries is not None:
            value["adversaries"] = dataclasses.asdict(self.adversaries)
        return {k: v for k, v in value.items() if k not in LATER or v != LATER[k]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LatentRecipe:
        """What `to_json` wrote; an unknown field is an error, because it would silently not be honoured."""
        given = _known(cls, value)
        try:
            given["stages"] = tuple(stage_from_json(stage) for stage in given.get("stages", ()))
            given["tasks"] = tuple(given.get("tasks", ("action",)))
            if "origin" in given:
                given["origin"] = Origin(**_known(Origin, given["origin"]))
            if "identity" in given:
                given["identity"] = IdentitySettings(**_known(IdentitySettings, given["identity"]))
            if given.get("adversaries") is not None:
                given["adversaries"] = Adversaries(**_known(Adversaries, given["adversaries"]))
            if "heads" in given:
                heads = _known(HeadSettings, given["heads"])
                own: dict[str, Any] = {
                    n: settings.from_json(kind, heads[n]) for n, kind in HEADS.items() if n in heads
                }
                given["heads"] = HeadSettings(**{**heads, **own})
            return cls(**given)
        except (TypeError, AttributeError) as error:
            raise UsageError(f"recipe {given.get('name', '?')!r} cannot be read ({error})") from error

    def to_text(self) -> str:
        return json.dumps(self.to_json(), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_text(cls, written: str) -> LatentRecipe:
        try:
            value = json.loads(written)
        except ValueError as error:
            raise UsageError(f"not a recipe: {error}") from error
        if not isinstance(value, dict):
            raise UsageError(f"not a recipe: {type(value).__name__} instead of an object")
        return cls.from_json(value)

    def to_yaml(self) -> str:
        """For people to read; the JSON text is what is read back."""
        return text.yaml(self.to_json())


def _known(record: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    known = {f.name for f in dataclasses.fields(record)}
    if unknown := sorted(set(value) - known):
        raise UsageError(
            f"{record.__name__}: no setting {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
    return dict(value)
