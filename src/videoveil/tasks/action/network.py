"""Training or fine-tuning a whole video network on clips; a test video is the mean softmax of ten equidistant clips.

Shapes: N clips of T frames, n videos, C classes or k tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import devices, files
from videoveil.data.records import Item
from videoveil.encoders import Classifier, create, save
from videoveil.encoders.registry import EMBEDDED
from videoveil.errors import BadItems, CheckpointError, UsageError
from videoveil.media import sampling
from videoveil.media.transforms import EvalTransform, preset
from videoveil.tasks import settings
from videoveil.tasks.action.metrics import Prior, score
from videoveil.tasks.base import Clips, Progress, Role, Score, as_clips, best_on_test
from videoveil.tasks.targets import Targets, What, label_problems, targets, vocabulary
from videoveil.training import checkpoints, seeds
from videoveil.training.clip_batches import ClipBatches, FramePainter, Frames, check, frames_memory
from videoveil.training.supervised import (
    Loop,
    Plateau,
    Schedule,
    as_kept,
    binary_cross_entropy,
    cross_entropy,
    kept_epochs,
)

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from videoveil.encoders.base import InputSpec
    from videoveil.features.pixels import PixelVeil

FORMAT = "videoveil-action-network-1"
MODEL = "model.safetensors"
ENCODER = "encoder.safetensors"  # the same weights without the layer, for `veil extract --weights`


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Schedule):
    """A network from scratch, or from `weights` for fine-tuning."""

    encoder: str = "r3d.18"
    weights: str = ""  # a file, a hub id, "random"; empty: the encoder's own default
    target: What = "action"
    clips: int = 10  # of a test video
    sampler: str = "equidistant"  # or "spact", with the margins of the published test code
    stride: int = 0  # source frames from one to the next; 0: the encoder's own
    size: int = 0  # side of the input; 0: the encoder's own
    augment: str = "weak"  # a preset of media.transforms
    dropout: float = 0.0
    freeze_norm: bool = False  # keep batch norm as it came: fine-tuning with small batches
    cache_gib: float = 4.0  # decoded frames kept in memory; on a GPU in its own
    workers: int = 2  # decoding threads
    epochs: int = 40
    batch: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    warmup_epochs: int = 2
    gradient_clip: float = 1.0
    checkpoint_every: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clips < 1 or self.workers < 1:
            raise UsageError(f"clips={self.clips}, workers={self.workers}: both must be at least 1")
        if self.sampler not in ("equidistant", "spact"):
            raise UsageError(f"sampler={self.sampler!r}: choose equidistant or spact")
        preset(self.augment, 8)

    def options(self) -> dict[str, Any]:
        """Of the encoder."""
        named = {key: getattr(self, key) for key in ("stride", "size") if getattr(self, key)}
        return {"classes": 0, **named}

    def look(self, spec: InputSpec) -> Callable[[Tensor], Tensor]:
        """How test frames are cut: uint8 (n, H, W, 3) → (3, n, s, s)."""
        return EvalTransform(spec.resize, spec.size)

    def takes(self, total: int, spec: InputSpec) -> bool:
        """Whether a training video of `total` frames is long enough."""
        return True

    def batches(self, items: Sequence[Item], values: Tensor, **options: Any) -> ClipBatches:
        """The training clips."""
        return ClipBatches(items, values, **options)


@dataclass(frozen=True, kw_only=True)
class PaperConfig(NetworkConfig):
    """A network as the papers train and test it, see `spact` and `ted_spad`.

    `plateau`: the rate is multiplied by it when `patience` epochs and one more have not had the lowest loss so far; 0
    leaves it to `decay`. Videos too short for the rule of training clips are left out. From random weights a network
    sees pixels in [0, 1], as in the papers' code; from others as these were trained. These are no settings of
    `NetworkConfig`: what is stored is known by the fields of that, and none of them changes it.
    """

    sampler: str = "spact"
    placing: str = "random-spact"  # of training clips, a rule of `media.sampling`
    test: str = "spact-test"  # how test clips are cut, a preset of media.transforms without chance
    plateau: float = 0.0
    patience: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not sampling.parse_sampler(self.placing).random:
            raise UsageError(f"placing={self.placing!r}: choose a random rule, such as random-spact")
        if preset(self.test, 8).random:
            raise UsageError(f"test={self.test!r}: choose a preset without chance")
        if self.plateau:
            self._falling()

    def _falling(self) -> Plateau:
        return Plateau(
            epochs=self.epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            warmup_epochs=self.warmup_epochs,
            factor=self.plateau,
            patience=self.patience,
        )

    def rate(self, epoch: float, losses: Sequence[float] = ()) -> float:
        return self._falling().rate(epoch, losses) if self.plateau else super().rate(epoch, losses)

    def over(self, losses: Sequence[float]) -> bool:
        return bool(self.plateau) and self._falling().over(losses)

    def options(self) -> dict[str, Any]:
        return {**super().options(), **({"norm": "zero_one"} if self.weights == "random" else {})}

    def look(self, spec: InputSpec) -> Callable[[Tensor], Tensor]:
        return preset(self.test, spec.size).evaluate

    def takes(self, total: int, spec: InputSpec) -> bool:
        rule = sampling.parse_sampler(self.placing, spec.frames, spec.stride)
        return bool(rule(total, np.random.default_rng(0)))  # up to the length alone, not to the draw

    def batches(self, items: Sequence[Item], values: Tensor, **options: Any) -> ClipBatches:
        return PlacedClips(items, values, placing=self.placing, **options)


class PlacedClips(ClipBatches):
    """Training clips by one of the rules in `media.sampling`, which must have a clip of every item."""

    def __init__(self, items: Sequence[Item], values: Tensor, *, placing: str, **options: Any):
        super().__init__(items, values, **options)
        self.rule = sampling.parse_sampler(placing, self.length, self.stride)

    def place(self, total: int, rng: np.random.Generator) -> sampling.Clip:
        (chosen,) = self.rule(total, rng)
        return chosen


def scratch() -> NetworkConfig:
    """R3D-18 from random weights: what a few hundred to a few thousand clips allow."""
    return NetworkConfig()


def fine_tune() -> NetworkConfig:
    """From given weights: Adam at 1e-4 with batch norm frozen, as in TeD-SPAD's fine-tuning."""
    return NetworkConfig(
        optimizer="adam", learning_rate=1e-4, weight_decay=0.0, batch=16, freeze_norm=True, warmup_epochs=5
    )


def spact() -> PaperConfig:
    """SPAct's f'_T: 150 epochs of Adam at 1e-3, ÷10 on a plateau; 16 frames of 32, a square of the middle in tests.

    From its code what the supplement leaves open: five epochs of warm-up and a plateau without patience. Its batch is
    that of SPAct's minimax loop.
    """
    return PaperConfig(
        encoder="r3d.18-spact",
        stride=2,
        size=112,
        epochs=150,
        batch=24,
        optimizer="adam",
        learning_rate=1e-3,
        weight_decay=0.0,
        warmup_epochs=5,
        gradient_clip=0.0,
        plateau=0.1,
    )


def ted_spad(raw: bool = False) -> PaperConfig:
    """f'_T of TeD-SPAD and the penalty paper: Adam at 1e-4, 100 epochs on raw videos and 50 on anonymized ones.

    The rate as in their fine-tuning scripts: five epochs of warm-up, then half a cosine.
    """
    return PaperConfig(
        encoder="i3d.resnet50",
        stride=2,
        size=224,
        placing="random-ted-spad",
        augment="ted-spad",
        test="ted-spad-test",
        dropout=0.5,
        epochs=100 if raw else 50,
        batch=16,
        optimizer="adam",
        learning_rate=1e-4,
        weight_decay=0.0,
        warmup_epochs=5,
        gradient_clip=0.0,
    )


FREE_TO_CHANGE = (
    "cache_gib",
    "workers",
    "clips",
    "sampler",
    "test",
    "checkpoint_every",
)  # none changes what is learnt


@dataclass(frozen=True)
class ActionNetwork:
    """Actions (or tags) from clips by a whole network.

    `keep_every`: so many epochs apart the weights are kept in RUN/epochs, and `score` tells beside the last epoch the
    best of these on the test items, as released code does, in a metric that says so.
    """

    config: NetworkConfig = field(default_factory=scratch)
    keep_every: int = 0
    name: ClassVar[str] = "action-network"
    role: ClassVar[Role] = "utility"

    def fit(
        self,
        train: Clips,
        *,
        run: Path | None = None,
        seed: int = 0,
        device: str = "auto",
        progress: Progress | None = None,
        fabric: Fabric | None = None,
    ) -> FittedNetwork:
        train = as_clips(train, "a network", "give a dataset, or train a probe on the features")
        config, veil = self.config, train.veil()
        items = tuple(sorted(train.items(), key=lambda item: item.id))
        names = vocabulary(train.records(), config.target)
        fabric = fabric or devices.make_fabric(device, config.precision)
        memory = frames_memory(config.cache_gib, fabric.device)
        frames = Frames(memory, device=fabric.device, paint=train.paint)
        check(items, frames, config.workers, also=label_problems(items, names, config.target))
        network = build(config, len(names), seed)
        spec = network.encoder.input
        items = long_enough(items, frames, config, spec)
        labels = targets(items, names, config.target)
        start = network.encoder.content_hash()
        if fabric.device.type == "cuda":
            devices.fast_layout(network)
        loop = Loop(
            network,
            config.batches(
                items,
                torch.from_numpy(labels.values),
                frames=frames,
                length=spec.frames,
                stride=spec.stride,
                preset=preset(config.augment, spec.size),
                batch=config.batch,
                seed=seed,
                workers=config.workers,
                veil=veil,
            ),
            binary_cross_entropy if labels.several else cross_entropy,
            config,
            seed,
            fabric,
            run,
            identity=_identity(config, items, labels, start, train.through()),
            progress=progress,
            train_mode=_norm_frozen if config.freeze_norm else nn.Module.train,
            what=f"training of {config.encoder}",
            free=FREE_TO_CHANGE,
            keep_every=self.keep_every,
        )
        history = loop.run()
        kept = kept_epochs(run) if run is not None and self.keep_every else ()
        fitted = FittedNetwork(network, names, Prior.of(labels), config, seed, tuple(history), kept)
        if run is not None and fabric.is_global_zero:
            fitted.save(run / MODEL)
            save(network.encoder, run / ENCODER, {"run": str(run.name), "seed": seed})
        return fitted

    def load(self, source: str | Path) -> FittedNetwork:
        return FittedNetwork.load(source)


def build(config: NetworkConfig, outputs: int, seed: int) -> Classifier:
    """The network that a config names."""
    encoder = create(config.encoder, weights=config.weights or None, seed=seed, **config.options())
    if config.freeze_norm and not config.weights and not (EMBEDDED / f"{encoder.name}.safetensors").is_file():
        raise UsageError(
            f"freeze_norm keeps batch norm as it came, and {encoder.name} comes with nothing: give weights=FILE, or "
            "train from scratch"
        )
    if encoder.kind != "video":
        raise UsageError(f"{encoder.name} looks at single frames; choose a video encoder (see `veil models`)")
    return Classifier(encoder, outputs, config.dropout, seed=seed)


def long_enough(
    items: Sequence[Item], frames: Frames, config: NetworkConfig, spec: InputSpec
) -> tuple[Item, ...]:
    """The items that training clips can be cut from; a training from which most are missing is not what was asked."""
    counts = {item.id: frames.count(item) for item in items}
    kept = tuple(item for item in items if config.takes(counts[item.id], spec))
    if 2 * len(kept) < len(items):
        there = {item.id for item in kept}
        short = [f"{name}: {count} frames" for name, count in counts.items() if name not in there]
        raise BadItems(
            f"{len(short)} of {len(items)} videos are too short for clips of {spec.frames} frames with stride "
            f"{spec.stride}:",
            short,
        )
    return kept


def _identity(
    config: NetworkConfig, items: Sequence[Item], labels: Targets, start: str, through: Mapping[str, Any]
) -> dict[str, Any]:
    """What must be the same for a run to be continued; files are known by their name and size."""
    own = {k: v for k, v in settings.to_json(config).items() if k not in FREE_TO_CHANGE}
    data = [[item.id, item.path.stat().st_size] for item in items]
    return {
        **own,
        "data": files.value_hash([data, list(labels.names), labels.values.tolist()]),
        "start": start,
        **through,
    }


def _norm_frozen(network: nn.Module) -> None:
    network.train()
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


@dataclass
class FittedNetwork:
    """A trained network with the names of its outputs and how it came to be."""

    network: Classifier
    names: tuple[str, ...]
    prior: Prior
    config: NetworkConfig
    seed: int = 0
    history: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    kept: tuple[Path, ...] = ()  # weights of epochs along the way

    def __post_init__(self) -> None:
        self.network.eval()

    @property
    def device(self) -> torch.device:
        return self.network.head.weight.device

    def to(self, device: str | torch.device) -> FittedNetwork:
        self.network.to(device)
        return self

    def places(self, total: int) -> tuple[sampling.Clip, ...]:
        """The clips that speak for a video of `total` frames."""
        spec, count = self.network.encoder.input, self.config.clips
        if self.config.sampler == "spact":
            found = sampling.equidistant_spact(total, count, spec.frames, spec.stride)
            if found:
                return found
        return sampling.equidistant(total, count, spec.frames, spec.stride)

    @torch.inference_mode()
    def clip_probabilities(
        self, clips: Tensor, veil: PixelVeil | None = None, content: str = ""
    ) -> np.ndarray:
        """(N, 3, T, s, s) uint8 → (N, C) softmax, or (N, k) sigmoid of tags, of what the veil leaves of them.

        `content` names the video, of which the veil's noise depends where it adds some.
        """
        pictures = clips.to(self.device).float().div_(255)
        if veil is not None:
            pictures = veil(pictures, seed=seeds.number(self.seed, "noise", content))
        logits = self.network(pictures).double()
        found = logits.softmax(1) if self.config.target == "action" else logits.sigmoid()
        return np.asarray(found.cpu().numpy())

    def probabilities(
        self,
        items: Sequence[Item],
        workers: int | None = None,
        veil: PixelVeil | None = None,
        paint: FramePainter | None = None,
    ) -> np.ndarray:
        """(n, C): one forward pass per video, so that what is said of it does not depend on the others."""
        found = np.zeros((len(items), len(self.names)))
        for i, clips in enumerate(self._decoded(items, workers or self.config.workers, paint)):
            found[i] = self.clip_probabilities(clips, veil, items[i].id).mean(0)
        return found

    def _decoded(self, items: Sequence[Item], workers: int, paint: FramePainter | None) -> Iterator[Tensor]:
        """The clips of every video, decoded a few videos ahead."""
        with ThreadPoolExecutor(workers) as pool:
            ahead = 2 * workers
            waiting = [pool.submit(self.clips_of, item, paint) for item in items[:ahead]]
            for i in range(len(items)):
                clips = waiting.pop(0).result()
                if i + ahead < len(items):
                    waiting.append(pool.submit(self.clips_of, items[i + ahead], paint))
                yield clips

    def clips_of(self, item: Item, paint: FramePainter | None = None) -> Tensor:
        """(clips, 3, T, s, s) uint8."""
        spec, frames = self.network.encoder.input, Frames(paint=paint)
        transform = self.config.look(spec)
        clips = self.places(frames.count(item))
        wanted = sorted({index for clip in clips for index in clip.indices})
        rows = transform(frames.read(item, wanted))  # (3, wanted, s, s)
        place = {index: row for row, index in enumerate(wanted)}
        return torch.stack([rows[:, [place[i] for i in clip.indices]] for clip in clips])

    def score(self, test: Clips) -> Score:
        """Top-1, top-5 and mean per class, or cMAP of tags, on what the test source's anonymizer leaves.

        Which may be another than in training, or none there: a network that learnt from raw clips and is scored on
        anonymized ones is a protocol of its own.
        """
        test = as_clips(test, "a network")
        items = tuple(sorted(test.items(), key=lambda item: item.id))
        wrong = label_problems(items, self.names, self.config.target)
        check(items, Frames(), self.config.workers, also=wrong)
        labels = targets(items, self.names, self.config.target)
        found = self.probabilities(items, veil=test.veil(), paint=test.paint)
        made = score(ActionNetwork.name, found, labels, self.prior)
        if not self.kept:
            return made
        others = (replace(self, network=as_kept(self.network, path), kept=()) for path in self.kept)
        best = best_on_test([made.headline, *(one.score(test).headline for one in others)])
        return replace(made, metrics=(*made.metrics, best))

    def save(self, destination: str | Path) -> None:
        facts = {
            "names": list(self.names),
            "prior": list(self.prior.shares),
            "config": settings.to_json(self.config),
            "encoder": self.network.encoder.recreation(),
            "seed": self.seed,
            "history": [dict(record) for record in self.history],
        }
        checkpoints.write(destination, FORMAT, self.network.state_dict(), facts)

    @classmethod
    def load(cls, source: str | Path) -> FittedNetwork:
        tensors, facts = checkpoints.read(source, FORMAT)
        try:
            names, prior = tuple(facts["names"]), Prior(tuple(facts["prior"]))
            kind = PaperConfig if "placing" in facts["config"] else NetworkConfig
            config = settings.from_json(kind, facts["config"])
            seed, history = facts["seed"], facts["history"]
            options = dict(facts.get("encoder") or config.options())
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{source}: its description is damaged ({error!r})") from error
        encoder = create(config.encoder, weights="random", **options)
        network = Classifier(encoder, len(names), config.dropout, seed=seed)
        checkpoints.fill(network, tensors, str(source))
        return cls(network, names, prior, config, seed, history, kept_epochs(Path(source).parent))
