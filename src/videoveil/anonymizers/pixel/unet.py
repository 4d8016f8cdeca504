"""The UNet of SPAct. Its parts are named as in the widely used public layout, so that weights can be brought in."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers.pixel import config
from videoveil.anonymizers.pixel.stage import Context, PixelStage, check_size, finished


class DoubleConv(nn.Module):
    """Twice 3×3 convolution, batch norm, ReLU; `middle` channels in between."""

    def __init__(self, into: int, out: int, middle: int, bias: bool):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(into, middle, 3, padding=1, bias=bias),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, out, 3, padding=1, bias=bias),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.double_conv(x)
        return out


class Down(nn.Module):
    """Half the size, then a double convolution."""

    def __init__(self, into: int, out: int, bias: bool):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(into, out, out, bias))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.maxpool_conv(x)
        return out


class Up(nn.Module):
    """Twice the size, beside the skip of that size, then a double convolution."""

    def __init__(self, into: int, out: int, settings: config.UNet):
        super().__init__()
        if settings.up == "bilinear":
            self.up: nn.Module = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(into, out, into // 2, settings.bias)
        else:
            self.up = nn.ConvTranspose2d(into, into // 2, 2, stride=2)
            self.conv = DoubleConv(into, out, out, settings.bias)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.up(x)
        high, wide = skip.shape[-2] - x.shape[-2], skip.shape[-1] - x.shape[-1]  # 1 where halving lost a line
        if high or wide:
            x = F.pad(x, (wide // 2, wide - wide // 2, high // 2, high - high // 2))
        out: Tensor = self.conv(torch.cat((skip, x), 1))
        return out


class OutConv(nn.Module):
    """1×1 convolution to three colours."""

    def __init__(self, into: int):
        super().__init__()
        self.conv = nn.Conv2d(into, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class UNet(PixelStage):
    """(M, 3, H, W) → the same, any H, W ≥ 16."""

    network = True

    def __init__(self, settings: config.UNet):
        super().__init__()
        self.settings = settings
        # bilinear doubling keeps the channels and transposed convolution halves them: the deepest level makes up for it
        w, less, bias = settings.width, 2 if settings.up == "bilinear" else 1, settings.bias
        self.inc = DoubleConv(3, w, w, bias)
        self.down1 = Down(w, 2 * w, bias)
        self.down2 = Down(2 * w, 4 * w, bias)
        self.down3 = Down(4 * w, 8 * w, bias)
        self.down4 = Down(8 * w, 16 * w // less, bias)
        self.up1 = Up(16 * w, 8 * w // less, settings)
        self.up2 = Up(8 * w, 4 * w // less, settings)
        self.up3 = Up(4 * w, 2 * w // less, settings)
        self.up4 = Up(2 * w, w, settings)
        self.outc = OutConv(w)

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        check_size(x, "unet")
        s1 = self.inc(x)
        s2 = self.down1(s1)
        s3 = self.down2(s2)
        s4 = self.down3(s3)
        x = self.up1(self.down4(s4), s4)
        x = self.up4(self.up3(self.up2(x, s3), s2), s1)
        return finished(self.outc(x), self.settings.out)
