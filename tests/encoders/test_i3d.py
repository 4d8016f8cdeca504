"""The Inception-I3D facts that make the public checkpoints fit, written down a second time."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from videoveil.encoders import create
from videoveil.encoders.i3d import InceptionI3D, SamePool3d, Unit3D, same_padding

from .helpers import close, moving, parameters, shapes

# end point → output (C, T, H, W) for 16×224×224, parameters
END_POINTS = {
    "Conv3d_1a_7x7": ((64, 8, 112, 112), 65_984),
    "MaxPool3d_2a_3x3": ((64, 8, 56, 56), 0),
    "Conv3d_2b_1x1": ((64, 8, 56, 56), 4_224),
    "Conv3d_2c_3x3": ((192, 8, 56, 56), 332_160),
    "MaxPool3d_3a_3x3": ((192, 8, 28, 28), 0),
    "Mixed_3b": ((256, 8, 28, 28), 386_272),
    "Mixed_3c": ((480, 8, 28, 28), 837_888),
    "MaxPool3d_4a_3x3": ((480, 4, 14, 14), 0),
    "Mixed_4b": ((512, 4, 14, 14), 737_760),
    "Mixed_4c": ((512, 4, 14, 14), 904_464),
    "Mixed_4d": ((512, 4, 14, 14), 1_103_664),
    "Mixed_4e": ((528, 4, 14, 14), 1_356_672),
    "Mixed_4f": ((832, 4, 14, 14), 1_799_168),
    "MaxPool3d_5a_2x2": ((832, 2, 7, 7), 0),
    "Mixed_5b": ((832, 2, 7, 7), 1_974_272),
    "Mixed_5c": ((1024, 2, 7, 7), 2_784_736),
    "avg_pool": ((1024, 1, 1, 1), 0),
    "logits": ((400, 1, 1, 1), 410_000),
}
# block → input width and the widths of b0, b1a, b1b, b2a, b2b, b3b
BLOCKS = {
    "Mixed_3b": (192, 64, 96, 128, 16, 32, 32),
    "Mixed_3c": (256, 128, 128, 192, 32, 96, 64),
    "Mixed_4b": (480, 192, 96, 208, 16, 48, 64),
    "Mixed_4c": (512, 160, 112, 224, 24, 64, 64),
    "Mixed_4d": (512, 128, 128, 256, 24, 64, 64),
    "Mixed_4e": (512, 112, 144, 288, 32, 64, 64),
    "Mixed_4f": (528, 256, 160, 320, 32, 128, 128),
    "Mixed_5b": (832, 256, 160, 320, 32, 128, 128),
    "Mixed_5c": (832, 384, 192, 384, 48, 128, 128),
}


def expected_keys() -> dict[str, tuple[int, ...]]:
    units: dict[str, tuple[int, ...]] = {
        "Conv3d_1a_7x7": (64, 3, 7, 7, 7),
        "Conv3d_2b_1x1": (64, 64, 1, 1, 1),
        "Conv3d_2c_3x3": (192, 64, 3, 3, 3),
    }
    for block, (width, b0, b1a, b1b, b2a, b2b, b3b) in BLOCKS.items():
        units[f"{block}.b0"] = (b0, width, 1, 1, 1)
        units[f"{block}.b1a"] = (b1a, width, 1, 1, 1)
        units[f"{block}.b1b"] = (b1b, b1a, 3, 3, 3)
        units[f"{block}.b2a"] = (b2a, width, 1, 1, 1)
        units[f"{block}.b2b"] = (b2b, b2a, 3, 3, 3)
        units[f"{block}.b3b"] = (b3b, width, 1, 1, 1)
    assert len(units) == 57
    keys = {"logits.conv3d.weight": (400, 1024, 1, 1, 1), "logits.conv3d.bias": (400,)}
    for unit, shape in units.items():
        keys[f"{unit}.conv3d.weight"] = shape
        for statistic in ("weight", "bias", "running_mean", "running_var"):
            keys[f"{unit}.bn.{statistic}"] = shape[:1]
        keys[f"{unit}.bn.num_batches_tracked"] = ()
    return keys


@pytest.fixture(scope="module")
def meta() -> InceptionI3D:
    with torch.device("meta"):
        return InceptionI3D().eval()


def test_key_names_and_shapes_are_those_of_the_public_checkpoints(meta: InceptionI3D) -> None:
    keys = expected_keys()
    assert len(keys) == 344
    assert len([key for key in keys if not key.endswith("num_batches_tracked")]) == 287
    assert shapes(meta) == keys


def test_every_end_point_has_the_published_shape_and_parameters(meta: InceptionI3D) -> None:
    found: dict[str, tuple[tuple[int, ...], int]] = {}

    def note(name: str) -> None:
        def hook(module: torch.nn.Module, _: object, output: torch.Tensor) -> None:
            found[name] = (tuple(output.shape[1:]), parameters(module))

        hooks.append(meta.get_submodule(name).register_forward_hook(hook))

    hooks: list[torch.utils.hooks.RemovableHandle] = []
    for name in END_POINTS:
        note(name)
    scores = meta(torch.empty(1, 3, 16, 224, 224, device="meta"))
    for hook in hooks:
        hook.remove()
    assert found == END_POINTS
    assert scores.shape == (1, 400, 1)


def test_parameter_counts_of_colour_flow_and_features() -> None:
    with torch.device("meta"):
        assert parameters(InceptionI3D()) == 12_697_264
        assert parameters(InceptionI3D(channels=2)) == 12_675_312
        assert parameters(InceptionI3D()) - parameters(InceptionI3D().logits) == 12_287_264


@pytest.mark.parametrize(("frames", "vectors"), [(16, 1), (24, 2), (32, 3), (64, 7)])
def test_the_published_pool_gives_one_vector_less_than_eighths(
    meta: InceptionI3D, frames: int, vectors: int
) -> None:
    clips = torch.empty(1, 3, frames, 224, 224, device="meta")
    assert meta.pooled(clips).shape == (1, 1024, vectors, 1, 1)


@pytest.mark.parametrize(("frames", "length"), [(8, 1), (9, 2), (16, 2), (17, 3), (24, 3), (32, 4), (64, 8)])
def test_the_last_map_has_an_eighth_of_the_frames_rounded_up(
    meta: InceptionI3D, frames: int, length: int
) -> None:
    clips = torch.empty(1, 3, frames, 32, 32, device="meta")
    assert meta.feature_map(clips).shape[2] == length


def tensorflow_same(kernel: int, stride: int, size: int) -> tuple[int, int]:
    """TensorFlow's rule as its documentation states it: first the output size, then what it takes to reach it."""
    output = math.ceil(size / stride)
    total = max((output - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


@given(st.integers(1, 7), st.integers(1, 4), st.integers(5, 40))
def test_same_padding_is_tensorflows_rule(kernel: int, stride: int, size: int) -> None:
    front, back = same_padding([kernel], [stride], [size])
    assert (front, back) == tensorflow_same(kernel, stride, size)
    assert (size + front + back - kernel) // stride + 1 == math.ceil(size / stride)


def test_same_padding_examples_and_axis_order() -> None:
    assert same_padding([7], [2], [224]) == [2, 3]
    assert same_padding([7], [2], [16]) == [2, 3]
    assert same_padding([3, 1, 7], [1, 1, 2], [9, 9, 9]) == [3, 3, 0, 0, 1, 1]


@pytest.mark.parametrize("size", range(5, 41, 7))
def test_units_and_pools_shrink_to_the_rounded_up_quotient(size: int) -> None:
    clips = torch.rand(1, 2, size, 7, 8)
    unit = Unit3D(2, 3, (7, 3, 3), (2, 2, 2)).eval()
    assert unit(clips).shape == (1, 3, math.ceil(size / 2), 4, 4)
    pooled = SamePool3d((3, 3, 3), (2, 2, 2))(clips)
    assert pooled.shape == (1, 2, math.ceil(size / 2), 4, 4)
    pads = [p for axis in (8, 7, size) for p in tensorflow_same(3, 2, axis)]
    slow = F.max_pool3d(F.pad(clips, pads, value=-math.inf), 3, 2)
    assert torch.equal(pooled, slow)


def test_batch_norm_uses_the_published_epsilon_and_momentum(meta: InceptionI3D) -> None:
    norms = [module for module in meta.modules() if isinstance(module, torch.nn.BatchNorm3d)]
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.01)}
    assert len(norms) == 57


@torch.inference_mode()
def test_the_clip_vector_is_the_published_pool_for_the_published_input() -> None:
    encoder = create("i3d.inception", size=224, frames=16)
    clips = moving(encoder)
    vector = encoder(clips)
    pooled = encoder.network.pooled(2 * clips - 1)  # the native pixels
    assert close(vector, pooled.flatten(1), 1e-4)
    weight, bias = encoder.head_parameters()
    assert close(vector @ weight.T + bias, encoder.network.logits(pooled).flatten(1), 1e-4)
