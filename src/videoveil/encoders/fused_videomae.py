"""VideoMAE in bfloat16 with as few passes over memory as its equations allow: the same function, other roundings.

What does not depend on the clip is computed once, in single precision, and rounded once:
- normalisation of pixels goes into the patch projection, which then takes bytes less 128: bfloat16 has them exactly,
  and they are nearly centred, so that no large brightness is rounded before it is taken away again;
- gain and shift of a LayerNorm go into the product behind it; query, key and value are one product;
- of the last layer only means over space are asked for. The mean of a linear function is the function of the mean, so
  its last product has one row per time step instead of one per patch.

On a GPU the GELU of bfloat16 is computed inside its product, by the tanh form that the libraries have there: up to
5·10⁻⁴ from the exact one, where bfloat16 rounds values around 1 by 4·10⁻³. Features are no farther from single
precision (`benchmarks/extract.py` tells how far).

Shapes: N clips of T frames, S = T/2 time steps of P patches, L = S·P tokens of width C.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from videoveil.encoders.base import Encoder

TUBELET = 2  # frames per time step
MIDDLE = 128  # of bytes


class _Buffers(nn.Module):
    """Constants of one kind that move with the module and belong to no checkpoint."""

    def __init__(self, kind: torch.dtype):
        super().__init__()
        self.kind = kind

    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(name, value.detach().to(self.kind).contiguous(), persistent=False)


class FusedLayer(_Buffers):
    """One transformer layer: x + attention(norm(x)), then that + mlp(norm(that))."""

    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    out_bias: Tensor
    wide: Tensor
    wide_bias: Tensor
    narrow: Tensor
    narrow_bias: Tensor

    def __init__(self, layer: Any, heads: int, kind: torch.dtype):
        super().__init__(kind)
        self.heads, self.eps = heads, float(layer.layernorm_before.eps)
        parts = layer.attention.attention
        weight = torch.cat([part.weight for part in (parts.query, parts.key, parts.value)])  # (3C, C)
        bias = torch.cat([_bias(part) for part in (parts.query, parts.key, parts.value)])
        self._behind_norm("qkv", layer.layernorm_before, weight, bias)
        self.keep("out", layer.attention.output.dense.weight)
        self.keep("out_bias", _bias(layer.attention.output.dense))
        mlp = layer.intermediate.dense
        self._behind_norm("wide", layer.layernorm_after, mlp.weight, _bias(mlp))
        self.keep("narrow", layer.output.dense.weight)
        self.keep("narrow_bias", _bias(layer.output.dense))

    def _behind_norm(self, name: str, norm: Any, weight: Tensor, bias: Tensor) -> None:
        """W·(g∘x + s) + b = (W∘g)·x + (W·s + b)."""
        self.keep(name, weight * norm.weight)
        self.keep(f"{name}_bias", bias + weight @ norm.bias)

    def attended(self, x: Tensor) -> Tensor:
        """(N, L, C) → the same after attention."""
        x_ = layer_norm(x, x.shape[-1:], eps=self.eps)
        qkv = linear(x_, self.qkv, self.qkv_bias).unflatten(
            -1, (3, self.heads, -1)
        )  # (N, L, 3, heads, C/heads)
        query, key, value = qkv.transpose(1, 3).unbind(2)  # each (N, heads, L, C/heads)
        seen = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)  # (N, L, C)
        return x + linear(seen, self.out, self.out_bias)

    def hidden(self, x: Tensor) -> Tensor:
        """(N, L, C) after attention → the inside of the MLP, (N, L, 4C)."""
        x_ = layer_norm(x, x.shape[-1:], eps=self.eps)
        if x_.is_cuda and self.kind == torch.bfloat16:
            rows = x_.flatten(0, 1)
            wide = torch._addmm_activation(self.wide_bias, rows, self.wide.t(), use_gelu=True)
            return wide.view(*x.shape[:2], -1)
        return gelu(linear(x_, self.wide, self.wide_bias))

    def forward(self, x: Tensor) -> Tensor:
        """(N, L, C) → (N, L, C)."""
        x = self.attended(x)
        return x + linear(self.hidden(x), self.narrow, self.narrow_bias)

    def mean_over_space(self, x: Tensor, steps: int) -> Tensor:
        """(N, L, C) → the mean of `forward` over the patches of every time step, (N, S, C) in single precision."""
        x = self.attended(x)
        inside = _mean(self.hidden(x), steps)  # (N, S, 4C)
        return _mean(x, steps) + linear(inside, self.narrow.float(), self.narrow_bias.float())


class FusedVideoMAE(_Buffers):
    """Clips (N, 3, T, H, W), bytes or floats in [0, 1] → vector (N, C), tokens (N, S, C), both in single precision."""

    patch: Tensor
    start: Tensor

    def __init__(self, encoder: Encoder, kind: torch.dtype = torch.bfloat16):
        super().__init__(kind)
        network: Any = encoder.network
        body, self.steps = network.videomae, encoder.input.frames // TUBELET
        projection = body.embeddings.patch_embeddings.projection
        weight = projection.weight.detach().float()  # (C, 3, 2, p, p)
        self.size = weight.shape[-1]
        mean, std = encoder.mean.to(weight.device), encoder.std.to(weight.device)  # (1, 3, 1, 1, 1)
        scaled = weight / std
        self.keep("patch", (scaled / 255).flatten(1))
        # by the weights as they were rounded: a picture of the mean colour then gives the bias
        mean_colour = (self.patch.float().view_as(weight) * (255 * mean - MIDDLE)).sum((1, 2, 3, 4))
        positions = body.embeddings.position_embeddings[0].to(weight.device)  # (L, C)
        self.keep("start", positions + _bias(projection) - mean_colour)
        self.layers = nn.ModuleList(
            [FusedLayer(layer, network.config.num_attention_heads, kind) for layer in body.encoder.layer]
        )
        # pools as in `transformers_models`: a norm of every token, or one of the vector, or none; kept as they are
        self.token_norm: nn.Module | None = body.layernorm
        self.vector_norm: nn.Module | None = network.fc_norm if body.layernorm is None else None
        self.body: Callable[[Tensor], Tensor] = self._tokens

    def compiled(self) -> FusedVideoMAE:
        """The same with its layers compiled, and shared.

        The way from bytes to the first tokens stays as it is: compiled for an H200 by torch 2.11 it gave other tokens,
        without a word, while the layers behind it were right.
        """
        twin = copy.copy(self)
        twin.body = torch.compile(self._tokens, dynamic=False)
        return twin

    def forward(self, clips: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast(clips.device.type, enabled=False):  # every type is chosen here
            x = linear(self._patches(clips), self.patch) + self.start  # (N, L, C)
            tokens = self.body(x)
            vector = tokens.mean(1)
            return (vector if self.vector_norm is None else self.vector_norm(vector)), tokens

    def _patches(self, clips: Tensor) -> Tensor:
        """(N, 3, T, H, W) → (N, L, 3·2·p·p) of values −128…127, in the order of the projection's weights."""
        pixels = clips if clips.dtype == torch.uint8 else clips * 255
        count, colours, frames, height, width = pixels.shape
        grid = (frames // TUBELET, height // self.size, width // self.size)
        cut = pixels.view(count, colours, grid[0], TUBELET, grid[1], self.size, grid[2], self.size)
        patches = cut.permute(0, 2, 4, 6, 1, 3, 5, 7).reshape(count, grid[0] * grid[1] * grid[2], -1)
        if patches.dtype == torch.uint8:
            return patches.to(self.kind) - MIDDLE
        return (patches - MIDDLE).to(self.kind)

    def _tokens(self, x: Tensor) -> Tensor:
        """(N, L, C) → (N, S, C) in single precision."""
        if self.token_norm is not None:
            for layer in self.layers:
                x = layer(x)
            return _mean(self.token_norm(x.float()), self.steps)
        if not len(self.layers):
            return _mean(x, self.steps)
        *first, last = self.layers
        for layer in first:
            x = layer(x)
        assert isinstance(last, FusedLayer)
        return last.mean_over_space(x, self.steps)


def _bias(part: Any) -> Tensor:
    """A layer's bias, zeros where it has none."""
    found: Tensor = part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias.detach()
    return found


def _mean(x: Tensor, steps: int) -> Tensor:
    """(N, S·P, C) → (N, S, C)."""
    return x.unflatten(1, (steps, -1)).mean(2, dtype=torch.float32)
