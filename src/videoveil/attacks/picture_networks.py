"""One attacker on pictures: a network that learns private attributes from frames or clips.

Adam, and a learning rate a fifth as high when the training loss stops falling. The epoch is chosen on a share of the
training videos; the weights of the last one are kept beside it.

Shapes: B views in a batch, T frames of side s, k attributes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from videoveil import devices
from videoveil.attacks.losses import probabilities
from videoveil.attacks.metrics import attribute_report
from videoveil.attacks.pictures import HeldOut, Lens
from videoveil.encoders import Classifier, Encoder, create
from videoveil.encoders.registry import EMBEDDED, resolve
from videoveil.errors import UsageError
from videoveil.media.transforms import looks, preset
from videoveil.training.supervised import Judge, Optimizer, Plateau, as_kept

Knowledge = Literal["fresh", "raw", "fine-tuned"]
Pooling = Literal["mean", "attention"]

SCRATCH, OWN = "scratch", "own"  # starts: random weights, those that come with the network
FREE_TO_CHANGE = (
    "cache_gib",
    "workers",
    "checkpoint_every",
    "networks",
    "starts",
)  # of one attacker's training


class StillClassifier(Classifier):
    """A classifier of single frames (N, 3, 1, s, s); where its network wants a clip, the frame is repeated."""

    def forward(self, clips: Tensor) -> Tensor:
        if self.encoder.kind == "video":
            clips = clips.expand(-1, -1, self.encoder.input.frames, -1, -1)
        return super().forward(clips)


class PooledClassifier(Classifier):
    """A classifier of clips by an image network: every frame by itself, then one vector for the clip.

    Attention: a learnt weight for every frame, softmax over the clip, so that the few frames that show something count.
    Before it has learnt, all weights are equal: the mean.
    """

    def __init__(
        self, encoder: Encoder, classes: int, dropout: float = 0.0, *, pooling: Pooling, seed: int = 0
    ):
        super().__init__(encoder, classes, dropout, seed=seed)
        self.attention = nn.Linear(encoder.width, 1) if pooling == "attention" else None
        if self.attention is not None:
            nn.init.zeros_(self.attention.weight)
            nn.init.zeros_(self.attention.bias)

    def with_features(self, clips: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.encoder.temporal_tokens(clips)  # (N, T, C)
        if self.attention is None:
            features = tokens.mean(1)
        else:
            features = (self.attention(tokens).softmax(1) * tokens).sum(1)
        logits: Tensor = self.head(self.dropout(features))
        return logits, features


@dataclass(frozen=True, kw_only=True)
class PictureConfig(Plateau):
    """Which networks attack, what they see, what they know, and how they learn.

    `knowledge`: "fresh" has only the published pictures to learn from; "raw" has learnt from raw pictures and never
    seen the anonymizer; "fine-tuned" goes on from there with published ones. An anonymizer must be judged by the best
    of the three.

    Every network is tried with every start, but for those that name their own: `resnet.18`, `tiny@own`. A start is
    "scratch", "own" (the weights that come with the package) or what `create` takes: a file, `torchvision:…`.
    """

    networks: tuple[str, ...]
    knowledge: Knowledge = "fresh"
    tuning: float = 0.3  # the learning rate of fine-tuning, as a share of the first one
    starts: tuple[str, ...] = (SCRATCH,)
    size: int = 0  # side of the input; 0: the network's own
    augment: str  # a preset of media.transforms
    test: str  # one without chance
    per_video: int  # random views of every training video in an epoch
    validation: float = 0.2  # share of the training videos that the epoch is chosen on
    dropout: float = 0.0
    cache_gib: float = 4.0  # decoded frames kept in memory; on a GPU in its own
    workers: int = 2  # decoding threads
    epochs: int = 30
    batch: int = 32
    learning_rate: float = 1e-3
    optimizer: Optimizer = "adam"
    weight_decay: float = 0.0
    patience: int = 3
    checkpoint_every: int = 5
    still: ClassVar[bool]  # single frames; a video network is shown them as clips that stand still

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.networks or not self.starts:
            raise UsageError("an attack needs at least one network and one start")
        if len(set(self.attackers())) != len(self.attackers()):
            raise UsageError(f"networks={self.networks}, starts={self.starts}: name each of them once")
        if self.knowledge not in get_args(Knowledge):
            raise UsageError(f"knowledge={self.knowledge!r}: choose one of {', '.join(get_args(Knowledge))}")
        if not 0 < self.tuning <= 1:
            raise UsageError(f"tuning={self.tuning}: must be a share in (0, 1]")
        for name, start in self.attackers():
            file = EMBEDDED / f"{resolve(name)}.safetensors"
            if start == OWN and not file.is_file():
                raise UsageError(f"{name}@{OWN}: comes without weights; start from scratch or from a file")
        if not 0 < self.validation < 1:
            raise UsageError(f"validation={self.validation}: must be a share in (0, 1)")
        for name in ("per_video", "workers", "views"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)}: must be at least 1")
        preset(self.augment, 8)
        if any(one.random for one in looks(self.test, 8)):
            raise UsageError(f"test={self.test!r}: choose a preset without chance")

    @property
    def views(self) -> int:
        """How many views of a test video are looked at."""
        raise NotImplementedError

    @property
    def step(self) -> int:
        """Where above 0: a view from every so many frames instead."""
        return 0

    def attackers(self) -> tuple[tuple[str, str], ...]:
        """Network and start of each."""
        found = []
        for entry in self.networks:
            name, at, start = entry.partition("@")
            found += [(name, start)] if at else [(name, one) for one in self.starts]
        return tuple(found)

    def title(self, network: str, start: str) -> str:
        plain = network if start == SCRATCH else f"{network}@{start}"
        return plain if self.knowledge == "fresh" else f"{plain}-{self.knowledge}"

    def build(self, network: str, start: str, outputs: int, seed: int) -> Classifier:
        """The network before it has learnt anything about these people."""
        weights = {SCRATCH: "random", OWN: None}.get(start, start)
        encoder = create(network, weights=weights, seed=seed, classes=0, **self.options(start))
        return self.classifier(encoder, outputs, seed)

    def options(self, start: str) -> dict[str, Any]:
        """Of an encoder that begins there."""
        return {"size": self.size} if self.size else {}

    def classifier(self, encoder: Encoder, outputs: int, seed: int = 0) -> Classifier:
        kind = StillClassifier if self.still else Classifier
        return kind(encoder, outputs, self.dropout, seed=seed)

    def span(self, encoder: Encoder) -> tuple[int, int]:
        """How many frames a view has, and how far they are from each other."""
        return (1, 1) if self.still else (encoder.input.frames, encoder.input.stride)

    def lens(self, network: Classifier) -> Lens:
        """How it looks at test items."""
        spec = network.encoder.input
        length, stride = self.span(network.encoder)
        return Lens(length, stride, spec.size, self.test, self.views, self.step)


def known_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """(B, k), (B, k) of 0, 1 and NaN → (B,): binary cross-entropy over k, attributes that are unknown counting 0."""
    known = ~targets.isnan()
    each = nn.functional.binary_cross_entropy_with_logits(logits, targets.nan_to_num(0.0), reduction="none")
    return torch.where(known, each, 0.0).mean(1)


@torch.no_grad()
def logits_of(networks: Mapping[str, nn.Module], pieces: Iterable[Tensor]) -> dict[str, np.ndarray]:
    """Pieces (…, 3, T, s, s) of m views in all → (m, k) float64 of every network; all look at a piece in turn."""
    found: dict[str, list[Tensor]] = {name: [] for name in networks}
    for views in pieces:
        for name, network in networks.items():
            found[name].append(network(views).double())
    return {name: torch.cat(rows).cpu().numpy() for name, rows in found.items()}


@dataclass
class Validation(Judge):
    """Chooses the epoch by cMAP over the views of held-out training videos; where that is undefined, the last."""

    views: HeldOut
    truth: np.ndarray  # (m, k)
    best: float = -math.inf
    epoch: int = -1
    state: dict[str, Tensor] = field(default_factory=dict)

    def look(self, network: nn.Module, epoch: int) -> dict[str, float]:
        pieces = self.views.pieces(next(network.parameters()).device)
        scores = probabilities(logits_of({"": network}, pieces)[""], True)
        value = attribute_report(self.truth, scores).cmap
        if value is None:
            return {}
        if value > self.best:
            self.best, self.epoch = value, epoch
            self.state = {name: t.detach().cpu().clone() for name, t in network.state_dict().items()}
        return {"validation": value}

    def tensors(self) -> dict[str, Tensor]:
        return self.state

    def restore(self, tensors: Mapping[str, Tensor], history: Sequence[Mapping[str, float]]) -> None:
        self.state = dict(tensors)
        for record in history:
            if record.get("validation", -math.inf) > self.best:
                self.best, self.epoch = record["validation"], int(record["epoch"])


@dataclass
class PictureAttacker:
    """A trained attacker: the weights of the epoch that was chosen, and those of the last one."""

    title: str
    chosen: Classifier
    last: Classifier
    lens: Lens
    epoch: int  # that was chosen
    history: Sequence[Mapping[str, Any]] = ()
    kept: tuple[Path, ...] = ()  # weights of epochs along the way

    @classmethod
    def of(
        cls,
        title: str,
        network: Classifier,
        lens: Lens,
        judge: Validation,
        history: Sequence[Mapping[str, Any]],
    ) -> PictureAttacker:
        if not judge.state or judge.epoch == len(history) - 1:
            return cls(title, network, network, lens, len(history) - 1, history)
        chosen = copy.deepcopy(network)
        chosen.load_state_dict(judge.state)
        return cls(title, chosen.eval(), network, lens, judge.epoch, history)

    def to(self, device: str | torch.device) -> PictureAttacker:
        self.chosen.to(device)
        self.last.to(device)
        return self

    def at(self, path: Path) -> PictureAttacker:
        """As it was after an epoch that was kept, chosen or not."""
        network = as_kept(self.last, path)
        return replace(self, chosen=network, last=network, kept=())

    def networks(self) -> dict[str, Classifier]:
        """By what their scores are called; one where both are the same."""
        both = {"": self.chosen, "_last": self.last}
        return both if self.last is not self.chosen else {"": self.chosen}


def ready(network: Classifier, device: torch.device) -> Classifier:
    if device.type == "cuda":
        devices.fast_layout(network)
    return network
