"""Self-attention adapters: tokens of one clip see each other, clips never do.

No positions are added, so the number of tokens may differ between training and use. With one token per clip
attention is a linear map (its softmax is 1); the feed-forward part is what bends.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.anonymizers import config
from videoveil.anonymizers.stage import Context, Stage
from videoveil.errors import UsageError

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class SelfAttention(nn.Module):
    """Multi-head self-attention, 4d² + 4d weights, initialised as PyTorch's."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(N, S, d), mask (N, S) True for real tokens → (N, S, d)."""
        if x.shape[1] == 1:
            return self._alone(x)
        queries, keys, values = (
            self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        )  # (N, h, S, d/h)
        seen = F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=None if mask is None else mask[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
        mixed: Tensor = self.out(seen.transpose(1, 2).flatten(2))
        return mixed

    def _alone(self, x: Tensor) -> Tensor:
        """(N, 1, d) → (N, 1, d): a token that is alone sees itself, whatever queries and keys would say.

        The same numbers for three quarters of the work. Dropout, which acts on attention weights, drops whole heads.
        """
        width = x.shape[2]
        values = F.linear(x, self.qkv.weight[2 * width :], self.qkv.bias[2 * width :])
        if self.training and self.dropout:
            kept = F.dropout(values.new_ones(len(x), 1, self.heads, 1), self.dropout)
            values = (values.unflatten(2, (self.heads, -1)) * kept).flatten(2)
        mixed: Tensor = self.out(values)
        return mixed


class EncoderLayer(nn.Module):
    """Attention and a feed-forward part of width 2d, each with a norm and a shortcut: 8d² + 11d weights."""

    def __init__(self, width: int, settings: config.Attention):
        super().__init__()
        self.norm_first = settings.norm_first
        self.activation = ACTIVATIONS[settings.activation]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = SelfAttention(width, settings.heads, settings.dropout)
        self.linear1, self.linear2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(settings.dropout)
        if settings.init == "zero":
            silence(self.attention.out)
            silence(self.linear2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), mask))
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self.dropout(self.attention(x, mask)))
        normed: Tensor = self.norm2(x + self._feed_forward(x))
        return normed

    def _feed_forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return out


class AttentionOnlyLayer(nn.Module):
    """x + attention(x), nothing else: 4d² + 4d weights."""

    def __init__(self, width: int, settings: config.AttentionOnly):
        super().__init__()
        self.attention = SelfAttention(width, settings.heads, settings.dropout)
        if settings.init == "zero":
            silence(self.attention.out)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + self.attention(x, mask)


class _Attending(Stage):
    """Layers in a row, over the tokens of each clip, or, for comparison only, over the clips of the batch."""

    layers: nn.ModuleList

    def __init__(self, width: int, cross_sample: bool):
        super().__init__(width)
        self.cross_sample = cross_sample
        self.exportable = not cross_sample

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        if self.cross_sample:
            return self._across(x, context)
        for layer in self.layers:
            x = layer(x, context.mask)
        return x

    def _across(self, x: Tensor, context: Context) -> Tensor:
        """Every token position is a sequence of N clips: with S = 1 what the published code computes."""
        if context.mask is not None:
            raise UsageError("cross_sample=True takes no mask: it exists to repeat results on single vectors")
        x = x.transpose(0, 1)  # (S, N, d)
        for layer in self.layers:
            x = layer(x)
        return x.transpose(0, 1)


class AttentionAdapter(_Attending):
    """SPLAVU's adapter as its table of sizes implies it: `depth` encoder layers, no norm at the end."""

    def __init__(self, width: int, settings: config.Attention | None = None):
        settings = settings or config.Attention()
        super().__init__(width, settings.cross_sample)
        self.layers = nn.ModuleList(EncoderLayer(width, settings) for _ in range(settings.depth))


class AttentionOnlyAdapter(_Attending):
    """The block of the published code."""

    def __init__(self, width: int, settings: config.AttentionOnly | None = None):
        settings = settings or config.AttentionOnly()
        super().__init__(width, settings.cross_sample)
        self.layers = nn.ModuleList(AttentionOnlyLayer(width, settings) for _ in range(settings.depth))


def silence(layer: nn.Linear) -> None:
    """Make a layer say 0 to everything, so that the shortcut around it is the identity, bit for bit."""
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
