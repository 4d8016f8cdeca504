"""Two steps from frames to frames as one, so that every attack on pictures can look through both.

Clips(dataset, "test", Composed(anonymizer, reconstructor))
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from videoveil import files
from videoveil.tasks.base import Clips

if TYPE_CHECKING:
    from videoveil.features.pixels import FrameAnonymizer


class Composed:
    """What `second` makes of what `first` publishes; `eight_bit`: of frames rounded as a stored video is."""

    training = False

    def __init__(self, first: FrameAnonymizer, second: FrameAnonymizer, eight_bit: bool = False):
        self.first, self.second, self.eight_bit = first, second, eight_bit

    def transform(self, frames: Tensor) -> Tensor:
        """(N, 3, T, H, W) in [0, 1] → the same."""
        published = self.first.transform(frames).clamp(0.0, 1.0)
        if self.eight_bit:
            published = published.mul(255).round().div(255)
        return self.second.transform(published)

    def content_hash(self) -> str:
        parts = [self.first.content_hash(), self.second.content_hash(), self.eight_bit]
        return files.value_hash(["composed", parts])

    def to(self, device: Any) -> Composed:
        self.first.to(device)
        self.second.to(device)
        return self

    def eval(self) -> Composed:
        self.first.eval()
        self.second.eval()
        return self


def through(source: Clips, second: FrameAnonymizer) -> Clips:
    """The same videos with one more step after what publishes them."""
    if source.anonymizer is None:
        return replace(source, anonymizer=second, eight_bit=False)
    return replace(source, anonymizer=Composed(source.anonymizer, second, source.eight_bit), eight_bit=False)
