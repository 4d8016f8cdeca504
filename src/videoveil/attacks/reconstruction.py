"""Paired reconstruction: who has the anonymizer, or pairs of raw and published videos, learns to draw the raw ones.

    fitted = ReconstructionAttack().fit(Clips(dataset, "train", anonymizer))
    fitted.score(Clips(dataset, "test", anonymizer))

A UNet is trained from published to raw frames. PSNR and SSIM of what it draws of test videos are set beside those of
the published frame as it is, and of the mean training frame, which needs no video at all: the chance level. A blurred
face may be near in decibels and tell nobody apart, and the other way round: so attribute attackers (and, where people
are named, identity attackers) look at the reconstructions: those that learnt on reconstructed training videos, and
those that know raw ones only.

`raw` is where raw videos are, where the published ones were made elsewhere; pairs must fit frame by frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from videoveil import devices, files
from videoveil.attacks.attributes import Labels, own_attributes
from videoveil.attacks.composed import through
from videoveil.attacks.features import split
from videoveil.attacks.fidelity import psnr, ssim
from videoveil.attacks.frames import FittedPictureAttack, FrameAttack, FrameConfig, raw_of
from videoveil.attacks.identity import FittedIdentity, IdentityAttack, IdentityConfig, People, own_subject
from videoveil.attacks.picture_networks import Knowledge
from videoveil.attacks.pictures import Lens
from videoveil.attacks.reconstructor import (
    Decibels,
    MeanPicture,
    PairBatches,
    Pairs,
    Reconstructor,
    drawn,
    each_picture,
    fit_filter,
    squared_error,
)
from videoveil.data.owners import together
from videoveil.data.records import Item
from videoveil.errors import BadItems, UsageError
from videoveil.media.transforms import looks, preset
from videoveil.tasks import settings
from videoveil.tasks.base import Clips, Metric, Progress, Role, Score, as_clips
from videoveil.tasks.outcomes import MeanOutcome, Outcome
from videoveil.training import checkpoints
from videoveil.training.supervised import Loop, Optimizer, Plateau

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.report.strips import Sheet

MODEL = "model.safetensors"
FORM = "videoveil-reconstruction-1"
FREE_TO_CHANGE = (
    "cache_gib",
    "workers",
    "checkpoint_every",
    "networks",
    "network_epochs",
    "knowledge",
    "identity",
)
MEAN = "the mean raw training frame; for attackers on reconstructions, their own"


@dataclass(frozen=True, kw_only=True)
class ReconstructionConfig(Plateau):
    """The reconstructor, how it learns, and who looks at what it draws."""

    width: int = 16  # channels of the UNet's first level
    size: int = 112
    augment: str = "ted-spad-weak"  # crops only: colours are to be drawn as they were
    test: str = "ted-spad-test"
    per_video: int = 4  # random frames of every training video in an epoch
    frames: int = 4  # of a test video, evenly spaced
    validation: float = 0.2
    cache_gib: float = 4.0
    workers: int = 2
    epochs: int = 30
    batch: int = 16
    learning_rate: float = 2e-3
    optimizer: Optimizer = "adam"
    weight_decay: float = 0.0
    patience: int = 3
    checkpoint_every: int = 5
    networks: tuple[str, ...] = (
        "tiny@own",
    )  # that look for attributes in reconstructions; none: nobody does
    network_epochs: int = 15
    knowledge: tuple[Knowledge, ...] = ("fresh", "raw")
    identity: bool = False  # whether people are looked for as well

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width < 1 or self.size < 16 or min(self.frames, self.per_video, self.workers) < 1:
            raise UsageError(
                f"width={self.width}, size={self.size}, frames={self.frames}, per_video={self.per_video}, "
                f"workers={self.workers}: a side is at least 16, the others at least 1"
            )
        if not 0 < self.validation < 1:
            raise UsageError(f"validation={self.validation}: must be a share in (0, 1)")
        preset(self.augment, 8)
        if any(one.random for one in looks(self.test, 8)):
            raise UsageError(f"test={self.test!r}: choose a preset without chance")
        self.attackers()

    def lens(self) -> Lens:
        return Lens(1, 1, self.size, self.test, self.frames)

    def attackers(self) -> list[FrameConfig]:
        """The attribute attackers, one config for each state of knowledge."""
        if not self.networks:
            return []
        plain = FrameConfig(
            networks=self.networks,
            size=self.size,
            test=self.test,
            epochs=self.network_epochs,
            frames=self.frames,
            per_video=self.per_video,
            validation=self.validation,
            cache_gib=self.cache_gib,
            workers=self.workers,
            precision=self.precision,
        )
        return [replace(plain, knowledge=one) for one in self.knowledge]

    def seekers(self) -> IdentityConfig:
        """The identity attackers."""
        return IdentityConfig(
            size=self.size,
            epochs=self.network_epochs,
            cache_gib=self.cache_gib,
            workers=self.workers,
            precision=self.precision,
        )


@dataclass(frozen=True)
class ReconstructionAttack:
    """What can be drawn again of the raw videos."""

    config: ReconstructionConfig = field(default_factory=ReconstructionConfig)
    labels: Labels = own_attributes
    people: People = own_subject
    raw: Clips | None = None
    name: ClassVar[str] = "reconstruction"
    role: ClassVar[Role] = "attack"

    def pairs(self, source: Clips) -> Pairs:
        return Pairs(self.raw or raw_of(source), source)

    def fit(
        self,
        train: Clips,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedReconstruction:
        """Train the reconstructor on the training videos, then the attackers that look through it."""
        train = as_clips(train, "reconstruction", "give videos, or invert features (InversionAttack)")
        config = self.config
        fabric = fabric or devices.make_fabric(device, config.precision)
        items = tuple(sorted(train.items(), key=lambda item: item.id))
        if len(items) < 2:
            raise BadItems(
                f"reconstruction: {len(items)} videos; to choose an epoch, at least two are needed"
            )
        pairs = self.pairs(train)
        pairs.check(items, config.workers)
        learn, choose = split(len(items), config.validation, seed, together(items))
        network, mean = self._train(
            pairs, [items[i] for i in learn], [items[i] for i in choose], seed, fabric, run, progress
        )
        made = FittedReconstruction(self, network, mean, seed)
        if run is not None and fabric.is_global_zero:
            made.save(run / MODEL)
        self._look(made, train, seed, fabric, run, progress)
        return made

    def _train(
        self,
        pairs: Pairs,
        learn: list[Item],
        choose: list[Item],
        seed: int,
        fabric: Fabric,
        run: Path | None,
        progress: Progress | None,
    ) -> tuple[Reconstructor, Tensor]:
        """The reconstructor in its best epoch, and the mean raw frame of what it learnt from."""
        config = self.config
        network = Reconstructor(config.width, seed).eval().to(fabric.device)
        held_out = [
            (truth, seen)
            for _, truth, seen in pairs.pictures(choose, config.lens(), config.workers, seed, fabric.device)
        ]
        judge = Decibels(torch.cat([one for one, _ in held_out]), torch.cat([two for _, two in held_out]))
        judge.look(network, -2)
        mean = MeanPicture()
        every = pairs.pictures(learn, config.lens(), config.workers, seed, fabric.device)
        fit_filter(network, mean.of(every))
        judge.look(network, -1)
        batches = PairBatches(
            pairs,
            learn,
            augment=config.augment,
            size=config.size,
            batch=config.batch,
            seed=seed,
            workers=config.workers,
            repeat=config.per_video,
            cache_gib=config.cache_gib,
            device=fabric.device,
        )
        loop = Loop(
            network,
            batches,
            squared_error,
            config,
            seed,
            fabric,
            run,
            identity=self._identity(pairs, learn, choose),
            progress=progress,
            what="reconstructor",
            judge=judge,
            free=FREE_TO_CHANGE,
        )
        loop.run()
        network.load_state_dict(judge.state)
        return network.eval(), mean.value

    def _identity(self, pairs: Pairs, learn: list[Item], choose: list[Item]) -> dict[str, Any]:
        own = {k: v for k, v in settings.to_json(self.config).items() if k not in FREE_TO_CHANGE}
        data = [
            [[i.id, i.path.stat().st_size] for one in pairs.of(part) for i in one] for part in (learn, choose)
        ]
        return {**own, "data": files.value_hash(data), **pairs.published.through()}

    def _look(
        self,
        made: FittedReconstruction,
        train: Clips,
        seed: int,
        fabric: Fabric,
        run: Path | None,
        progress: Progress | None,
    ) -> None:
        """Train the attackers that look at reconstructions."""
        seen = through(train, made.network)
        raw = self.raw or raw_of(train)

        def options(name: str) -> dict[str, Any]:
            folder = None if run is None else run / name
            return {"run": folder, "seed": seed, "progress": progress, "fabric": fabric}

        if any(self.labels(item) for item in train.items()):
            for config in self.config.attackers():
                task = FrameAttack(config, self.labels, raw=raw)
                made.attributes.append(task.fit(seen, **options(f"attributes-{config.knowledge}")))
        if self.config.identity and any(self.people(item) for item in train.items()):
            seeker = IdentityAttack(self.config.seekers(), self.people, raw=raw)
            made.identity = seeker.fit(seen, **options("identity"))

    def load(self, source: str | Path) -> FittedReconstruction:
        """The reconstructor that `fit` saved. Who looked through it is not kept: fit again in the same run folder."""
        tensors, facts = checkpoints.read(source, FORM)
        task = replace(self, config=settings.from_json(ReconstructionConfig, facts["config"]))
        network = Reconstructor(task.config.width)
        checkpoints.fill(network, checkpoints.part(tensors, "network"), str(source))
        return FittedReconstruction(task, network.eval(), tensors["mean"], facts["seed"])


# --- what was learnt ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawing:
    """Frames (m, 3, s, s) of one video in [0, 1]: as filmed, as published, as reconstructed."""

    item: Item
    raw: Tensor
    published: Tensor
    rebuilt: Tensor


@dataclass
class FittedReconstruction:
    """A reconstructor, the mean training frame, and attackers that look at what it draws."""

    task: ReconstructionAttack
    network: Reconstructor
    mean: Tensor  # (3, s, s)
    seed: int = 0
    attributes: list[FittedPictureAttack] = field(default_factory=list)
    identity: FittedIdentity | None = None

    def to(self, device: str | torch.device) -> FittedReconstruction:
        self.network.to(device)
        for one in self.attributes:
            one.to(device)
        return self

    def through(self, source: Clips) -> Clips:
        """The reconstructions of a source, for any attack on pictures."""
        return through(source, self.network)

    def draw(self, source: Clips, items: tuple[Item, ...] | None = None) -> Iterator[Drawing]:
        """The test frames of these items, ordered by id, one video after the other."""
        config = self.task.config
        chosen = sorted(items or as_clips(source, "reconstruction").items(), key=lambda item: item.id)
        pairs = self.task.pairs(source)
        pairs.check(chosen, config.workers)
        device = next(self.network.parameters()).device
        every = pairs.pictures(chosen, config.lens(), config.workers, self.seed, device)
        for item, truth, seen in every:
            yield Drawing(item, truth, seen, drawn(self.network, seen))

    def nearness(self, test: Clips) -> dict[str, MeanOutcome]:
        """PSNR and SSIM by video: of the reconstruction (`unet`), and of the published frame as it is."""
        measures = {"psnr": psnr, "ssim": ssim}
        device = next(self.network.parameters()).device
        ids: list[str] = []
        values: dict[tuple[str, str], list[float]] = {}
        for one in self.draw(test):
            ids.append(one.item.id)
            shown = {"unet": one.rebuilt, "published": one.published, "mean": self.mean.expand_as(one.raw)}
            truth = one.raw.to(device)
            for name, frames in shown.items():
                there = frames.to(device)
                for metric, measure in measures.items():
                    values.setdefault((metric, name), []).append(float(measure(there, truth).mean()))
        return {
            f"{metric}_{name}": MeanOutcome(
                metric, tuple(ids), np.array(values[metric, name]), np.array(values[metric, "mean"])
            )
            for metric in measures
            for name in ("unet", "published")
        }

    def outcomes(self, test: Clips) -> dict[str, Outcome]:
        """Nearness, then what attackers say of the reconstructions (`attributes_…`, `identity_…`)."""
        found: dict[str, Outcome] = dict(self.nearness(test))
        seen = self.through(test)
        for one in self.attributes:
            found |= {f"attributes_{name}": outcome for name, outcome in one.outcomes(seen).items()}
        if self.identity is not None:
            found |= {f"identity_{name}": outcome for name, outcome in self.identity.outcomes(seen).items()}
        return found

    def score(self, test: Clips) -> Score:
        """PSNR and SSIM of what is nearer, the reconstruction or the published frame; then every outcome."""
        found = self.outcomes(test)
        each = [Metric(name, m.value, m.chance) for name, m in ((n, o.measure()) for n, o in found.items())]
        best = []
        for kind in ("psnr", "ssim", "attributes"):
            own = [m for m in each if m.name.startswith(f"{kind}_") and m.value is not None]
            if own:
                most = max(own, key=lambda m: m.value or 0.0)
                best.append(replace(most, name="cmap" if kind == "attributes" else kind))
        return Score(ReconstructionAttack.name, len(test.items()), (*best, *each), baseline=MEAN)

    def strip(self, test: Clips, item: Item, *, raw: bool = False) -> Sheet:
        """Frames of a video as published and as reconstructed; the raw ones, who may be recognised, only if asked."""
        from videoveil.report.strips import Row, sheet

        (one,) = self.draw(test, (item,))
        rows = [
            Row("published", each_picture(one.published)),
            Row("reconstruction", each_picture(one.rebuilt)),
        ]
        return sheet([Row("raw", each_picture(one.raw)), *rows] if raw else rows)

    def save(self, destination: str | Path) -> None:
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        facts: Mapping[str, Any] = {"config": settings.to_json(self.task.config), "seed": self.seed}
        checkpoints.write(destination, FORM, {**tensors, "mean": self.mean}, facts)
