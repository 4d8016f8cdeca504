"""Noise for frames. Which noise a frame gets is decided as for features: see `anonymizers.keys`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from videoveil.anonymizers.keys import KeyedNoise, NoiseKey, row_contents
from videoveil.anonymizers.pixel.config import Per
from videoveil.errors import UsageError


@dataclass(frozen=True, slots=True)
class FreshFrameNoise:
    """New noise with every call: for training. `length` frames in a row belong to one clip."""

    length: int = 1

    def draw(self, like: Tensor, per: Per, label: str) -> Tensor:
        if per == "frame":
            return torch.randn_like(like)
        clips = len(like) // self.length
        noise = torch.randn(clips, *like.shape[1:], dtype=like.dtype, device=like.device)
        return noise.repeat_interleave(self.length, 0)


@dataclass(frozen=True, slots=True)
class KeyedFrameNoise:
    """The noise of given contents under a key: for export.

    frames: what every frame is, its own pixels; videos: what its video is called, where the caller has said so.
    """

    key: NoiseKey
    frames: Sequence[bytes]
    videos: Sequence[bytes] | None = None

    def part(self, chosen: slice) -> KeyedFrameNoise:
        """The noise of some of the frames."""
        return KeyedFrameNoise(
            self.key, self.frames[chosen], None if self.videos is None else self.videos[chosen]
        )

    def draw(self, like: Tensor, per: Per, label: str) -> Tensor:
        contents = self.frames if per == "frame" else self.videos
        if contents is None:
            raise UsageError(
                "noise-floor: noise of one draw per video needs content=[…], the name of the video of every row"
            )
        places = {content: place for place, content in enumerate(dict.fromkeys(contents))}
        rows = torch.empty(len(places), 1, like[0].numel(), dtype=like.dtype)
        noise = KeyedNoise(self.key, list(places)).draw(rows, None, label)  # (contents, 1, 3·H·W)
        chosen = torch.tensor([places[content] for content in contents])
        return noise[chosen].view(like.shape).to(like.device)


def frame_names(frames: Tensor, bound: bytes) -> list[bytes]:
    """What each of frames (M, 3, H, W) is called: a hash of its size and its pixels.

    `bound` is what the noise is bound to beside the key: two anonymizers with one key must not share noise, or the
    difference of what they give out has none.
    """
    size = f"{frames.shape[-2]}x{frames.shape[-1]}".encode()
    rows = row_contents(frames.flatten(1)[:, None])
    return [bound + b"\0frame\0" + size + b"\0" + hashlib.sha256(row).digest() for row in rows]


def video_names(content: Sequence[str | bytes], length: int, bound: bytes) -> list[bytes]:
    """What the video of each frame is called; `length` frames of one row after the other."""
    names = [part.encode() if isinstance(part, str) else part for part in content]
    return [bound + b"\0video\0" + name for name in names for _ in range(length)]
