"""Obf-Blackening: person boxes become black."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from videoveil.anonymizers.obfuscate.boxes import Rectangle


@dataclass(frozen=True)
class Blacken:
    """0 in all channels inside the boxes; every other pixel as it was."""

    kind: ClassVar[str] = "blacken"

    def cover(self, frame: Tensor, rectangles: Sequence[Rectangle]) -> Tensor:
        """(3, H, W), uint8 or float → a new tensor."""
        out = frame.clone()
        for top, bottom, left, right in rectangles:
            out[:, top:bottom, left:right] = 0
        return out
