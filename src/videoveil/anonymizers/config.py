"""Every choice of a latent anonymizer as frozen records: a pipeline of stages, in the order in which they are applied.

    LatentConfig(width=768, stages=(Attention(), Rank(24), Noise(floor=0.3), Quantise(levels=16)))

An adapter (`Attention`, `AttentionOnly`, `MLP`) can be undone by whoever trains against it; the mechanisms (`Rank`,
`Noise`, `Quantise`, `StaticResidual`, `Motion`, `Erase`, `Keep`) throw something away. What one stage has thrown away
no later stage brings back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from videoveil.anonymizers import checks
from videoveil.anonymizers.checks import at_least, fraction, known, one_of, positive, stage_to_json
from videoveil.errors import UsageError

Init = Literal["zero", "default"]
Activation = Literal["relu", "gelu"]
Basis = Literal["axes", "principal"]
Tokens = Literal["clip", "temporal"]
EraseSource = Literal["static", "moving", "both"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Transformer encoder layers over the tokens of one clip (SPLAVU's adapter; 24d² + 33d weights at depth 3).

    `init="zero"` is the identity before training; `"default"` is for a warm-up by reconstruction. `cross_sample`
    attends across the batch instead, as the code published with the paper does: for comparison, never for export.
    """

    kind: ClassVar[str] = "attention"
    depth: int = 3
    heads: int = 8
    norm_first: bool = True  # False ends in a norm and cannot keep the lengths of vectors
    activation: Activation = "relu"
    dropout: float = 0.1
    init: Init = "zero"
    cross_sample: bool = False

    def __post_init__(self) -> None:
        at_least(self, depth=1, heads=1)
        fraction(self, "dropout")
        one_of(self, "activation", get_args(Activation))
        one_of(self, "init", get_args(Init))
        if self.init == "zero" and not self.norm_first:
            raise UsageError(
                "attention: init='zero' is the identity only with norm_first=True; use 'default'"
            )


@dataclass(frozen=True, slots=True)
class AttentionOnly:
    """Residual self-attention without norms and feed-forward parts, as published with the paper (12d² + 12d)."""

    kind: ClassVar[str] = "attention-only"
    depth: int = 3
    heads: int = 8
    dropout: float = 0.0
    init: Init = "zero"
    cross_sample: bool = False

    def __post_init__(self) -> None:
        at_least(self, depth=1, heads=1)
        fraction(self, "dropout")
        one_of(self, "init", get_args(Init))


@dataclass(frozen=True, slots=True)
class MLP:
    """depth × [Linear → ReLU → BatchNorm → Dropout], SPLAVU's ablation; `residual` adds every layer to its input."""

    kind: ClassVar[str] = "mlp"
    depth: int = 3
    dropout: float = 0.1
    residual: bool = False
    init: Init = "default"

    def __post_init__(self) -> None:
        at_least(self, depth=1)
        fraction(self, "dropout")
        one_of(self, "init", get_args(Init))
        if self.init == "zero" and not self.residual:
            raise UsageError("mlp: init='zero' is the identity only with residual=True; use 'default'")


@dataclass(frozen=True, slots=True)
class Rank:
    """Through `rank` numbers and back: an affine map of that rank, learned."""

    kind: ClassVar[str] = "rank"
    rank: int

    def __post_init__(self) -> None:
        at_least(self, rank=1)


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise of at least `floor` standard deviations on a signal clipped to ±`clip` of them.

    `basis="axes"` speaks of the channels; `"principal"` of the principal directions of the features, so that a
    direction spread over many channels cannot average the noise away.
    """

    kind: ClassVar[str] = "noise"
    floor: float = 0.3
    clip: float = 3.0
    learned: bool = True
    basis: Basis = "axes"

    def __post_init__(self) -> None:
        positive(self, "floor")
        positive(self, "clip")
        one_of(self, "basis", get_args(Basis))


@dataclass(frozen=True, slots=True)
class Quantise:
    """Each channel to `levels` values between its `percentile`-th and (100 − percentile)-th percentile."""

    kind: ClassVar[str] = "quantise"
    levels: int = 16
    percentile: float = 1.0
    learned: bool = False

    def __post_init__(self) -> None:
        at_least(self, levels=2)
        if not 0 <= self.percentile < 50:
            raise UsageError(f"quantise: percentile={self.percentile} must be in [0, 50)")


@dataclass(frozen=True, slots=True)
class StaticResidual:
    """Minus `alpha` times what the static clips of the video predict, by a ridge map.

    `ridge` is in units of the mean variance of the static features. With `required=False` features that come without
    static ones pass unchanged.
    """

    kind: ClassVar[str] = "static-residual"
    alpha: float = 1.0
    ridge: float = 0.1
    required: bool = True

    def __post_init__(self) -> None:
        if not self.ridge > 0:
            raise UsageError(f"static-residual: ridge={self.ridge} must be above 0")


@dataclass(frozen=True, slots=True)
class Motion:
    """Minus the static features of the same video: of a still picture nothing is left.

    `keep` numbers of the static features come through all the same: those that tell actions apart best.
    """

    kind: ClassVar[str] = "motion"
    keep: int = 0

    def __post_init__(self) -> None:
        at_least(self, keep=0)


@dataclass(frozen=True, slots=True)
class Erase:
    """Projects directions away: those that tell videos apart, or given ones. Closed form, nothing is trained.

    `source="static"` takes the directions in which static frames of different videos differ; `"moving"` those in which
    moving clips of different videos *of one action* differ, which is who and where, not what; `"both"` the span of the
    two, because either alone leaves the other kind of clip readable. `directions` counts those of each source;
    `share` says it as a part of the width instead (1/8 of 256 is 32).
    """

    kind: ClassVar[str] = "erase"
    directions: int = 0
    source: EraseSource = "static"
    share: float = 0.0

    def __post_init__(self) -> None:
        one_of(self, "source", get_args(EraseSource))
        counted(self)

    def count(self, width: int) -> int:
        """Directions of each source."""
        return self.directions or max(1, round(self.share * width))

    def room(self, width: int) -> int:
        """Directions of all sources together, at most."""
        return self.count(width) * (2 if self.source == "both" else 1)


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps the directions in which what happens stands out most against who and where; the others are gone.

    Closed form, nothing is trained. What happens is what changes inside a video and what the means of actions differ
    in; who and where is what static clips of a video share and what moving clips of one action differ in from video
    to video. `ridge`, in mean variances of the latter, is for what the training videos do not show. `directions`
    says how many are kept, or `share` as a part of the width (1/16 of 256 is 16).
    """

    kind: ClassVar[str] = "keep"
    directions: int = 0
    share: float = 0.0
    ridge: float = 0.01

    def __post_init__(self) -> None:
        counted(self)
        positive(self, "ridge")

    def count(self, width: int) -> int:
        """Directions that are kept, at most."""
        return self.directions or max(1, round(self.share * width))


def counted(stage: Erase | Keep) -> None:
    """A number of directions, or a share of the width."""
    if not stage.share:
        at_least(stage, directions=1)
    elif stage.directions:
        raise UsageError(
            f"{stage.kind}: directions={stage.directions} and share={stage.share}; give one of them"
        )
    elif not 0 < stage.share < 1:
        raise UsageError(f"{stage.kind}: share={stage.share} must be between 0 and 1")


StageConfig = (
    Attention | AttentionOnly | MLP | Rank | Noise | Quantise | StaticResidual | Motion | Erase | Keep
)
KINDS: dict[str, type[StageConfig]] = {stage.kind: stage for stage in get_args(StageConfig)}


@dataclass(frozen=True, slots=True)
class EncoderReference:
    """The encoder whose features an anonymizer was made for."""

    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """A latent anonymizer: feature width, stages in order, what a token is, and the encoder it belongs behind."""

    kind: ClassVar[str] = "latent anonymizer"
    width: int
    stages: tuple[StageConfig, ...] = field(default_factory=lambda: (Attention(),))
    tokens: Tokens = "clip"  # what it was trained on: one vector per clip, or the clip's temporal tokens
    encoder: EncoderReference | None = None

    def __post_init__(self) -> None:
        at_least(self, width=1)
        one_of(self, "tokens", get_args(Tokens))
        if not self.stages:
            raise UsageError("a latent anonymizer needs at least one stage, or it gives the raw features out")
        if any(isinstance(stage, Motion) for stage in self.stages[1:]):
            raise UsageError(
                "motion: must be the first stage: it subtracts features as the encoder gave them"
            )
        for stage in self.stages:
            if isinstance(stage, Motion) and stage.keep >= self.width:
                raise UsageError(f"motion: keep={stage.keep} must be below the width {self.width}")
            if isinstance(stage, Attention | AttentionOnly) and self.width % stage.heads:
                raise UsageError(f"{stage.kind}: width {self.width} is no multiple of heads={stage.heads}")
            if isinstance(stage, Rank) and stage.rank >= self.width:
                raise UsageError(f"rank: rank={stage.rank} must be below the width {self.width}")
            if isinstance(stage, Erase) and stage.room(self.width) >= self.width:
                raise UsageError(
                    f"erase: directions={stage.room(self.width)} must be below the width {self.width}"
                )
            if isinstance(stage, Keep) and stage.count(self.width) >= self.width:
                raise UsageError(
                    f"keep: directions={stage.count(self.width)} must be below the width {self.width}"
                )

    def to_json(self) -> dict[str, Any]:
        return {
            "width": self.width,
            "tokens": self.tokens,
            "stages": [stage_to_json(stage) for stage in self.stages],
            "encoder": None if self.encoder is None else dataclasses.asdict(self.encoder),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LatentConfig:
        """What `to_json` wrote; an unknown field is an error, because it would silently not be honoured."""
        given = known(cls, value, "latent anonymizer")
        given["stages"] = tuple(stage_from_json(stage) for stage in given.get("stages", ()))
        if given.get("encoder") is not None:
            given["encoder"] = EncoderReference(**known(EncoderReference, given["encoder"], "encoder"))
        return cls(**given)


def stage_from_json(value: Mapping[str, Any]) -> StageConfig:
    """What `stage_to_json` wrote."""
    stage: StageConfig = checks.stage_from_json(KINDS, value)
    return stage
