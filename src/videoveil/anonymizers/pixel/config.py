"""Every choice of a pixel anonymizer as frozen records: a pipeline of stages, in the order in which they are applied.

    PixelConfig((UNet(width=16), Grey(), LowResolution(28), Levels(2)))

A network (`UNet`, `UNetPP`) can be undone by whoever trains against it; the others (`Grey`, `LowResolution`, `Levels`,
`Outline`, `NoiseFloor`) throw something away, and what one stage has thrown away no later stage brings back. A network
in front learns what to save before something is thrown away; a network behind can only redraw what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from videoveil.anonymizers import checks
from videoveil.anonymizers.checks import at_least, known, one_of, positive, stage_to_json, truth
from videoveil.errors import UsageError

Out = Literal["sigmoid", "none"]
Up = Literal["bilinear", "transposed"]
Mode = Literal["area", "nearest"]
Enlarge = Literal["nearest", "bilinear"]
Per = Literal["frame", "video"]
LARGEST = 2**0.5  # length of a gradient: from black to white in both directions


@dataclass(frozen=True, slots=True)
class UNet:
    """SPAct's anonymizer: four halvings, four doublings with skips (17,267,523 weights as it stands here).

    `out="none"` gives numbers outside [0, 1] in training and clamps them for export.
    """

    kind: ClassVar[str] = "unet"
    width: int = 64
    out: Out = "sigmoid"
    bias: bool = True
    up: Up = "bilinear"

    def __post_init__(self) -> None:
        at_least(self, width=1)
        one_of(self, "out", get_args(Out))
        one_of(self, "up", get_args(Up))
        truth(self, "bias")


@dataclass(frozen=True, slots=True)
class UNetPP:
    """UNet++ on a ResNet-18 of depth 4, as TeD-SPAD and the penalty paper run it (13,898,787 weights).

    Their code has no activation at the end (`out="none"`), their figures have a sigmoid.
    """

    kind: ClassVar[str] = "unet++"
    out: Out = "sigmoid"

    def __post_init__(self) -> None:
        one_of(self, "out", get_args(Out))


@dataclass(frozen=True, slots=True)
class Grey:
    """Luma instead of colour, in three equal channels."""

    kind: ClassVar[str] = "grey"


@dataclass(frozen=True, slots=True)
class LowResolution:
    """Down to a code whose short side is `size` pixels (or to 1/`factor` of both sides), and up again."""

    kind: ClassVar[str] = "low-resolution"
    size: int = 0
    factor: int = 0
    mode: Mode = "area"
    up: Enlarge = "nearest"

    def __post_init__(self) -> None:
        if bool(self.size) == bool(self.factor):
            raise UsageError(
                f"low-resolution: size={self.size} and factor={self.factor}; give one of them, the other is 0"
            )
        at_least(self, **({"size": 1} if self.size else {"factor": 2}))
        one_of(self, "mode", get_args(Mode))
        one_of(self, "up", get_args(Enlarge))

    def code(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the code of a frame; below the frame's in at least one direction, or an error."""
        if self.factor:
            found = max(1, height // self.factor), max(1, width // self.factor)
        else:
            short = min(height, width)
            found = max(1, round(height * self.size / short)), max(1, round(width * self.size / short))
        if found[0] > height or found[1] > width or found == (height, width):
            raise UsageError(
                f"low-resolution: a code of {found[0]}×{found[1]} throws nothing of a frame of {height}×{width} away; "
                "use larger frames or a smaller code"
            )
        return found


@dataclass(frozen=True, slots=True)
class Levels:
    """Every value to the nearest of `levels` evenly spaced ones from 0 to 1.

    The gradient passes through the rounding unchanged. With `soft` above 0 training sees a smooth staircase with steps
    of that width instead (0.1: steep; 1: nearly straight); outside training the steps are always real.
    """

    kind: ClassVar[str] = "levels"
    levels: int = 2
    soft: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, levels=2)
        if self.levels > 256:
            raise UsageError(f"levels: levels={self.levels} is more than the 256 that stored frames have")
        if self.soft != 0 and not 0.01 <= self.soft <= 10:
            raise UsageError(f"levels: soft={self.soft} must be 0 or in [0.01, 10]")


@dataclass(frozen=True, slots=True)
class Outline:
    """White lines where the picture changes, black everywhere else: one bit a pixel.

    Colours, brightness and the sign of a change are gone; where limbs are is not. `size` is the short side at which
    lines are looked for (a smaller frame is taken as it is), `threshold` the length of the gradient, over two pixels
    and in the colour that changes most, from which a pixel is on a line: white beside black is 1.
    """

    kind: ClassVar[str] = "outline"
    size: int = 64
    threshold: float = 0.15

    def __post_init__(self) -> None:
        at_least(self, size=2)
        positive(self, "threshold")
        if self.threshold >= LARGEST:
            raise UsageError(
                f"outline: threshold={self.threshold} is never exceeded, no gradient is longer than {LARGEST:.3f}"
            )

    def code(self, height: int, width: int) -> tuple[int, int]:
        """Height and width in which lines are looked for."""
        short = min(height, width)
        if short <= self.size:
            return height, width
        return round(height * self.size / short), round(width * self.size / short)


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Gaussian noise of at least `sigma` (white is 1) on values in [0, 1]; `learned` adds to it by channel.

    `per="frame"` draws anew for every frame, so that what stays the same over many frames can be found by averaging
    them; `per="video"` draws once for a video, so that the difference of two of its frames has no noise. One of each
    has neither hole.
    """

    kind: ClassVar[str] = "noise-floor"
    sigma: float = 0.1
    learned: bool = False
    per: Per = "frame"

    def __post_init__(self) -> None:
        positive(self, "sigma")
        truth(self, "learned")
        one_of(self, "per", get_args(Per))


StageConfig = UNet | UNetPP | Grey | LowResolution | Levels | Outline | NoiseFloor
KINDS: dict[str, type[StageConfig]] = {stage.kind: stage for stage in get_args(StageConfig)}
NETWORKS = (UNet.kind, UNetPP.kind)


@dataclass(frozen=True, slots=True)
class PixelConfig:
    """A pixel anonymizer: stages in order.

    `size` says at what short side of frames it was trained, for the card (0: not recorded). `legacy_reshape` cuts clips
    into "frames" as the released TeD-SPAD and penalty code does, which mixes colours and times: for weights that were
    trained so, never for export.
    """

    kind: ClassVar[str] = "pixel anonymizer"
    stages: tuple[StageConfig, ...] = (UNet(),)
    size: int = 0
    legacy_reshape: bool = False

    def __post_init__(self) -> None:
        at_least(self, size=0)
        truth(self, "legacy_reshape")
        if not self.stages:
            raise UsageError("a pixel anonymizer needs at least one stage, or it gives the raw frames out")
        for stage in self.stages:
            if not isinstance(stage, StageConfig):
                raise UsageError(f"pixel anonymizer: {stage!r} is no stage; there are {', '.join(KINDS)}")

    def to_json(self) -> dict[str, Any]:
        return {
            "stages": [stage_to_json(stage) for stage in self.stages],
            "size": self.size,
            "legacy_reshape": self.legacy_reshape,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PixelConfig:
        """What `to_json` wrote."""
        given = known(cls, value, cls.kind)
        given["stages"] = tuple(stage_from_json(stage) for stage in given.get("stages", ()))
        return cls(**given)


def stage_from_json(value: Mapping[str, Any]) -> StageConfig:
    """What `stage_to_json` wrote."""
    stage: StageConfig = checks.stage_from_json(KINDS, value)
    return stage
