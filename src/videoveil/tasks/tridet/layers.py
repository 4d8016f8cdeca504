"""The small parts of the detector. Shapes: B videos, C channels, T steps; a mask is bool (B, 1, T), True where real."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MaskedConv1D(nn.Module):
    """A convolution that keeps the length and whose output is 0 wherever the mask is False, bias included."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, *, bias: bool = False):
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y: Tensor = self.conv(x)  # (B, outputs, T)
        return y * mask.to(y.dtype)


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of every step: (x − μ) / √(σ² + 1e-5) · w + b, w and b (1, C, 1)."""

    def __init__(self, channels: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(1, channels, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        # torch's own kernel wants the channels last; the transposed view costs less than five passes over memory
        y = nn.functional.layer_norm(
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
