"""Every number of the detector, with the published values for THUMOS14 as defaults."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from videoveil.errors import UsageError

SgpInit = Literal["zero", "gates", "normal"]
Precision = Literal["32-true", "bf16-mixed"]
PRECISIONS = ("32-true", "bf16-mixed")
SGP_INITS = ("zero", "gates", "normal")
POSITIVE = (
    *(
        "width",
        "embedding_layers",
        "stem_blocks",
        "branch_blocks",
        "sgp_window",
        "mlp_width",
        "group_norm_groups",
    ),
    *("head_layers", "bins", "max_seq_len", "truncate_tries", "loss_norm", "batch_size", "learning_rate"),
    *("gradient_clip", "pre_nms_top", "nms_sigma", "max_segments"),
)
UNBOUNDED = 10_000.0  # upper end of the coarsest level's regression range


@dataclass(frozen=True)
class TriDetConfig:
    """TriDet (Shi et al., CVPR 2023), setting THUMOS14. Lengths are in feature steps unless said otherwise.

    `sgp_init` decides how the depth-wise convolutions of the SGP blocks start. They enter the block only as products
    of two of them, so when all start at 0, as released for THUMOS14, no gradient ever reaches any of them.

    - ``"zero"`` (default, parity): the released start; the convolutions stay 0 for ever.
    - ``"gates"`` (the fix): the two gates start at 1 and the branches at 0. The network computes exactly what the
      released one computes at the first step, and every convolution learns from there.
    - ``"normal"``: weights from N(0, `sgp_init_std`²), which is what the authors use for HACS (0.1) and
      ActivityNet (0.2).
    """

    # --- network
    width: int = 512  # channels everywhere after the embedding
    embedding_layers: int = 2
    stem_blocks: int = 2
    branch_blocks: int = 5  # each halves the sequence: 1 + branch_blocks pyramid levels
    sgp_window: int = 1  # w
    sgp_k: float = 5.0  # the wide window is about k·(w + 1)
    mlp_width: int = 768
    group_norm_groups: int = 16
    head_layers: int = 3  # hidden layers and the output layer
    bins: int = 16  # B, how far a boundary may be from its instant, in steps of the level
    drop_path: float = 0.1  # branch blocks only
    class_prior: float = 0.01
    sgp_init: SgpInit = "zero"
    sgp_init_std: float = 0.1  # only read by sgp_init="normal"

    # --- sequences
    max_seq_len: int = 2304  # training windows and the least length at inference, padding included
    truncate_keep: float = 0.5  # an action stays in a window that holds at least this part of it
    truncate_tries: int = 200
    crop_ratio: tuple[float, float] = (0.9, 1.0)
    input_noise: float = 0.0005

    # --- label assignment and loss
    centre_radius: float = 1.5  # in strides of the level
    iou_weight_power: float = 0.2
    detach_iou_weight: bool = False  # True: the class loss no longer reaches the boundary heads
    regression_weight: float = 1.0
    loss_norm: float = 100.0  # first value of the running number of positives
    loss_norm_momentum: float = 0.9

    # --- optimisation
    batch_size: int = 2  # videos per step, over all processes
    learning_rate: float = 1e-4
    final_learning_rate: float = 1e-8
    weight_decay: float = 0.025
    warmup_epochs: int = 20
    cosine_epochs: int = 20
    gradient_clip: float = 1.0
    ema_decay: float = 0.999  # the average needs some 5/(1 − decay) steps to forget the random start
    precision: Precision = "32-true"

    # --- inference
    pre_nms_score: float = 0.001
    pre_nms_top: int = 2000  # per level
    min_duration: float = 0.05
    nms_sigma: float = 0.5
    nms_min_score: float = 0.001
    max_segments: int = 2000  # per video

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise UsageError(f"TriDet: {problem}")

    def _problems(self) -> list[str]:
        found = [
            f"{name}={getattr(self, name)} must be above 0" for name in POSITIVE if getattr(self, name) <= 0
        ]
        if self.max_seq_len % self.coarsest:
            found.append(f"max_seq_len={self.max_seq_len} must be a multiple of {self.coarsest}")
        if self.sgp_window % 2 == 0:
            found.append(f"sgp_window={self.sgp_window} must be odd")
        if self.width % self.group_norm_groups:
            found.append(
                f"width={self.width} must be a multiple of group_norm_groups={self.group_norm_groups}"
            )
        if self.sgp_init not in SGP_INITS:
            found.append(f"sgp_init={self.sgp_init!r}: choose one of {', '.join(SGP_INITS)}")
        if self.precision not in PRECISIONS:
            found.append(f"precision={self.precision!r}: choose one of {', '.join(PRECISIONS)}")
        low, high = self.crop_ratio
        if not 0 < low <= high <= 1:
            found.append(f"crop_ratio={self.crop_ratio}: both in (0, 1], the first not above the second")
        for name in ("drop_path", "ema_decay", "loss_norm_momentum"):
            if not 0 <= getattr(self, name) < 1:
                found.append(f"{name}={getattr(self, name)} must be in [0, 1)")
        if not 0 < self.class_prior < 1:
            found.append(f"class_prior={self.class_prior} must be between 0 and 1")
        if self.warmup_epochs < 0 or self.cosine_epochs < 0 or self.epochs < 1:
            found.append("warmup_epochs and cosine_epochs must be 0 or more, and together at least 1")
        return found

    @property
    def levels(self) -> int:
        """Pyramid levels L."""
        return 1 + self.branch_blocks

    @property
    def strides(self) -> tuple[int, ...]:
        """Feature steps from one instant to the next, per level."""
        return tuple(2**level for level in range(self.levels))

    @property
    def coarsest(self) -> int:
        """Stride of the last level; sequence lengths are multiples of it."""
        return 2**self.branch_blocks

    @property
    def regression_ranges(self) -> tuple[tuple[float, float], ...]:
        """Per level the longer side of the actions it learns: (0,4) (4,8) … and no limit on the last."""
        low = (0.0, *(4.0 * 2**level for level in range(self.levels - 1)))
        return tuple(zip(low, (*low[1:], UNBOUNDED)))

    @property
    def sgp_wide_window(self) -> int:
        """K = round((w + 1)·k), made odd."""
        wide = round((self.sgp_window + 1) * self.sgp_k)
        return wide if wide % 2 else wide + 1

    @property
    def class_bias(self) -> float:
        """Logit of the prior: −ln((1 − π)/π)."""
        return -math.log((1 - self.class_prior) / self.class_prior)

    @property
    def epochs(self) -> int:
        return self.warmup_epochs + self.cosine_epochs

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "crop_ratio": list(self.crop_ratio)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TriDetConfig:
        """What `to_json` wrote; an unknown field is an error, because it would silently not be honoured."""
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(value) - known):
            raise UsageError(
                f"TriDet: unknown settings {', '.join(unknown)}; this version knows {sorted(known)}"
            )
        settings = dict(value)
        if "crop_ratio" in settings:
            settings["crop_ratio"] = tuple(settings["crop_ratio"])
        return cls(**settings)
