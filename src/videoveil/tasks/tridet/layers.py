"""The small parts of the detector. Shapes: B videos, C channels, T steps; a mask is bool (B, 1, T), True where real."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MaskedConv1D(nn.Module):
    """A convolution that keeps the length and whose output is 0 wherever the mask is False, bias included."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, *, bias: bool = False):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        # The norm before leaves the channels of a step side by side in memory. The 2-D kernels work on that layout,
        # the 1-D one would copy it there and back: a quarter of the time of the whole network.
        conv = self.conv
        y = F.conv2d(
            x.unsqueeze(2), conv.weight.unsqueeze(2), conv.bias, padding=(0, conv.kernel_size[0] // 2)
        )
        return y.squeeze(2) * mask.to(y.dtype)  # (B, outputs, T)


class Depthwise(nn.Conv1d):
    """A convolution of every channel for itself. A kernel of one tap is a product, which is far faster as such."""

    def __init__(self, channels: int, kernel: int):
        super().__init__(channels, channels, kernel, padding=kernel // 2, groups=channels)

    def forward(self, x: Tensor) -> Tensor:
        if self.kernel_size != (1,) or self.bias is None:
            return super().forward(x)
        return torch.addcmul(self.bias[None, :, None], x, self.weight.transpose(0, 1))  # weight (C, 1, 1)


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of every step: (x − μ) / √(σ² + 1e-5) · w + b, w and b (1, C, 1)."""

    def __init__(self, channels: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(1, channels, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        # torch's own kernel wants the channels last; the transposed view costs less than five passes over memory
        y = F.layer_norm(
            x.transpose(1, 2), (x.shape[1],), self.weight.flatten(), self.bias.flatten(), self.eps
        )
        return y.transpose(1, 2)


class ScaledPath(nn.Module):
    """A residual path with a learned gain per channel, which training switches off for some of the videos.

    `keep` (B,) holds 0 for a video whose path is off and 1 / (1 − p) otherwise; None leaves every path on.
    """

    def __init__(self, channels: int, start: float = 1e-4):
        super().__init__()
        self.scale = nn.Parameter(torch.full((1, channels, 1), start))

    def forward(self, x: Tensor, keep: Tensor | None) -> Tensor:
        y = self.scale * x
        return y if keep is None else y * keep.to(y.dtype).view(-1, 1, 1)


class Scale(nn.Module):
    """One learned factor."""

    def __init__(self, start: float = 1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(start))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale
