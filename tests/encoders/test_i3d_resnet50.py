"""The I3D-ResNet50 facts that make the public checkpoints fit, written down a second time."""

from __future__ import annotations

import re

import pytest
import torch

from videoveil.encoders.i3d_resnet50 import I3DResNet50, NonLocal, adapt

from .helpers import close, moving, parameters, shapes, small

# layer → blocks, planes, frames spanned by each block's first convolution
LAYERS = {
    1: (64, (3, 3, 3)),
    2: (128, (3, 1, 3, 1)),
    3: (256, (3, 1, 3, 1, 3, 1)),
    4: (512, (1, 3, 1)),
}
STATISTICS = ("weight", "bias", "running_mean", "running_var")


def expected_keys(non_local: bool = False) -> dict[str, tuple[int, ...]]:
    keys: dict[str, tuple[int, ...]] = {"fc.weight": (400, 2048), "fc.bias": (400,)}

    def norm(name: str, width: int) -> None:
        keys.update({f"{name}.{statistic}": (width,) for statistic in STATISTICS})
        keys[f"{name}.num_batches_tracked"] = ()

    keys["conv1.weight"] = (64, 3, 5, 7, 7)
    norm("bn1", 64)
    width = 64
    for layer, (planes, spans) in LAYERS.items():
        for i, span in enumerate(spans):
            name = f"layer{layer}.{i}"
            keys[f"{name}.conv1.weight"] = (planes, width, span, 1, 1)
            keys[f"{name}.conv2.weight"] = (planes, planes, 1, 3, 3)
            keys[f"{name}.conv3.weight"] = (4 * planes, planes, 1, 1, 1)
            norm(f"{name}.bn1", planes)
            norm(f"{name}.bn2", planes)
            norm(f"{name}.bn3", 4 * planes)
            if i == 0:
                keys[f"{name}.downsample.0.weight"] = (4 * planes, width, 1, 1, 1)
                norm(f"{name}.downsample.1", 4 * planes)
            width = 4 * planes
            if non_local and (layer, i) in {(2, 1), (2, 3), (3, 1), (3, 3), (3, 5)}:
                for conv in ("theta", "phi", "g"):
                    keys[f"{name}.nl.{conv}.weight"] = (width // 2, width, 1, 1, 1)
                    keys[f"{name}.nl.{conv}.bias"] = (width // 2,)
                keys[f"{name}.nl.out.weight"] = (width, width // 2, 1, 1, 1)
                keys[f"{name}.nl.out.bias"] = (width,)
                norm(f"{name}.nl.bn", width)
    return keys


def caffe2_name(key: str) -> str:
    """The blob of the non-local project that holds `key`, by the rules its converter was published with."""
    short = {"weight": "s", "bias": "b", "running_mean": "rm", "running_var": "riv"}
    if key.startswith("fc."):
        return {"fc.weight": "pred_w", "fc.bias": "pred_b"}[key]
    if key == "conv1.weight":
        return "conv1_w"
    if key.startswith("bn1."):
        return f"res_conv1_bn_{short[key.removeprefix('bn1.')]}"
    match = re.fullmatch(r"layer(\d)\.(\d)\.(.*)\.(\w+)", key)
    assert match
    stage, rest = f"res{int(match[1]) + 1}_{match[2]}", match[3]
    if rest.startswith("downsample"):
        return f"{stage}_branch1_w" if rest.endswith("0") else f"{stage}_branch1_bn_{short[match[4]]}"
    letter = "abc"[int(rest[-1]) - 1]
    suffix = "w" if rest.startswith("conv") else f"bn_{short[match[4]]}"
    return f"{stage}_branch2{letter}_{suffix}"


@pytest.fixture(scope="module")
def meta() -> I3DResNet50:
    with torch.device("meta"):
        return I3DResNet50().eval()


def test_key_names_and_shapes_are_those_of_the_public_checkpoints(meta: I3DResNet50) -> None:
    keys = expected_keys()
    assert len(keys) == 320
    assert shapes(meta) == keys


def test_the_non_local_variant_has_its_published_names_and_parameters() -> None:
    with torch.device("meta"):
        network = I3DResNet50(non_local=True)
    assert shapes(network) == expected_keys(non_local=True)
    assert parameters(network) == 35_401_936


def test_parameter_counts_layer_by_layer(meta: I3DResNet50) -> None:
    counts = {f"layer{i}": parameters(meta.get_submodule(f"layer{i}")) for i in LAYERS}
    assert counts == {"layer1": 289_536, "layer2": 1_416_192, "layer3": 8_409_088, "layer4": 17_061_888}
    assert parameters(meta.conv1) == 47_040
    assert parameters(meta.fc) == 819_600
    assert parameters(meta) == 28_043_472


def test_every_layer_has_the_published_shape(meta: I3DResNet50) -> None:
    x = torch.empty(1, 3, 16, 224, 224, device="meta")
    found = {}
    for name in ("conv1", "maxpool1", "layer1", "maxpool2", "layer2", "layer3", "layer4"):
        x = meta.get_submodule(name)(x)
        found[name] = tuple(x.shape[1:])
    assert found == {
        "conv1": (64, 8, 112, 112),
        "maxpool1": (64, 4, 55, 55),
        "layer1": (256, 4, 55, 55),
        "maxpool2": (256, 2, 55, 55),
        "layer2": (512, 2, 28, 28),
        "layer3": (1024, 2, 14, 14),
        "layer4": (2048, 2, 7, 7),
    }


@pytest.mark.parametrize(("frames", "length"), [(8, 1), (16, 2), (32, 4)])
def test_time_is_an_eighth_after_the_second_pool(meta: I3DResNet50, frames: int, length: int) -> None:
    assert meta.stem(torch.empty(1, 3, frames, 64, 64, device="meta")).shape[2] == length


def test_batch_norm_uses_pytorchs_defaults(meta: I3DResNet50) -> None:
    norms = [module for module in meta.modules() if isinstance(module, torch.nn.BatchNorm3d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-5, 0.1)}
    assert len(norms) == 53


def test_a_non_local_block_is_attention_over_pooled_positions() -> None:
    block = NonLocal(4).eval()
    torch.nn.init.uniform_(block.bn.weight, 0.5, 1.5)
    x = torch.randn(1, 4, 2, 4, 4)
    theta, phi, g = (
        conv.weight.flatten(1) @ source.flatten(2)[0] + conv.bias[:, None]
        for conv, source in (
            (block.theta, x),
            (block.phi, torch.nn.functional.max_pool3d(x, (1, 2, 2))),
            (block.g, torch.nn.functional.max_pool3d(x, (1, 2, 2))),
        )
    )
    slow = torch.zeros(2, 32)
    for position in range(32):
        scores = torch.stack([theta[:, position] @ phi[:, other] for other in range(8)]) * 2**-0.5
        weights = scores.exp() / scores.exp().sum()
        slow[:, position] = sum(weights[other] * g[:, other] for other in range(8))
    with torch.no_grad():
        expected = x + block.bn(block.out(slow.view(1, 2, 2, 4, 4)))
        assert close(block(x), expected)


def test_a_new_non_local_block_starts_as_the_identity() -> None:
    encoder, plain = small("i3d.resnet50-nl"), small("i3d.resnet50")
    weights = {k: v for k, v in encoder.network.state_dict().items() if ".nl." not in k}
    plain.network.load_state_dict(weights)
    clips = moving(plain)
    with torch.inference_mode():
        assert close(encoder(clips), plain(clips))


def test_every_caffe2_blob_finds_its_tensor_and_solver_blobs_are_dropped() -> None:
    wanted = [key for key in expected_keys() if not key.endswith("num_batches_tracked")]
    blobs = {caffe2_name(key): torch.tensor(float(i)) for i, key in enumerate(wanted)}
    assert len(blobs) == len(wanted)
    solver = {"conv1_w_momentum": torch.zeros(1), "lr": torch.zeros(1), "model_iter": torch.zeros(1)}
    adapted = adapt({**blobs, **solver})
    assert {key: int(value) for key, value in adapted.tensors.items()} == {k: i for i, k in enumerate(wanted)}
    assert set(adapted.dropped) == set(solver)


def test_frozen_batch_norms_are_renamed_and_projection_heads_dropped() -> None:
    state = {
        "bn1.scale": torch.zeros(1),
        "layer1.0.bn2.scale": torch.zeros(1),
        "layer1.0.downsample.1.scale": torch.zeros(1),
        "mlp.0.weight": torch.zeros(1),
    }
    adapted = adapt(state)
    assert set(adapted.tensors) == {"bn1.weight", "layer1.0.bn2.weight", "layer1.0.downsample.1.weight"}
    assert adapted.dropped == ["mlp.0.weight"]
