"""Which part of a picture is kept, and how it is brought to size: crop rules and the resize they end in.

A rule turns the size of a picture and some dice into a `Geometry`; `resize_clip` carries a geometry out. The two are
apart, so that a second view or a static clip can be cut exactly like the clip it belongs to.

Shapes: a clip is uint8 `(T, H, W, 3)`, as decoded, or float `(3, T, H, W)` in [0, 1]. All sizes are (height, width).

Resizing is bilinear with antialiasing, clip by clip. Measured on one CPU thread for 8 clips of 16 frames, each with
its own crop, 240×320 → 112²: interpolation in float 84 ms, in uint8 24 ms, one `grid_sample` for all clips 39 ms. The
last one does not antialias (mean difference 0.1 on noise), which makes shrunk pictures flicker: it is not used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from videoveil.errors import UsageError

Size = tuple[int, int]


class Dice:
    """The uniform numbers in [0, 1) that one clip may use, in order."""

    def __init__(self, uniforms: Sequence[float]):
        self._uniforms: Iterator[float] = iter(uniforms)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * next(self._uniforms)

    def integer(self, low: int, high: int) -> int:
        """Uniform in {low, …, high}, both included."""
        return low + int((high - low + 1) * next(self._uniforms))

    def chance(self, probability: float) -> bool:
        return next(self._uniforms) < probability


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of pixels."""

    top: int
    left: int
    height: int
    width: int

    @property
    def size(self) -> Size:
        return self.height, self.width

    def of(self, pictures: Tensor) -> Tensor:
        """The view of this rectangle in `(…, H, W)`."""
        return pictures[..., self.top : self.top + self.height, self.left : self.left + self.width]


@dataclass(frozen=True, slots=True)
class Geometry:
    """Cut `source` out of the picture, bring it to the size `scaled`, keep `window` of that."""

    source: Box
    scaled: Size
    window: Box


class CropRule(Protocol):
    """How a geometry with a square output of side `size` comes about; rules without chance leave the dice alone."""

    @property
    def random(self) -> bool: ...

    def __call__(self, height: int, width: int, size: int, dice: Dice) -> Geometry: ...


def centred(height: int, width: int, inner_height: int, inner_width: int) -> Box:
    return Box((height - inner_height) // 2, (width - inner_width) // 2, inner_height, inner_width)


def _to_square(source: Box, size: int) -> Geometry:
    return Geometry(source, (size, size), Box(0, 0, size, size))


def _part(length: int, factor: float) -> int:
    """`factor` of a side in whole pixels; the small term keeps 0.8·240 from becoming 191."""
    return max(1, int(length * factor + 1e-6))


# --- random rules --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScaledCrop:
    """SPAct and TeD-SPAD: factor c ~ U(0.6, 1), corner uniform in {0..H(1 − c)} × {0..W(1 − c)}.

    `square` (SPAct clips) keeps c of the short side in both directions, otherwise c·H × c·W is kept and the resize
    changes the aspect (images, TeD-SPAD clips). The published corner range does not grow with the slack of the square
    crop, so at c = 1 a wide picture always loses its right-hand side; that is kept as published.
    """

    square: bool
    low: float = 0.6
    high: float = 1.0
    random: ClassVar[bool] = True

    def __call__(self, height: int, width: int, size: int, dice: Dice) -> Geometry:
        factor = dice.uniform(self.low, self.high)
        top = dice.integer(0, int(height * (1 - factor)))
        left = dice.integer(0, int(width * (1 - factor)))
        short = min(height, width)
        tall, wide = (short, short) if self.square else (height, width)
        return _to_square(Box(top, left, _part(tall, factor), _part(wide, factor)), size)


@dataclass(frozen=True, slots=True)
class ResizedCrop:
    """Random resized crop (SPLAVU, SimCLR): area ~ U(scale)·H·W, log aspect ~ U(log ratio), uniform place.

    Ten attempts to fit; after that the largest centred crop whose aspect is allowed. SPLAVU gives no ranges: these are
    the customary ones.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    random: ClassVar[bool] = True

    def __call__(self, height: int, width: int, size: int, dice: Dice) -> Geometry:
        for _ in range(10):
            area = height * width * dice.uniform(*self.scale)
            aspect = math.exp(dice.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < wide <= width and 0 < tall <= height:
                top, left = dice.integer(0, height - tall), dice.integer(0, width - wide)
                return _to_square(Box(top, left, tall, wide), size)
        tall, wide = height, width
        if width / height < self.ratio[0]:
            tall = min(height, round(width / self.ratio[0]))
        elif width / height > self.ratio[1]:
            wide = min(width, round(height * self.ratio[1]))
        return _to_square(centred(height, width, tall, wide), size)


# --- rules without chance ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CentreCrop:
    """The centred part: `fraction` of the short side in both directions (`square`), or of each side."""

    square: bool
    fraction: float
    random: ClassVar[bool] = False

    def __call__(self, height: int, width: int, size: int, dice: Dice) -> Geometry:
        short = min(height, width)
        tall, wide = (short, short) if self.square else (height, width)
        inner = _part(tall, self.fraction), _part(wide, self.fraction)
        return _to_square(centred(height, width, *inner), size)


@dataclass(frozen=True, slots=True)
class CornerCrop:
    """`fraction` of each side, from one of the corners: the top left one, or further `down`, or further `right`."""

    fraction: float
    down: bool
    right: bool
    random: ClassVar[bool] = False

    def __call__(self, height: int, width: int, size: int, dice: Dice) -> Geometry:
        tall, wide = _part(height, self.fraction), _part(width, self.fraction)
        return _to_square(Box(self.down * (height - tall), self.right * (width - wide), tall, wide), size)


@dataclass(frozen=True, slots=True)
class ShortEdge:
    """SPLAVU validation, I3D: short edge to `resize` keeping the aspect, then the centred square of side `size`."""

    resize: int
    random: ClassVar[bool] = False

    def __call__(self, height: int, width: int, size: int, dice: Dice) -> Geometry:
        if size > self.resize:
            raise UsageError(f"a centre crop of {size} does not fit a short edge of {self.resize} pixels")
        if height <= width:
            scaled = self.resize, self.resize * width // height
        else:
            scaled = self.resize * height // width, self.resize
        return Geometry(Box(0, 0, height, width), scaled, centred(*scaled, size, size))


# --- carrying it out -----------------------------------------------------------------------------------------


def clip_size(clip: Tensor) -> Size:
    """Height and width of a clip in either layout; a tensor in neither layout is refused."""
    if clip.dim() == 4 and clip.dtype == torch.uint8 and clip.shape[3] == 3:
        return clip.shape[1], clip.shape[2]
    if clip.dim() == 4 and clip.is_floating_point() and clip.shape[0] == 3:
        return clip.shape[2], clip.shape[3]
    raise UsageError(
        f"a clip is uint8 (T, H, W, 3) or float (3, T, H, W), got {clip.dtype} {tuple(clip.shape)}; "
        "`to_float` converts decoded batches"
    )


def resize_clip(clip: Tensor, geometry: Geometry) -> Tensor:
    """Carry out a geometry: uint8 `(T, H, W, 3)` or float `(3, T, H, W)` → `(3, T, h, w)` of the same dtype.

    uint8 clips are resized as they are on the CPU (3.6 times faster than in float, and what decoders and image
    libraries do) and through float elsewhere, where there is no such kernel; the two agree to about one grey level.
    """
    height, width = clip_size(clip)
    box = geometry.source
    if box.top < 0 or box.left < 0 or box.top + box.height > height or box.left + box.width > width:
        raise UsageError(
            f"the crop {box} was drawn for another picture: this one is {height} high, {width} wide"
        )
    if clip.dtype != torch.uint8:
        scaled = _interpolate(box.of(clip.float()), geometry.scaled)
        return geometry.window.of(scaled).clamp(0.0, 1.0)
    pictures = box.of(
        clip.permute(0, 3, 1, 2)
    )  # (T, 3, h, w), channels last in memory: the fast kernel's layout
    if clip.device.type == "cpu" or box.size == geometry.scaled:
        scaled = _interpolate(pictures, geometry.scaled)
    else:
        scaled = _interpolate(pictures.float(), geometry.scaled).round_().clamp_(0, 255).to(torch.uint8)
    return geometry.window.of(scaled).transpose(0, 1).contiguous()


def _interpolate(pictures: Tensor, scaled: Size) -> Tensor:
    """`(A, B, h, w)` → `(A, B, *scaled)`, each plane on its own."""
    if pictures.shape[-2:] == scaled:
        return pictures
    return F.interpolate(pictures, size=scaled, mode="bilinear", align_corners=False, antialias=True)
