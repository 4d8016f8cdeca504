"""A decoded picture as 8-bit RGB, upright.

The conversion is fixed, so that the same file gives the same bytes on every machine and with any number of threads:
swscale with accurate rounding and without machine-dependent short cuts, chroma bilinear (a grey or a flat colour comes
back exact, where the usual short cut is up to two levels too dark); matrix and range are those
that the stream declares, BT.601 and limited range where it declares none (what libav does). More than eight bits are
reduced to eight. Transparent pictures lie on black.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from av.sidedata.sidedata import Type as SideDataType
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

_EXACT = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT


@dataclass(frozen=True)
class Orientation:
    """How the stored picture is turned for display: transposed first, then mirrored."""

    transpose: bool = False
    mirror_x: bool = False
    mirror_y: bool = False

    @property
    def rotation(self) -> int:
        """Degrees clockwise from stored to upright (a mirrored picture counts by its turn alone)."""
        if self.transpose:
            return 90 if self.mirror_x else 270
        return 180 if self.mirror_y else 0

    def apply(self, image: np.ndarray) -> np.ndarray:
        """(H, W, C) stored → (H, W, C) or (W, H, C) upright."""
        if self.transpose:
            image = image.transpose(1, 0, 2)
        if self.mirror_x:
            image = image[:, ::-1]
        if self.mirror_y:
            image = image[::-1]
        return image


UPRIGHT = Orientation()


def orientation(frame: av.VideoFrame) -> Orientation:
    """From the display matrix [a b u; c d v; x y w], which maps stored (p, q) to shown (a·p + c·q, b·p + d·q).

    Only quarter turns and mirrors are applied; a matrix that is neither (a tilt) leaves the picture as stored.
    """
    entries: Iterable[Any] = frame.side_data
    matrices = [bytes(entry) for entry in entries if entry.type == SideDataType.DISPLAYMATRIX]
    if not matrices or len(matrices[0]) < 36:
        return UPRIGHT
    a, b, _, c, d, *_ = struct.unpack("=9i", matrices[0][:36])
    straight, turned = min(abs(a), abs(d)), min(abs(b), abs(c))
    if straight > 8 * max(abs(b), abs(c)):
        return Orientation(False, a < 0, d < 0)
    if turned > 8 * max(abs(a), abs(d)):
        return Orientation(True, c < 0, b < 0)
    return UPRIGHT


class RgbConverter:
    """Turns frames into RGB arrays; keeps the scaler between frames."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()
        self._transparent: dict[str, bool] = {}  # by pixel format

    def __call__(self, frame: av.VideoFrame, turn: Orientation) -> np.ndarray:
        """(H, W, 3) uint8, C-contiguous, owned by the caller."""
        name = frame.format.name
        if name not in self._transparent:
            alpha = any(component.is_alpha for component in frame.format.components)
            self._transparent[name] = alpha or frame.format.has_palette
        if self._transparent[name]:
            image = _on_black(self._convert(frame, "gbrap"))
        else:
            image = self._convert(frame, "gbrp")
        return np.ascontiguousarray(turn.apply(image))

    def _convert(self, frame: av.VideoFrame, pixel_format: str) -> np.ndarray:
        """(H, W, 3 or 4) RGB(A). By way of planes: same values as packed RGB, in half the time."""
        frame = self._reformatter.reformat(
            frame, format=pixel_format, interpolation=_EXACT, dst_color_range=ColorRange.JPEG, threads=1
        )
        return frame.to_ndarray()


def _on_black(image: np.ndarray) -> np.ndarray:
    """(H, W, 4) → (H, W, 3), rounded to nearest."""
    colour, alpha = image[..., :3].astype(np.uint16), image[..., 3:].astype(np.uint16)
    return ((colour * alpha + 127) // 255).astype(np.uint8)
