"""Two layers: cover what a detector finds, then take the whole picture through another anonymizer.

    anonymizer = Layered(Obfuscator("blacken", YuNet("yunet.onnx")), PixelAnonymizer.from_pretrained("lines"))
    open_anonymizer("blacken-faces+veil-pixel")

They fail for different reasons. A detector misses people, and of those it misses an obfuscation leaves everything; an
anonymizer of the whole picture misses nobody, and of a face that fills the picture it leaves much. Of somebody who is
found nothing gets as far as the second layer; of somebody who is not, only what that layer lets through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from videoveil.anonymizers.latent import LatentAnonymizer
from videoveil.anonymizers.obfuscate.anonymizer import Obfuscator
from videoveil.anonymizers.obfuscate.base import Classical
from videoveil.anonymizers.obfuscate.report import ObfuscationReport
from videoveil.errors import UsageError


class Layered(Classical):
    """`cover` first, `then` the whole picture: any anonymizer of frames that adds no noise of its own."""

    kind: ClassVar[str] = "layered"

    def __init__(self, cover: Obfuscator, then: Any):
        super().__init__()
        if isinstance(then, LatentAnonymizer | Obfuscator | Layered):
            raise UsageError(
                f"the second layer is one for the whole picture, not {type(then).__name__}: take veil-pixel, blur, or "
                "another that changes every frame"
            )
        if getattr(then, "wants_noise", False):
            raise UsageError("the second layer cannot add noise, which is drawn by video: use it alone")
        self.cover, self.then = cover, then

    def transform_frames(self, frames: Tensor) -> Tensor:
        return self.transform(frames)

    def transform(self, x: Tensor) -> Tensor:
        made: Tensor = self.then.transform(self.cover.transform(x))
        return made

    def _checked_way(self, x: Tensor) -> Tensor:
        made: Tensor = self.then(self.cover(x))
        return made

    def report(self) -> ObfuscationReport:
        """What the detector found, and that it is not all that was done."""
        return replace(self.cover.report(), second=self.then.content_hash())

    def export_problems(self) -> list[str]:
        return [*self.cover.export_problems(), *self.then.export_problems()]

    def settings(self) -> Mapping[str, Any]:
        return {"cover": self.cover.content_hash(), "then": self.then.content_hash()}
