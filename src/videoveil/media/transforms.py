"""What happens to a clip between the decoder and a network: presets, their draws, and how a draw is applied.

A `Preset` says what may happen; `preset.draw(…)` decides, once per clip, and gives `Draw`s; `apply(clips, draws)`
carries them out without any chance of its own. All frames of a clip share its draw, so do a second clip or a static
clip that is given the same draw. The papers' order: crop and resize, colour, grey (with gamma), flip, erase.

Shapes: N clips, T frames. Decoded batches are uint8 `(N, T, H, W, 3)`; everything else is float32 RGB in [0, 1],
`(N, 3, T, H, W)`. Mean and standard deviation belong to the encoders and are not subtracted here.

Chance comes from a CPU `torch.Generator`, also for clips on an accelerator: the same seed gives the same draws on every
device. Where released loaders tie views together (the two views of an image, or the three clips of a triplet, share one
corner, and the second crop may leave the picture), here every view has a draw of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.media.colour import Adjust, Kind, adjust
from videoveil.media.crops import (
    Box,
    CentreCrop,
    CornerCrop,
    CropRule,
    Dice,
    Geometry,
    ResizedCrop,
    ScaledCrop,
    ShortEdge,
    Size,
    centred,
    clip_size,
    resize_clip,
)

_UNIFORMS = (
    64  # per clip; no preset uses more, and each clip having its own keeps clips independent of each other
)


@dataclass(frozen=True, slots=True)
class Draw:
    """What was decided for one clip; boxes to erase are in output pixels, after the flip."""

    geometry: Geometry
    colour: tuple[Adjust, ...] = ()
    flip: bool = False
    erase: tuple[Box, ...] = ()


# --- what may happen -----------------------------------------------------------------------------------------


class JitterRule(Protocol):
    def __call__(self, dice: Dice) -> tuple[Adjust, ...]: ...


@dataclass(frozen=True, slots=True)
class SeparateJitter:
    """SPAct, TeD-SPAD, TCLR: each change has its own chance.

    Contrast comes before or after the others with half of its chance each, never twice (one number decides both).
    """

    strength: float  # contrast, saturation and brightness factors are U(1 − strength, 1 + strength)
    hue: float  # hue shifts are U(−hue, hue)
    contrast_chance: float = 0.125
    other_chance: float = 0.15

    def __call__(self, dice: Dice) -> tuple[Adjust, ...]:
        low, high = 1.0 - self.strength, 1.0 + self.strength
        when = dice.uniform(0.0, 1.0) / self.contrast_chance  # [0, ½) before, [½, 1) after, else not at all
        contrast = dice.uniform(low, high)
        factors: tuple[tuple[Kind, float], ...] = (
            ("hue", dice.uniform(-self.hue, self.hue)),
            ("saturation", dice.uniform(low, high)),
            ("brightness", dice.uniform(low, high)),
        )
        kept = [one for one in factors if dice.chance(self.other_chance)]
        if when < 1.0:
            kept.insert(0 if when < 0.5 else len(kept), ("contrast", contrast))
        return tuple(Adjust(*one) for one in kept) if kept else ()


@dataclass(frozen=True, slots=True)
class JointJitter:
    """SimCLR: all four changes or none. SimCLR shuffles their order; here it is fixed, which draws one thing less."""

    strength: float = 0.8
    hue: float = 0.2
    chance: float = 0.8

    def __call__(self, dice: Dice) -> tuple[Adjust, ...]:
        low, high = max(0.0, 1.0 - self.strength), 1.0 + self.strength
        changes = (
            Adjust("brightness", dice.uniform(low, high)),
            Adjust("contrast", dice.uniform(low, high)),
            Adjust("saturation", dice.uniform(low, high)),
            Adjust("hue", dice.uniform(-self.hue, self.hue)),
        )
        return changes if dice.chance(self.chance) else ()


@dataclass(frozen=True, slots=True)
class GreyRule:
    """Grey with some chance; a grey clip then gets a gamma with some chance."""

    chance: float
    gamma_chance: float = 0.0
    gamma_strength: float = 0.0

    def __call__(self, dice: Dice) -> tuple[Adjust, ...]:
        if not dice.chance(self.chance):
            return ()
        exponent = dice.uniform(1.0 - self.gamma_strength, 1.0 + self.gamma_strength)
        return (
            (Adjust("grey"), Adjust("gamma", exponent))
            if dice.chance(self.gamma_chance)
            else (Adjust("grey"),)
        )


@dataclass(frozen=True, slots=True)
class EraseRule:
    """Rectangles set to 0, each with its own chance, sides and uniform place.

    Sides are ranges of pixels `[low, high)` of an output of side `reference`, and grow with the output. The papers give
    pixels at one size only (TeD-SPAD's from the source's: H/6 … H/3 of 240, W/6 … W/3 of 320, on an output of 224).
    """

    chance: float
    heights: tuple[int, int]
    widths: tuple[int, int]
    reference: int
    count: int = 1
    unless_flipped: bool = False  # SPAct: one number decides both, so a flipped clip is never erased

    def box(self, size: int, dice: Dice) -> Box:
        height, width = (self._side(pixels, size, dice) for pixels in (self.heights, self.widths))
        return Box(dice.integer(0, size - height), dice.integer(0, size - width), height, width)

    def _side(self, pixels: tuple[int, int], size: int, dice: Dice) -> int:
        low, high = (round(side * size / self.reference) for side in pixels)
        low = max(1, low)
        return dice.integer(low, max(low, high - 1))


@dataclass(frozen=True, slots=True)
class Preset:
    """A named transform with a square output of side `size`."""

    name: str
    size: int
    crop: CropRule
    jitter: JitterRule | None = None
    grey: GreyRule | None = None
    flip: float = 0.0
    erase: EraseRule | None = None

    @property
    def random(self) -> bool:
        """False for the test transforms: they need no generator and can `evaluate`."""
        return self.crop.random or bool(self.jitter or self.grey or self.flip or self.erase)

    def draw(
        self, count: int, height: int, width: int, generator: torch.Generator | None = None
    ) -> tuple[Draw, ...]:
        """Decide for `count` clips of `height` × `width` pixels; the same generator state gives the same draws."""
        if not self.random:
            return (Draw(self.crop(height, width, self.size, Dice(()))),) * count
        if generator is None or generator.device.type != "cpu":
            raise UsageError(f"preset {self.name} is random: pass a torch.Generator on the CPU")
        rows = torch.rand(count, _UNIFORMS, generator=generator, dtype=torch.float64)
        return tuple(self._draw(height, width, Dice(row)) for row in rows.tolist())

    def _draw(self, height: int, width: int, dice: Dice) -> Draw:
        geometry = self.crop(height, width, self.size, dice)
        colour = (self.jitter(dice) if self.jitter else ()) + (self.grey(dice) if self.grey else ())
        number = dice.uniform(0.0, 1.0)
        flip = number < self.flip
        return Draw(geometry, colour, flip, self._draw_erase(number - self.flip, dice))

    def _draw_erase(self, after_flip: float, dice: Dice) -> tuple[Box, ...]:
        rule = self.erase
        if rule is None:
            return ()
        if rule.unless_flipped:
            return (rule.box(self.size, dice),) if 0.0 <= after_flip < rule.chance else ()
        return tuple(rule.box(self.size, dice) for _ in range(rule.count) if dice.chance(rule.chance))

    def __call__(self, clips: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw and apply: uint8 `(N, T, H, W, 3)` or float `(N, 3, T, H, W)` → float `(N, 3, T, size, size)`."""
        if clips.dim() != 5 or len(clips) == 0:
            raise UsageError(
                f"preset {self.name} takes a batch of clips with 5 axes, got {tuple(clips.shape)}"
            )
        return apply(clips, self.draw(len(clips), *clip_size(clips[0]), generator))

    def evaluate(self, clip: np.ndarray | Tensor, as_float: bool = False) -> Tensor:
        """The fast path of a test transform: uint8 `(T, H, W, 3)` → uint8 or float `(3, T, size, size)`."""
        if self.random:
            raise UsageError(f"preset {self.name} is random: only test transforms evaluate")
        return _evaluate(self.crop, self.size, clip, as_float)


# --- carrying it out -----------------------------------------------------------------------------------------


def apply(clips: Tensor | Iterable[Tensor], draws: Sequence[Draw]) -> Tensor:
    """One draw per clip: `(N, 3, T, size, size)`, float in [0, 1]. A list may hold clips of different sizes.

    Clips are treated one by one, so what becomes of a clip does not depend on the others; on accelerators
    `batched.apply_batch` is the faster way. Float clips must be in [0, 1]; what is outside is cut off.
    """
    clips = list(clips)
    if len(clips) != len(draws) or not draws:
        raise UsageError(
            f"{len(clips)} clips and {len(draws)} draws: give one draw per clip, and at least one"
        )
    return torch.stack([apply_one(clip, draw) for clip, draw in zip(clips, draws)])


def apply_one(clip: Tensor, draw: Draw) -> Tensor:
    """uint8 `(T, H, W, 3)` or float `(3, T, H, W)` → float `(3, T, size, size)` in [0, 1]."""
    out = _to_unit(resize_clip(clip, draw.geometry))
    for change in draw.colour:
        out = adjust(out, change)
    if draw.flip:
        out = out.flip(-1)
    if draw.erase:
        # A grey clip has one channel's memory for all three: it cannot be written to as it is.
        out = out.clone(memory_format=torch.contiguous_format)
        for box in draw.erase:
            box.of(out).zero_()
    return out


def to_float(clips: Tensor) -> Tensor:
    """Decoded frames uint8 `(N, T, H, W, 3)` → float `(N, 3, T, H, W)` in [0, 1]."""
    if clips.dim() != 5 or clips.dtype != torch.uint8 or clips.shape[4] != 3:
        raise UsageError(f"decoded clips are uint8 (N, T, H, W, 3), got {clips.dtype} {tuple(clips.shape)}")
    return _to_unit(clips.permute(0, 4, 1, 2, 3).contiguous())


def tile(images: Tensor, frames: int) -> Tensor:
    """Static clips: `(N, 3, H, W)` → `(N, 3, T, H, W)`, every frame the same memory."""
    if images.dim() != 4:
        raise UsageError(f"images to tile are (N, 3, H, W), got {tuple(images.shape)}")
    return images.unsqueeze(2).expand(-1, -1, frames, -1, -1)


def _to_unit(clip: Tensor) -> Tensor:
    """uint8 → float in [0, 1]; float stays."""
    return clip.to(torch.float32).div_(255) if clip.dtype == torch.uint8 else clip


# --- evaluation straight from decoded frames -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvalTransform:
    """Short edge to `resize`, centre crop `size`, for feature extraction: one decoded clip in, one network input out.

    uint8 numpy or tensor `(T, H, W, 3)` → `(3, T, size, size)`, uint8 (a quarter of the bytes to send to a device) or
    float in [0, 1]. It sees one clip at a time, so a feature cannot depend on what else is extracted.
    One CPU thread, 16 frames of 240×320: 2 to 4 ms to 112², 4 to 7 ms to 224².
    """

    resize: int
    size: int
    as_float: bool = False

    def __call__(self, clip: np.ndarray | Tensor) -> Tensor:
        return _evaluate(ShortEdge(self.resize), self.size, clip, self.as_float)


def _evaluate(crop: CropRule, size: int, clip: np.ndarray | Tensor, as_float: bool) -> Tensor:
    clip = _decoded(clip)
    out = resize_clip(clip, crop(*clip_size(clip), size, Dice(())))
    return _to_unit(out) if as_float else out


def _decoded(clip: np.ndarray | Tensor) -> Tensor:
    """A decoded clip as a tensor, without a copy where the array allows it."""
    if isinstance(clip, np.ndarray):
        clip = np.ascontiguousarray(clip)  # torch knows no negative strides
        clip = torch.from_numpy(clip if clip.flags.writeable else clip.copy())
    if clip.dtype != torch.uint8:
        raise UsageError(f"decoded frames are uint8, got {clip.dtype}")
    return clip


def ten_crop_geometries(
    height: int, width: int, size: int = 224, scaled: Size = (256, 340)
) -> tuple[Geometry, ...]:
    """The five places of `ten_crop`: corners (top left, top right, bottom left, bottom right), then the centre."""
    tall, wide = scaled
    if size > min(scaled):
        raise UsageError(f"crops of {size} do not fit a picture of {tall}×{wide}")
    down, right = tall - size, wide - size
    corners = [Box(top, left, size, size) for top in (0, down) for left in (0, right)]
    whole = Box(0, 0, height, width)
    return tuple(Geometry(whole, scaled, window) for window in (*corners, centred(tall, wide, size, size)))


def ten_crop(clip: np.ndarray | Tensor, size: int = 224, scaled: Size = (256, 340)) -> Tensor:
    """Ten views of a clip, the recipe of ten-crop anomaly features: resize to 340 wide and 256 high (aspect ignored),
    five crops, then their mirror images in the same order.

    uint8 `(T, H, W, 3)` → uint8 `(10, 3, T, size, size)`; float `(3, T, H, W)` → float. The picture is resized once.
    """
    clip = _decoded(clip) if isinstance(clip, np.ndarray) else clip
    geometries = ten_crop_geometries(*clip_size(clip), size, scaled)
    whole = resize_clip(clip, replace(geometries[0], window=Box(0, 0, *scaled)))
    views = torch.stack([geometry.window.of(whole) for geometry in geometries])
    return torch.cat([views, views.flip(-1)])


# --- presets by name -----------------------------------------------------------------------------------------

_SPACT_ERASE = EraseRule(0.25, (9, 19), (9, 19), reference=112, unless_flipped=True)
_TED_SPAD_ERASE = EraseRule(0.4, (40, 80), (53, 106), reference=224, count=2)


def _weak(size: int, square: bool = True) -> Preset:
    """SPAct's clips (square crop) and images: the weak set."""
    return Preset(
        "weak" if square else "weak-image",
        size,
        ScaledCrop(square),
        SeparateJitter(strength=0.1, hue=0.05),
        GreyRule(0.10, gamma_chance=0.75, gamma_strength=0.15),
        flip=0.5,
        erase=_SPACT_ERASE,
    )


def _tclr(size: int, square: bool = True) -> Preset:
    """TCLR's strengths with the chances of the weak set; for the budget loss, whose paper promises stronger views."""
    return replace(
        _weak(size, square),
        name="tclr" if square else "tclr-image",
        jitter=SeparateJitter(strength=0.25, hue=0.1),
        grey=GreyRule(0.10, gamma_chance=0.75, gamma_strength=0.25),
    )


def _weak_identity(size: int) -> Preset:
    """SPAct's identity initialisation: the weak set for images, with a smaller rectangle (5 to 10 pixels of 112)."""
    erase = replace(_SPACT_ERASE, heights=(5, 11), widths=(5, 11))
    return replace(_weak(size, square=False), name="weak-identity", erase=erase)


def _simclr(size: int) -> Preset:
    """SimCLR's random resized crop, flip, colour and grey; its blur is left out."""
    return Preset("simclr", size, ResizedCrop(), JointJitter(), GreyRule(0.2), flip=0.5)


def _ted_spad(size: int) -> Preset:
    """TeD-SPAD's full set: the weak set with the aspect changed by the crop and two independent, larger erasures."""
    return replace(_weak(size, square=False), name="ted-spad", erase=_TED_SPAD_ERASE)


_PRESETS: dict[str, Callable[[int], Preset]] = {
    "weak": _weak,
    "weak-image": lambda size: _weak(size, square=False),
    "weak-identity": _weak_identity,
    "tclr": _tclr,
    "tclr-image": lambda size: _tclr(size, square=False),
    "simclr": _simclr,
    "ted-spad": _ted_spad,
    "ted-spad-weak": lambda size: Preset("ted-spad-weak", size, ScaledCrop(square=False)),
    "splavu": lambda size: Preset("splavu", size, ResizedCrop(), flip=0.5),
    "spact-test": lambda size: Preset("spact-test", size, CentreCrop(square=True, fraction=0.8)),
    "spact-test-image": lambda size: Preset("spact-test-image", size, CentreCrop(square=True, fraction=1.0)),
    "ted-spad-test": lambda size: Preset("ted-spad-test", size, CentreCrop(square=False, fraction=0.8)),
    "splavu-test": lambda size: Preset("splavu-test", size, ShortEdge(round(size * 256 / 224))),
}


AROUND = "around"  # five presets, view by view
_CORNERS = ((False, False), (True, True), (False, True), (True, False))  # down, right


def looks(name: str, size: int) -> tuple[Preset, ...]:
    """How the views of an item are cut, one after the other and then from the beginning again.

    `around`: TeD-SPAD's centre, then as much from each corner, so that nothing at the edges stays unseen.
    """
    if name != AROUND:
        return (preset(name, size),)
    corners = (Preset(f"{AROUND}-{n}", size, CornerCrop(0.8, *one)) for n, one in enumerate(_CORNERS))
    return (preset("ted-spad-test", size), *corners)


def preset_names() -> tuple[str, ...]:
    return tuple(_PRESETS)


def preset(name: str, size: int, resize: int | None = None) -> Preset:
    """The preset called `name` with output side `size`.

    `resize` is the short edge of `splavu-test`, in the paper's proportion (256 for 224) unless given.
    """
    if size < 1:
        raise UsageError(f"preset {name}: the output side must be at least 1, got {size}")
    if name == "ten-crop":
        raise UsageError("ten-crop makes ten views of a clip: call ten_crop")
    if name not in _PRESETS:
        raise UsageError(f"unknown preset {name!r}; valid: {', '.join(_PRESETS)}, and ten_crop for ten-crop")
    made = _PRESETS[name](size)
    if resize is None:
        return made
    if not isinstance(made.crop, ShortEdge):
        raise UsageError(f"preset {name} has no short edge to resize to: only splavu-test takes resize")
    return replace(made, crop=ShortEdge(resize))
