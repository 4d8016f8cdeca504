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
STAGES = ((48, 1), (96, 2), (192, 3))  # width and blocks; each stage halves the resolution
WIDTH = 256


class Block(nn.Module):
    """3×3 in space, then 3 in time, around a shortcut. Steps in time are folded into the batch: (N·S, C, H, W)."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.space = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.space_norm = nn.BatchNorm2d(outputs)
        self.time = nn.Conv2d(outputs, outputs, (3, 1), padding=(1, 0), bias=False)
        self.time_norm = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(
                nn.AvgPool2d(stride, ceil_mode=True),
                nn.Conv2d(inputs, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
        )

    def forward(self, x: Tensor, steps: int) -> Tensor:
        y = F.relu(self.space_norm(self.space(x)))  # (N·S, C, H, W)
        height, width = y.shape[2:]
        # In channels-last memory (N·S, C, H, W) is also (N, C, S, H·W): a 3×1 kernel there is a 1-D one over time.
        y = y.permute(0, 2, 3, 1).reshape(-1, steps, height * width, y.shape[1]).permute(0, 3, 1, 2)
        y = self.time_norm(self.time(y))
        y = y.permute(0, 2, 3, 1).reshape(-1, height, width, y.shape[1]).permute(0, 3, 1, 2)
        return F.relu(y + self.shortcut(x))


class Tiny(nn.Module):
    """The layers; `fc` exists only where classes were asked for."""

    def __init__(self, classes: int):
        super().__init__()
        self.stem = nn.Conv2d(6, STEM, 3, 2, 1, bias=False)
        self.stem_norm = nn.BatchNorm2d(STEM)
        width, blocks = STEM, []
        for outputs, depth in STAGES:
            for i in range(depth):
                blocks.append(Block(width, outputs, 2 if i == 0 else 1))
                width = outputs
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.Conv2d(width, WIDTH, 1, bias=False)
        self.last_norm = nn.BatchNorm2d(WIDTH)
        self.fc = nn.Linear(WIDTH, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def feature_map(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) → (N, 256, ceil(T/2), H/16, W/16)."""
        x, steps = _pairs(clips)
        x = F.relu(self.stem_norm(self.stem(x)))
        for block in self.blocks:
            x = block(x, steps)
        x = F.relu(self.last_norm(self.last(x)))
        return x.unflatten(0, (-1, steps)).transpose(1, 2)

    def forward(self, clips: Tensor) -> Tensor:
        """Class scores (N, classes)."""
        scores: Tensor = self.fc(self.feature_map(clips).mean((2, 3, 4)))
        return scores


def _pairs(clips: Tensor) -> tuple[Tensor, int]:
    """(N, 3, T, H, W) → mean and difference of neighbouring frames, (N·S, 6, H, W) in channels-last memory, and S.

    An odd last frame is paired with itself.
    """
    if clips.shape[2] % 2:
        clips = torch.cat((clips, clips[:, :, -1:]), 2)
    first, second = clips[:, :, 0::2], clips[:, :, 1::2]
    pairs = torch.cat(((first + second) / 2, second - first), 1)  # (N, 6, S, H, W)
    folded = pairs.permute(0, 2, 3, 4, 1).flatten(0, 1).contiguous()  # (N·S, H, W, 6)
    return folded.permute(0, 3, 1, 2), pairs.shape[2]


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
