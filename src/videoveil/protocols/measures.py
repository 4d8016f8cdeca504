"""What fills a column: tasks and attacks, each trained afresh on what a subject leaves of its data, and scored.

Every measure is a frozen record. On pictures: `Action`, `Attributes`, `FrozenAttributes`, `Tags`. On features:
`ActionProbe`, `FeatureAttributes`, `FrameAttributes`, `Detection`, `Anomaly`, `Gait`, `GenderGap`; `PixelAttributes`
and `PixelAnomaly` on features that are extracted as TeD-SPAD does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from videoveil.data.pa_hmdb51 import frame_labels
from videoveil.data.records import Item
from videoveil.errors import UsageError
from videoveil.protocols.base import RAW, Reading, Readings
from videoveil.protocols.scales import Network
from videoveil.protocols.subjects import Subject, raw

if TYPE_CHECKING:
    from videoveil.attacks import FrameAttack
    from videoveil.attacks.frames import FittedPictureAttack
    from videoveil.protocols.workshop import Workshop
    from videoveil.tasks.base import Clips, Features, Score
    from videoveil.tasks.outcomes import Outcome

TagKind = Literal["objects", "scenes"]
MODEL = "model.safetensors"
IMAGES = ("vispr",)  # datasets of still pictures
CONDITIONS = ("nm", "bg", "cl")  # of walks: normal, with a bag, in a coat
ENOUGH_PEOPLE = 8  # for an attacker to learn from half of them; with fewer only the untrained one is asked


def readings(score: Score, said: Mapping[str, Outcome] | None = None) -> dict[str, Reading]:
    """The metrics of a score, with what was `said` of every item by the name of the metric."""
    said = said or {}
    return {
        metric.name: Reading(metric.value, metric.chance, said.get(metric.name)) for metric in score.metrics
    }


def best_of(said: Mapping[str, Outcome]) -> Outcome:
    """What the attacker said that finds out most."""
    return max(said.values(), key=lambda one: -1.0 if (found := one.measure().value) is None else found)


def chosen_from(found: Readings, best: str, others: Iterable[str]) -> dict[str, Reading]:
    """With what each of the others said beside the best of them, where all of it was kept."""
    said = [found[name].outcome for name in others]
    known = tuple(one for one in said if one is not None)
    return {**found, best: replace(found[best], among=known if len(known) == len(said) else ())}


def _attackers(found: Readings) -> dict[str, Reading]:
    """`cmap` is that of the best attacker, `cmap_KIND` that of each."""
    return chosen_from(found, "cmap", [name for name in found if name.startswith("cmap_")])


def _of_pictures(fitted: FittedPictureAttack, test: Clips) -> dict[str, Reading]:
    """Figures of an attack on pictures; `cmap` is that of the best network on single views."""
    views = {name: one for name, one in fitted.outcomes(test).items() if not name.endswith("_video")}
    return readings(fitted.score(test), {"cmap": best_of(views)})


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

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return _stood_in(workshop.scale.stand_in(self.model, workshop.weights))

    def truth(self, item: Item) -> str | None:
        return item.action if self.target == "action" else None

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.audit.utilities import of_probabilities
        from videoveil.tasks.action.network import ActionNetwork
        from videoveil.tasks.targets import targets

        network = workshop.scale.stand_in(self.model, workshop.weights)
        raw = subject.row == RAW
        task = ActionNetwork(workshop.scale.action(network, self.size, self.target, raw=raw))
        fitted = task.fit(
            workshop.clips(self.dataset, subject, "train"),
            run=workshop.run_folder(self, subject),
            seed=workshop.seed,
            device=workshop.device,
        )
        test = workshop.clips(self.dataset, subject, "test")
        score = fitted.score(test)
        items = tuple(sorted(test.items(), key=lambda item: item.id))
        found = fitted.probabilities(items, veil=test.veil(), paint=test.paint)
        labels = targets(items, fitted.names, fitted.config.target)
        said = of_probabilities(found, items, labels, fitted.prior)
        return readings(score, {said.metric: said})


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

    def about(self, workshop: Workshop, subject: Subject) -> str:
        words = [_stood_in(workshop.scale.stand_in(self.model, workshop.weights))]
        if self.test:
            words.append(frames_of_each(workshop.scale.frame_stride, workshop.scale.views))
        return ", ".join(word for word in words if word)

    def options(self, seed: int) -> dict[str, dict[str, Any]]:
        return {self.dataset: {"attributes": self.attributes}} if self.attributes else {}

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        options = self.options(workshop.seed).get(self.dataset)
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
        return _of_pictures(fitted, workshop.clips(name, subject, "test", None if self.test else options))

    def _task(self, workshop: Workshop) -> FrameAttack:
        from videoveil.attacks import FrameAttack

        network = workshop.scale.stand_in(self.model, workshop.weights)
        config = workshop.scale.frames(
            network, self.size, labelled_frames=bool(self.test), images=self.dataset in IMAGES
        )
        return FrameAttack(config, moments=frame_labels) if self.test else FrameAttack(config)


@dataclass(frozen=True)
class Tags(OfOneDataset):
    """Objects or scenes as private labels (P-HVU), by a network on frames."""

    dataset: str
    kind: TagKind
    model: str = "resnet.50"
    size: int = 112

    def about(self, workshop: Workshop, subject: Subject) -> str:
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
        return _of_pictures(fitted, workshop.clips(self.dataset, subject, "test"))


def _tagged(names: list[str], kind: TagKind) -> Callable[[Item], Mapping[str, int]]:
    """Every known tag as 0 or 1."""
    return lambda item: {name: int(name in getattr(item, kind)) for name in names}


# --- on features ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ActionProbe(OfOneDataset):
    """Actions by a linear layer on features."""

    dataset: str
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return workshop.encoder_words(subject)

    def truth(self, item: Item) -> str | None:
        return item.action

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.audit.utilities import of_probabilities
        from videoveil.tasks import feature_set
        from videoveil.tasks.action.probe import ActionProbe as Probe
        from videoveil.tasks.targets import targets

        train = workshop.features(self.dataset, subject, "train")
        fitted = Probe(workshop.scale.probe()).fit(train, seed=workshop.seed, device=workshop.device)
        test = train.with_split("test")
        score = fitted.score(test)
        data = feature_set.load(test, fitted.layer.in_features)
        labels = targets(data.items, fitted.names, fitted.config.target)
        said = of_probabilities(fitted.probabilities(data), data.items, labels, fitted.prior)
        return readings(score, {said.metric: said})


@dataclass(frozen=True)
class FeatureAttributes(OfOneDataset):
    """Private attributes of VISPR from features: `cmap_KIND` of the published attacker, `cmap` of the strongest."""

    kind: str = "mlp2"
    dataset: str = "vispr"
    clips: ClassVar[str] = "all"
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return workshop.encoder_words(subject)

    def complete(self, found: Readings) -> Readings:
        return _attackers(found)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        train = workshop.features(self.dataset, subject, "train", clips=self.clips)
        fitted = attack_on_features(workshop, train, self.kind)
        test = train.with_split("test")
        said = fitted.outcomes(test)
        named = {f"cmap_{kind}": one for kind, one in said.items()}
        return readings(fitted.score(test), {**named, "cmap": best_of(said)})


@dataclass(frozen=True)
class PixelAttributes(FeatureAttributes):
    """The same on features of pictures that are cut as TeD-SPAD's tests cut them, of whoever stands in its tables."""

    clips: ClassVar[str] = "ted-spad"


@dataclass(frozen=True)
class FrameAttributes:
    """Attributes learnt on VISPR and looked for in single frames of PA-HMDB51, as static clips (SPLAVU)."""

    kind: str = "mlp2"
    rule: str = "splavu"
    dataset: str = "vispr"
    test: str = "pa-hmdb51"
    on_features: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.dataset, self.test)

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return f"{workshop.encoder_words(subject)}, {frames_of_each(0, workshop.scale.static)}"

    def complete(self, found: Readings) -> Readings:
        return _attackers(found)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.tasks.outcomes import AttributeOutcome

        train = workshop.features(self.dataset, subject, "train")
        fitted = attack_on_features(workshop, train, self.kind)
        test = workshop.features(self.test, subject, "test")
        x, y, videos = frame_rows(test, fitted.names, self.rule)
        ids = tuple(sorted(entry.item.id for entry in test.items()))
        said: dict[str, Outcome] = {
            f"cmap_{one.kind}": AttributeOutcome(fitted.names, y, one.scores(x), videos, ids)
            for one in fitted.attackers
        }
        found = {}
        for name, one in {**said, "cmap": best_of(said)}.items():
            measured = one.measure()
            found[name] = Reading(measured.value, measured.chance, one)
        return found


def frame_rows(
    source: Features, names: tuple[str, ...], rule: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Static features (m, d), what holds in their frames (m, k), NaN where nothing is known of it, and of which video
    each is (m,), by its place in the order of ids."""
    x: list[np.ndarray] = []
    y: list[list[float]] = []
    videos: list[int] = []
    for video, entry in enumerate(sorted(source.items(), key=lambda one: one.item.id)):
        stored = source.store.read(entry)
        if stored.static is None or stored.static_frames is None:
            raise UsageError(f"{entry.item.id}: no static features; extract with --static K")
        for row, frame in zip(stored.static, stored.static_frames):
            known = frame_labels(entry.item, int(frame), rule)
            if known is not None:
                x.append(row)
                videos.append(video)
                y.append([float(known[name]) if name in known else np.nan for name in names])
    if not x:
        raise UsageError(f"{source.store.root}: no frame of split {source.split!r} has labels")
    return np.stack(x), np.array(y), np.array(videos)


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
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return _temporal(workshop, subject)

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
    clips: ClassVar[str] = "all"
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return _temporal(workshop, subject)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.audit.utilities import of_frames
        from videoveil.tasks.anomaly import AnomalyDetection
        from videoveil.tasks.mgfn import from_store

        train = workshop.features(self.dataset, subject, "train", clips=self.clips)
        fitted = AnomalyDetection(workshop.scale.anomaly()).fit(
            train,
            run=workshop.run_folder(self, subject),
            seed=workshop.seed,
            device=workshop.device,
        )
        test = train.with_split("test")
        videos = from_store(test.store, test.dataset, test.split, with_truth=True)
        said = of_frames(fitted.model.scores(videos), videos)
        return readings(fitted.score(test), {"roc_auc": said})


@dataclass(frozen=True)
class PixelAnomaly(Anomaly):
    """The same on features that are extracted as TeD-SPAD does it, of whoever stands in its tables."""

    clips: ClassVar[str] = "ted-spad"


@dataclass(frozen=True)
class Gait(OfOneDataset):
    """Who is walking (CASIA-B): `cosine_nm` is the published protocol, `top1` the best of all attackers.

    `cosine_bg` and `cosine_cl` are walks with a bag and in a coat, `top1_bg` and `top1_cl` the best of all attackers on
    them. `exclude_same_view`: a walk is looked for among walks from other sides only, as is usual for gait.
    """

    dataset: str = "casia-b"
    exclude_same_view: bool = False
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return workshop.encoder_words(subject)

    def truth(self, item: Item) -> str | None:
        return item.subject

    def complete(self, found: Readings) -> Readings:
        for condition in CONDITIONS:
            found = chosen_from(found, f"top1_{condition}", _of_all_people(found, condition))
        return found

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.attacks import GaitAttack, GaitConfig

        gallery = workshop.features(self.dataset, subject, "gallery")
        probe = gallery.with_split("probe")
        if self.exclude_same_view and not _from_other_sides(gallery, probe):
            return _walks({})
        people = {entry.item.subject for entry in gallery.items()}
        config = GaitConfig(trained=len(people) >= ENOUGH_PEOPLE, exclude_same_view=self.exclude_same_view)
        fitted = GaitAttack(config).fit(gallery, seed=workshop.seed, device=workshop.device)
        return _walks(readings(fitted.score(probe), fitted.outcomes(probe)))


def _from_other_sides(gallery: Features, probe: Features) -> bool:
    """Whether everybody who is looked for was filmed from another side too."""
    there: dict[str | None, set[str]] = defaultdict(set)
    for entry in gallery.items():
        there[entry.item.subject].add(entry.item.extra.get("view", ""))
    return all(there[e.item.subject] - {e.item.extra.get("view", "")} for e in probe.items())


def _walks(found: dict[str, Reading]) -> dict[str, Reading]:
    """With the best of all attackers in every condition; a condition that nobody walks in is not measurable.

    Attackers on half of the people (`open`) have another gallery and are left out, as in `top1`.
    """
    usual = {f"{name}_{condition}": Reading(None) for name in ("cosine", "top1") for condition in CONDITIONS}
    best: dict[str, Reading] = {"top1": found.get("top1", Reading(None))}
    for condition in CONDITIONS:
        own = [found[name] for name in _of_all_people(found, condition)]
        if own:
            best[f"top1_{condition}"] = max(own, key=lambda one: -1.0 if one.value is None else one.value)
    return {**usual, **found, **best}


def _of_all_people(found: Readings, condition: str) -> list[str]:
    """The attackers that look among everybody, by the names of what they find in these walks."""
    others = ("open", "top1")
    return [name for name in found if name.endswith(f"_{condition}") and not name.startswith(others)]


@dataclass(frozen=True)
class GenderGap(OfOneDataset):
    """Accuracy by gender of the person, and its gap, of a probe that is trained on a (biased) training set.

    How much of a bias a probe takes up depends on the probe: the published one does where ours, on standardised
    features, hardly does. So this is the published one at every scale, unless `own_probe`.
    """

    dataset: str = "ntu60"
    bias: str = ""  # of ntu60: F, M, balanced
    own_probe: bool = False
    on_features: ClassVar[bool] = True

    def about(self, workshop: Workshop, subject: Subject) -> str:
        return workshop.encoder_words(subject)

    def options(self, seed: int) -> dict[str, dict[str, Any]]:
        return {self.dataset: {"bias": self.bias, "seed": seed}} if self.bias else {}

    def truth(self, item: Item) -> str | None:
        return item.action

    def complete(self, found: Readings) -> Readings:
        from videoveil.protocols.genders import with_gap

        return with_gap(found)

    def run(self, workshop: Workshop, subject: Subject) -> Readings:
        from videoveil.protocols.genders import by_gender
        from videoveil.tasks.action.probe import ActionProbe as Probe
        from videoveil.tasks.action.probe import paper, recommended

        options = self.options(workshop.seed).get(self.dataset)
        train = workshop.features(self.dataset, subject, "train", options=options)
        fitted = Probe(recommended() if self.own_probe else paper()).fit(
            train, seed=workshop.seed, device=workshop.device
        )
        return by_gender(fitted, train.with_split("test"))


def frames_of_each(stride: int, few: int) -> str:
    """Which frames of a test video were looked at, where it was not all of them."""
    if stride == 1:
        return ""
    return f"every {stride} frames" if stride else f"{few} frames of every video"


def _temporal(workshop: Workshop, subject: Subject) -> str:
    words = [workshop.encoder_words(subject)]
    if not workshop.scale.temporal:
        words.append("small network")
    return ", ".join(words)
