"""I3D-ResNet50, the "large I3D" of the anomaly literature and of TeD-SPAD; 2048-d.

28,043,472 parameters with 400 classes, 35,401,936 with non-local blocks. Native pixels: (x − 0.45) / 0.225; training
used 32 frames at stride 2, TeD-SPAD extracts 16 frames at stride 2 with pixels in [0, 1] (`norm="zero_one"`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.encoders.base import InputSpec
from videoveil.encoders.model import Adapted, Model, Request, map_pool, rename

WIDTH = 2048
# layer → planes, spatial stride, whether each block's first convolution spans three frames
LAYERS = {
    1: (64, 1, (1, 1, 1)),
    2: (128, 2, (1, 0, 1, 0)),
    3: (256, 2, (1, 0, 1, 0, 1, 0)),
    4: (512, 2, (0, 1, 0)),
}
NON_LOCAL = {2: (1, 3), 3: (1, 3, 5)}  # layer → blocks followed by a non-local block


class NonLocal(nn.Module):
    """Attention of every position over all (spatially pooled) positions of the clip, added to the input."""

    def __init__(self, channels: int):
        super().__init__()
        inner = channels // 2
        self.theta = nn.Conv3d(channels, inner, 1)
        self.phi = nn.Conv3d(channels, inner, 1)
        self.g = nn.Conv3d(channels, inner, 1)
        self.out = nn.Conv3d(inner, channels, 1)
        self.bn = nn.BatchNorm3d(channels)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool3d(x, (1, 2, 2), (1, 2, 2))
        query = self.theta(x).flatten(2)  # (N, inner, P)
        key, value = self.phi(pooled).flatten(2), self.g(pooled).flatten(2)  # (N, inner, P')
        weights = torch.softmax(query.transpose(1, 2) @ key * query.shape[1] ** -0.5, -1)  # (N, P, P')
        mixed = (value @ weights.transpose(1, 2)).unflatten(2, x.shape[2:])  # (N, inner, T, H, W)
        return x + self.bn(self.out(mixed))


class Bottleneck(nn.Module):
    """1 or 3 frames × 1×1, then 1×3×3, then 1×1×1 convolutions around a shortcut."""

    def __init__(self, inputs: int, planes: int, stride: int, inflate: int, shortcut: bool, non_local: bool):
        super().__init__()
        outputs = 4 * planes
        self.conv1 = nn.Conv3d(inputs, planes, (1 + 2 * inflate, 1, 1), padding=(inflate, 0, 0), bias=False)
        self.bn1 = nn.BatchNorm3d(planes)
        self.conv2 = nn.Conv3d(planes, planes, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.bn2 = nn.BatchNorm3d(planes)
        self.conv3 = nn.Conv3d(planes, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm3d(outputs)
        self.downsample = (
            nn.Sequential(
                nn.Conv3d(inputs, outputs, 1, (1, stride, stride), bias=False), nn.BatchNorm3d(outputs)
            )
            if shortcut
            else None
        )
        self.nl = NonLocal(outputs) if non_local else None

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y = F.relu(y + (x if self.downsample is None else self.downsample(x)))
        return y if self.nl is None else self.nl(y)


class I3DResNet50(nn.Module):
    """The layers by their published names."""

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(self, classes: int = 400, non_local: bool = False, dropout: float = 0.5):
        super().__init__()
        self.conv1 = nn.Conv3d(3, 64, (5, 7, 7), (2, 2, 2), (2, 3, 3), bias=False)
        self.bn1 = nn.BatchNorm3d(64)
        self.maxpool1 = nn.MaxPool3d((2, 3, 3), (2, 2, 2))
        self.maxpool2 = nn.MaxPool3d((2, 1, 1), (2, 1, 1))
        width = 64
        for layer, (planes, stride, inflated) in LAYERS.items():
            blocks = []
            for i, inflate in enumerate(inflated):
                attend = non_local and i in NON_LOCAL.get(layer, ())
                blocks.append(Bottleneck(width, planes, stride if i == 0 else 1, inflate, i == 0, attend))
                width = 4 * planes
            self.add_module(f"layer{layer}", nn.Sequential(*blocks))
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(width, classes)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, NonLocal):
                nn.init.zeros_(module.bn.weight)  # a new non-local block starts as the identity

    def stem(self, x: Tensor) -> Tensor:
        """(N, 3, T, H, W) → input of layer2, (N, 256, T/8, ·, ·)."""
        x = self.maxpool1(F.relu(self.bn1(self.conv1(x))))
        reduced: Tensor = self.maxpool2(self.layer1(x))
        return reduced

    def feature_map(self, x: Tensor) -> Tensor:
        """(N, 3, T, H, W) with T ≥ 8 → (N, 2048, T/8, ·, ·)."""
        features: Tensor = self.layer4(self.layer3(self.layer2(self.stem(x))))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (N, classes)."""
        scores: Tensor = self.fc(self.drop(self.feature_map(x).mean((2, 3, 4))))
        return scores


# --- foreign checkpoints -----------------------------------------------------------------------------------

_CONVS = {"a": "1", "b": "2", "c": "3"}
_STATISTICS = {"s": "weight", "b": "bias", "rm": "running_mean", "riv": "running_var"}


def _blob_rules() -> list[tuple[str, str]]:
    """The Caffe2 blob names of the non-local project, in which stage L is `res{L+1}`."""
    rules = [(r"^conv1_w$", "conv1.weight"), (r"^pred_w$", "fc.weight"), (r"^pred_b$", "fc.bias")]
    rules += [(rf"^res_conv1_bn_{short}$", f"bn1.{full}") for short, full in _STATISTICS.items()]
    for layer in LAYERS:
        block, stage = rf"^res{layer + 1}_(\d+)_branch", rf"layer{layer}.\1"
        rules.append((rf"{block}1_w$", f"{stage}.downsample.0.weight"))
        rules += [(rf"{block}1_bn_{s}$", f"{stage}.downsample.1.{full}") for s, full in _STATISTICS.items()]
        for letter, number in _CONVS.items():
            rules.append((rf"{block}2{letter}_w$", f"{stage}.conv{number}.weight"))
            rules += [
                (rf"{block}2{letter}_bn_{s}$", f"{stage}.bn{number}.{f}") for s, f in _STATISTICS.items()
            ]
    return rules


# Frozen batch norms call their weight `scale`; solver blobs and projection heads are no part of the network.
_RULES = [(r"^(.*(?:bn\d?|downsample\.1))\.scale$", r"\1.weight"), *_blob_rules()]
_DROP = (r"_momentum$", r"^(lr|model_iter|current_iter)$", r"^mlp\.")


def adapt(state: Mapping[str, Tensor]) -> Adapted:
    """PyTorch ports, frozen-batch-norm copies, fine-tuned models with a projection head, or Caffe2 blobs."""
    return rename(state, _RULES, _DROP)


def _network(request: Request, non_local: bool = False) -> nn.Module:
    return I3DResNet50(request.classes, non_local)


def _tokens(frames: int) -> int:
    return -(-frames // 2) // 4  # the first convolution pads, the two pools do not


def _model(non_local: bool) -> Model:
    return Model(
        network=partial(_network, non_local=non_local),
        pools={"mean": map_pool(I3DResNet50.feature_map)},
        input=InputSpec(frames=16, size=224, resize=256, mean=(0.45,) * 3, std=(0.225,) * 3),
        width=WIDTH,
        tokens=_tokens,
        head="fc",
        classes=400,
        min_frames=8,
        adapt=adapt,
        small={"frames": 8, "size": 64},
    )


MODELS = {"i3d.resnet50": _model(non_local=False), "i3d.resnet50-nl": _model(non_local=True)}
