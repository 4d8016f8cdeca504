from __future__ import annotations

import torch

from videoveil.encoders import create
from videoveil.encoders.c3d import C3D, adapt

from .helpers import parameters, shapes


def test_names_shapes_and_counts_are_the_published_ones() -> None:
    with torch.device("meta"):
        network = C3D(classes=101)
    widths = {"conv1": (64, 3), "conv2": (128, 64), "conv3a": (256, 128), "conv3b": (256, 256)}
    widths |= {"conv4a": (512, 256), "conv4b": (512, 512), "conv5a": (512, 512), "conv5b": (512, 512)}
    expected: dict[str, tuple[int, ...]] = {}
    for name, (outputs, inputs) in widths.items():
        expected |= {f"{name}.weight": (outputs, inputs, 3, 3, 3), f"{name}.bias": (outputs,)}
    for name, (outputs, inputs) in {"fc6": (4096, 8192), "fc7": (4096, 4096), "fc8": (101, 4096)}.items():
        expected |= {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
    assert shapes(network) == expected
    assert parameters(network) == 78_409_573
    assert network(torch.empty(2, 3, 16, 112, 112, device="meta")).shape == (2, 101)


@torch.inference_mode()
def test_fc6_and_fc7_are_the_outputs_of_those_layers_and_pixels_are_mean_free_bytes() -> None:
    encoder = create("c3d", classes=0, pool="fc6")
    network = encoder.network
    clips = torch.rand(1, 3, 16, 112, 112)
    seen: dict[str, torch.Tensor] = {}
    network.conv1.register_forward_pre_hook(lambda _, inputs: seen.update(pixels=inputs[0]))
    network.fc6.register_forward_hook(lambda _, inputs, output: seen.update(flat=inputs[0], fc6=output))
    vector = encoder(clips)
    mean = torch.tensor([104.0, 117.0, 128.0]).view(1, 3, 1, 1, 1)
    assert torch.allclose(seen["pixels"], clips * 255 - mean, atol=1e-2)
    assert torch.equal(vector, seen["fc6"].relu())
    network.flat = lambda _: seen["flat"]  # the convolutions have been run once; that is enough
    assert torch.equal(network.features(clips), network.fc7(vector).relu())


def test_the_layout_with_one_module_per_convolution_is_renamed() -> None:
    state = {
        "conv1a.conv.weight": torch.zeros(1),
        "conv4b.conv.bias": torch.zeros(1),
        "fc6.weight": torch.zeros(1),
    }
    state["cls_head.fc_cls.weight"] = torch.zeros(1)
    assert set(adapt(state).tensors) == {"conv1.weight", "conv4b.bias", "fc6.weight", "fc8.weight"}
