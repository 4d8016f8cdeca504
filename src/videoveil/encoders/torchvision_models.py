"""torchvision's video and image networks, and two of its video ResNets that it does not offer by name.

R3D-18 as SPAct uses it keeps the temporal length in layer4; R3D-50 (SPAct, supplement) is the bottleneck version.
torchvision is imported when a network is built: listing the registry must not pay for it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from videoveil.encoders.base import NORMS, InputSpec
from videoveil.encoders.model import Model, Request, frame_pool, map_pool

KINETICS = 400
IMAGENET = 1000


def _named(request: Request, name: str) -> nn.Module:
    from videoveil._torchvision import torchvision

    network: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=request.classes)
    return network


# --- video ResNets -----------------------------------------------------------------------------------------


def _r3d18_spact(request: Request) -> nn.Module:
    """R3D-18 whose layer4 keeps the temporal length (SPAct): stride in space only, dilation 2 in time.

    Kernel sizes do not change, so every R3D-18 checkpoint fits.
    """
    network: Any = _named(request, "r3d_18")
    first = network.layer4[0]
    conv, shortcut = first.conv1[0], first.downsample[0]
    conv.stride, conv.dilation, conv.padding = (1, 2, 2), (2, 1, 1), (2, 1, 1)
    shortcut.stride = (1, 2, 2)
    return network  # type: ignore[no-any-return]


def _r3d50(request: Request) -> nn.Module:
    from videoveil import _torchvision  # noqa: F401
    from torchvision.models.video import resnet  # isort: skip

    layers = [3, 4, 6, 3]
    return resnet.VideoResNet(
        resnet.Bottleneck, [resnet.Conv3DSimple] * 4, layers, resnet.BasicStem, num_classes=request.classes
    )


def _resnet3d_map(network: Any, x: Tensor) -> Tensor:
    for layer in (network.stem, network.layer1, network.layer2, network.layer3, network.layer4):
        x = layer(x)
    return x


def _ceil8(frames: int) -> int:
    return -(-frames // 8)


_R3D_INPUT = InputSpec(
    frames=16, size=112, resize=128, mean=(0.43216, 0.394666, 0.37645), std=(0.22803, 0.22145, 0.216989)
)


def _video_resnet(network: Any, torchvision: str = "", **changes: Any) -> Model:
    settings: dict[str, Any] = {
        "network": network,
        "pools": {"mean": map_pool(_resnet3d_map)},
        "input": _R3D_INPUT,
        "width": 512,
        "tokens": _ceil8,
        "head": "fc",
        "classes": KINETICS,
        "torchvision": torchvision,
        "small": {"frames": 8, "size": 32},
    }
    return Model(**{**settings, **changes})


# --- S3D, Swin3D, MViT -------------------------------------------------------------------------------------


def _s3d_map(network: Any, x: Tensor) -> Tensor:
    features: Tensor = network.features(x)
    return features


def _swin_map(network: Any, x: Tensor) -> Tensor:
    x = network.norm(network.features(network.pos_drop(network.patch_embed(x))))
    return x.permute(0, 4, 1, 2, 3)  # (N, S, h, w, C) → (N, C, S, h, w)


def _swin(size: str, width: int) -> Model:
    mean, std = NORMS["imagenet"]
    return Model(
        network=partial(_named, name=f"swin3d_{size}"),
        pools={"mean": map_pool(_swin_map)},
        input=InputSpec(frames=16, size=224, resize=256, mean=mean, std=std),
        width=width,
        tokens=lambda frames: -(-frames // 2),
        head="head",
        classes=KINETICS,
        torchvision=f"swin3d_{size}",
        small={"frames": 4, "size": 64},
    )


def _mvit_tokens(network: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 3, T, H, W) → class token (N, C), temporal tokens (N, S, C).

    The grid is the input's own, not the 8×56×56 of the published input: positions are relative and interpolated.
    """
    x = network.conv_proj(x)  # (N, C, S, h, w)
    grid = tuple(x.shape[2:])
    x = network.pos_encoding(x.flatten(2).transpose(1, 2))  # (N, 1 + S·h·w, C)
    for block in network.blocks:
        x, grid = block(x, grid)
    x = network.norm(x)
    return x[:, 0], x[:, 1:].unflatten(1, grid).mean((2, 3))


def _mvit_mean(network: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    _, tokens = _mvit_tokens(network, x)
    return tokens.mean(1), tokens


# --- images ------------------------------------------------------------------------------------------------


def _resnet_map(network: Any, x: Tensor) -> Tensor:
    x = network.maxpool(network.relu(network.bn1(network.conv1(x))))
    for layer in (network.layer1, network.layer2, network.layer3, network.layer4):
        x = layer(x)
    return x


def _resnet(depth: int) -> Model:
    mean, std = NORMS["imagenet"]
    return Model(
        network=partial(_named, name=f"resnet{depth}"),
        pools={"mean": frame_pool(_resnet_map)},
        input=InputSpec(frames=1, size=224, resize=256, mean=mean, std=std),
        width=512 if depth < 50 else 2048,
        tokens=lambda frames: frames,
        head="fc",
        classes=IMAGENET,
        kind="image",
        torchvision=f"resnet{depth}",
        small={"size": 64, "frames": 2},
    )


MODELS = {
    "r3d.18": _video_resnet(partial(_named, name="r3d_18"), "r3d_18"),
    # SPAct feeds pixels in [0, 1] without mean and std.
    "r3d.18-spact": _video_resnet(
        _r3d18_spact,
        "r3d_18",
        input=InputSpec(frames=16, size=112, resize=128),
        tokens=lambda frames: -(-frames // 4),
    ),
    "r3d.50": _video_resnet(_r3d50, width=2048),
    "r2plus1d.18": _video_resnet(partial(_named, name="r2plus1d_18"), "r2plus1d_18"),
    # The vector is the global mean of the last map, which equals torchvision's 2×7×7 pool for 16 frames of 224².
    "s3d": Model(
        network=partial(_named, name="s3d"),
        pools={"mean": map_pool(_s3d_map)},
        input=InputSpec(frames=16, size=224, resize=256, mean=_R3D_INPUT.mean, std=_R3D_INPUT.std),
        width=1024,
        tokens=lambda frames: -(-frames // 4) // 2,
        head="classifier",
        classes=KINETICS,
        min_frames=5,
        torchvision="s3d",
        small={"frames": 8, "size": 64},
    ),
    "mvit.v2-s": Model(
        network=partial(_named, name="mvit_v2_s"),
        pools={"cls": _mvit_tokens, "mean": _mvit_mean},
        input=InputSpec(frames=16, size=224, resize=256, mean=(0.45,) * 3, std=(0.225,) * 3),
        width=768,
        tokens=lambda frames: -(-frames // 2),
        head="head",
        classes=KINETICS,
        head_pools=("cls",),
        mean_pools=("mean",),
        torchvision="mvit_v2_s",
        small={"frames": 4, "size": 64},
    ),
    "swin3d.t": _swin("t", 768),
    "swin3d.s": _swin("s", 768),
    "swin3d.b": _swin("b", 1024),
    **{f"resnet.{depth}": _resnet(depth) for depth in (18, 34, 50, 101, 152)},
}
