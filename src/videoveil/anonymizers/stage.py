"""What all stages of a latent anonymizer have in common.

Shapes everywhere in this package: N clips, S tokens of a clip, d channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from videoveil.anonymizers.errors import NotFitted, ShapeMismatch
from videoveil.errors import UsageError


class NoiseSource(Protocol):
    """Where noise comes from: fresh in training, keyed for export."""

    def draw(self, like: Tensor, mask: Tensor | None, label: str) -> Tensor:
        """Normal numbers of the shape of `like` (N, S, d), of variance 1 or more; mask (N, S)."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a stage may know beside the features."""

    mask: Tensor | None = None  # (N, S), True where a token is real
    static: Tensor | None = (
        None  # (N, d), mean of the static features of the clip's video, as the encoder gave them
    )
    noise: NoiseSource | None = None

    def to(self, device: torch.device) -> Context:
        """The same on a device."""
        moved = [None if t is None else t.to(device) for t in (self.mask, self.static)]
        return Context(moved[0], moved[1], self.noise)


@dataclass(frozen=True, slots=True)
class FitData:
    """What stages that take their numbers from data are given: training videos only."""

    features: Tensor  # (n, d) or (n, S, d), moving clips
    static: Tensor | None = None  # (n, d), mean static features of each clip's video
    videos: Tensor | None = None  # (V, K, d), K static clips of each of V videos
    owners: Tensor | None = None  # (n,), the video of each moving clip: its place in `videos`
    actions: Tensor | None = None  # (n,), the action of each moving clip's video; below 0: not known
    spare: Tensor | None = None  # (c, d), directions to leave alone: the rows of a linear head's weight

    @property
    def rows(self) -> Tensor:
        """All vectors (·, d) in float64."""
        return self.features.detach().double().flatten(0, -2)


class Stage(nn.Module):
    """(N, S, d) → (N, S, d). Every row is treated by itself, unless `exportable` is false."""

    exportable: bool = True
    wants_noise: bool = False
    wants_static: bool = False

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        check_tokens(x, self.width, type(self).__name__)
        return self.apply_to(x, context or Context())

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        raise NotImplementedError

    def fit_from(self, data: FitData) -> None:
        """Take what can be taken from data; most adapters take nothing."""


class FittedStage(Stage):
    """A stage without sensible numbers until it has seen data."""

    fitted: Tensor

    def __init__(self, width: int):
        super().__init__(width)
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        if not self.fitted:
            raise NotFitted(f"{type(self).__name__}: call fit_from with features of training videos first")
        return super().forward(x, context)


def check_tokens(x: Tensor, width: int, name: str) -> None:
    """A matrix would be read by attention as one long sequence, mixing clips: three axes, always."""
    if x.dim() != 3 or x.shape[2] != width:
        raise ShapeMismatch(
            f"{name}: features must be (N, S, {width}), not {tuple(x.shape)}; one vector per clip is (N, 1, {width})"
        )


def check_rows(rows: Tensor, width: int, least: int, name: str) -> None:
    """Rows (n, d) that something can be fitted to."""
    if rows.dim() != 2 or rows.shape[1] != width:
        raise ShapeMismatch(f"{name}: vectors of width {width} are needed, not {tuple(rows.shape)}")
    if len(rows) < least:
        raise UsageError(f"{name}: {len(rows)} vectors are too few to fit, at least {least} are needed")
    if not bool(rows.isfinite().all()):
        raise UsageError(f"{name}: a feature to fit is NaN or infinite")
