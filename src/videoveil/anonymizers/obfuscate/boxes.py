"""Boxes around people: geometry that detectors, tracker and painters share.

A box is (x0, y0, x1, y1, score) in pixels of its picture; pixel i covers [i, i+1). n boxes are float32 (n, 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

from videoveil.anonymizers.errors import ShapeMismatch, Withheld

Boxes = np.ndarray  # (n, 5) float32
Rectangle = tuple[int, int, int, int]  # top, bottom, left, right: whole pixels, half-open


def nobody() -> Boxes:
    return np.zeros((0, 5), np.float32)


def checked(boxes: np.ndarray, source: str) -> Boxes:
    """Boxes as (n, 5) float32; what cannot be covered is `Withheld`, because the person behind it would show."""
    try:
        found = np.asarray(boxes, np.float32)
    except (TypeError, ValueError) as error:
        raise Withheld(f"{source}: boxes are numbers (n, 5): {error}") from error
    if found.ndim in (1, 2) and len(found) == 0:
        return nobody()
    if found.ndim != 2 or found.shape[1] != 5:
        raise Withheld(f"{source}: boxes are (n, 5): x0, y0, x1, y1, score; got {found.shape}")
    if not np.isfinite(found).all():
        raise Withheld(f"{source}: a box is not a number: {found[~np.isfinite(found).all(1)][0].tolist()}")
    if (found[:, 2] < found[:, 0]).any() or (found[:, 3] < found[:, 1]).any():
        bad = found[(found[:, 2] < found[:, 0]) | (found[:, 3] < found[:, 1])][0]
        raise Withheld(f"{source}: a box is inside out: {bad.tolist()}")
    return found


def checked_frame(frame: np.ndarray) -> tuple[int, int]:
    """Height and width of an RGB picture, uint8 (H, W, 3)."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        what = f"{frame.dtype} {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise ShapeMismatch(f"a frame is uint8 (H, W, 3) RGB, not {what}")
    if not frame.size:
        raise ShapeMismatch(f"a frame has pixels; this one is {frame.shape[1]}×{frame.shape[0]}")
    return frame.shape[0], frame.shape[1]


def rectangles(boxes: Boxes, height: int, width: int, margin: float = 0.0) -> list[Rectangle]:
    """Boxes as whole pixels, rounded outwards and cut at the picture; `margin` is added on every side, as a share of
    the box's own width and height. Boxes outside the picture are left out."""
    found = []
    for x0, y0, x1, y1 in boxes[:, :4].astype(np.float64).tolist():
        dx, dy = margin * (x1 - x0), margin * (y1 - y0)
        top, bottom = max(0, math.floor(y0 - dy)), min(height, math.ceil(y1 + dy))
        left, right = max(0, math.floor(x0 - dx)), min(width, math.ceil(x1 + dx))
        if top < bottom and left < right:
            found.append((top, bottom, left, right))
    return found


def iou(a: Boxes, b: Boxes) -> np.ndarray:
    """(n, m) float64: shared area over joint area; 0 where both are empty."""
    first, second = a[:, None, :4].astype(np.float64), b[None, :, :4].astype(np.float64)
    low, high = np.maximum(first[..., :2], second[..., :2]), np.minimum(first[..., 2:], second[..., 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=-1)
    joint = _area(first) + _area(second) - shared
    return np.divide(shared, joint, out=np.zeros_like(shared), where=joint > 0)


def _area(boxes: np.ndarray) -> np.ndarray:
    return np.asarray((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]))


def nms(boxes: Boxes, threshold: float) -> Boxes:
    """Non-maximum suppression: of boxes that overlap by more than `threshold` (IoU) only the best-scored one stays.

    Best first. Equal scores are ordered by their corners, so the result does not depend on the order of the input.
    """
    left = boxes[np.lexsort((*boxes[:, :4].T, -boxes[:, 4]))]
    kept = []
    while len(left):
        kept.append(left[0])
        left = left[1:][iou(left[:1], left[1:])[0] <= threshold]
    return np.stack(kept) if kept else nobody()


@dataclass(frozen=True)
class Letterbox:
    """How a picture lies in a network's input: scaled to `inner`, then `left` and `top` pixels of padding before it."""

    source: tuple[int, int]  # height, width
    inner: tuple[int, int]
    outer: tuple[int, int]
    top: int
    left: int

    @classmethod
    def fit(cls, source: tuple[int, int], outer: tuple[int, int]) -> Letterbox:
        """As large as fits into `outer` with the picture's own proportions, in the middle."""
        scale = min(outer[0] / source[0], outer[1] / source[1])
        inner = (_rounded(source[0], scale, outer[0]), _rounded(source[1], scale, outer[1]))
        return cls(source, inner, outer, (outer[0] - inner[0]) // 2, (outer[1] - inner[1]) // 2)

    @classmethod
    def longest(cls, source: tuple[int, int], side: int, multiple: int = 32) -> Letterbox:
        """The longer side becomes `side`; padded to multiples, as networks with strides need it."""
        scale = side / max(source)
        inner = (_rounded(source[0], scale, side), _rounded(source[1], scale, side))
        outer = (-(-inner[0] // multiple) * multiple, -(-inner[1] // multiple) * multiple)
        return cls(source, inner, outer, (outer[0] - inner[0]) // 2, (outer[1] - inner[1]) // 2)

    @classmethod
    def stretch(cls, source: tuple[int, int], outer: tuple[int, int]) -> Letterbox:
        """All of `outer`, proportions lost."""
        return cls(source, outer, outer, 0, 0)

    def apply(self, image: np.ndarray, fill: int = 114) -> np.ndarray:
        """(H, W, 3) → (outer height, outer width, 3)."""
        if image.shape[:2] != self.inner:
            image = cv2.resize(image, (self.inner[1], self.inner[0]), interpolation=cv2.INTER_LINEAR)
        out = np.full((*self.outer, 3), fill, np.uint8)
        out[self.top : self.top + self.inner[0], self.left : self.left + self.inner[1]] = image
        return out

    def _scale(self) -> np.ndarray:
        y, x = self.inner[0] / self.source[0], self.inner[1] / self.source[1]
        return np.array([x, y, x, y])

    def into(self, boxes: Boxes) -> Boxes:
        """From the picture to the network's input."""
        corners = boxes[:, :4] * self._scale() + [self.left, self.top] * 2
        return np.concatenate([corners, boxes[:, 4:]], 1).astype(np.float32)

    def back(self, boxes: Boxes) -> Boxes:
        """From the network's input to the picture, cut at its edges; what lies in the padding is left out."""
        corners = (boxes[:, :4] - np.array([self.left, self.top] * 2, np.float64)) / self._scale()
        height, width = self.source
        corners = corners.clip(0, [width, height] * 2)
        inside = (corners[:, 2] > corners[:, 0]) & (corners[:, 3] > corners[:, 1])
        return np.concatenate([corners, boxes[:, 4:]], 1)[inside].astype(np.float32)


def _rounded(length: int, scale: float, most: int) -> int:
    return min(most, max(1, round(length * scale)))
