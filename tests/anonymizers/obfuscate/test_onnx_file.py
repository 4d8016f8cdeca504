"""ONNX files are read as far as needed; damaged ones are refused, and sizes can be opened."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.anonymizers.obfuscate import tiny_onnx
from videoveil.anonymizers.obfuscate.onnx_file import FLOAT, Graph, NotOnnx, Port, read_graph, with_open_sizes


def test_ports_are_read_and_weights_are_not_among_them(tmp_path: Path) -> None:
    graph = read_graph(tiny_onnx.centerface(tmp_path / "face.onnx").read_bytes())
    assert graph.inputs == (Port("picture", (1, 3, 32, 32), FLOAT),)
    assert [port.name for port in graph.outputs] == ["heat", "scale", "offset"]
    assert graph.outputs[1].shape == (1, 2, 8, 8)


def test_opened_sizes_keep_the_channels_and_everything_else(tmp_path: Path) -> None:
    data = tiny_onnx.centerface(tmp_path / "face.onnx").read_bytes()
    opened = with_open_sizes(data)
    graph = read_graph(opened)
    assert graph.inputs == (Port("picture", (None, 3, None, None), FLOAT),)
    assert [port.shape for port in graph.outputs] == [(None, c, None, None) for c in (1, 2, 2)]
    assert with_open_sizes(opened) == opened
    assert b"heat_inside" in data
    assert b"heat_inside" not in opened


def test_a_file_cut_anywhere_is_refused_or_another_graph(tmp_path: Path) -> None:
    data = tiny_onnx.yolo(tmp_path / "tiny.onnx", "yolov8", size=32).read_bytes()
    whole = read_graph(data)
    for end in range(0, len(data), 7):
        try:
            assert read_graph(data[:end]) != whole
        except NotOnnx:
            continue


@given(st.binary(max_size=60))
@settings(max_examples=200)
def test_arbitrary_bytes_end_in_a_graph_or_a_clear_refusal(data: bytes) -> None:
    with contextlib.suppress(NotOnnx):  # any other error fails the test
        assert isinstance(read_graph(data), Graph)


@pytest.mark.parametrize("data", [b"", b"\x3a", b"\x3a\xff", b"\xff" * 20, b"\x03", b"\x00\x00"])
def test_bytes_without_a_graph_are_refused(data: bytes) -> None:
    with pytest.raises(NotOnnx):
        read_graph(data)
