"""Person detectors as ONNX files that the user brings: YOLOv5, YOLOv8 and FastestDet layouts, decoded here.

The papers use YOLOv5x with COCO weights, class 0 (person), on every frame; thresholds are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from videoveil import files
from videoveil.anonymizers.obfuscate.boxes import Boxes, Letterbox, checked_frame, nms
from videoveil.anonymizers.obfuscate.onnx_model import Engine, OnnxModel
from videoveil.errors import CheckpointError, UsageError

Kind = Literal["yolov5", "yolov8", "fastestdet"]


@dataclass(frozen=True)
class _Layout:
    """How a family wants its pictures, and from which score on a box counts."""

    confidence: float
    bgr: bool
    letterbox: bool  # else stretched


LAYOUTS: dict[Kind, _Layout] = {
    "yolov5": _Layout(confidence=0.25, bgr=False, letterbox=True),
    "yolov8": _Layout(confidence=0.25, bgr=False, letterbox=True),
    "fastestdet": _Layout(confidence=0.4, bgr=True, letterbox=False),
}


def corners(centred: np.ndarray, scores: np.ndarray) -> Boxes:
    """(n, 4) centre x, centre y, width, height and (n,) scores → (n, 5)."""
    half = centred[:, 2:4] / 2
    return np.concatenate([centred[:, :2] - half, centred[:, :2] + half, scores[:, None]], 1).astype(
        np.float32
    )


def decode_yolov5(output: np.ndarray, person: int = 0) -> Boxes:
    """(1, n, 5 + classes): centre, size, objectness, class probabilities → (n, 5) in pixels of the network's input.

    The score is objectness times the probability of a person, also where another class is likelier: for covering
    people a doubtful one counts.
    """
    rows = output[0]
    return corners(rows[:, :4], rows[:, 4] * rows[:, 5 + person])


def decode_yolov8(output: np.ndarray, person: int = 0) -> Boxes:
    """(1, 4 + classes, n): centre, size, class probabilities → (n, 5); there is no objectness."""
    rows = output[0].T
    return corners(rows[:, :4], rows[:, 4 + person])


def decode_fastestdet(output: np.ndarray, height: int, width: int, person: int = 0) -> Boxes:
    """(1, 5 + classes, h, w), one box per cell → (h·w, 5) in pixels of an input of this height and width.

    Channel 0 is objectness o, 1–2 place the centre (tanh, in cells), 3–4 give the size (sigmoid, share of the input),
    the rest are class probabilities p. The score is o^0.6 · p^0.4.
    """
    grid = output[0].astype(np.float64)
    rows, columns = grid.shape[1:]
    y, x = np.mgrid[0:rows, 0:columns]
    centre_x = (x + np.tanh(grid[1])) / columns * width
    centre_y = (y + np.tanh(grid[2])) / rows * height
    wide, high = width / (1 + np.exp(-grid[3])), height / (1 + np.exp(-grid[4]))
    scores = np.clip(grid[0], 0, None) ** 0.6 * np.clip(grid[5 + person], 0, None) ** 0.4
    centred = np.stack([centre_x, centre_y, wide, high], -1).reshape(-1, 4)
    return corners(centred, scores.reshape(-1))


def guess_kind(shape: tuple[int, ...]) -> Kind | None:
    """Which family has an output of this shape; None if it could be either or neither."""
    if len(shape) == 4 and shape[1] > 5:
        return "fastestdet"
    if len(shape) == 3 and shape[1] != shape[2]:
        # there are thousands of boxes and at most some hundred numbers for each
        return "yolov5" if shape[1] > shape[2] >= 6 else "yolov8" if shape[2] > shape[1] >= 5 else None
    return None


class YoloOnnx:
    """People found by an ONNX file. `size` is the longest side given to a network that takes any size."""

    name: ClassVar[str] = "yolo"
    covers: ClassVar[str] = "people"

    def __init__(
        self,
        file: str | Path,
        kind: Kind | Literal["auto"] = "auto",
        *,
        confidence: float | None = None,
        iou: float = 0.45,
        size: int = 640,
        person: int = 0,
        engine: Engine | None = None,
    ):
        if kind != "auto" and kind not in LAYOUTS:
            raise UsageError(f"kind={kind!r}: choose auto, {', '.join(LAYOUTS)}")
        if size < 32 or not 0 < iou < 1 or person < 0:
            raise UsageError(
                f"size={size} must be at least 32, iou={iou} in (0, 1), person={person} at least 0"
            )
        self._model = OnnxModel(file, engine=engine)
        if len(self._model.outputs) != 1:
            raise CheckpointError(
                f"{file}: one output was expected, there are {', '.join(self._model.outputs)}"
            )
        self.size, self.iou, self.person = size, iou, person
        self.kind: Kind = self._probe() if kind == "auto" else kind
        self.confidence = LAYOUTS[self.kind].confidence if confidence is None else confidence
        if not 0 < self.confidence < 1:
            raise UsageError(f"confidence={confidence} must be in (0, 1)")

    def boxes(self, frame: np.ndarray) -> Boxes:
        """(H, W, 3) uint8 RGB → (n, 5) in its pixels, best first."""
        placed = self._place(checked_frame(frame))
        picture = placed.apply(frame)
        if LAYOUTS[self.kind].bgr:
            picture = picture[..., ::-1]
        output = self._run(picture)
        found = self._decode(output, placed)
        return nms(placed.back(found[found[:, 4] >= self.confidence]), self.iou)

    def identity(self) -> str:
        values = {"confidence": self.confidence, "iou": self.iou, "size": self.size, "person": self.person}
        return files.value_hash(
            {"detector": self.name, "kind": self.kind, **values, **self._model.settings()}
        )

    def _place(self, source: tuple[int, int]) -> Letterbox:
        outer = self._model.size
        if not LAYOUTS[self.kind].letterbox:
            return Letterbox.stretch(source, outer or (self.size, self.size))
        return Letterbox.longest(source, self.size) if outer is None else Letterbox.fit(source, outer)

    def _run(self, picture: np.ndarray) -> np.ndarray:
        planes = np.ascontiguousarray(picture.transpose(2, 0, 1)[None], np.float32) / np.float32(255)
        return self._model.run(planes)[0]

    def _probe(self) -> Kind:
        """Which family the file belongs to, told by the output for an empty picture."""
        height, width = self._model.size or (self.size, self.size)
        shape = self._run(np.zeros((height, width, 3), np.uint8)).shape
        kind = guess_kind(shape)
        if kind is None:
            raise CheckpointError(
                f"{self._model.file}: an output of shape {shape} does not tell which family it is of; "
                f"give kind= one of {', '.join(LAYOUTS)}"
            )
        return kind

    def _decode(self, output: np.ndarray, placed: Letterbox) -> Boxes:
        first = {"yolov5": 5, "yolov8": 4, "fastestdet": 5}[self.kind]
        axis = 2 if self.kind == "yolov5" else 1
        axes = 4 if self.kind == "fastestdet" else 3
        if output.ndim != axes or output.shape[axis] <= first + self.person:
            raise CheckpointError(
                f"{self._model.file}: an output of shape {output.shape} is not {self.kind} with class {self.person}"
            )
        if self.kind == "yolov5":
            return decode_yolov5(output, self.person)
        if self.kind == "yolov8":
            return decode_yolov8(output, self.person)
        return decode_fastestdet(output, *placed.outer, self.person)
