"""Attacks on pictures: networks that learn, from (anonymized) frames or clips, what is private about who is in them.

    fitted = FrameAttack().fit(Clips(dataset, "train", anonymizer))
    fitted.score(Clips(dataset, "test", anonymizer))

Every network of the config is trained afresh and scored; the one that does best counts. `cmap` asks of single views (a
frame, a clip), as in the papers; `cmap_video` gives the attacker all views of a video, whose logits are averaged. Both
are scored with the epoch that held-out training videos chose and, as `…_last`, with the last one.

`knowledge` in the config: "fresh" networks learn from what was published alone; "raw" ones have learnt from raw videos
and are let loose on published ones as they are (the papers' raw-pretrained attacker); "fine-tuned" ones have done both.
With few videos a fresh attacker may do worse than one that has seen raw pictures before: let the best count. The raw
videos are those of `train` without its anonymizer, or where they were anonymized elsewhere the task's `raw`.

`FrameAttack` sees single frames of videos, or pictures; `ClipAttack` sees clips, which also show how people move, with
a video network or with an image network whose frames are pooled. An anonymizer must be judged by the worse of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import torch
from torch import Tensor

from videoveil import devices
from videoveil.attacks.attributes import PREVALENCE, Labels, own_attributes
from videoveil.attacks.losses import probabilities
from videoveil.attacks.metrics import AttributeReport, attribute_report
from videoveil.attacks.picture_networks import (
    SCRATCH,
    PictureAttacker,
    PictureConfig,
    PooledClassifier,
    Pooling,
    logits_of,
)
from videoveil.attacks.picture_training import Training, folder_name
from videoveil.attacks.pictures import (
    Answers,
    FrameLabels,
    Lens,
    ahead,
    attribute_names,
    veiled,
    view_truth,
)
from videoveil.data.records import Item
from videoveil.encoders import Classifier, Encoder, create
from videoveil.errors import CheckpointError, UsageError
from videoveil.tasks import settings
from videoveil.tasks.base import Clips, Metric, Progress, Role, Score, as_clips, best_on_test
from videoveil.tasks.outcomes import AttributeOutcome, Outcome
from videoveil.training import checkpoints, seeds
from videoveil.training.clip_batches import Frames, check
from videoveil.training.supervised import kept_epochs

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.features.pixels import PixelVeil

MODEL = "model.safetensors"
MANY = "a random order of the views: the share of views with the attribute"


@dataclass(frozen=True, kw_only=True)
class FrameConfig(PictureConfig):
    """Networks on single frames. The test crop is the middle of the training crops."""

    networks: tuple[str, ...] = ("resnet.18",)
    augment: str = "weak-image"
    test: str = "ted-spad-test"
    per_video: int = 4
    frames: int = 5  # of a test video, evenly spaced
    frame_stride: int = 0  # or every so many frames; 0: `frames` of them
    still: ClassVar[bool] = True

    @property
    def views(self) -> int:
        return self.frames

    @property
    def step(self) -> int:
        return self.frame_stride


@dataclass(frozen=True, kw_only=True)
class ClipConfig(PictureConfig):
    """Video networks on moving clips, or image networks on `frames` of a clip, pooled over time."""

    networks: tuple[str, ...] = ("r3d.18",)
    frames: int = 8  # of a clip, for image networks; video networks know their own
    stride: int = 2  # from one to the next of them
    pooling: Pooling = "attention"
    augment: str = "weak"
    test: str = "spact-test"
    per_video: int = 2
    clips: int = 5  # of a test video, evenly spaced
    still: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in get_args(Pooling) or self.frames < 1 or self.stride < 1:
            raise UsageError(
                f"pooling={self.pooling!r}, frames={self.frames}, stride={self.stride}: pooling is one of "
                f"{', '.join(get_args(Pooling))}, the others are at least 1"
            )

    @property
    def views(self) -> int:
        return self.clips

    def span(self, encoder: Encoder) -> tuple[int, int]:
        return (self.frames, self.stride) if encoder.kind == "image" else super().span(encoder)

    def classifier(self, encoder: Encoder, outputs: int, seed: int = 0) -> Classifier:
        if encoder.kind == "image":
            return PooledClassifier(encoder, outputs, self.dropout, pooling=self.pooling, seed=seed)
        return super().classifier(encoder, outputs, seed)


@dataclass(frozen=True, kw_only=True)
class PaperFrames(FrameConfig):
    """As the papers' code attacks: from random weights a network sees pixels in [0, 1], nothing taken off."""

    patience: int = 0

    def options(self, start: str) -> dict[str, Any]:
        return {**super().options(start), **({"norm": "zero_one"} if start == SCRATCH else {})}


def ted_spad() -> PaperFrames:
    """TeD-SPAD's image attacker: ResNet-50 from scratch at 224², batches of 32, at most 100 epochs at 1e-3, ÷5.

    An epoch sees every image once; test images are four fifths of each side, from the middle.
    """
    return PaperFrames(networks=("resnet.50",), size=224, test="ted-spad-test", per_video=1, epochs=100)


def spact() -> PaperFrames:
    """SPAct's: at 112², 150 epochs at 1e-3, ÷10, which its supplement says of all its target networks."""
    return replace(ted_spad(), size=112, test="spact-test-image", epochs=150, factor=0.1)


@dataclass(frozen=True)
class _Attack:
    """What both attacks share. `labels` says what is known of an item, `moments` of a frame of it, for scoring.

    `keep_every`: so many epochs apart the weights are kept beside an attacker's checkpoint, and `score` tells the best
    of these on the test items too, as released code does, in metrics that say so.
    """

    config: Any
    labels: Labels = own_attributes
    moments: FrameLabels | None = None
    raw: Clips | None = None  # raw videos to learn from, where `train` cannot be had without its anonymizer
    keep_every: int = 0
    name: ClassVar[str]
    role: ClassVar[Role] = "attack"
    form: ClassVar[str]
    settings: ClassVar[type[PictureConfig]]

    def fit(
        self,
        train: Clips,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedPictureAttack:
        """Train every network. With a `run` folder each of them has its checkpoint there."""
        train = as_clips(train, "this attack", "give a dataset, or attack the features (AttributeAttack)")
        fabric = fabric or devices.make_fabric(device, self.config.precision)
        config = self.config
        begun: tuple[PictureAttacker, ...] = ()
        if config.knowledge == "raw":
            train = raw_of(train) if self.raw is None else self.raw.with_split(train.split)
        elif config.knowledge == "fine-tuned":
            first = replace(self, config=replace(config, knowledge="raw"), keep_every=0)
            folder = None if run is None else run / "raw"
            before = first.fit(train, run=folder, seed=seed, device=device, progress=progress, fabric=fabric)
            names = attribute_names(train.items(), self.labels)
            if before.names != names:
                raise UsageError(
                    f"raw videos know {', '.join(before.names)} and anonymized ones {', '.join(names)}; an attacker "
                    "can only go on with the same attributes"
                )
            begun = before.attackers
            config = replace(config, learning_rate=config.learning_rate * config.tuning)
        job = Training(config, self.labels, train, seed, fabric, run, begun, self.keep_every)
        made = FittedPictureAttack(self, job.names, tuple(job.attackers(progress)), seed)
        if run is not None and fabric.is_global_zero:
            made.save(run / MODEL)
        return made

    def load(self, source: str | Path) -> FittedPictureAttack:
        return FittedPictureAttack.load(source, self)


@dataclass(frozen=True)
class FrameAttack(_Attack):
    """What single frames tell about the people in them."""

    config: FrameConfig = field(default_factory=FrameConfig)
    name: ClassVar[str] = "frame-attack"
    form: ClassVar[str] = "videoveil-frame-attack-2"
    settings: ClassVar[type[PictureConfig]] = FrameConfig


@dataclass(frozen=True)
class ClipAttack(_Attack):
    """What moving clips tell about the people in them."""

    config: ClipConfig = field(default_factory=ClipConfig)
    name: ClassVar[str] = "clip-attack"
    form: ClassVar[str] = "videoveil-clip-attack-2"
    settings: ClassVar[type[PictureConfig]] = ClipConfig


def raw_of(source: Clips) -> Clips:
    """The same videos as they were filmed."""
    return replace(source, anonymizer=None, eight_bit=False, paint=None)


# --- what was learnt ----------------------------------------------------------------------------------------


@dataclass
class FittedPictureAttack:
    """Attackers on pictures that have learnt."""

    task: _Attack
    names: tuple[str, ...]
    attackers: tuple[PictureAttacker, ...]
    seed: int = 0

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per network and epoch."""
        return [{"network": one.title, **record} for one in self.attackers for record in one.history]

    def to(self, device: str | torch.device) -> FittedPictureAttack:
        for one in self.attackers:
            one.to(device)
        return self

    def answers(self, test: Clips) -> dict[str, Answers]:
        """What each network says of every view; the last epoch's under `NAME_last` where another was chosen.

        A video is decoded and anonymized once for all networks that look at it in the same way, and by itself: what is
        said of it depends neither on the others nor on their order.
        """
        test = as_clips(test, "this attack")
        items = tuple(sorted(test.items(), key=lambda item: item.id))
        lenses = {one.lens for one in self.attackers}
        side = 2 * max(lens.size for lens in lenses)
        check(items, Frames(), self.task.config.workers)
        found: dict[str, list[np.ndarray]] = {}
        truths: dict[Lens, list[np.ndarray]] = {lens: [] for lens in lenses}
        for lens in lenses:
            look = partial(lens.pictures, frames=Frames(side=side, paint=test.paint))
            looks = ahead(items, look, self.task.config.workers)
            for item, pictures in zip(items, looks):
                for name, rows in self._said(lens, item, pictures, test.veil()).items():
                    found.setdefault(name, []).append(rows)
                middles = lens.middles(Frames().count(item))
                truths[lens].append(
                    view_truth(item, middles, self.names, self.task.labels, self.task.moments)
                )
        answers = {}
        for one in self.attackers:
            truth = truths[one.lens]
            videos = np.repeat(np.arange(len(items)), [len(rows) for rows in truth])
            for suffix in one.networks():
                name = f"{one.title}{suffix}"
                answers[name] = Answers(np.concatenate(found[name]), np.concatenate(truth), videos)
        return answers

    def _said(
        self, lens: Lens, item: Item, pictures: Tensor, veil: PixelVeil | None
    ) -> dict[str, np.ndarray]:
        """(views, k) of every network with this lens."""
        asked = {
            f"{one.title}{suffix}": network
            for one in self.attackers
            if one.lens == lens
            for suffix, network in one.networks().items()
        }
        device = next(self.attackers[0].chosen.parameters()).device
        return logits_of(asked, veiled(pictures, veil, seeds.number(self.seed, "test", item.id), device))

    def reports(self, test: Clips) -> dict[str, tuple[AttributeReport, AttributeReport]]:
        """Of single views and of whole videos, by network."""
        return {
            name: (_report(said, self.names), _report(said.by_video(), self.names))
            for name, said in self.answers(test).items()
        }

    def outcomes(self, test: Clips) -> dict[str, Outcome]:
        """What each network, in its chosen epoch, says of single views (NAME) and of whole videos (NAME_video)."""
        ids = tuple(sorted(item.id for item in test.items()))
        said = self.answers(test)
        made: dict[str, Outcome] = {}
        for one in self.attackers:
            for suffix, answers in (("", said[one.title]), ("_video", said[one.title].by_video())):
                scores = probabilities(answers.logits, True)
                made[f"{one.title}{suffix}"] = AttributeOutcome(
                    self.names, answers.truth, scores, answers.videos, ids
                )
        return made

    def score(self, test: Clips) -> Score:
        """cMAP and F1 of the network that does best, by views and by videos; then those of each."""
        found = self.reports(test)
        chosen = {one.title: found[one.title] for one in self.attackers}
        metrics: list[Metric] = []
        for place, suffix in ((0, ""), (1, "_video")):
            best = max((pair[place] for pair in chosen.values()), key=_strength)
            metrics += [Metric(f"cmap{suffix}", best.cmap, best.chance)]
            metrics += [Metric(f"f1{suffix}", best.f1, best.f1_chance)]
        for name in chosen:
            last = found.get(f"{name}_last", found[name])
            for words, pair in (("", found[name]), ("_last", last)):
                metrics.append(Metric(f"cmap_{name}{words}", pair[0].cmap, pair[0].chance))
                metrics.append(Metric(f"cmap_video_{name}{words}", pair[1].cmap, pair[1].chance))
        metrics += self._best_epochs(test, list(found.values()))
        per_class: dict[str, dict[str, float | None]] = {}
        for place, name in enumerate(self.names):
            views, videos = ([pair[i].attributes[place] for pair in chosen.values()] for i in (0, 1))
            per_class[name] = {
                "ap": _most(one.ap for one in views),
                "chance": views[0].chance,
                "ap_video": _most(one.ap for one in videos),
                "chance_video": videos[0].chance,
            }
        words = PREVALENCE if self.task.moments is None else MANY
        return Score(self.task.name, len(test.items()), tuple(metrics), per_class, words)

    def _best_epochs(
        self, test: Clips, known: Sequence[tuple[AttributeReport, AttributeReport]]
    ) -> list[Metric]:
        """The most that any network finds after any epoch that was kept, with the others; nothing if none was."""
        epochs = sorted({path.name for one in self.attackers for path in one.kept})
        said = list(known)
        for epoch in epochs:  # one after the other: together they may not fit into memory
            then = [one.at(path) for one in self.attackers for path in one.kept if path.name == epoch]
            said += replace(self, attackers=tuple(then)).reports(test).values()
        views = [Metric("cmap", pair[0].cmap, pair[0].chance) for pair in said]
        videos = [Metric("cmap_video", pair[1].cmap, pair[1].chance) for pair in said]
        return [best_on_test(views), best_on_test(videos)] if epochs else []

    # --- on disk ---

    def save(self, destination: str | Path) -> None:
        """All networks in one file."""
        tensors: dict[str, Tensor] = {}
        described = []
        for place, one in enumerate(self.attackers):
            for suffix, network in one.networks().items():
                tensors |= {f"{place}{suffix}.{key}": t for key, t in network.state_dict().items()}
            described.append(
                {
                    "title": one.title,
                    "network": one.chosen.encoder.name,
                    "encoder": one.chosen.encoder.recreation(),
                    "epoch": one.epoch,
                    "states": list(one.networks()),
                    "history": [dict(record) for record in one.history],
                }
            )
        facts = {
            "names": list(self.names),
            "config": settings.to_json(self.task.config),
            "seed": self.seed,
            "attackers": described,
        }
        checkpoints.write(destination, self.task.form, tensors, facts)

    @classmethod
    def load(cls, source: str | Path, task: _Attack) -> FittedPictureAttack:
        """What `save` wrote; the labels to score by are the task's own."""
        tensors, facts = checkpoints.read(source, task.form)
        try:
            names = tuple(facts["names"])
            config: Any = settings.from_json(task.settings, facts["config"])
            task = replace(task, config=config)
            found = [
                _restored(place, one, tensors, len(names), config, str(source))
                for place, one in enumerate(facts["attackers"])
            ]
            return cls(task, names, tuple(found), facts["seed"])
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{source}: its description is damaged ({error!r})") from error


def _restored(
    place: int,
    one: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    outputs: int,
    config: PictureConfig,
    source: str,
) -> PictureAttacker:
    networks = []
    for suffix in one["states"]:
        encoder = create(one["network"], weights="random", **one["encoder"])
        network = config.classifier(encoder, outputs)
        checkpoints.fill(network, checkpoints.part(tensors, f"{place}{suffix}"), source)
        networks.append(network.eval())
    chosen, last = networks[0], networks[-1]
    kept = kept_epochs(Path(source).parent / folder_name(one["title"]))
    return PictureAttacker(
        one["title"], chosen, last, config.lens(chosen), one["epoch"], one["history"], kept
    )


def _report(said: Answers, names: Sequence[str]) -> AttributeReport:
    return attribute_report(said.truth, probabilities(said.logits, True), names)


def _strength(report: AttributeReport) -> float:
    return -1.0 if report.cmap is None else report.cmap


def _most(values: Any) -> float | None:
    there = [value for value in values if value is not None]
    return max(there) if there else None
