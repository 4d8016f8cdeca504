"""The private-attribute attack as a task: every attacker of the suite, trained afresh on what was published.

The score is that of the attacker that does best. `input` says what it sees: moving clips of a video, or single frames
tiled to static clips, which is the published protocol. An anonymizer must be judged by the worse of the two.
`knowledge`: "fresh" attackers learn from what was published; "raw" ones have learnt from raw features (the task's
`raw`) and look at published ones as they are.

Shapes: m rows, width d, k attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from videoveil import files
from videoveil.attacks.features import SUITE, attacker, split
from videoveil.attacks.metrics import AttributeReport, attribute_report
from videoveil.data.owners import together
from videoveil.data.records import Item
from videoveil.errors import AnnotationError, BadItems, UsageError
from videoveil.tasks.base import Features, Metric, Progress, Role, Score, as_features
from videoveil.tasks.feature_set import feature_problems
from videoveil.tasks.outcomes import AttributeOutcome, Outcome

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.attacks.base import FittedAttacker

Input = Literal["clip", "static"]
Knowledge = Literal["fresh", "raw"]
Labels = Callable[[Item], Mapping[str, int] | None]  # attributes of an item; None: nothing is known

PREVALENCE = "a random order of the rows: the share of rows with the attribute"


@dataclass(frozen=True, kw_only=True)
class AttackConfig:
    """What the attackers see and which there are."""

    input: Input = "clip"
    kinds: tuple[str, ...] = SUITE
    validation: float = 0.2  # share of the training videos that epochs and strengths are chosen on
    knowledge: Knowledge = "fresh"

    def __post_init__(self) -> None:
        for name, known in (("input", get_args(Input)), ("knowledge", get_args(Knowledge))):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(known)}")
        for kind in self.kinds:
            attacker(kind)
        if not self.kinds or not 0 < self.validation < 1:
            raise UsageError(
                f"kinds={self.kinds}, validation={self.validation}: at least one kind, a share in (0, 1)"
            )


def own_attributes(item: Item) -> Mapping[str, int] | None:
    """What the dataset says about the whole item."""
    return item.attributes


@dataclass(frozen=True)
class Rows:
    """Features of one kind with what is known of who is in them."""

    x: np.ndarray  # (m, d)
    y: np.ndarray  # (m, k) of 0, 1 and NaN
    videos: np.ndarray  # (m,) which item a row came from
    items: tuple[str, ...]  # their ids


def rows(source: Features, names: tuple[str, ...], config: AttackConfig, labels: Labels) -> Rows:
    """The rows of all items; everything that is wrong is listed."""
    x: list[np.ndarray] = []
    y: list[list[float]] = []
    videos: list[int] = []
    wrong: list[str] = []
    stored_items = sorted(source.items(), key=lambda e: e.item.id)
    for number, entry in enumerate(stored_items):
        stored = source.store.read(entry)
        features = stored.clip if config.input == "clip" else stored.static
        if features is None:
            wrong.append(f"{entry.item.id}: no static features; extract with --static K")
            continue
        if problems := feature_problems(features, int(source.store.encoder["width"])):
            wrong += [f"{entry.item.id}: {problem}" for problem in problems]
            continue
        known = labels(entry.item) or {}
        x.append(features)
        y += [[float(known[name]) if name in known else np.nan for name in names]] * len(features)
        videos += [number] * len(features)
    if wrong:
        raise BadItems(f"{source.store.root}: {len(wrong)} items cannot be attacked:", wrong)
    if not x:
        raise BadItems(f"{source.store.root}: no items in split {source.split!r}")
    ids = tuple(entry.item.id for entry in stored_items)
    return Rows(np.concatenate(x), np.array(y), np.array(videos), ids)


@dataclass(frozen=True)
class AttributeAttack:
    """What can be told about the people in a video."""

    config: AttackConfig = field(default_factory=AttackConfig)
    labels: Labels = own_attributes
    raw: Features | None = None  # of the same videos, for attackers who know raw features
    name: ClassVar[str] = "attributes"
    role: ClassVar[Role] = "attack"

    def fit(
        self,
        train: Features,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedAttack:
        """Train every attacker. They take seconds: an interrupted attack begins again, to the same result."""
        train = self._lesson(as_features(train, "this attack"))
        items = sorted((entry.item for entry in train.items()), key=lambda item: item.id)
        names = tuple(sorted({name for item in items for name in self.labels(item) or {}}))
        if not names:
            raise AnnotationError("nothing is known about the people in these videos: no item has attributes")
        data = rows(train, names, self.config, self.labels)
        # nobody who is learnt from helps to choose, where the dataset says who is who
        groups = np.array(together(items))[data.videos]
        learn, choose = split(len(data.x), self.config.validation, seed, groups)
        where = "cpu" if device == "auto" else device
        fitted = []
        for done, kind in enumerate(self.config.kinds):
            held_out = (data.x[choose], data.y[choose])
            fitted.append(attacker(kind).fit(data.x[learn], data.y[learn], held_out, seed, where))
            if progress is not None:
                progress(done + 1, len(self.config.kinds), 0.0)
        made = FittedAttack(names, tuple(fitted), self.config, self.labels)
        if run is not None:
            made.save(run / "attack.json")
        return made

    def _lesson(self, published: Features) -> Features:
        """What the attackers learn from."""
        if self.config.knowledge == "fresh":
            return published
        if self.raw is None:
            raise UsageError("knowledge='raw': give the raw features of the training videos as `raw`")
        widths = [int(one.store.encoder["width"]) for one in (self.raw, published)]
        if widths[0] != widths[1]:
            raise UsageError(
                f"knowledge='raw': raw features are {widths[0]} wide, published ones {widths[1]}; "
                "who knows the ones cannot look at the others"
            )
        return self.raw

    def load(self, source: str | Path) -> FittedAttack:
        raise UsageError(
            f"{source}: attackers are not kept, they take seconds to train; run the attack again"
        )


@dataclass
class FittedAttack:
    """Attackers that have learnt."""

    names: tuple[str, ...]
    attackers: tuple[FittedAttacker, ...]
    config: AttackConfig
    labels: Labels = own_attributes

    def reports(self, test: Features) -> dict[str, AttributeReport]:
        """What each attacker finds."""
        data = rows(test, self.names, self.config, self.labels)
        return {one.kind: attribute_report(data.y, one.scores(data.x), self.names) for one in self.attackers}

    def outcomes(self, test: Features) -> dict[str, Outcome]:
        """What each attacker says of every row, to be measured on any choice of items."""
        data = rows(test, self.names, self.config, self.labels)
        return {
            one.kind: AttributeOutcome(self.names, data.y, one.scores(data.x), data.videos, data.items)
            for one in self.attackers
        }

    def score(self, test: Features) -> Score:
        """cMAP of the attacker that does best, then of each; per attribute the best average precision of any."""
        found = self.reports(test)
        best = max(found, key=lambda kind: -1.0 if found[kind].cmap is None else float(found[kind].cmap or 0))
        worst = found[best]
        metrics = [Metric("cmap", worst.cmap, worst.chance), Metric("f1", worst.f1, worst.f1_chance)]
        metrics += [Metric(f"cmap_{kind}", report.cmap, report.chance) for kind, report in found.items()]
        per_class: dict[str, dict[str, float | None]] = {}
        for place, name in enumerate(self.names):
            scores = [report.attributes[place] for report in found.values()]
            known = [one.ap for one in scores if one.ap is not None]
            per_class[name] = {"ap": max(known) if known else None, "chance": scores[0].chance}
        return Score(AttributeAttack.name, len(test.items()), tuple(metrics), per_class, PREVALENCE)

    def save(self, destination: str | Path) -> None:
        """How the attackers came to be; their weights are not kept."""
        facts = {one.kind: {k: repr(v) for k, v in one.facts.items()} for one in self.attackers}
        value = {"names": list(self.names), "input": self.config.input, "attackers": facts}
        files.write_json(destination, value)


def leakage(value: float, raw: float, chance: float) -> float:
    """(x − chance) / (raw − chance): the part of what raw features tell that is still told; 1 is all, 0 is nothing."""
    if raw <= chance:
        raise UsageError(
            f"raw {raw:.3f} does not beat chance {chance:.3f}: there was nothing to hide, or a weak attacker"
        )
    return (value - chance) / (raw - chance)
