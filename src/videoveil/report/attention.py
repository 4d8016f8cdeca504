"""Where a network looks: activation-based attention maps (Zagoruyko and Komodakis), laid over frames.

    maps = layer_maps(budget_network, frames, "layer3")     # frames (N, 3, H, W) in [0, 1]
    attention_sheet(clip, maps_of_one, maps_of_other).write("attention.png")

SPAct compares a budget network that was trained without labels with one that knows the attributes: the first looks
at the scene and objects too, the second at people only. "The third convolutional block" is `layer3` of a ResNet by
one reading and `layer2` (conv3_x) by the other, so the layer has a name.

Shapes: N frames, C channels, h×w positions of the layer, H×W pixels of the frame.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.errors import UsageError
from videoveil.report.strips import Row, Sheet, pixels, sheet

LAYER = "layer3"
COLOURS = "inferno"  # dark where there is little attention; also told apart in grey and by the colour-blind
ALPHA = 0.5


def attention_map(features: Tensor) -> Tensor:
    """A = mean over channels of F²: (C, h, w) → (h, w); (N, C, …) → (N, …), with time where the features have it."""
    if features.dim() < 3 or not features.numel():
        raise UsageError(f"attention: features must be (C, h, w) or (N, C, …), not {tuple(features.shape)}")
    exact = features.detach().to(torch.promote_types(features.dtype, torch.float32))
    return exact.square().mean(0 if features.dim() == 3 else 1)


def unit_maps(maps: Tensor) -> Tensor:
    """(N, h, w) → (N, h·w) of length 1, in which maps of different networks can be compared; an empty map stays 0."""
    return F.normalize(maps.flatten(1), dim=1)


def displayed(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(N, h, w) → (N, H, W) in [0, 1]: each stretched from its least to its greatest, then enlarged bilinearly.

    A map that is the same everywhere says nothing and becomes 0.
    """
    if maps.dim() != 3 or not maps.numel():
        raise UsageError(f"attention: maps must be (N, h, w), not {tuple(maps.shape)}")
    if not bool(maps.isfinite().all()):
        raise UsageError("attention: maps have values that are no numbers")
    exact = maps.detach().float()
    low, high = exact.amin((1, 2), keepdim=True), exact.amax((1, 2), keepdim=True)
    spread = high - low
    even = torch.where(spread > 0, (exact - low) / torch.where(spread > 0, spread, 1), 0)
    return F.interpolate(even[:, None], size, mode="bilinear", align_corners=False)[:, 0]


def overlay(frames: np.ndarray | Tensor, maps: Tensor, alpha: float = ALPHA) -> np.ndarray:
    """Frames (N, H, W, 3) under their maps (N, h, w) in colours, as bytes; alpha 0 is the frame, 1 the map alone."""
    from matplotlib import colormaps

    below = pixels(frames)
    if not 0 <= alpha <= 1:
        raise UsageError(f"attention: alpha={alpha} must be in [0, 1]")
    if len(maps) != len(below):
        raise UsageError(f"attention: {len(maps)} maps for {len(below)} frames")
    height, width = below.shape[1:3]
    above = colormaps[COLOURS](displayed(maps.cpu(), (height, width)).numpy())[..., :3]  # (N, H, W, 3)
    return np.rint((1 - alpha) * below + alpha * 255 * above).astype(np.uint8)


def layer_maps(network: nn.Module, frames: Tensor, layer: str = LAYER) -> Tensor:
    """Attention of one layer to frames (N, 3, H, W): (N, h, w); of a video network to clips: (N, t, h, w).

    `layer` is a name in the network or the end of exactly one. The pass is in eval mode without gradients; modes are
    restored, and nothing stays attached to the network.
    """
    module = _find(network, layer)
    found: list[Tensor] = []

    def keep(_: nn.Module, __: object, output: object) -> None:
        if not isinstance(output, Tensor):
            raise UsageError(f"attention: layer {layer!r} gives {type(output).__name__}, not a feature map")
        found.append(attention_map(output))

    modes = {one: one.training for one in network.modules()}
    handle = module.register_forward_hook(keep)
    try:
        network.eval()
        with torch.no_grad():
            network(frames)
    finally:
        handle.remove()
        for one, training in modes.items():
            one.training = training
    if len(found) != 1 or len(found[0]) != len(frames):
        shapes = ", ".join(str(tuple(one.shape)) for one in found) or "nothing"
        raise UsageError(f"attention: layer {layer!r} gave {shapes} for {len(frames)} frames in one pass")
    return found[0]


def attention_sheet(
    frames: np.ndarray | Tensor,
    self_supervised: Tensor,
    supervised: Tensor,
    *,
    labels: tuple[str, str, str] = ("raw", "self-supervised", "supervised"),
    alpha: float = ALPHA,
) -> Sheet:
    """Three rows: frames (N, H, W, 3), the same under the maps (N, h, w) of one network, and of the other."""
    plain = pixels(frames)
    rows = (plain, overlay(plain, self_supervised, alpha), overlay(plain, supervised, alpha))
    return sheet([Row(label, row) for label, row in zip(labels, rows)])


def _find(network: nn.Module, layer: str) -> nn.Module:
    modules = dict(network.named_modules())
    names = [layer] if layer in modules else [name for name in modules if name.endswith(f".{layer}")]
    if not layer or len(names) != 1:
        there = ", ".join(names or [name for name, _ in network.named_children()])
        raise UsageError(f"attention: {len(names)} layers are called {layer!r}; there are {there}")
    return modules[names[0]]
