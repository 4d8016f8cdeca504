"""Pictures of frames side by side: raw over anonymized, the course of a training, a check of single images.

    strip(raw, anonymized).write("strip.png")
    progression(raw, {"epoch 1": first, "epoch 30": last}).write("progression.png")

Only arrays come in; nothing here knows a model. Clips are (T, H, W, 3), bytes or numbers in [0, 1], from numpy or
torch. These pictures show raw frames: they are for those who may see the raw videos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil import files
from videoveil.errors import UsageError

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont
    from torch import Tensor

PADDING = 5  # pixels between frames
BETWEEN = 20  # pixels between groups of rows
LABEL_SIZE = 14  # pixels of a letter, whatever the size of the frames
NUMBER_SIZE = 11
LINE_GAP = 2
HEADER = "frame"
LEGIBLE = 64  # frames that are less high than this are shown larger, by a whole number
WRAP = 16  # letters of a label's line
PAPER, INK, PALE = (255, 255, 255), (34, 48, 63), (122, 130, 140)
EVERY, COLUMNS = 2, 8  # as published: every second frame of 16


@dataclass(frozen=True, slots=True)
class Row:
    """A row of frames (T, H, W, 3) with what is written beside it."""

    label: str
    frames: np.ndarray | Tensor


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture, and where its frames are: `corners[row][column]` is (top, left) of one that is `size` large."""

    pixels: np.ndarray  # (height, width, 3) uint8
    corners: tuple[tuple[tuple[int, int], ...], ...]
    size: tuple[int, int]

    def cell(self, row: int, column: int) -> np.ndarray:
        """The pixels of one frame as shown."""
        top, left = self.corners[row][column]
        return self.pixels[top : top + self.size[0], left : left + self.size[1]]

    def write(self, destination: str | Path) -> None:
        """As PNG without metadata, whole or not at all; equal sheets give equal bytes."""
        from PIL import Image

        destination = Path(destination)
        if destination.suffix.lower() != ".png":
            raise UsageError(f"{destination}: frames are written as .png, which changes no pixel")
        with files.atomic_path(destination) as temporary:
            Image.fromarray(self.pixels).save(temporary, format="PNG", compress_level=9)


def strip(
    raw: np.ndarray | Tensor,
    anonymized: np.ndarray | Tensor,
    *,
    every: int = EVERY,
    columns: int = COLUMNS,
    labels: tuple[str, str] = ("raw", "anonymized"),
) -> Sheet:
    """Every k-th frame of a clip (T, H, W, 3) over what the anonymizer made of it."""
    return timed([Row(labels[0], raw), Row(labels[1], anonymized)], every=every, columns=columns)


def progression(
    raw: np.ndarray | Tensor,
    stages: Mapping[str, np.ndarray | Tensor],
    *,
    every: int = EVERY,
    columns: int = COLUMNS,
) -> Sheet:
    """One clip, raw on top, then as every stage shows it: saved epochs, or several bounds of a penalty."""
    if not stages:
        raise UsageError("a progression needs at least one stage below the raw clip")
    rows = [Row("raw", raw), *(Row(name, clip) for name, clip in stages.items())]
    return timed(rows, every=every, columns=columns)


def timed(rows: Sequence[Row], *, every: int = EVERY, columns: int = COLUMNS) -> Sheet:
    """Rows over one time: every k-th frame of each, under its number, up to so many columns."""
    if every < 1 or columns < 1:
        raise UsageError(f"every={every} and columns={columns} must be at least 1")
    clips = [Row(row.label, pixels(row.frames)) for row in rows]
    _same_shape(clips)
    shown = range(0, len(clips[0].frames), every)[:columns]
    taken = [Row(row.label, row.frames[shown.start : shown.stop : every]) for row in clips]
    return sheet(taken, shown)


def check_grid(
    images: np.ndarray | Tensor,
    outputs: np.ndarray | Tensor,
    *,
    columns: int | None = None,
    labels: tuple[str, str] = ("raw", "anonymized"),
) -> Sheet:
    """Images (N, H, W, 3) above their outputs, in as few pairs of rows as `columns` (8, evenly filled) allow."""
    above, below = pixels(images), pixels(outputs)
    _same_shape([Row(labels[0], above), Row(labels[1], below)])
    if columns is None:
        bands = -(-len(above) // COLUMNS)
        columns = -(-len(above) // bands)
    elif columns < 1:
        raise UsageError(f"columns={columns} must be at least 1")
    rows = []
    for first in range(0, len(above), columns):
        rows += [
            Row(labels[0], above[first : first + columns]),
            Row(labels[1], below[first : first + columns]),
        ]
    return sheet(rows, group=2)


def sheet(rows: Sequence[Row], numbers: Sequence[int] = (), *, group: int = 0) -> Sheet:
    """Rows of frames on white paper, labels on their left, numbers over the columns, a gap after each `group` rows.

    Frames keep their pixels; small ones are shown larger by a whole number. A row may be shorter than the first.
    """
    if not rows or not len(rows[0].frames):
        raise UsageError("a sheet needs at least one row with at least one frame")
    clips = [pixels(row.frames) for row in rows]
    size = clips[0].shape[1:]
    if any(clip.shape[1:] != size or len(clip) > len(clips[0]) for clip in clips):
        raise UsageError(f"a sheet: frames must all be {size[:2]}, and no row longer than the first")
    zoom = max(1, -(-LEGIBLE // size[0]))
    high, wide = size[0] * zoom, size[1] * zoom
    labels = [_wrapped(row.label) for row in rows]
    extents = [_extent(text, LABEL_SIZE) for text in (*labels, HEADER)]
    margin = 2 * PADDING + max(extent[0] for extent in extents)
    step = max(high, *(extent[1] for extent in extents)) + PADDING
    first = PADDING + (NUMBER_SIZE + PADDING if numbers else 0)
    tops = [first + i * step + (i // group * (BETWEEN - PADDING) if group else 0) for i in range(len(rows))]
    lefts = [margin + i * (wide + PADDING) for i in range(len(clips[0]))]
    canvas = np.full((tops[-1] + step, lefts[-1] + wide + PADDING, 3), PAPER, np.uint8)
    corners = []
    for top, clip in zip(tops, clips):
        begin = top + (step - PADDING - high) // 2  # of a frame that is less high than its label
        corners.append(tuple((begin, left) for left in lefts[: len(clip)]))
        for frame, left in zip(clip, lefts):
            canvas[begin : begin + high, left : left + wide] = frame.repeat(zoom, 0).repeat(zoom, 1)
    texts = [(margin - PADDING, top + (step - PADDING) / 2, label) for top, label in zip(tops, labels)]
    heads = [(left + wide / 2, str(number)) for left, number in zip(lefts, numbers)]
    return Sheet(_lettered(canvas, texts, heads, margin), tuple(corners), (high, wide))


def _lettered(
    canvas: np.ndarray,
    labels: Sequence[tuple[float, float, str]],
    heads: Sequence[tuple[float, str]],
    margin: int,
) -> np.ndarray:
    """The canvas with labels that end at (x, y), and numbers whose middle is x in the first line."""
    from PIL import Image, ImageDraw

    picture = Image.fromarray(canvas)
    draw = ImageDraw.Draw(picture)
    for x, y, label in labels:
        draw.multiline_text(
            (x, y), label, INK, _font(LABEL_SIZE), anchor="rm", align="right", spacing=LINE_GAP
        )
    if heads:
        draw.text((margin - PADDING, PADDING), HEADER, PALE, _font(NUMBER_SIZE), anchor="rt")
    for x, number in heads:
        draw.text((x, PADDING), number, PALE, _font(NUMBER_SIZE), anchor="mt")
    return np.asarray(picture)


def pixels(clip: np.ndarray | Tensor) -> np.ndarray:
    """(T, H, W, 3) as bytes. Numbers are clamped to [0, 1], never stretched; what is no number is refused."""
    array = clip if isinstance(clip, np.ndarray) else _from_torch(clip)
    if array.ndim != 4 or array.shape[3] != 3 or not array.size:
        raise UsageError(
            f"frames must be (T, H, W, 3) and not empty, not {array.shape}; torch clips (3, T, H, W) come as "
            "clip.permute(1, 2, 3, 0)"
        )
    if array.dtype == np.uint8:
        return array
    if not np.issubdtype(array.dtype, np.floating):
        raise UsageError(f"frames must be bytes or numbers in [0, 1], not {array.dtype}")
    if not np.isfinite(array).all():
        raise UsageError("frames have values that are no numbers (NaN or infinite); such a clip is not shown")
    return np.rint(array.astype(np.float32).clip(0, 1) * 255).astype(np.uint8)


def _from_torch(clip: Any) -> np.ndarray:
    plain = clip.detach().cpu()
    if plain.is_floating_point():
        plain = plain.float()  # numpy knows no bfloat16
    array: np.ndarray = plain.numpy()
    return array


def _same_shape(rows: Sequence[Row]) -> None:
    first = rows[0]
    for row in rows[1:]:
        if row.frames.shape != first.frames.shape:
            raise UsageError(
                f"{row.label!r} is {tuple(row.frames.shape)} and {first.label!r} {tuple(first.frames.shape)}: rows "
                "must have one shape"
            )


@cache
def _font(size: int) -> FreeTypeFont:
    """The plots' font; it comes with the plotting library, so that letters are the same everywhere."""
    import matplotlib
    from PIL import ImageFont

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def _wrapped(label: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(label, WRAP, break_on_hyphens=False)) or " "


def _extent(text: str, size: int) -> tuple[int, int]:
    """Width and height of drawn text, in pixels."""
    from PIL import Image, ImageDraw

    draw = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    left, top, right, bottom = draw.multiline_textbbox((0, 0), text, _font(size), spacing=LINE_GAP)
    return int(np.ceil(right - left)), int(np.ceil(bottom - top))
