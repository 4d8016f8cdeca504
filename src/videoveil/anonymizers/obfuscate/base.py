"""What the classical anonymizers have in common with each other and with the learnt ones: frames in, frames out.

Shapes: frames are (N, 3, H, W), clips (N, 3, T, H, W); uint8, or float in [0, 1]. The type stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from videoveil import files
from videoveil.anonymizers.errors import ShapeMismatch, Withheld
from videoveil.anonymizers.pixel.frames import to_frames
from videoveil.errors import VeilError


class Classical(nn.Module):
    """An anonymizer with nothing to learn, and so without weights: its settings are all there is.

    `forward` is the checked way: each frame by itself, and on any failure `Withheld` instead of a picture.
    `transform` is the same without checks and in one batch, for scoring.
    """

    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.eval()

    # --- to be given by each ----------------------------------------------------------------------------------

    def transform_frames(self, frames: Tensor) -> Tensor:
        """(N, 3, H, W) → anonymized frames."""
        raise NotImplementedError

    def settings(self) -> Mapping[str, Any]:
        """Everything the output depends on, JSON-able."""
        raise NotImplementedError

    # --- use --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def forward(self, x: Tensor, *, content: Sequence[str | bytes] | None = None) -> Tensor:
        """(N, 3, H, W) or (N, 3, T, H, W) → the same shape and type; raises rather than give out a raw frame.

        content: the names that keyed noise wants. Nothing here is random, so they change nothing.
        """
        check_pictures(x)
        if not x.numel():
            return x.clone()
        try:
            out = self._checked_way(x)
        except VeilError:
            raise
        except Exception as error:
            raise Withheld(f"{self.kind} failed, nothing is given out: {error}") from error
        if out.is_floating_point() and not bool(out.isfinite().all()):
            raise Withheld(f"{self.kind} gave NaN or infinite pixels; nothing is given out")
        return out

    def transform(self, x: Tensor) -> Tensor:
        """As `forward`, unchecked and batched."""
        if x.dim() == 4:
            return self.transform_frames(x)
        frames = self.transform_frames(to_frames(x))
        return _to_clips(frames, x.shape[2])

    def _checked_way(self, x: Tensor) -> Tensor:
        frames = to_frames(x)
        out = torch.cat([self.transform_frames(frame) for frame in frames.split(1)])
        return _to_clips(out, x.shape[2]) if x.dim() == 5 else out

    # --- facts ------------------------------------------------------------------------------------------------

    @property
    def exportable(self) -> bool:
        return not self.export_problems()

    def export_problems(self) -> list[str]:
        """What keeps its output from leaving the process."""
        return []

    def content_hash(self) -> str:
        """SHA-256 of the settings: what the output depends on."""
        return files.value_hash({"kind": self.kind, **self.settings()})


def check_pictures(x: Tensor) -> None:
    """Frames or clips of three channels, uint8 or finite floats in [0, 1]."""
    if x.dim() not in (4, 5) or x.shape[1] != 3:
        raise ShapeMismatch(f"frames are (N, 3, H, W), clips (N, 3, T, H, W), not {tuple(x.shape)}")
    if x.dtype == torch.uint8 or not x.numel():
        return
    if not x.is_floating_point():
        raise ShapeMismatch(f"pixels are uint8, or floats in [0, 1], not {x.dtype}")
    if not bool(x.isfinite().all()):
        raise Withheld("pixels are NaN or infinite before anonymization; decode them again")
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        raise Withheld(
            f"pixels as floats are in [0, 1], these are in [{low:.4g}, {high:.4g}]; anonymize before normalising"
        )


def _to_clips(frames: Tensor, length: int) -> Tensor:
    """(N·T, 3, h, w) → (N, 3, T, h, w); their size need not be that of the clips they were made of."""
    return frames.unflatten(0, (-1, length)).transpose(1, 2).contiguous()
