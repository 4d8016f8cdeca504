"""What decides a minimax training but the anonymizer, the data and the seed: frozen records, one per player.

The pixel papers are one algorithm. They differ in what the utility net f_T and the budget net f_B are asked, in what
else the anonymizer f_A has to pay for, and in whose turn it is: the four records below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from videoveil.errors import UsageError
from videoveil.media.sampling import parse_pair
from videoveil.media.transforms import preset
from videoveil.tasks.targets import WHATS, What

Temporal = Literal["none", "triplet", "local", "invariance"]
Kind = Literal["pairs", "rotation", "clips", "labels"]
Source = Literal["video", "images"]
Private = Literal["attributes", "objects", "scenes"]
Target = Literal["negative", "entropy", "uniform"]
Combine = Literal["mean", "strongest"]
Turn = Literal["anonymizer", "auxiliary", "utility", "budget", "hide", "restore", "restyle"]
Until = Literal["", "utility", "budget"]
Sampling = Literal["random", "spact", "ted-spad"]

WARMUP_FROM = 0.01  # of the rate
SCRATCH = "scratch"  # the start of a budget net that has learnt nothing, as attackers name it


def _choices(record: Any, **known: Any) -> None:
    for name, values in known.items():
        value = getattr(record, name)
        if value not in get_args(values):
            raise UsageError(
                f"{type(record).__name__} {name}={value!r}: choose one of {', '.join(map(repr, get_args(values)))}"
            )


def _numbers(record: Any, *names: str, above: float = 0.0, least: float | None = None) -> None:
    for name in names:
        value = getattr(record, name)
        good = value >= least if least is not None else value > above
        if not (good and value < math.inf):  # written so that NaN is refused too
            bound = f"{least:g} or more" if least is not None else f"above {above:g}"
            raise UsageError(f"{type(record).__name__} {name}={value}: must be a number, {bound}")


@dataclass(frozen=True, kw_only=True)
class Utility:
    """f_T and L_T = cross-entropy + w_temporal · temporal term.

    `sampler` places single clips, of f_T and of the budget: "random" anywhere, short videos padded; "spact" by its
    released loader, which mirrors short videos and leaves out very short ones; "ted-spad" the same, with half the
    stride before that. Triplets and local contrast have rules of their own.
    """

    encoder: str = "r3d.18-spact"
    weights: str = ""  # a file, a hub id, or "own": those that come with it; empty: a random start
    target: What = "action"  # several tags at once for "actions"
    frames: int = 16
    stride: int = 2  # source frames from one frame of a clip to the next
    sampler: Sampling = "random"
    augment: str = "weak"
    temporal: Temporal = "none"
    w_temporal: float = 0.1
    margin: float = 1.0  # of the triplet
    negative: int = 0  # source frames from anchor to negative; 0: anywhere else in the video
    temperature: float = 0.1  # of the contrastive terms
    freeze_norm: bool = False
    dropout: float = 0.0  # before the layer for actions

    def __post_init__(self) -> None:
        _choices(self, temporal=Temporal, sampler=Sampling)
        _numbers(self, "frames", "stride", "temperature", "margin")
        _numbers(self, "w_temporal", "negative", "dropout", least=0)
        if self.dropout >= 1:
            raise UsageError(f"Utility dropout={self.dropout}: must be below 1, or nothing is left")
        if self.target not in WHATS:
            raise UsageError(f"Utility target={self.target!r}: choose one of {', '.join(WHATS)}")
        preset(self.augment, 8)

    @property
    def views(self) -> int:
        """Clips of a video in a step."""
        return {"none": 1, "triplet": 3, "local": 8, "invariance": 2}[self.temporal]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """f_B, what it learns, and what the anonymizer makes of it.

    `kind`: "pairs" NT-Xent on two frames of a video (or two views of an image), "clips" the same on two clips,
    "rotation" which way up a frame is, "labels" private labels. `target` is what f_A wants of it: a large loss
    ("negative"), or an f_B that is unsure ("entropy", "uniform"). A member may name its own start, which different
    networks must: `resnet.50@FILE`, `resnet.101@torchvision:…`, `resnet.18@scratch`.
    """

    kind: Kind = "pairs"
    members: tuple[str, ...] = ("resnet.50",)  # one budget net each
    weights: str = ""  # that they start from, and start anew from: as of `Utility`
    combine: Combine = "mean"  # "strongest": for every sample, the member that knows most
    source: Source = "video"
    pair: str = "random"
    temperature: float = 0.1
    labels: Private = "attributes"
    target: Target = "negative"
    augment: str = "tclr"
    restart: int = 0  # epochs after which every member starts anew; 0: never
    restart_steps: int = 0  # that a restarted member learns alone

    def __post_init__(self) -> None:
        _choices(self, kind=Kind, combine=Combine, source=Source, labels=Private, target=Target)
        _numbers(self, "temperature")
        _numbers(self, "restart", "restart_steps", least=0)
        parse_pair(self.pair)
        preset(self.augment, 8)
        if not self.members:
            raise UsageError("Budget members: name at least one network")
        for member in self.members:
            name, at, start = member.partition("@")
            if not name or (at and not start):
                raise UsageError(f"Budget members: {member!r} is no NETWORK, nor NETWORK@WEIGHTS")
        if self.target != "negative" and self.kind not in ("labels", "rotation"):
            raise UsageError(
                f"Budget target={self.target!r}: is for budget nets that answer, not for {self.kind}"
            )
        if self.kind == "clips" and self.source == "images":
            raise UsageError("Budget kind='clips' needs videos: an image has no two clips")

    @property
    def views(self) -> int:
        """Frames or clips of a sample in a step."""
        return 2 if self.kind in ("pairs", "clips") else 1

    def start_of(self, member: str) -> tuple[str, str]:
        """Network and weights of a member; no weights: a random start."""
        name, at, start = member.partition("@")
        return name, {SCRATCH: ""}.get(start, start) if at else self.weights


@dataclass(frozen=True, kw_only=True)
class Penalty:
    """max(0, RMS(x − f_A(x)) − bound), penalty paper."""

    bound: float = 0.3
    differentiable: bool = True  # False: the released form, which has no gradient
    of: Literal["pixels", "features"] = "pixels"

    def __post_init__(self) -> None:
        _numbers(self, "bound", least=0)
        if self.of not in ("pixels", "features"):
            raise UsageError(f"Penalty of={self.of!r}: choose 'pixels' or 'features'")


@dataclass(frozen=True)
class Phase:
    """Whose turn it is, for how many batches, and what ends it earlier.

    anonymizer  f_A on w_T·L_T − w_B·L_B + λ·penalty; f_T and f_B in eval mode
    auxiliary   f_T on L_T and f_B on L_B; f_A in eval mode
    utility     f_T alone;  budget  f_B alone
    hide        f_A on −L_B of the member that knows most (K-Beam)
    restore     f_A and f_T on L_T
    restyle     f_A on content and style of f_T's feature maps (Noisy-Features)

    `until`: the phase ends when f_T ("utility") or f_B ("budget") has reached `reach` on its batches of this phase.
    """

    turn: Turn
    steps: int = 1
    until: Until = ""
    reach: float = 1.0

    def __post_init__(self) -> None:
        _choices(self, turn=Turn, until=Until)
        _numbers(self, "steps")


ALTERNATE = (Phase("anonymizer"), Phase("auxiliary"))


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Adam for every player."""

    anonymizer: float = 1e-4
    utility: float = 1e-4
    budget: float = 1e-4

    def __post_init__(self) -> None:
        _numbers(self, "anonymizer", "utility", "budget")


@dataclass(frozen=True, kw_only=True)
class Start:
    """What happens before the players meet: f_A learns the identity, then f_T and f_B learn through it.

    f_T learns the actions of single clips and nothing else, whatever the game asks of it.
    """

    anonymizer_weights: str = ""  # of a ResNet-18, for the encoder of a UNet++: as of `Utility`
    identity_epochs: int = 100
    identity_batch: int = 32
    identity_rate: float = 1e-3
    identity_warmup: int = 5  # epochs, linear
    identity_goal: float = 0.01  # held-out mean |x − f_A(x)| at which it stops
    utility_epochs: int = 150
    budget_epochs: int = 400
    rate: float = 1e-3  # of f_T and f_B
    utility_batch: int = 0  # videos of a step; 0: as in the game
    utility_rate: float = 0.0  # of f_T; 0: as f_B
    utility_warmup: int = 0  # epochs, linear from a hundredth of f_T's rate to the whole
    utility_cosine: bool = False  # afterwards f_T's rate falls along half a cosine
    utility_freeze_norm: bool = (
        False  # f_T keeps the batch norm of its weights; a random start has none to keep
    )

    def __post_init__(self) -> None:
        _numbers(self, "identity_batch", "identity_rate", "rate")
        _numbers(
            self,
            "identity_epochs",
            "identity_warmup",
            "identity_goal",
            "utility_epochs",
            "budget_epochs",
            "utility_batch",
            "utility_rate",
            "utility_warmup",
            least=0,
        )

    def rate_of_utility(self, epoch: int) -> float:
        """f_T's rate in an epoch of its start, counted from 0."""
        rate = self.utility_rate or self.rate
        if epoch < self.utility_warmup:
            return rate * (WARMUP_FROM + (1 - WARMUP_FROM) * epoch / max(1, self.utility_warmup - 1))
        if not self.utility_cosine:
            return rate
        # of n epochs the last is at n − 1 of n: at rate 0 it would teach nothing
        done = (epoch - self.utility_warmup) / max(1, self.utility_epochs - self.utility_warmup)
        return rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


@dataclass(frozen=True, kw_only=True)
class Headway:
    """When a training that hides nothing is stopped: every `epochs`, L_B must be `share` of its chance level."""

    epochs: int = 0  # 0: never stop
    share: float = 0.5

    def __post_init__(self) -> None:
        _numbers(self, "epochs", "share", least=0)


@dataclass(frozen=True, kw_only=True)
class MinimaxSettings:
    """Everything together."""

    utility: Utility = field(default_factory=Utility)
    budget: Budget | None = field(default_factory=Budget)
    penalty: Penalty | None = None
    w_utility: float = 1.0
    w_budget: float = 1.0
    w_penalty: float = 1.0
    w_style: float = 1.0  # of "restyle"
    phases: tuple[Phase, ...] = ALTERNATE
    size: int = 112
    epochs: int = 100
    batch: int = 24  # videos of a step
    privacy_batch: int = 24  # samples of the budget
    rates: Rates = field(default_factory=Rates)
    start: Start = field(default_factory=Start)
    headway: Headway = field(default_factory=Headway)
    # clips and privacy frames through f_A together, or one after the other, as published; None: together where both
    # are frames of videos. Images of another dataset would count in the batch norm of clips.
    one_pass: bool | None = None
    precision: str = "32-true"  # as Fabric names it
    compile: bool = False
    repeatable: bool = True  # on CUDA only convolutions that give the same result every time
    checkpoint_every: int = 3  # epochs
    keep_every: int = 3  # epochs of which the anonymizer is kept for looking back; 0: none
    workers: int = 2  # decoding threads
    cache_gib: float = 4.0  # decoded frames kept in memory

    def __post_init__(self) -> None:
        _numbers(self, "size", "batch", "privacy_batch", "checkpoint_every", "workers")
        _numbers(
            self,
            "epochs",
            "keep_every",
            "cache_gib",
            "w_utility",
            "w_budget",
            "w_penalty",
            "w_style",
            least=0,
        )
        if not self.phases:
            raise UsageError("MinimaxSettings phases: name at least one")
        turns = {phase.turn for phase in self.phases}
        if self.budget is None and (asked := sorted(turns & {"budget", "hide"})):
            raise UsageError(f"MinimaxSettings phases {', '.join(asked)}: there is no budget net")
        if self.budget is not None and self.budget.kind == "pairs" and self.budget.source == "video":
            # a gap that does not fit into a clip is said now, not after hours of starts
            parse_pair(self.budget.pair)(self.utility.frames, np.random.default_rng(0))
        if self.precision in ("16-mixed", "16"):
            raise UsageError(
                f"MinimaxSettings precision={self.precision!r}: float16 needs scaled gradients, which players with an "
                "optimiser each do not have; use 'bf16-mixed'"
            )
        if self.batch < 2 or (self.budget is not None and self.privacy_batch < 2):
            raise UsageError(
                f"batch={self.batch}, privacy_batch={self.privacy_batch}: batch norm and contrast need at least 2"
            )
        if self.start.utility_batch == 1:
            raise UsageError("Start utility_batch=1: batch norm needs at least 2")

    @property
    def together(self) -> bool:
        """Whether a step takes clips and privacy frames through f_A in one pass."""
        return self.passes(self.one_pass)

    def passes(self, one_pass: bool | None) -> bool:
        """What a `one_pass` that was written comes to with these settings."""
        if one_pass is not None:
            return one_pass
        return self.budget is None or self.budget.source == "video"

    @property
    def starts_apart(self) -> bool:
        """Whether f_T learns from other batches before the game than in it."""
        return self.utility.temporal != "none" or bool(self.start.utility_batch)

    @property
    def form(self) -> dict[str, str]:
        """What earlier versions did otherwise with the same settings: a run is known by it too."""
        taught = self.utility.temporal != "none" and self.start.utility_epochs
        return {"utility_start": "actions"} if taught else {}


FREE_TO_CHANGE = (
    "checkpoint_every",
    "keep_every",
    "workers",
    "cache_gib",
    "compile",
    "headway",
    "repeatable",
)
