"""`veil export`: the graph and what is told of it; the graphs themselves are tested in `tests/pipeline`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands.run import inside
from videoveil.anonymizers.pixel import UNet, pixel
from videoveil.pipeline.export import Graph

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return pixel(UNet(width=4)).save_pretrained(tmp_path / "run")


def test_the_graph_and_its_card_are_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.onnx"
    said = json.loads(inside(capsys, "export", run, out, "--to", "onnx", "--size", "64x48", "--json"))
    assert said["size"] == [48, 64]
    assert json.loads((tmp_path / "m.onnx.json").read_text())["anonymizer"] == said["anonymizer"]
    assert Graph(out)(np.zeros((1, 3, 48, 64))).shape == (1, 3, 48, 64)


def test_it_refuses_to_overwrite_and_what_makes_no_sense(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.onnx"
    out.write_bytes(b"of somebody else")
    assert "exists; give another name" in inside(capsys, "export", run, out, "--to", "onnx", code=2)
    assert out.read_bytes() == b"of somebody else"
    for words, says in (
        (["n.onnx", "--to", "tensorrt"], "tensorrt"),
        (["n.onnx", "--to", "onnx", "--size", "big"], "WIDTHxHEIGHT"),
        (["n.onnx", "--to", "onnx", "--calibrate", str(tmp_path)], "calibrated for one size"),
    ):
        assert says in inside(capsys, "export", run, tmp_path / words[0], *words[1:], code=2)
    assert not (tmp_path / "n.onnx").exists()
