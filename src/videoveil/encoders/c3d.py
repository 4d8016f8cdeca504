"""C3D (Tran et al., 2015): eight 3×3×3 convolutions and two 4096-wide layers, exactly 16 frames of 112².

78,409,573 parameters with 101 classes, 79,991,015 with the 487 of Sports-1M. The vector is the output of `fc7`, which
the classification layer `fc8` reads; `pool="fc6"` gives the layer the anomaly literature extracts, also 4096-d.
Public Sports-1M weights expect pixels of 0…255 minus (104, 117, 128).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.encoders.base import InputSpec
from videoveil.encoders.model import Adapted, Model, Request, rename

WIDTH = 4096
CONVS = {"conv1": 64, "conv2": 128, "conv3a": 256, "conv3b": 256}
CONVS |= {"conv4a": 512, "conv4b": 512, "conv5a": 512, "conv5b": 512}


class C3D(nn.Module):
    """The layers by their published names."""

    def __init__(self, classes: int = 487, dropout: float = 0.5):
        super().__init__()
        width = 3
        for name, outputs in CONVS.items():
            self.add_module(name, nn.Conv3d(width, outputs, 3, padding=1))
            width = outputs
        self.pool1 = nn.MaxPool3d((1, 2, 2))
        self.pool = nn.MaxPool3d(2)
        self.pool5 = nn.MaxPool3d(2, padding=(0, 1, 1))
        self.fc6 = nn.Linear(512 * 4 * 4, WIDTH)
        self.fc7 = nn.Linear(WIDTH, WIDTH)
        self.fc8 = nn.Linear(WIDTH, classes)
        self.dropout = nn.Dropout(dropout)
        self._initialise()

    def _initialise(self) -> None:
        """Without batch norm the signal survives ten layers only with variance-keeping weights."""
        for module in self.modules():
            if isinstance(module, nn.Conv3d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.fc8.weight, std=0.01)

    def flat(self, x: Tensor) -> Tensor:
        """(N, 3, 16, 112, 112) → (N, 8192)."""
        for name in CONVS:
            x = F.relu(self.get_submodule(name)(x))
            if name == "conv1":
                x = self.pool1(x)
            elif name in ("conv2", "conv3b", "conv4b"):
                x = self.pool(x)
        return torch.flatten(self.pool5(x), 1)

    def features(self, x: Tensor, layer: str = "fc7") -> Tensor:
        """(N, 3, 16, 112, 112) → (N, 4096) after `layer` and its ReLU."""
        x = F.relu(self.fc6(self.flat(x)))
        return x if layer == "fc6" else F.relu(self.fc7(self.dropout(x)))

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (N, classes)."""
        scores: Tensor = self.fc8(self.dropout(self.features(x)))
        return scores


def _fc6(network: nn.Module, clips: Tensor) -> tuple[Tensor, Tensor]:
    assert isinstance(network, C3D)
    vector = network.features(clips, "fc6")
    return vector, vector.unsqueeze(1)  # the flattening has already mixed all of time: one token


def _fc7(network: nn.Module, clips: Tensor) -> tuple[Tensor, Tensor]:
    assert isinstance(network, C3D)
    vector = network.features(clips)
    return vector, vector.unsqueeze(1)


# The layout in which every convolution is a module of its own and the classifier is called `fc_cls`.
_RULES = [
    (r"^conv([12])a\.conv\.", r"conv\1."),
    (r"^conv(\d[ab])\.conv\.", r"conv\1."),
    (r"^(?:cls_head\.)?fc_cls\.", "fc8."),
]


def adapt(state: Mapping[str, Tensor]) -> Adapted:
    return rename(state, _RULES)


def _network(request: Request) -> nn.Module:
    return C3D(request.classes)


MODELS = {
    "c3d": Model(
        network=_network,
        pools={"fc7": _fc7, "fc6": _fc6},
        input=InputSpec(
            frames=16,
            size=112,
            resize=128,
            mean=(104 / 255, 117 / 255, 128 / 255),
            std=(1 / 255,) * 3,
        ),
        width=WIDTH,
        tokens=lambda frames: 1,
        head="fc8",
        classes=487,
        head_pools=("fc7",),
        fixed=True,
        frozen_geometry=True,
        adapt=adapt,
    )
}
