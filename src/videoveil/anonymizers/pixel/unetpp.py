"""The UNet++ that TeD-SPAD and the penalty paper run: a ResNet-18 of depth 4 under a grid of decoder blocks.

Submodules are named as in the published weights, so that these can be brought in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers.pixel import config
from videoveil.anonymizers.pixel.stage import Context, PixelStage, check_size, finished
from videoveil.encoders.checkpoints import differences
from videoveil.errors import CheckpointError

MULTIPLE = 16  # of both sides, inside
ENCODER = (64, 64, 128, 256)  # channels of E1 (1/2 of the size), E2 (1/4), E3 (1/8), E4 (1/16)
# block: channels to be enlarged, channels of the skips, channels out
BLOCKS = {
    "x_0_0": (256, 128, 256),
    "x_1_1": (128, 64, 64),
    "x_2_2": (64, 64, 64),
    "x_0_1": (256, 64 + 64, 128),
    "x_1_2": (64, 64 + 64, 64),
    "x_0_2": (128, 64 + 64 + 64, 64),
    "x_0_3": (64, 0, 32),
}


class ResNetEncoder(nn.Module):
    """A ResNet-18 without its classifier. `layer4` is in the published weights and never run: it takes no gradient."""

    def __init__(self) -> None:
        super().__init__()
        from videoveil._torchvision import torchvision

        network = torchvision.models.resnet18(weights=None)
        self.conv1, self.bn1, self.relu, self.maxpool = (
            network.conv1,
            network.bn1,
            network.relu,
            network.maxpool,
        )
        self.layer1, self.layer2, self.layer3 = network.layer1, network.layer2, network.layer3
        self.layer4 = network.layer4.requires_grad_(False)

    def forward(self, x: Tensor) -> list[Tensor]:
        """E1, E2, E3, E4."""
        first = self.relu(self.bn1(self.conv1(x)))
        second = self.layer1(self.maxpool(first))
        third = self.layer2(second)
        return [first, second, third, self.layer3(third)]


class Block(nn.Module):
    """Twice the size, beside the skips, then twice 3×3 convolution, batch norm, ReLU."""

    def __init__(self, into: int, skips: int, out: int):
        super().__init__()
        self.conv1 = _convolution(into + skips, out)
        self.conv2 = _convolution(out, out)

    def forward(self, x: Tensor, skips: Sequence[Tensor] = ()) -> Tensor:
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        out: Tensor = self.conv2(self.conv1(torch.cat((x, *skips), 1)))
        return out


class Decoder(nn.Module):
    """The grid: x_i_j is the i-th step away from the encoder, towards its j-th doubling."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({name: Block(*channels) for name, channels in BLOCKS.items()})

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        e1, e2, e3, e4 = features
        block = self.blocks
        x00 = block["x_0_0"](e4, [e3])
        x11 = block["x_1_1"](e3, [e2])
        x22 = block["x_2_2"](e2, [e1])
        x01 = block["x_0_1"](x00, [x11, e2])
        x12 = block["x_1_2"](x11, [x22, e1])
        x02 = block["x_0_2"](x01, [x12, x22, e1])
        x03: Tensor = block["x_0_3"](x02)
        return x03


class UNetPP(PixelStage):
    """(M, 3, H, W) → the same, any H, W ≥ 16: sides are mirrored up to multiples of 16 and cut again."""

    network = True

    def __init__(self, settings: config.UNetPP):
        super().__init__()
        self.settings = settings
        self.encoder = ResNetEncoder()
        self.decoder = Decoder()
        self.segmentation_head = nn.Sequential(nn.Conv2d(BLOCKS["x_0_3"][2], 3, 3, padding=1))

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        check_size(x, "unet++")
        height, width = x.shape[-2:]
        below, right = -height % MULTIPLE, -width % MULTIPLE
        if below or right:
            x = F.pad(x, (0, right, 0, below), mode="reflect")
        logits = self.segmentation_head(self.decoder(self.encoder(x)))
        return finished(logits[..., :height, :width], self.settings.out)

    def load_encoder(self, source: str | Path) -> None:
        """Start the encoder from a ResNet-18 (published: of ImageNet), given as `encoders.create` takes weights.

        The pixels that it sees stay in [0, 1]: the released code normalises none.
        """
        from videoveil.encoders import create

        try:
            network = create("resnet.18", weights=source, classes=0).network
        except CheckpointError as error:
            raise CheckpointError(f"the encoder of a UNet++ starts from a ResNet-18: {error}") from error
        self.start_from(network.state_dict(), str(source))

    def start_from(self, tensors: Mapping[str, Tensor], source: str = "weights") -> None:
        """The same from tensors; those of the classifier are left out."""
        wanted = {name: tensor for name, tensor in tensors.items() if not name.startswith("fc.")}
        if problems := differences(self.encoder, wanted):
            raise CheckpointError("\n".join([f"{source}: not the weights of a ResNet-18", *problems]))
        self.encoder.load_state_dict(wanted, strict=False)


def _convolution(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)
    )
