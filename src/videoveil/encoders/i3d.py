"""Inception-I3D (Carreira & Zisserman, 2017), weight-compatible with the public PyTorch checkpoints; 1024-d.

12,697,264 parameters with 400 classes. Native input: 16 or more consecutive frames at 25 fps, 224², pixels in [−1, 1].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.encoders.base import NORMS, InputSpec
from videoveil.encoders.model import Model, Request, map_pool

# end point → widths (b0, b1a, b1b, b2a, b2b, b3b) of its four branches
MIXED = {
    "Mixed_3b": (64, 96, 128, 16, 32, 32),
    "Mixed_3c": (128, 128, 192, 32, 96, 64),
    "Mixed_4b": (192, 96, 208, 16, 48, 64),
    "Mixed_4c": (160, 112, 224, 24, 64, 64),
    "Mixed_4d": (128, 128, 256, 24, 64, 64),
    "Mixed_4e": (112, 144, 288, 32, 64, 64),
    "Mixed_4f": (256, 160, 320, 32, 128, 128),
    "Mixed_5b": (256, 160, 320, 32, 128, 128),
    "Mixed_5c": (384, 192, 384, 48, 128, 128),
}
WIDTH = 1024


def same_padding(kernel: Sequence[int], stride: Sequence[int], size: Sequence[int]) -> list[int]:
    """TensorFlow's SAME padding for each axis, in the order of `F.pad` (last axis first, front before back).

    The total makes the output ceil(n / stride) long; an odd element goes to the back.
    """
    pads: list[int] = []
    for k, s, n in zip(reversed(kernel), reversed(stride), reversed(size)):
        total = max(k - s, 0) if n % s == 0 else max(k - n % s, 0)
        pads += [total // 2, total - total // 2]
    return pads


class SamePool3d(nn.Module):
    """Max pooling with SAME padding; the padding is 0, which equals −∞ here because its inputs are never negative."""

    def __init__(self, kernel: tuple[int, int, int], stride: tuple[int, int, int]):
        super().__init__()
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, same_padding(self.kernel, self.stride, x.shape[2:]))
        return F.max_pool3d(padded, self.kernel, self.stride)


class Unit3D(nn.Module):
    """SAME-padded convolution, batch norm, ReLU; `plain` is the classifier: bias, no norm, no activation."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: tuple[int, int, int] = (1, 1, 1),
        stride: tuple[int, int, int] = (1, 1, 1),
        plain: bool = False,
    ):
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.conv3d = nn.Conv3d(inputs, outputs, kernel, stride, bias=plain)
        self.bn = None if plain else nn.BatchNorm3d(outputs, eps=1e-3, momentum=0.01)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv3d(F.pad(x, same_padding(self.kernel, self.stride, x.shape[2:])))
        return x if self.bn is None else F.relu(self.bn(x))


class Mixed(nn.Module):
    """Four parallel branches, concatenated in the order b0, b1, b2, b3."""

    def __init__(self, inputs: int, widths: tuple[int, ...]):
        super().__init__()
        b0, b1a, b1b, b2a, b2b, b3b = widths
        self.b0 = Unit3D(inputs, b0)
        self.b1a = Unit3D(inputs, b1a)
        self.b1b = Unit3D(b1a, b1b, (3, 3, 3))
        self.b2a = Unit3D(inputs, b2a)
        self.b2b = Unit3D(b2a, b2b, (3, 3, 3))
        self.b3a = SamePool3d((3, 3, 3), (1, 1, 1))
        self.b3b = Unit3D(inputs, b3b)
        self.outputs = b0 + b1b + b2b + b3b

    def forward(self, x: Tensor) -> Tensor:
        branches = (self.b0(x), self.b1b(self.b1a(x)), self.b2b(self.b2a(x)), self.b3b(self.b3a(x)))
        return torch.cat(branches, 1)


class InceptionI3D(nn.Module):
    """The layers by their published names; `channels` is 3 for colour and 2 for optical flow."""

    def __init__(self, classes: int = 400, channels: int = 3, dropout: float = 0.5):
        super().__init__()
        self.Conv3d_1a_7x7 = Unit3D(channels, 64, (7, 7, 7), (2, 2, 2))
        self.MaxPool3d_2a_3x3 = SamePool3d((1, 3, 3), (1, 2, 2))
        self.Conv3d_2b_1x1 = Unit3D(64, 64)
        self.Conv3d_2c_3x3 = Unit3D(64, 192, (3, 3, 3))
        self.MaxPool3d_3a_3x3 = SamePool3d((1, 3, 3), (1, 2, 2))
        pools = {
            "Mixed_4b": ("MaxPool3d_4a_3x3", SamePool3d((3, 3, 3), (2, 2, 2))),
            "Mixed_5b": ("MaxPool3d_5a_2x2", SamePool3d((2, 2, 2), (2, 2, 2))),
        }
        width = 192
        for name, widths in MIXED.items():
            if name in pools:
                self.add_module(*pools[name])
            block = Mixed(width, widths)
            self.add_module(name, block)
            width = block.outputs
        self.avg_pool = nn.AvgPool3d((2, 7, 7), stride=1)
        self.dropout = nn.Dropout(dropout)
        self.logits = Unit3D(width, classes, plain=True)
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def feature_map(self, x: Tensor) -> Tensor:
        """(N, channels, T, H, W) → the map of `Mixed_5c`, (N, 1024, ceil(T/8), ceil(H/32), ceil(W/32))."""
        for name, layer in self.named_children():
            if name == "avg_pool":
                break
            x = layer(x)
        return x

    def pooled(self, x: Tensor) -> Tensor:
        """The published 2×7×7 average at stride 1: (N, 1024, ceil(T/8) − 1, ·, ·); T ≤ 8 is too short for it."""
        pooled: Tensor = self.avg_pool(self.feature_map(x))
        return pooled

    def forward(self, x: Tensor) -> Tensor:
        """Class scores at every pooled position in time, (N, classes, T'); their mean over T' is the clip's."""
        scores: Tensor = self.logits(self.dropout(self.pooled(x)))
        return scores.mean((3, 4))


def _network(request: Request) -> nn.Module:
    return InceptionI3D(request.classes)


_MEAN, _STD = NORMS["minus1_1"]

# The clip vector is the global mean of Mixed_5c, which equals the published pool for 16 frames of 224² and also
# exists for every other length and size.
MODELS = {
    "i3d.inception": Model(
        network=_network,
        pools={"mean": map_pool(InceptionI3D.feature_map)},
        input=InputSpec(frames=16, size=224, resize=256, mean=_MEAN, std=_STD),
        width=WIDTH,
        tokens=lambda frames: -(-frames // 8),
        head="logits",
        classes=400,
        small={"frames": 9, "size": 32},
    )
}
