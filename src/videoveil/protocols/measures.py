"""What fills a column: tasks and attacks, each trained afresh on what a subject leaves of its data, and scored.

Every measure is a frozen record. On pictures: `Action`, `Attributes`, `FrozenAttributes`, `Tags`. On features:
`ActionProbe`, `FeatureAttributes`, `FrameAttributes`, `Detection`, `Anomaly`, `Gait`, `GenderGap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from videoveil.data.pa_hmdb51 import frame_labels
from videoveil.data.records import Item
from videoveil.errors import UsageError
from videoveil.protocols.base import Reading, Readings
from videoveil.protocols.scales import Network
from videoveil.protocols.subjects import Subject, raw

if TYPE_CHECKING:
    from videoveil.attacks import FrameAttack
    from videoveil.protocols.workshop import Workshop
    from videoveil.tasks.base import Features, Score

TagKind = Literal["objects", "scenes"]
MODEL = "model.safetensors"
ENOUGH_PEOPLE = 8  # for an attacker to learn from half of them; with fewer only the untrained one is asked


def readings(score: Score) -> dict[str, Reading]:
    return {metric.name: Reading(metric.value, metric.chance) for metric in score.metrics}


def _stood_in(network: Network) -> str:
    if not network.instead_of:
        return ""
    return f"{network.word} instead of {network.instead_of}"


class OfOneDataset:
    """What needs one dataset, which is a field of its own."""

    dataset: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.dataset,)


# --- on pictures ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Action(OfOneDataset):
    """Actions by a network f'_T that is trained on what the subject leaves of the training videos."""

    dataset: str
    model: str = "r3d.18-spact"
    size: int = 112
    target: str = "action"

    def about(self, workshop: Workshop) -> str:
        return _stood_in(workshop.scale.stand_in(self.model, workshop.weights))

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.tasks.action.network import ActionNetwork

        network = workshop.scale.stand_in(self.model, workshop.weights)
        task = ActionNetwork(workshop.scale.action(network, self.size, self.target))
        fitted = task.fit(
            workshop.clips(self.dataset, subject, "train"),
            run=workshop.run_folder(self, subject),
            seed=workshop.seed,
            device=workshop.device,
        )
        return readings(fitted.score(workshop.clips(self.dataset, subject, "test")))


@dataclass(frozen=True)
class Attributes:
    """Private attributes by a network f'_B that is trained on what the subject leaves.

    `attributes` is the set of VISPR; `test` another dataset to be scored on (PA-HMDB51, frame by frame).
    """

    dataset: str = "vispr"
    model: str = "resnet.50"
    size: int = 112
    attributes: str = ""
    test: str = ""
    frozen: bool = False  # it has learnt from raw pictures and never saw the subject

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.dataset, self.test) if self.test else (self.dataset,)

    def about(self, workshop: Workshop) -> str:
        return _stood_in(workshop.scale.stand_in(self.model, workshop.weights))

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        options = {"attributes": self.attributes} if self.attributes else None
        teacher = raw() if self.frozen else subject
        task = self._task(workshop)
        # frozen ones learn once for all subjects: the folder is that of the raw pictures
        folder = workshop.run_folder(self, teacher)
        if (folder / MODEL).is_file():
            fitted = task.load(folder / MODEL)
        else:
            fitted = task.fit(
                workshop.clips(self.dataset, teacher, "train", options),
                run=folder,
                seed=workshop.seed,
                device=workshop.device,
            )
        name = self.test or self.dataset
        return readings(fitted.score(workshop.clips(name, subject, "test", None if self.test else options)))

    def _task(self, workshop: Workshop) -> FrameAttack:
        from videoveil.attacks import FrameAttack

        network = workshop.scale.stand_in(self.model, workshop.weights)
        config = workshop.scale.frames(network, self.size)
        return FrameAttack(config, moments=frame_labels) if self.test else FrameAttack(config)


@dataclass(frozen=True)
class Tags(OfOneDataset):
    """Objects or scenes as private labels (P-HVU), by a network on frames."""

    dataset: str
    kind: TagKind
    model: str = "resnet.50"
    size: int = 112

    def about(self, workshop: Workshop) -> str:
        return _stood_in(workshop.scale.stand_in(self.model, workshop.weights))

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.attacks import FrameAttack

        network = workshop.scale.stand_in(self.model, workshop.weights)
        train = workshop.clips(self.dataset, subject, "train")
        names = sorted({tag for item in train.items() for tag in getattr(item, self.kind)})
        if not names:
            raise UsageError(f"{self.dataset}: no training item has {self.kind}")
        task = FrameAttack(workshop.scale.frames(network, self.size), _tagged(names, self.kind))
        fitted = task.fit(
            train, run=workshop.run_folder(self, subject), seed=workshop.seed, device=workshop.device
        )
        return readings(fitted.score(workshop.clips(self.dataset, subject, "test")))


def _tagged(names: list[str], kind: TagKind) -> Callable[[Item], Mapping[str, int]]:
    """Every known tag as 0 or 1."""
    return lambda item: {name: int(name in getattr(item, kind)) for name in names}


# --- on features ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActionProbe(OfOneDataset):
    """Actions by a linear layer on features."""

    dataset: str

    def about(self, workshop: Workshop) -> str:
        return _encoder(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.tasks.action.probe import ActionProbe as Probe

        train = workshop.features(self.dataset, subject, "train")
        fitted = Probe(workshop.scale.probe()).fit(train, seed=workshop.seed, device=workshop.device)
        return readings(fitted.score(train.with_split("test")))


@dataclass(frozen=True)
class FeatureAttributes(OfOneDataset):
    """Private attributes of VISPR from features: `cmap_KIND` of the published attacker, `cmap` of the strongest."""

    kind: str = "mlp2"
    dataset: str = "vispr"

    def about(self, workshop: Workshop) -> str:
        return _encoder(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        train = workshop.features(self.dataset, subject, "train")
        fitted = attack_on_features(workshop, train, self.kind)
        return readings(fitted.score(train.with_split("test")))


@dataclass(frozen=True)
class FrameAttributes:
    """Attributes learnt on VISPR and looked for in single frames of PA-HMDB51, as static clips (SPLAVU)."""

    kind: str = "mlp2"
    rule: str = "splavu"
    dataset: str = "vispr"
    test: str = "pa-hmdb51"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.dataset, self.test)

    def about(self, workshop: Workshop) -> str:
        return _encoder(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.attacks import attribute_report

        train = workshop.features(self.dataset, subject, "train")
        fitted = attack_on_features(workshop, train, self.kind)
        x, y = frame_rows(workshop.features(self.test, subject, "test"), fitted.names, self.rule)
        reports = {one.kind: attribute_report(y, one.scores(x), fitted.names) for one in fitted.attackers}
        found = {f"cmap_{kind}": Reading(one.cmap, one.chance) for kind, one in reports.items()}
        strongest = max(reports.values(), key=lambda one: -1.0 if one.cmap is None else one.cmap)
        return {**found, "cmap": Reading(strongest.cmap, strongest.chance)}


def frame_rows(source: Features, names: tuple[str, ...], rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Static features (m, d) and what holds in their frames (m, k), NaN where nothing is known of it."""
    x: list[np.ndarray] = []
    y: list[list[float]] = []
    for entry in sorted(source.items(), key=lambda one: one.item.id):
        stored = source.store.read(entry)
        if stored.static is None or stored.static_frames is None:
            raise UsageError(f"{entry.item.id}: no static features; extract with --static K")
        for row, frame in zip(stored.static, stored.static_frames):
            known = frame_labels(entry.item, int(frame), rule)
            if known is not None:
                x.append(row)
                y.append([float(known[name]) if name in known else np.nan for name in names])
    if not x:
        raise UsageError(f"{source.store.root}: no frame of split {source.split!r} has labels")
    return np.stack(x), np.array(y)


def attack_on_features(workshop: Workshop, train: Features, kind: str) -> Any:
    """The published attacker and those of the suite."""
    from videoveil.attacks import SUITE
    from videoveil.attacks.attributes import AttackConfig, AttributeAttack

    kinds = tuple(dict.fromkeys((kind, *(workshop.scale.kinds or SUITE))))
    task = AttributeAttack(AttackConfig(kinds=kinds))
    return task.fit(train, seed=workshop.seed, device=workshop.device)


@dataclass(frozen=True)
class Detection(OfOneDataset):
    """When which action happens: TriDet on dense features."""

    dataset: str = "thumos14"

    def about(self, workshop: Workshop) -> str:
        return _temporal(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.tasks.detection import ActionDetection

        clips = f"dense:{workshop.scale.dense}"
        train = workshop.features(self.dataset, subject, "train", clips=clips)
        task = ActionDetection(workshop.scale.detection(), cut=True)
        fitted = task.fit(
            train, run=workshop.run_folder(self, subject), seed=workshop.seed, device=workshop.device
        )
        return readings(fitted.score(train.with_split("test")))


@dataclass(frozen=True)
class Anomaly(OfOneDataset):
    """When something unusual happens: MGFN on consecutive clips."""

    dataset: str = "ucf-crime"

    def about(self, workshop: Workshop) -> str:
        return _temporal(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.tasks.anomaly import AnomalyDetection

        train = workshop.features(self.dataset, subject, "train")
        fitted = AnomalyDetection(workshop.scale.anomaly()).fit(
            train,
            run=workshop.run_folder(self, subject),
            seed=workshop.seed,
            device=workshop.device,
        )
        return readings(fitted.score(train.with_split("test")))


@dataclass(frozen=True)
class Gait(OfOneDataset):
    """Who is walking (CASIA-B): `cosine_nm` is the published protocol, `top1` the best of all attackers."""

    dataset: str = "casia-b"

    def about(self, workshop: Workshop) -> str:
        return _encoder(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.attacks import GaitAttack, GaitConfig

        gallery = workshop.features(self.dataset, subject, "gallery")
        people = {entry.item.subject for entry in gallery.items()}
        task = GaitAttack(GaitConfig(trained=len(people) >= ENOUGH_PEOPLE))
        fitted = task.fit(gallery, seed=workshop.seed, device=workshop.device)
        return readings(fitted.score(gallery.with_split("probe")))


@dataclass(frozen=True)
class GenderGap(OfOneDataset):
    """Accuracy by gender of the person, and its gap, of a probe that is trained on a (biased) training set.

    How much of a bias a probe takes up depends on the probe: the published one does where ours, on standardised
    features, hardly does. So this is the published one at every scale, unless `own_probe`.
    """

    dataset: str = "ntu60"
    bias: str = ""  # of ntu60: F, M, balanced
    own_probe: bool = False

    def about(self, workshop: Workshop) -> str:
        return _encoder(workshop)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.protocols.genders import by_gender
        from videoveil.tasks.action.probe import ActionProbe as Probe
        from videoveil.tasks.action.probe import paper, recommended

        options = {"bias": self.bias, "seed": workshop.seed} if self.bias else None
        train = workshop.features(self.dataset, subject, "train", options=options)
        fitted = Probe(recommended() if self.own_probe else paper()).fit(
            train, seed=workshop.seed, device=workshop.device
        )
        return by_gender(fitted, train.with_split("test"))


def _encoder(workshop: Workshop) -> str:
    return f"features of {workshop.encoder_name}"


def _temporal(workshop: Workshop) -> str:
    words = [_encoder(workshop)]
    if not workshop.scale.temporal:
        words.append("small network")
    return ", ".join(words)
