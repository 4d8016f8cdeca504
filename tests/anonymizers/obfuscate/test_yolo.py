"""Person detectors from ONNX files: decoders on known outputs, and tiny real networks from end to end."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from tests.anonymizers.obfuscate import tiny_onnx
from videoveil.anonymizers.obfuscate.onnx_model import OnnxModel, pick_engine
from videoveil.anonymizers.obfuscate.yolo import (
    YoloOnnx,
    decode_fastestdet,
    decode_yolov5,
    decode_yolov8,
    guess_kind,
)
from videoveil.errors import CheckpointError, MissingFile, UsageError

NO_RUNTIME = importlib.util.find_spec("onnxruntime") is None
ENGINES = [
    "opencv",
    pytest.param(
        "onnxruntime",
        marks=pytest.mark.skipif(NO_RUNTIME, reason="onnxruntime (extra 'detect') is not installed"),
    ),
]
KINDS = ["yolov5", "yolov8", "fastestdet"]


# --- decoders on outputs written by hand ----------------------------------------------------------------------


def test_yolov5_rows_become_corners_and_person_scores() -> None:
    output = np.array([[[50, 40, 20, 10, 0.5, 0.8, 0.1], [10, 10, 4, 4, 0.9, 0.1, 0.9]]], np.float32)
    np.testing.assert_allclose(
        decode_yolov5(output), [[40, 35, 60, 45, 0.4], [8, 8, 12, 12, 0.09]], rtol=1e-6
    )
    np.testing.assert_allclose(decode_yolov5(output, person=1)[:, 4], [0.05, 0.81], rtol=1e-6)


def test_yolov8_columns_become_corners_and_person_scores() -> None:
    output = np.array([[[50, 10], [40, 10], [20, 4], [10, 4], [0.7, 0.2], [0.1, 0.9]]], np.float32)
    np.testing.assert_allclose(decode_yolov8(output), [[40, 35, 60, 45, 0.7], [8, 8, 12, 12, 0.2]], rtol=1e-6)


def test_fastestdet_cells_become_boxes_as_in_the_slow_twin() -> None:
    rng = np.random.default_rng(0)
    output = rng.normal(size=(1, 7, 3, 4)).astype(np.float32)
    output[:, [0, 5, 6]] = rng.random((1, 3, 3, 4))
    found = decode_fastestdet(output, 96, 128).reshape(3, 4, 5)
    for row in range(3):
        for column in range(4):
            o, tx, ty, tw, th, p, _ = (float(v) for v in output[0, :, row, column])
            x, y = (column + math.tanh(tx)) / 4 * 128, (row + math.tanh(ty)) / 3 * 96
            w, h = 128 / (1 + math.exp(-tw)), 96 / (1 + math.exp(-th))
            wanted = [x - w / 2, y - h / 2, x + w / 2, y + h / 2, o**0.6 * p**0.4]
            np.testing.assert_allclose(found[row, column], wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((1, 25200, 85), "yolov5"),
        ((1, 84, 8400), "yolov8"),
        ((1, 5, 8400), "yolov8"),
        ((1, 25200, 6), "yolov5"),
        ((1, 85, 22, 22), "fastestdet"),
        ((1, 85, 85), None),
        ((1, 100), None),
        ((1, 25200, 5), None),
        ((1, 3, 22, 22), None),
    ],
)
def test_the_family_is_told_by_the_shape_of_the_output(shape: tuple[int, ...], kind: str | None) -> None:
    assert guess_kind(shape) == kind


# --- tiny networks from end to end ----------------------------------------------------------------------------


def scene(height: int, width: int, *squares: tuple[int, int, int, int]) -> np.ndarray:
    image = np.full((height, width, 3), 120, np.uint8)
    for x0, y0, x1, y1 in squares:
        image[y0:y1, x0:x1] = (255, 0, 0)
    return image


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("told", [True, False])
def test_a_network_finds_what_is_there_where_it_is(
    tmp_path: Path, kind: str, engine: str, told: bool
) -> None:
    file = tiny_onnx.yolo(tmp_path / "tiny.onnx", kind)
    detector = YoloOnnx(file, kind if told else "auto", confidence=0.5, engine=engine)  # type: ignore[arg-type]
    assert detector.kind == kind
    square = scene(64, 64, (16, 32, 32, 48), (48, 0, 64, 16))
    found = detector.boxes(square)
    assert sorted(map(tuple, found[:, :4].round(3).tolist())) == [(16, 32, 32, 48), (48, 0, 64, 16)]
    np.testing.assert_allclose(found[:, 4], 1, atol=1e-4)
    assert detector.boxes(scene(64, 64)).shape == (0, 5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["yolov5", "yolov8"])
def test_letterboxed_pictures_give_boxes_in_their_own_pixels(tmp_path: Path, kind: str, engine: str) -> None:
    detector = YoloOnnx(tiny_onnx.yolo(tmp_path / "tiny.onnx", kind), confidence=0.5, engine=engine)  # type: ignore[arg-type]
    # 128×64 lies in the rows 16 to 48 of the input at half its size: cell (1, 2) is (64…96, 0…32) of the picture
    found = detector.boxes(scene(64, 128, (64, 0, 96, 32)))
    np.testing.assert_allclose(found[:, :4], [[64, 0, 96, 32]], atol=1e-3)
    # enlarged: 16×32 becomes 32×64
    found = detector.boxes(scene(16, 32, (16, 0, 24, 8)))
    np.testing.assert_allclose(found[:, :4], [[16, 0, 24, 8]], atol=1e-3)


def test_stretched_pictures_give_boxes_in_their_own_pixels(tmp_path: Path) -> None:
    detector = YoloOnnx(tiny_onnx.yolo(tmp_path / "tiny.onnx", "fastestdet"), confidence=0.5)
    found = detector.boxes(scene(64, 128, (64, 16, 96, 32)))
    np.testing.assert_allclose(found[:, :4], [[64, 16, 96, 32]], atol=1e-3)


@pytest.mark.skipif(NO_RUNTIME, reason="onnxruntime (extra 'detect') is not installed")
def test_both_engines_agree(tmp_path: Path) -> None:
    picture = np.random.default_rng(1).random((1, 3, 64, 64)).astype(np.float32)
    file = tiny_onnx.yolo(tmp_path / "tiny.onnx", "yolov5")
    outputs = [OnnxModel(file, engine=engine).run(picture)[0] for engine in ("opencv", "onnxruntime")]  # type: ignore[arg-type]
    np.testing.assert_allclose(outputs[0], outputs[1], atol=1e-4)


@pytest.mark.skipif(NO_RUNTIME, reason="onnxruntime (extra 'detect') is not installed")
def test_a_detector_has_as_many_threads_as_pytorch_not_one_for_every_core(tmp_path: Path) -> None:
    file = tiny_onnx.yolo(tmp_path / "tiny.onnx", "yolov5")
    OnnxModel(file, engine="onnxruntime")  # what the library itself starts is there from now on
    usual, kept = torch.get_num_threads(), []
    try:
        for wanted in (1, 4):
            torch.set_num_threads(wanted)
            before = psutil.Process().num_threads()
            kept.append(OnnxModel(file, engine="onnxruntime"))
            assert psutil.Process().num_threads() - before == wanted - 1  # and the one that calls
    finally:
        torch.set_num_threads(usual)


def test_identity_changes_with_file_and_settings(tmp_path: Path) -> None:
    one = tiny_onnx.yolo(tmp_path / "a.onnx", "yolov8")
    other = tiny_onnx.yolo(tmp_path / "b.onnx", "yolov8", cell=8)
    same = tmp_path / "c.onnx"
    same.write_bytes(one.read_bytes())
    identity = YoloOnnx(one).identity()
    assert YoloOnnx(same).identity() == identity
    changed = [
        YoloOnnx(other),
        YoloOnnx(one, confidence=0.3),
        YoloOnnx(one, iou=0.5),
        YoloOnnx(one, person=1),
        YoloOnnx(one, size=320),
    ]
    assert len({identity, *(detector.identity() for detector in changed)}) == 6


def test_papers_thresholds_are_the_default(tmp_path: Path) -> None:
    detector = YoloOnnx(tiny_onnx.yolo(tmp_path / "a.onnx", "yolov5"))
    assert (detector.confidence, detector.iou, detector.size, detector.person) == (0.25, 0.45, 640, 0)


def test_files_that_are_no_detectors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="ONNX"):
        YoloOnnx(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(CheckpointError, match="not an ONNX file"):
        YoloOnnx(tmp_path / "text.onnx")
    with pytest.raises(CheckpointError, match="one output"):
        YoloOnnx(tiny_onnx.centerface(tmp_path / "face.onnx"))
    file = tiny_onnx.yolo(tmp_path / "tiny.onnx", "yolov8")
    with pytest.raises(CheckpointError, match="not yolov5"):
        YoloOnnx(file, "yolov5", person=30).boxes(scene(64, 64))
    data = file.read_bytes()
    (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError):
        YoloOnnx(tmp_path / "cut.onnx")


def test_impossible_settings_are_refused(tmp_path: Path) -> None:
    file = tiny_onnx.yolo(tmp_path / "tiny.onnx", "yolov8")
    for bad in ({"kind": "yolov3"}, {"size": 8}, {"iou": 0}, {"confidence": 1.5}, {"person": -1}):
        with pytest.raises(UsageError):
            YoloOnnx(file, **bad)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="choose"):
        pick_engine("tensorrt")  # type: ignore[arg-type]


@pytest.mark.skipif(not NO_RUNTIME, reason="onnxruntime is installed")
def test_a_missing_engine_says_how_to_get_it() -> None:
    assert pick_engine(None) == "opencv"
    with pytest.raises(UsageError, match=r"videoveil\[detect\]"):
        pick_engine("onnxruntime")
