"""Exported graphs give what the anonymizer gives, or do not appear."""

from __future__ import annotations

import builtins
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.pipeline.films import coded, scenes
from videoveil import files
from videoveil.anonymizers.named import open_anonymizer
from videoveil.anonymizers.pixel import config
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer, pixel
from videoveil.data import twins
from videoveil.data.records import Dataset
from videoveil.data.registry import open_source
from videoveil.errors import UsageError
from videoveil.pipeline import export as module
from videoveil.pipeline.export import Graph, NotAlike, calibration_frames, export, trial_frames

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
SIZE = (48, 64)
ODD = (50, 70)  # divided by nothing that networks and codes divide by


def lively(*stages: Any, seed: int = 0) -> PixelAnonymizer:
    """Random weights, with batch norms that have seen pictures and outputs from black to white."""
    made = pixel(*stages, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.train()
        for _ in range(20):
            made.transform(torch.rand(4, 3, 32, 32, generator=rng))
        made.eval()
        last = [m for m in made.modules() if isinstance(m, torch.nn.Conv2d)]
        if last:
            last[-1].weight.mul_(8)
    return made


PIPELINES = {
    "unet": (config.UNet(width=4),),
    "transposed": (config.UNet(width=4, up="transposed", out="none"), config.Grey()),
    "levels": (config.UNet(width=4), config.Grey(), config.LowResolution(24), config.Levels(64)),
    "outline": (config.Outline(size=24),),
    "small": (config.LowResolution(factor=5, up="bilinear"),),
    "nearest": (config.LowResolution(factor=4, mode="nearest"),),
}


@pytest.mark.parametrize("size", [SIZE, ODD])
@pytest.mark.parametrize("name", list(PIPELINES))
def test_a_graph_of_fixed_size_gives_what_the_anonymizer_gives(
    tmp_path: Path, name: str, size: tuple[int, int]
) -> None:
    anonymizer = lively(*PIPELINES[name])
    out = tmp_path / "model.onnx"
    report = export(anonymizer, out, size=size)
    frames = trial_frames(size, seed=5)
    wanted = anonymizer(frames).numpy()
    assert wanted.std() > 0.01, "an output without contrast proves nothing"
    assert (np.abs(Graph(out)(frames.numpy()) - wanted) > 1e-3).mean() <= 0.005
    card = json.loads((tmp_path / "model.onnx.json").read_text())
    assert card["anonymizer"] == anonymizer.content_hash() == report.anonymizer
    assert card["files"] == {"model.onnx": files.file_hash(out)}
    assert card["parity"]["frames"] == 9
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "model.onnx.json"]


@pytest.mark.parametrize(("size", "said"), [(None, True), (SIZE, True), ((32, 48), False)])
def test_a_graph_says_at_what_size_its_network_was_trained(
    tmp_path: Path, size: tuple[int, int] | None, said: bool
) -> None:
    """A graph takes frames as they come: to bring them to that size is up to whoever runs it."""
    report = export(pixel(config.UNet(width=4), size=32), tmp_path / "model.onnx", size=size)
    assert json.loads((tmp_path / "model.onnx.json").read_text())["trained"] == report.trained == 32
    assert ("trained on pictures with a short side of 32: bring frames to that" in str(report)) == said


@pytest.mark.parametrize("name", ["unet", "transposed"])
def test_a_graph_of_any_size_takes_batches_of_any_size(tmp_path: Path, name: str) -> None:
    anonymizer = lively(*PIPELINES[name])
    export(anonymizer, tmp_path / "model.onnx")
    graph = Graph(tmp_path / "model.onnx")
    for shape in ((1, 3, 16, 16), (4, 3, 96, 32), (2, 3, 128, 160)):
        frames = torch.rand(shape)
        np.testing.assert_allclose(graph(frames.numpy()), anonymizer(frames).numpy(), atol=1e-4)


@pytest.mark.parametrize("name", ["unet", "levels"])
def test_openvino_gets_weights_and_graph(tmp_path: Path, name: str) -> None:
    pytest.importorskip("openvino")
    anonymizer = lively(*PIPELINES[name])
    report = export(anonymizer, tmp_path / "model.xml", target="openvino", size=SIZE)
    assert sorted(report.files) == ["model.bin", "model.xml"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.bin", "model.xml", "model.xml.json"]
    frames = trial_frames(SIZE, seed=9)
    apart = np.abs(Graph(tmp_path / "model.xml")(frames.numpy()) - anonymizer(frames).numpy())
    assert (apart > 1e-3).mean() <= 0.005


def test_a_graph_that_is_not_alike_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anonymizer = lively(config.UNet(width=4))
    other = lively(config.UNet(width=4), seed=1)
    real = module._onnx
    monkeypatch.setattr(module, "_onnx", lambda _, size, destination: real(other, size, destination))
    with pytest.raises(NotAlike, match=r"not released"):
        export(anonymizer, tmp_path / "model.onnx", size=SIZE)
    assert list(tmp_path.iterdir()) == []


def test_trial_frames_are_pictures_of_many_kinds() -> None:
    frames = trial_frames(ODD)
    assert frames.shape == (9, 3, *ODD)
    assert (float(frames.min()), float(frames.max())) == (0.0, 1.0)
    assert len({frame.numpy().tobytes() for frame in frames}) == 9


def test_what_cannot_be_exported_is_refused_with_the_fix(tmp_path: Path) -> None:
    unet, out = lively(config.UNet(width=4)), tmp_path / "a.onnx"
    outline = pixel(config.Outline())
    noisy = pixel(config.UNet(width=4), config.NoiseFloor(0.1))
    for wrong, words in (
        (lambda: export(outline, out), "give the size"),
        (lambda: export(noisy, out, size=SIZE), "secret key"),
        (lambda: export(open_anonymizer("blur"), out, size=SIZE), "only pixel anonymizers"),
        (lambda: export(unet, tmp_path / "a.bin", size=SIZE), "ends in .onnx"),
        (lambda: export(unet, out, target="tflite", size=SIZE), "choose one of"),  # type: ignore[arg-type]
        (lambda: export(unet, out, size=(8, 8)), "at least 16"),
        (lambda: export(unet, out, calibrate=tmp_path), "one size"),
        (lambda: export(unet, out, size=SIZE, calibrate=tmp_path), "labelled dataset"),
    ):
        with pytest.raises(UsageError, match=words):
            wrong()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("package", "target"), [("onnx", "onnx"), ("onnxruntime", "onnx"), ("openvino", "openvino")]
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, target: Any
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    suffix = {"onnx": "onnx", "openvino": "xml"}[target]
    with pytest.raises(UsageError, match=f"needs the package {package}"):
        export(pixel(config.UNet(width=4)), tmp_path / f"a.{suffix}", target=target, size=SIZE)


def test_calibration_takes_videos_and_pictures_and_nothing_else(tmp_path: Path) -> None:
    from PIL import Image

    coded(tmp_path / "film.mp4", scenes(8))
    Image.fromarray(scenes(1)[0]).save(tmp_path / "still.png")
    (tmp_path / "notes.txt").write_text("neither")
    frames = calibration_frames(tmp_path, SIZE)
    assert frames.shape == (5, 3, *SIZE)
    assert 0 <= frames.min() < frames.max() <= 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no video or picture"):
        calibration_frames(tmp_path / "empty", SIZE)
    with pytest.raises(UsageError, match="not a folder"):
        calibration_frames(tmp_path / "notes.txt", SIZE)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A few labelled videos to learn from and to be attacked."""
    root = tmp_path_factory.mktemp("twin") / "data"
    twins.make("vpucf", root, size="tiny")
    whole = open_source(f"vpucf:{root}")
    few = [item for split in ("train", "test") for item in whole.split(split)[::4][:5]]
    return replace(whole, items=tuple(few))


@pytest.mark.parametrize("target", ["onnx", "openvino"])
def test_int8_tells_the_change_in_attacker_score(tmp_path: Path, twin: Dataset, target: Any) -> None:
    pytest.importorskip(target)
    anonymizer = lively(config.UNet(width=4))
    (tmp_path / "pictures").mkdir()
    coded(tmp_path / "pictures" / "film.mp4", scenes(8))
    out = tmp_path / ("model.onnx" if target == "onnx" else "model.xml")
    report = export(
        anonymizer,
        out,
        target=target,
        size=SIZE,
        calibrate=tmp_path / "pictures",
        attack=twin,
        attackers=("linear",),
    )
    assert report.int8
    assert report.calibrated_on == 4
    assert report.attackers is not None
    assert 0 < report.attackers.before <= 1
    assert 0 < report.attackers.after <= 1
    assert "change" in str(report)
    assert 0 < report.parity.maximum < 1, "8 bits are not the original"
    assert report.parity.mean < 0.05
    if target == "onnx":
        import onnx

        kinds = {node.op_type for node in onnx.load(str(out)).graph.node}
        assert "QuantizeLinear" in kinds
