"""`tiny`: the embedded encoder of the demo and the tests; 256-d, eight temporal tokens from 16 frames of 112².

Made for speed on a CPU: two neighbouring frames become one step in time, described by their mean (appearance) and
their difference (motion). Space is then mixed by 2-D convolutions on the folded batch of steps and time by
1-D convolutions, both in channels-last memory, where folding and unfolding time costs nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.encoders.base import InputSpec
from videoveil.encoders.model import Model, Request, map_pool

STEM = 24
STAGES = ((48, 1), (96, 2), (192, 2))  # width and blocks; each stage halves the resolution
WIDTH = 256


class ConvNorm(nn.Module):
    """Convolution and batch norm. Outside training the norm is folded into the weights: one pass over memory less."""

    def __init__(self, inputs: int, outputs: int, kernel: tuple[int, int], stride: int = 1):
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def weight(self) -> Tensor:
        """The kernel that is applied to the input, (outputs, inputs, ·, ·)."""
        return self.conv.weight

    def forward(self, x: Tensor) -> Tensor:
        stride, padding = self.conv.stride, self.conv.padding
        if self.training:
            normed: Tensor = self.norm(F.conv2d(x, self.weight(), None, stride, padding))
            return normed
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None
        assert variance is not None
        scale = self.norm.weight * torch.rsqrt(variance + self.norm.eps)
        return F.conv2d(
            x, self.weight() * scale.view(-1, 1, 1, 1), self.norm.bias - mean * scale, stride, padding
        )


class PairStem(ConvNorm):
    """A convolution over mean and difference of two frames, applied to the frames themselves.

    With mean m = (a + b) / 2 and difference d = b − a, W_m·m + W_d·d = (W_m/2 − W_d)·a + (W_m/2 + W_d)·b: the change
    of basis, which makes motion easy to learn, costs nothing on the pixels.
    """

    def weight(self) -> Tensor:
        mean, difference = self.conv.weight.chunk(2, 1)
        return torch.cat((mean / 2 - difference, mean / 2 + difference), 1)


class Block(nn.Module):
    """3×3 in space, then 3 in time, around a shortcut. Steps in time are folded into the batch: (N·S, C, H, W)."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.space = ConvNorm(inputs, outputs, (3, 3), stride)
        self.time = ConvNorm(outputs, outputs, (3, 1))
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(nn.AvgPool2d(stride, ceil_mode=True), ConvNorm(inputs, outputs, (1, 1)))
        )

    def forward(self, x: Tensor, steps: int) -> Tensor:
        y = F.relu(self.space(x), inplace=True)  # (N·S, C, H, W)
        height, width = y.shape[2:]
        # In channels-last memory (N·S, C, H, W) is also (N, C, S, H·W): a 3×1 kernel there is a 1-D one over time.
        y = y.permute(0, 2, 3, 1).reshape(-1, steps, height * width, y.shape[1]).permute(0, 3, 1, 2)
        y = self.time(y)
        y = y.permute(0, 2, 3, 1).reshape(-1, height, width, y.shape[1]).permute(0, 3, 1, 2)
        return F.relu(y + self.shortcut(x), inplace=True)


class Tiny(nn.Module):
    """The layers; `fc` exists only where classes were asked for."""

    def __init__(self, classes: int):
        super().__init__()
        self.stem = PairStem(6, STEM, (3, 3), 2)
        width, blocks = STEM, []
        for outputs, depth in STAGES:
            for i in range(depth):
                blocks.append(Block(width, outputs, 2 if i == 0 else 1))
                width = outputs
        self.blocks = nn.ModuleList(blocks)
        self.last = ConvNorm(width, WIDTH, (1, 1))
        self.fc = nn.Linear(WIDTH, classes)

    def feature_map(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) → (N, 256, ceil(T/2), H/16, W/16)."""
        x, steps = _pairs(clips)
        x = F.relu(self.stem(x), inplace=True)
        for block in self.blocks:
            x = block(x, steps)
        x = F.relu(self.last(x), inplace=True)
        return x.unflatten(0, (-1, steps)).transpose(1, 2)

    def forward(self, clips: Tensor) -> Tensor:
        """Class scores (N, classes)."""
        scores: Tensor = self.fc(self.feature_map(clips).mean((2, 3, 4)))
        return scores


def _pairs(clips: Tensor) -> tuple[Tensor, int]:
    """(N, 3, T, H, W) → neighbouring frames side by side, (N·S, 6, H, W) in channels-last memory, and S.

    An odd last frame is paired with itself.
    """
    if clips.shape[2] % 2:
        clips = torch.cat((clips, clips[:, :, -1:]), 2)
    pairs = clips.transpose(1, 2).reshape(-1, 6, *clips.shape[3:])  # (N·S, frame·colour, H, W)
    return pairs.contiguous(memory_format=torch.channels_last), clips.shape[2] // 2


def _network(request: Request) -> nn.Module:
    return Tiny(request.classes).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


MODELS = {
    "tiny": Model(
        network=_network,
        pools={"mean": map_pool(Tiny.feature_map)},
        input=InputSpec(frames=16, size=112, resize=128, mean=(0.45,) * 3, std=(0.225,) * 3),
        width=WIDTH,
        tokens=lambda frames: -(-frames // 2),
        head="fc",
        classes=0,
    )
}
