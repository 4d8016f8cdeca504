"""MobileNet-V1 (Howard et al., 2017), an attribute attacker of the pixel papers; an image encoder.

4,231,976 parameters at width 1.0 with 1000 classes: convolutions without bias, each followed by a batch norm.
"""

from __future__ import annotations

from torch import Tensor, nn

from videoveil.encoders.base import NORMS, InputSpec
from videoveil.encoders.model import Model, Request, frame_pool

# output channels and stride of the thirteen depthwise-separable blocks
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
NARROWEST = 8


def channels(count: int, multiplier: float) -> int:
    """Scaled channels, rounded down, never below eight."""
    return max(int(count * multiplier), NARROWEST)


def _normed(conv: nn.Conv2d) -> tuple[nn.Module, ...]:
    return conv, nn.BatchNorm2d(conv.out_channels), nn.ReLU(inplace=True)


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        *_normed(nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)),
        *_normed(nn.Conv2d(inputs, outputs, 1, bias=False)),
    )


class MobileNetV1(nn.Module):
    """`model.0` is the stem, `model.1` … `model.13` the separable blocks, `fc` the classifier."""

    def __init__(self, classes: int = 1000, multiplier: float = 1.0):
        super().__init__()
        width = channels(32, multiplier)
        layers = [nn.Sequential(*_normed(nn.Conv2d(3, width, 3, 2, 1, bias=False)))]
        for count, stride in BLOCKS:
            outputs = channels(count, multiplier)
            layers.append(_separable(width, outputs, stride))
            width = outputs
        self.model = nn.Sequential(*layers)
        self.fc = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def feature_map(self, x: Tensor) -> Tensor:
        """(N, 3, H, W) → (N, C, H/32, W/32)."""
        features: Tensor = self.model(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (N, classes)."""
        scores: Tensor = self.fc(self.feature_map(x).mean((2, 3)))
        return scores


def _network(request: Request) -> nn.Module:
    return MobileNetV1(request.classes, request.own["multiplier"])


_MEAN, _STD = NORMS["imagenet"]


def _model(multiplier: float) -> Model:
    return Model(
        network=_network,
        pools={"mean": frame_pool(MobileNetV1.feature_map)},
        input=InputSpec(frames=1, size=224, resize=256, mean=_MEAN, std=_STD),
        width=lambda own: channels(1024, own["multiplier"]),
        tokens=lambda frames: frames,
        head="fc",
        classes=1000,
        kind="image",
        own={"multiplier": multiplier},
        small={"size": 64, "frames": 2},
    )


MODELS = {f"mobilenet.v1-{multiplier}": _model(multiplier) for multiplier in (1.0, 0.75, 0.6, 0.5, 0.25)}
