"""Engines give what their anonymizer gives, as exactly as they say, whatever else is in the batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from videoveil.anonymizers import MissingKey, NotExportable, ShapeMismatch, Withheld, pixel
from videoveil.anonymizers.pixel import Grey, Levels, LowResolution, NoiseFloor, UNet, engine
from videoveil.anonymizers.pixel.engine import folded
from videoveil.anonymizers.pixel.stage import Context, PixelStage
from videoveil.errors import UsageError

from .pipelines import ALL, NETWORKS, SIDE, clips, frames, names, settled

OFF = {"fp32": 1e-4, "bf16": 0.2}


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_folding_leaves_no_batch_norm_and_the_same_function(name: str) -> None:
    anonymizer, x = settled(NETWORKS[name]), frames(2, 32, 32)
    network = folded(anonymizer.stages[0])
    left = [n for n, m in network.named_modules() if isinstance(m, nn.BatchNorm2d)]
    assert left == []
    assert torch.allclose(network(x), anonymizer.stages[0](x), atol=1e-4)
    assert any(isinstance(m, nn.BatchNorm2d) for m in anonymizer.modules())  # the original keeps its own


@pytest.mark.parametrize("name", [n for n in ALL if n != "unet++"])
def test_an_engine_in_float32_is_its_anonymizer_up_to_the_last_bits(name: str) -> None:
    anonymizer, x = settled(ALL[name]), frames(5)
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", compile=False, batch=3)
    off = fast.accuracy(x, content=names(5))
    if anonymizer.quantises_a_network:  # a value next to a step may land on its other side
        assert off.changed < 0.01
    else:
        assert off.maximum < OFF["fp32"]


def test_half_precision_is_off_by_little_and_says_by_how_much() -> None:
    anonymizer, x = settled((UNet(4),)), frames(4)
    fast = engine(anonymizer, SIDE, "cpu", precision="bf16", compile=False, batch=2)
    off, exact = fast.accuracy(x), anonymizer(x)
    apart = (fast(x) - exact).abs()
    assert off.maximum == pytest.approx(float(apart.max()))
    assert off.mean == pytest.approx(float(apart.mean()))
    assert 0 < off.mean < 0.02
    assert off.maximum < OFF["bf16"]


class Small(PixelStage):
    """A network with little to compile; the benchmark compiles whole ones."""

    network = True

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 1)
        )

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        out: Tensor = self.layers(x).sigmoid()
        return out


@pytest.mark.slow
def test_a_compiled_engine_gives_what_it_should() -> None:
    anonymizer, x = pixel(UNet(2), Grey()), clips(1, 3)
    anonymizer.stages[0] = Small().eval()
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", compile=True, batch=2)
    assert torch.allclose(fast(x), anonymizer(x), atol=OFF["fp32"])


@pytest.mark.parametrize("precision", OFF)
def test_a_frame_does_not_depend_on_how_many_come_with_it(precision: str) -> None:
    anonymizer, x = settled((UNet(4), LowResolution(9), Levels(4))), frames(7)
    fast = engine(anonymizer, SIDE, "cpu", precision=precision, compile=False, batch=4)  # type: ignore[arg-type]
    whole = fast(x)
    for i in range(7):
        assert torch.equal(fast(x[i : i + 1]), whole[i : i + 1])


def test_bytes_and_clips_go_through_as_through_the_anonymizer() -> None:
    anonymizer = settled((UNet(4), Grey()))
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", compile=False, batch=4)
    x = (clips(2, 3) * 255).round().to(torch.uint8)
    out = fast(x)
    assert (out.dtype, out.shape) == (x.dtype, x.shape)
    assert int((out.int() - anonymizer(x).int()).abs().max()) <= 1
    assert fast(x[:0]).shape == (0, *x.shape[1:])


def test_the_noise_of_an_engine_is_that_of_its_anonymizer() -> None:
    anonymizer, x = settled((UNet(4), NoiseFloor(0.2))), frames(3)
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", compile=False, batch=2)
    assert torch.allclose(fast(x), anonymizer(x), atol=OFF["fp32"])


def test_later_training_does_not_reach_an_engine() -> None:
    anonymizer, x = settled((UNet(4),)), frames(1)
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", compile=False)
    before = fast(x)
    with torch.no_grad():
        anonymizer.stages[0].outc.conv.bias.add_(1)
    assert torch.equal(fast(x), before)


def test_an_engine_withholds_what_its_anonymizer_would() -> None:
    anonymizer = settled((UNet(4),))
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", compile=False)
    bad = frames(2)
    bad[1, 0, 0, 0] = float("nan")
    with pytest.raises(Withheld):
        fast(bad)
    with pytest.raises(Withheld):
        fast(frames(1) * 255)
    with torch.no_grad():
        anonymizer.stages[0].outc.conv.bias.fill_(float("inf"))
        anonymizer.stages[0].outc.conv.weight.fill_(float("-inf"))
    with pytest.raises(Withheld):
        engine(anonymizer, SIDE, "cpu", precision="fp32", compile=False)(frames(1))


def test_an_engine_is_refused_for_what_must_not_be_exported() -> None:
    for anonymizer in (pixel(UNet(4)).train(), pixel(UNet(4), legacy_reshape=True), pixel(NoiseFloor(0.1))):
        with pytest.raises(NotExportable):
            engine(anonymizer, SIDE, "cpu")
    keyed = settled((UNet(4), NoiseFloor(0.1)))
    fast = engine(keyed, SIDE, "cpu", precision="fp32", compile=False)
    fast.anonymizer.key = None
    with pytest.raises(MissingKey):
        fast(frames(1))


def test_other_sizes_and_options_are_refused_with_the_way_out() -> None:
    anonymizer = pixel(UNet(4))
    with pytest.raises(ShapeMismatch, match=r"24×24.*make another"):
        engine(anonymizer, SIDE, "cpu", compile=False)(frames(1, 32, 32))
    with pytest.raises(ShapeMismatch, match="at least 16"):
        engine(anonymizer, 8, "cpu")
    for options, message in (
        ({"precision": "int8"}, "precision='int8'"),
        ({"backend": "onnx"}, "backend='onnx'"),
        ({"batch": 0}, "batch=0"),
        ({"hands": 0}, "hands=0"),
        ({"hands": 2, "compile": True}, "hands=2"),
        ({"backend": "openvino", "precision": "fp16"}, "bf16 or fp32"),
    ):
        with pytest.raises(UsageError, match=message):
            engine(anonymizer, SIDE, "cpu", **options)  # type: ignore[arg-type]


def test_openvino_gives_the_same_frames_or_says_which_extra_is_missing() -> None:
    anonymizer, x = settled((UNet(4), Grey())), frames(3)
    try:
        import openvino  # noqa: F401
    except ImportError:
        with pytest.raises(UsageError, match=r"videoveil\[openvino\]"):
            engine(anonymizer, SIDE, "cpu", precision="fp32", backend="openvino")
        return
    fast = engine(anonymizer, SIDE, "cpu", precision="fp32", backend="openvino", batch=2)
    assert fast.accuracy(x).maximum < OFF["fp32"]


@pytest.mark.parametrize(("name", "size"), [("unet", (129, 150)), ("unet++", (143, 67))])
def test_openvino_is_exact_at_sizes_that_do_not_halve_evenly(name: str, size: tuple[int, int]) -> None:
    pytest.importorskip("openvino")
    anonymizer, x = settled(NETWORKS[name]), frames(1, *size)
    fast = engine(anonymizer, size, "cpu", precision="fp32", backend="openvino", batch=1)
    assert fast.accuracy(x).maximum < OFF["fp32"]


@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_several_threads_at_once_get_each_its_own_frames(backend: str) -> None:
    pytest.importorskip("openvino")
    anonymizer, x = settled((UNet(4),)), frames(24)
    options: dict[str, Any] = {"precision": "fp32", "compile": False, "backend": backend}
    fast = engine(anonymizer, SIDE, "cpu", batch=1, hands=3, **options)
    alone = [fast(one[None]) for one in x]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda one: fast(one[None]), x))
    assert all(torch.equal(one, two) for one, two in zip(alone, together, strict=True))
