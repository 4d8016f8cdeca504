"""ONNX files of a few hundred bytes, written field by field: real networks that find pure red squares.

Each looks at cells of the picture. The response is the mean of red − green − blue, so it is 1 in a red cell and
negative in a grey one, and where a box lies is written into a constant that is added.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

FLOAT, INT64 = 1, 7
INT, INTS = 2, 7  # kinds of attributes


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def block(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name: str, array: np.ndarray) -> bytes:
    kind = INT64 if array.dtype == np.int64 else FLOAT
    raw = array.astype(np.int64 if kind == INT64 else np.float32).tobytes()
    return (
        b"".join(number(1, size) for size in array.shape) + number(2, kind) + block(8, name) + block(9, raw)
    )


def node(op: str, inputs: list[str], output: str, **ints: list[int]) -> bytes:
    body = b"".join(block(1, name) for name in inputs) + block(2, output) + block(3, output) + block(4, op)
    for name, values in ints.items():
        body += block(5, block(1, name) + b"".join(number(8, value) for value in values) + number(20, INTS))
    return body


def port(name: str, shape: tuple[int, ...]) -> bytes:
    dimensions = b"".join(block(1, number(1, size)) for size in shape)
    return block(1, name) + block(2, block(1, number(1, FLOAT) + block(2, dimensions)))


def model(
    nodes: list[bytes],
    weights: dict[str, np.ndarray],
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    noted: dict[str, tuple[int, ...]] | None = None,
) -> bytes:
    graph = b"".join(block(1, part) for part in nodes) + block(2, "tiny")
    graph += b"".join(block(5, tensor(name, value)) for name, value in weights.items())
    graph += b"".join(block(11, port(name, shape)) for name, shape in inputs.items())
    graph += b"".join(block(12, port(name, shape)) for name, shape in outputs.items())
    graph += b"".join(block(13, port(name, shape)) for name, shape in (noted or {}).items())
    return number(1, 8) + block(8, block(1, "") + number(2, 13)) + block(7, graph)


def redness(channels: int, where: int, cell: int, red: int = 0) -> np.ndarray:
    """A kernel (channels, 3, cell, cell) with the response to red in channel `where` and nothing in the others."""
    kernel = np.zeros((channels, 3, cell, cell), np.float32)
    kernel[where] = -1 / cell**2
    kernel[where, red] = 1 / cell**2
    return kernel


def yolo(path: Path, kind: str, *, size: int = 64, cell: int = 16) -> Path:
    """A YOLOv5, YOLOv8 or FastestDet file for inputs of size×size with one box per cell, exactly the cell."""
    side = size // cell
    y, x = np.mgrid[0:side, 0:side] * float(cell) + cell / 2
    same = np.full((side, side), float(cell))
    one, none = np.ones((side, side)), np.zeros((side, side))
    if kind == "fastestdet":
        half = np.full((side, side), math.atanh(0.5))
        share = np.full((side, side), math.log(cell / (size - cell)))  # sigmoid of it is cell / size
        constant, where = [none, half, half, share, share, one, none], 0
    elif kind == "yolov5":
        constant, where = [x, y, same, same, none, one, none], 4
    else:
        constant, where = [x, y, same, same, none, none], 4
    channels = len(constant)
    weights = {
        "kernel": redness(channels, where, cell, red=2 if kind == "fastestdet" else 0),
        "place": np.stack(constant)[None].astype(np.float32),
    }
    nodes = [
        node("Conv", ["picture", "kernel"], "seen", kernel_shape=[cell, cell], strides=[cell, cell]),
        node("Add", ["seen", "place"], "grid"),
    ]
    shape: tuple[int, ...] = (1, channels, side, side)
    last = "grid"
    if kind != "fastestdet":
        weights["flat"] = np.array([1, channels, side * side], np.int64)
        nodes.append(node("Reshape", ["grid", "flat"], "rows"))
        shape, last = (1, channels, side * side), "rows"
    if kind == "yolov5":
        nodes.append(node("Transpose", ["rows"], "boxes", perm=[0, 2, 1]))
        shape, last = (1, side * side, channels), "boxes"
    path.write_bytes(model(nodes, weights, {"picture": (1, 3, size, size)}, {last: shape}))
    return path


def centerface(path: Path, *, cells: float = 2.0) -> Path:
    """A CenterFace file with the input size 32×32 written in, though its layers do for any size.

    Takes pixels of 0–255, so the response is scaled; every face is `cells` cells of 4 pixels wide and high.
    """
    weights = {
        "heat_kernel": redness(1, 0, 4) / 255,
        "flat_kernel": np.zeros((2, 3, 4, 4), np.float32),
        "log_size": np.full((1, 2, 1, 1), math.log(cells), np.float32),
    }
    stride = {"kernel_shape": [4, 4], "strides": [4, 4]}
    nodes = [
        node("Conv", ["picture", "heat_kernel"], "heat", **stride),
        node("Conv", ["picture", "flat_kernel"], "offset", **stride),
        node("Add", ["offset", "log_size"], "scale"),
    ]
    # weights are listed as inputs too, as old exporters do
    inputs = {"picture": (1, 3, 32, 32)} | {name: value.shape for name, value in weights.items()}
    outputs = {"heat": (1, 1, 8, 8), "scale": (1, 2, 8, 8), "offset": (1, 2, 8, 8)}
    # the size of a value inside is noted, as some exporters do
    path.write_bytes(model(nodes, weights, inputs, outputs, noted={"heat_inside": (1, 1, 8, 8)}))
    return path
