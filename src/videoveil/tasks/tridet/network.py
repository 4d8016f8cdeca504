"""The network: embedding → SGP pyramid → four heads that all levels share.

Names and shapes of the parameters are those of the published model, so its weights load unchanged.
Shapes: B videos, D input width, C channels, T steps at level 0, K classes, N bins, L levels; T_l = T / 2^l.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.errors import CheckpointError, UsageError
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.layers import ChannelNorm, Depthwise, MaskedConv1D, Scale, ScaledPath

SGP_CONVS = ("psi", "fc", "convw", "convkw", "global_fc")


class Level(NamedTuple):
    """What the heads say about one level of the pyramid."""

    logits: Tensor  # (B, K, T_l) class
    start: Tensor  # (B, K, T_l) an action of the class starts here
    end: Tensor  # (B, K, T_l) one ends here
    centre: Tensor  # (B, 2(N+1), T_l) where its ends are, seen from this instant
    mask: Tensor  # (B, T_l) bool


def halve(mask: Tensor, steps: int) -> Tensor:
    """A mask for every second step."""
    return mask[..., ::2][..., :steps]


class SGPBlock(nn.Module):
    """Scalable-granularity perception: an instant branch gated by the whole video, a window branch gated by the
    instant, the normalised input itself, then a two-layer perceptron; optionally at half the length of the input."""

    def __init__(self, config: TriDetConfig, *, halves: bool):
        super().__init__()
        channels, window, wide = config.width, config.sgp_window, config.sgp_wide_window
        self.halves = halves
        self.ln = ChannelNorm(channels)
        self.gn = nn.GroupNorm(config.group_norm_groups, channels)
        self.psi = Depthwise(channels, window)
        self.fc = Depthwise(channels, 1)
        self.convw = Depthwise(channels, window)
        self.convkw = Depthwise(channels, wide)
        self.global_fc = Depthwise(channels, 1)
        self.mlp = nn.Sequential(
            nn.Conv1d(channels, config.mlp_width, 1), nn.GELU(), nn.Conv1d(config.mlp_width, channels, 1)
        )
        for layer in (self.mlp[0], self.mlp[2]):
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        if halves:
            self.drop_path_out = ScaledPath(channels)
            self.drop_path_mlp = ScaledPath(channels)
        self._start(config)

    def _start(self, config: TriDetConfig) -> None:
        for name in SGP_CONVS:
            conv = getattr(self, name)
            nn.init.zeros_(conv.bias)
            if config.sgp_init == "normal":
                nn.init.normal_(conv.weight, 0.0, config.sgp_init_std)
            else:
                nn.init.zeros_(conv.weight)
        if config.sgp_init == "gates":
            nn.init.ones_(self.psi.bias)  # type: ignore[arg-type]
            nn.init.ones_(self.global_fc.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, mask: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, C, T), mask (B, 1, T), keep (B, 2) for the two residual paths → the same at T or T/2."""
        if self.halves:
            x = F.max_pool1d(x, 3, stride=2, padding=1)
            mask = halve(mask, x.shape[-1])
        u = self.ln(x)
        x = x * mask.to(x.dtype) + self._path("drop_path_out", self.perceive(u), keep, 0)
        return x + self._path("drop_path_mlp", self.mlp(self.gn(x)), keep, 1), mask

    def perceive(self, u: Tensor) -> Tensor:
        """fc(u)·φ + (conv_w(u) + conv_kw(u))·ψ(u) + u with φ = relu(fc(mean over time of u))."""
        phi = torch.relu(self.global_fc(u.mean(-1, keepdim=True)))  # (B, C, 1)
        window = (self.convw(u) + self.convkw(u)) * self.psi(u)
        perceived: Tensor = self.fc(u) * phi + window + u
        return perceived

    def active(self) -> bool:
        """Whether the depth-wise convolutions do anything."""
        return any(bool(p.any()) for name in SGP_CONVS for p in getattr(self, name).parameters())

    def _path(self, name: str, x: Tensor, keep: Tensor | None, column: int) -> Tensor:
        if not self.halves:
            return x
        scaled: Tensor = getattr(self, name)(x, None if keep is None else keep[:, column])
        return scaled


class Backbone(nn.Module):
    """(B, D, T) → one (B, C, T_l) per level."""

    def __init__(self, width: int, config: TriDetConfig):
        super().__init__()
        widths = [width] + [config.width] * config.embedding_layers
        self.embd = nn.ModuleList(MaskedConv1D(a, b) for a, b in pairwise(widths))
        self.embd_norm = nn.ModuleList(ChannelNorm(c) for c in widths[1:])
        self.stem = nn.ModuleList(SGPBlock(config, halves=False) for _ in range(config.stem_blocks))
        self.branch = nn.ModuleList(SGPBlock(config, halves=True) for _ in range(config.branch_blocks))

    def forward(self, x: Tensor, mask: Tensor, paths: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
        for conv, norm in zip(self.embd, self.embd_norm):
            x = torch.relu(norm(conv(x, mask)))
        for block in self.stem:
            x, mask = block(x, mask)
        levels, masks = [x], [mask]
        for number, block in enumerate(self.branch):
            keep = None if paths is None else paths[:, 2 * number : 2 * number + 2]
            x, mask = block(x, mask, keep)
            levels.append(x)
            masks.append(mask)
        return levels, masks


class Neck(nn.Module):
    """A normalisation per level; levels do not talk to each other."""

    def __init__(self, config: TriDetConfig):
        super().__init__()
        self.fpn_norms = nn.ModuleList(ChannelNorm(config.width) for _ in range(config.levels))

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        return [norm(x) for norm, x in zip(self.fpn_norms, levels)]


class _Hidden(nn.Module):
    """The layers below a head's output: convolution, mask, normalisation, ReLU."""

    def __init__(self, config: TriDetConfig):
        super().__init__()
        hidden = range(config.head_layers - 1)
        self.head = nn.ModuleList(MaskedConv1D(config.width, config.width) for _ in hidden)
        self.norm = nn.ModuleList(ChannelNorm(config.width) for _ in hidden)

    def hidden(self, x: Tensor, mask: Tensor) -> Tensor:
        for conv, norm in zip(self.head, self.norm):
            x = torch.relu(norm(conv(x, mask)))
        return x


class ClassHead(_Hidden):
    """One logit per class and step; also used for starts and ends, on features that it does not train."""

    def __init__(self, classes: int, config: TriDetConfig, *, detached: bool = False):
        super().__init__(config)
        self.detached = detached
        self.cls_head = MaskedConv1D(config.width, classes, bias=True)
        nn.init.constant_(self.cls_head.conv.bias, config.class_bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.cls_head(self.hidden(x.detach() if self.detached else x, mask), mask)
        return logits


class CentreHead(_Hidden):
    """2(N+1) non-negative scores per step: N + 1 places for the start, then N + 1 for the end."""

    def __init__(self, config: TriDetConfig):
        super().__init__(config)
        self.scale = nn.ModuleList(Scale() for _ in range(config.levels))
        self.offset_head = MaskedConv1D(config.width, 2 * (config.bins + 1), bias=True)

    def forward(self, x: Tensor, mask: Tensor, level: int) -> Tensor:
        return torch.relu(self.scale[level](self.offset_head(self.hidden(x, mask), mask)))


class TriDet(nn.Module):
    """The detector for features of one width and a number of classes; start it from a seed with `build`."""

    def __init__(self, width: int, classes: int, config: TriDetConfig):
        super().__init__()
        self.width, self.classes, self.config = width, classes, config
        self.backbone = Backbone(width, config)
        self.neck = Neck(config)
        self.cls_head = ClassHead(classes, config)
        self.start_head = ClassHead(classes, config, detached=True)
        self.end_head = ClassHead(classes, config, detached=True)
        self.reg_head = CentreHead(config)

    def forward(self, x: Tensor, mask: Tensor, paths: Tensor | None = None) -> list[Level]:
        """x (B, D, T) and mask (B, 1, T), T a multiple of the coarsest stride → L levels.

        `paths` (B, 2·branch blocks) comes from `draw_paths`; None keeps all residual paths, as at inference.
        """
        if x.shape[-1] % self.config.coarsest:
            raise UsageError(f"TriDet: {x.shape[-1]} steps; pad to a multiple of {self.config.coarsest}")
        features, masks = self.backbone(x, mask, paths)
        found = []
        for number, (y, m) in enumerate(zip(self.neck(features), masks)):
            heads = (
                self.cls_head(y, m),
                self.start_head(y, m),
                self.end_head(y, m),
                self.reg_head(y, m, number),
            )
            found.append(Level(*heads, mask=m[:, 0]))
        return found

    def sgp_active(self) -> bool:
        """Whether any SGP convolution does anything; False means they have no weights and cannot learn any."""
        return any(block.active() for block in self.modules() if isinstance(block, SGPBlock))


def build(width: int, classes: int, config: TriDetConfig, seed: int) -> TriDet:
    """A network with random weights from `seed`; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TriDet(width, classes, config)


def draw_paths(config: TriDetConfig, generator: torch.Generator) -> Tensor:
    """Which residual paths of the branch blocks one video keeps in one step: (2·branch blocks,) of 0 or 1/(1−p)."""
    kept = torch.rand(2 * config.branch_blocks, generator=generator) >= config.drop_path
    return kept.float() / (1 - config.drop_path)


def from_published(state: Mapping[str, object], *, ema: bool = True) -> dict[str, Tensor]:
    """The weights inside a published checkpoint, read with `weights_only=True`, under our names.

    Published files hold `state_dict` and `state_dict_ema`, whose names start with `module.`.
    """
    key = "state_dict_ema" if ema else "state_dict"
    inner = state.get(key, state)
    if not isinstance(inner, Mapping):
        raise CheckpointError(f"{key} is a {type(inner).__name__}, not a table of tensors")
    wrong = [name for name, value in inner.items() if not isinstance(value, Tensor)]
    if wrong:
        raise CheckpointError(f"not tensors: {', '.join(map(str, wrong[:20]))}; is this a TriDet checkpoint?")
    return {str(name).removeprefix("module."): value for name, value in inner.items()}
