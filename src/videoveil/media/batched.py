"""Carrying out many draws at once: the pictures of `transforms.apply` without Python for every clip.

Crop, resize, window and flip of a clip are two matrices, one for rows and one for columns, whose rows hold the triangle
filter of the antialiased bilinear resize and zeros outside the crop; all frames of all clips go through two batched
products. A colour change is made for all clips that wait for it, each with its own factor. What was drawn becomes a few
hundred numbers on the CPU, sent once; everything as large as a picture happens where the result is wanted.

Nothing is rounded to grey levels on the way: the result is what `apply` gives for the clips as floats. `apply` for
decoded clips rounds after the resize, and so is up to a level away before colour. (Where a process has switched TF32
products on, they move the result by up to a quarter of a level.)

Shapes: N clips, T frames of H×W pixels, output of side S; E rectangles are erased in the clip with most of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from videoveil.errors import UsageError
from videoveil.media.colour import Adjust, Kind, recolour
from videoveil.media.crops import Size, clip_size
from videoveil.media.transforms import Draw

AT_ONCE = 2**27  # values of decoded frames that are floats at the same time: half a GiB
PADDING = 1.5  # clips of different sizes share a canvas as long as it is at most so much larger than they are
_AXIS = 5  # numbers of an axis: see `Plan`


def apply_batch(
    clips: Tensor | Sequence[Tensor], draws: Sequence[Draw], device: torch.device | None = None
) -> Tensor:
    """uint8 `(N, T, H, W, 3)`, or N of `(T, H, W, 3)` of any sizes → float `(N, 3, T, S, S)` in [0, 1].

    The result is on `device`, without one where the first clip is; clips that lie elsewhere are sent there together.
    """
    if len(clips) != len(draws) or not draws:
        raise UsageError(
            f"{len(clips)} clips and {len(draws)} draws: give one draw per clip, and at least one"
        )
    sizes = _sizes(clips)
    plan = Plan.of(draws, sizes).to(device or clips[0].device)
    with torch.autocast(plan.device.type, enabled=False):
        out = _resized(clips, sizes, plan)
        for kind, chosen, factors in plan.changes():
            out.index_copy_(0, chosen, recolour(out.index_select(0, chosen), kind, factors))
        return _erase(out, plan.erased())


# --- what was drawn, as numbers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The draws of N clips, ready for arithmetic.

    `numbers` is one tensor, so that it is sent at once: (N, 10 + 4E), then the clips of all colour changes, then their
    factors. An axis of a clip is five numbers: where its crop begins, how long it is, to how many pixels it is brought,
    which of these is the first one of the output, and the step to the next (−1: mirrored).
    """

    count: int
    side: int
    boxes: int
    colours: tuple[tuple[Kind, int], ...]  # which changes are made in which order, and of how many clips
    numbers: Tensor

    @classmethod
    def of(cls, draws: Sequence[Draw], sizes: Sequence[Size]) -> Plan:
        """On the CPU; `sizes` are those of the pictures, and a crop that does not fit is refused."""
        side, boxes = draws[0].geometry.window.height, max(len(draw.erase) for draw in draws)
        table = np.array([_numbers(draw, boxes) for draw in draws], np.float32)
        _require_fit(draws, sizes, side)
        order = colour_order([draw.colour for draw in draws])
        chosen = [clip for _, some in order for clip, _ in some]
        factors = [factor for _, some in order for _, factor in some]
        numbers = np.concatenate([table.ravel(), np.array(chosen + factors, np.float32)])
        colours = tuple((kind, len(some)) for kind, some in order)
        return cls(len(draws), side, boxes, colours, torch.from_numpy(numbers))

    def to(self, device: torch.device) -> Plan:
        return replace(self, numbers=self.numbers.to(device, non_blocking=True))

    @property
    def device(self) -> torch.device:
        return self.numbers.device

    @property
    def _table(self) -> Tensor:
        width = 2 * _AXIS + 4 * self.boxes
        return self.numbers[: self.count * width].view(self.count, width)

    def axes(self) -> tuple[Tensor, Tensor]:
        """(N, 5) of rows, (N, 5) of columns."""
        return self._table[:, :_AXIS], self._table[:, _AXIS : 2 * _AXIS]

    def erased(self) -> Tensor:
        """(N, E, 4): top, left, bottom, right."""
        return self._table[:, 2 * _AXIS :].unflatten(1, (self.boxes, 4))

    def changes(self) -> list[tuple[Kind, Tensor, Tensor]]:
        """Kind, clips (n,), factors (n, 1, 1, 1, 1) of every colour change, in the order they are made in."""
        lengths = [length for _, length in self.colours]
        chosen, factors = self.numbers[self._table.numel() :].view(2, -1)
        pieces = zip(chosen.long().split(lengths), factors.view(-1, 1, 1, 1, 1).split(lengths))
        return [(kind, *piece) for (kind, _), piece in zip(self.colours, pieces)]


def _numbers(draw: Draw, boxes: int) -> list[int]:
    """A row of the table; rectangles that others have more are empty."""
    source, (high, wide), window = draw.geometry.source, draw.geometry.scaled, draw.geometry.window
    first, step = (window.left + window.width - 1, -1) if draw.flip else (window.left, 1)
    row = [source.top, source.height, high, window.top, 1, source.left, source.width, wide, first, step]
    for box in draw.erase:
        row += [box.top, box.left, box.top + box.height, box.left + box.width]
    return row + [0] * (4 * (boxes - len(draw.erase)))


def _require_fit(draws: Sequence[Draw], sizes: Sequence[Size], side: int) -> None:
    for draw, (height, width) in zip(draws, sizes):
        box, window = draw.geometry.source, draw.geometry.window
        if box.top < 0 or box.left < 0 or box.top + box.height > height or box.left + box.width > width:
            raise UsageError(
                f"the crop {box} was drawn for another picture: this one is {height} high, {width} wide"
            )
        if window.height != side or window.width != side:
            raise UsageError(f"a batch has one output size: there are {side}×{side} and {window}")


def colour_order(colours: Sequence[Sequence[Adjust]]) -> list[tuple[Kind, list[tuple[int, float]]]]:
    """Every clip's changes in its own order, as few rounds of one kind for (clip, factor), … as is easily found.

    Next comes the kind of whose changes the largest share can be made now.
    """
    left = Counter(one.kind for changes in colours for one in changes)
    waiting: dict[Kind, list[tuple[int, int]]] = {}  # by their next change: clips, how many they have had
    for clip, changes in enumerate(colours):
        if changes:
            waiting.setdefault(changes[0].kind, []).append((clip, 0))
    order = []
    while waiting:
        kind = max(sorted(waiting), key=lambda one: len(waiting[one]) / left[one])
        chosen = waiting.pop(kind)
        left[kind] -= len(chosen)
        order.append((kind, [(clip, colours[clip][done].factor) for clip, done in chosen]))
        for clip, done in chosen:
            if done + 1 < len(colours[clip]):
                waiting.setdefault(colours[clip][done + 1].kind, []).append((clip, done + 1))
    return order


# --- crop, resize, flip --------------------------------------------------------------------------------------


def _sizes(clips: Tensor | Sequence[Tensor]) -> list[Size]:
    """Height and width of every clip; all must be decoded ones of the same length."""
    if isinstance(clips, Tensor) and clips.dim() == 5:
        return [_size(clips[0])] * len(clips)
    sizes = [_size(clip) for clip in clips]
    if len({len(clip) for clip in clips}) > 1:
        raise UsageError(f"clips of {sorted({len(clip) for clip in clips})} frames do not make one batch")
    return sizes


def _size(clip: Tensor) -> Size:
    if clip.dtype != torch.uint8:
        raise UsageError(f"a batch is made of decoded clips, uint8 (T, H, W, 3), got {clip.dtype}")
    return clip_size(clip)


def _resized(clips: Tensor | Sequence[Tensor], sizes: Sequence[Size], plan: Plan) -> Tensor:
    """(N, 3, T, S, S), part by part."""
    frames, (rows, columns) = len(clips[0]), plan.axes()
    parts = _parts(sizes, frames, plan.side)
    if len(parts) == 1:
        return _products(_canvas(clips, sizes, plan.device), rows, columns, plan.side)
    out = torch.empty(len(sizes), 3, frames, plan.side, plan.side, device=plan.device)
    for part in parts:
        chosen = torch.tensor(part).to(plan.device, non_blocking=True)
        canvas = _canvas([clips[n] for n in part], [sizes[n] for n in part], plan.device)
        axes = rows.index_select(0, chosen), columns.index_select(0, chosen)
        out.index_copy_(0, chosen, _products(canvas, *axes, plan.side))
    return out


def _parts(sizes: Sequence[Size], frames: int, side: int) -> list[list[int]]:
    """Which clips are worked on together: few enough for the memory, and not too different in size."""
    parts: list[list[int]] = []
    high = wide = area = 0
    for number in sorted(range(len(sizes)), key=lambda n: sizes[n]):
        height, width = sizes[number]
        high, wide, area = max(high, height), max(wide, width), area + height * width
        count = len(parts[-1]) + 1 if parts else 1
        values = count * frames * 3 * wide * max(high, side)
        if not parts or values > AT_ONCE or count * high * wide > PADDING * area:
            parts.append([])
            high, wide, area = height, width, height * width
        parts[-1].append(number)
    # One part keeps the order of the batch: there is nothing to bring back into it.
    return parts if len(parts) > 1 else [[*range(len(sizes))]]


def _canvas(clips: Tensor | Sequence[Tensor], sizes: Sequence[Size], device: torch.device) -> Tensor:
    """uint8 (n, T, H, W, 3) on the device; smaller pictures lie in the upper left corner, the rest is black."""
    if isinstance(clips, Tensor):
        return _sent(clips, device)
    if len({clip.device for clip in clips}) > 1:
        clips = [_sent(clip, device) for clip in clips]
    if len(set(sizes)) == 1:
        # Frames of two axes: for these, pieces with a stride are put together by one kernel, not one for each.
        together = torch.cat([clip.flatten(1) for clip in clips])
        return _sent(together.view(len(clips), *clips[0].shape), device)
    high, wide = (max(side) for side in zip(*sizes))
    canvas = clips[0].new_zeros(len(clips), len(clips[0]), high, wide, 3)
    for place, clip, (height, width) in zip(canvas, clips, sizes):
        place[:, :height, :width] = clip
    return _sent(canvas, device)


def _sent(frames: Tensor, device: torch.device) -> Tensor:
    if frames.device.type == "cpu" and device.type == "cuda":
        frames = frames.pin_memory()  # only from there the copy does not wait
    return frames.to(device, non_blocking=True)


def _products(canvas: Tensor, rows: Tensor, columns: Tensor, side: int) -> Tensor:
    """uint8 (n, T, H, W, 3) → float (n, 3, T, S, S) in [0, 1]."""
    count, frames, high, wide, _ = canvas.shape
    down = filters(rows, side, high)  # (n, S, H)
    across = filters(columns, side, wide).mul_(1 / 255)  # (n, S, W)
    pictures = canvas.permute(0, 2, 4, 1, 3).to(torch.float32, memory_format=torch.contiguous_format)
    short = torch.bmm(down, pictures.view(count, high, -1))  # (n, S, 3·T·W)
    small = torch.bmm(short.view(count, -1, wide), across.transpose(1, 2))  # (n, S·3·T, S)
    ordered = small.view(count, side, 3, frames, side).permute(0, 2, 3, 1, 4)
    return torch.clamp(ordered, 0.0, 1.0, out=torch.empty(ordered.shape, device=canvas.device))


def filters(axes: Tensor, side: int, extent: int) -> Tensor:
    """(N, 5) → (N, S, extent): what every pixel of the picture gives to every pixel of the output.

    A triangle as wide as two source pixels, or two output pixels where these are larger, cut off at the edges of the
    crop; computed step by step in float32 as the antialiased `torch.nn.functional.interpolate` does.
    """
    start, length, scaled, first, step = axes[:, :, None, None].unbind(1)  # (N, 1, 1) each
    place = torch.arange(side, device=axes.device)[:, None]
    pixel = torch.arange(extent, device=axes.device) - start  # (N, 1, extent), counted from the crop's edge
    scale = length / scaled
    centre = scale * (first + step * place + 0.5)  # (N, S, 1)
    away = (pixel - centre + 0.5).mul_(scale.clamp(min=1.0).reciprocal())
    weight = away.abs_().neg_().add_(1.0).clamp_(min=0.0)
    weight *= (pixel >= 0) & (pixel < length)
    return weight.div_(weight.sum(-1, keepdim=True))


# --- erase ---------------------------------------------------------------------------------------------------


def _erase(clips: Tensor, boxes: Tensor) -> Tensor:
    """Set rectangles (N, E, 4) of clips (N, 3, T, S, S) to 0, in place."""
    if not boxes.shape[1]:
        return clips
    top, left, bottom, right = boxes[..., None].unbind(2)  # (N, E, 1) each
    place = torch.arange(clips.shape[-1], device=clips.device)
    down, across = (place >= top) & (place < bottom), (place >= left) & (place < right)  # (N, E, S)
    inside = (down[..., :, None] & across[..., None, :]).any(1)  # (N, S, S)
    return clips.masked_fill_(inside[:, None, None], 0.0)
