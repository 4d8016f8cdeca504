"""Clips as frames and back.

Shapes: B clips, C colours, T frames, H×W pixels.
"""

from __future__ import annotations

from torch import Tensor

from videoveil.anonymizers.errors import ShapeMismatch


def to_frames(x: Tensor, *, legacy_reshape: bool = False) -> Tensor:
    """(B, 3, T, H, W) → (B·T, 3, H, W), every one a true RGB frame; frames (B, 3, H, W) as they are.

    Copies only where the memory layout makes it necessary: channels-last clips become channels-last frames for free.
    `legacy_reshape` cuts the memory of the batch into threes without looking, as the released TeD-SPAD and penalty code
    does: an "image" is then R_t, R_{t+1}, R_{t+2}, or worse.
    """
    _check(x)
    if x.dim() == 4:
        return x
    if legacy_reshape:
        return x.reshape(-1, 3, *x.shape[3:])
    return x.transpose(1, 2).flatten(0, 1)  # (B, T, 3, H, W) → (B·T, 3, H, W)


def to_clips(frames: Tensor, like: Tensor, *, legacy_reshape: bool = False) -> Tensor:
    """What `to_frames` made of `like` (or something made of it, frame by frame) in the shape of `like`."""
    if like.dim() == 4:
        return frames
    clips, _, length, height, width = like.shape
    if legacy_reshape:
        return frames.reshape(like.shape)
    return frames.view(clips, length, 3, height, width).transpose(1, 2)  # (B, T, 3, H, W) → (B, 3, T, H, W)


def _check(x: Tensor) -> None:
    if x.dim() not in (4, 5) or x.shape[1] != 3:
        raise ShapeMismatch(f"frames must be (N, 3, H, W) and clips (N, 3, T, H, W), not {tuple(x.shape)}")
