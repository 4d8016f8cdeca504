"""The MGFN network (Chen et al., AAAI 2023), with the parameter names and shapes of the public checkpoints.

Shapes: N videos, n crops, T snippets, C feature channels, d channels inside, D channels of the last stage (1024).
All convolutions are 1-D over time and nothing changes T. Inside, crops are folded into the batch: (N·n, d, T).

In eval mode a row depends on nothing but itself. A whole video can be scored in one piece (`forward`) or, exactly the
same, in pieces of bounded size: only the glance stages look at the whole video, and they are narrow; the focus stages
see `halo` snippets to either side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.encoders.checkpoints import differences
from videoveil.errors import CheckpointError
from videoveil.tasks.mgfn.config import HEAD, MGFNConfig, Stage

SHORTCUT_TAPS = 3
FOCUS_TAPS = 5
EXPANSION = 4  # of the feed-forward part
LAYER_REACH = SHORTCUT_TAPS // 2 + FOCUS_TAPS // 2  # snippets to either side that one focus layer sees


class Scored(NamedTuple):
    """What the network says of every snippet, crop by crop."""

    scores: Tensor  # (N, n, T) in [0, 1]
    embedding: Tensor  # (N, n, T, D), `z`: what selection and the contrastive loss measure


class ChannelNorm(nn.Module):
    """Normalises (N, d, T) over the channels of every step; ε is added to the deviation, not to the variance."""

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.g = nn.Parameter(torch.ones(1, width, 1))
        self.b = nn.Parameter(torch.zeros(1, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        variance, mean = torch.var_mean(x, dim=1, unbiased=False, keepdim=True)
        return (x - mean) / (variance.sqrt() + self.eps) * self.g + self.b


class Glance(nn.Module):
    """Self-attention over the whole video; head h owns channels h·64 … h·64+63."""

    def __init__(self, width: int):
        super().__init__()
        self.heads = width // HEAD
        self.norm = ChannelNorm(width)
        self.to_qkv = nn.Conv1d(width, 3 * width, 1, bias=False)
        self.to_out = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.to_qkv(self.norm(x))  # (N, 3·d, T)
        heads = qkv.unflatten(1, (3, self.heads, HEAD)).transpose(-1, -2)  # (N, 3, heads, T, 64)
        # contiguous: only then is the kernel used that never holds T × T numbers; its scale is 64^-½. Each of the three
        # for itself: a view into all of them has strides that some GPU kernels refuse
        query, key, value = (part.contiguous() for part in heads.unbind(1))
        mixed = F.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.to_out(mixed.transpose(-1, -2).flatten(1, 2))  # (N, d, T)
        return out


class Focus(nn.Module):
    """One temporal filter of five taps per head; head h owns the channels c with c mod heads = h."""

    def __init__(self, width: int, head: int = HEAD):
        super().__init__()
        self.heads = width // head
        self.norm = nn.BatchNorm1d(width)
        self.to_v = nn.Conv1d(width, width, 1, bias=False)
        self.rel_pos = nn.Conv1d(
            self.heads, self.heads, FOCUS_TAPS, padding=FOCUS_TAPS // 2, groups=self.heads
        )
        self.to_out = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        v = self.to_v(self.norm(x))  # (N, d, T)
        filtered = self.rel_pos(
            v.reshape(-1, self.heads, v.shape[-1])
        )  # (N·d/heads, heads, T), head index fast
        out: Tensor = self.to_out(filtered.reshape(v.shape))
        return out


def feed_forward(width: int) -> nn.Sequential:
    """Five parts, because public checkpoints count them; the dropout is published as 0."""
    inner = EXPANSION * width
    return nn.Sequential(
        ChannelNorm(width), nn.Conv1d(width, inner, 1), nn.GELU(), nn.Dropout(0.0), nn.Conv1d(inner, width, 1)
    )


class Backbone(nn.Module):
    """The layers of one stage; each adds a short-cut convolution, then attention, then a feed-forward part."""

    def __init__(self, stage: Stage):
        super().__init__()
        attention = {"glance": Glance, "focus": Focus}[stage.attention]
        self.layers = nn.ModuleList(
            nn.ModuleList(
                (
                    nn.Conv1d(stage.width, stage.width, SHORTCUT_TAPS, padding=SHORTCUT_TAPS // 2),
                    attention(stage.width),
                    feed_forward(stage.width),
                )
            )
            for _ in range(stage.depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            for part in layer:  # type: ignore[attr-defined]
                x = x + part(x)
        return x


class MGFN(nn.Module):
    """Features with their magnitude in, a score per snippet and the embedding that the objective selects from out."""

    def __init__(self, width: int, config: MGFNConfig | None = None):
        super().__init__()
        config = config or MGFNConfig()
        self.width, self.magnitude_ratio, self.plan = width, config.magnitude_ratio, config.stages
        first, last = config.stages[0].width, config.stages[-1].width
        self.to_tokens = nn.Conv1d(width, first, 3, padding=1)
        self.to_mag = nn.Conv1d(1, first, 3, padding=1)
        following = [stage.width for stage in config.stages[1:]]
        self.stages = nn.ModuleList(
            nn.ModuleList((Backbone(stage), _transition(stage.width, wider)))
            for stage, wider in zip(config.stages, [*following, None])
        )
        self.to_logits = nn.Sequential(nn.LayerNorm(last))
        self.fc = nn.Linear(last, 1)

    # --- the parts, in order; each takes and gives (N·n, channels, T) ----------------------------------------

    def tokens(self, x: Tensor) -> Tensor:
        """Feature amplification (MGFN's FAM): tokens of the features plus α times an embedding of their magnitudes."""
        features, magnitude = x[:, : self.width], x[:, self.width :]
        amplified: Tensor = self.to_tokens(features) + self.magnitude_ratio * self.to_mag(magnitude)
        return amplified

    def run_stages(self, x: Tensor, which: range) -> Tensor:
        for s in which:
            for part in self.stages[s]:  # type: ignore[attr-defined]
                x = part(x)
        return x

    def head(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(N·n, D, T) → scores (N·n, T) and embedding (N·n, T, D), both in fp32 whatever the stages ran in."""
        with torch.autocast(x.device.type, enabled=False):
            embedding = self.to_logits(x.transpose(1, 2).float())
            return self.fc(embedding).squeeze(-1).sigmoid(), embedding

    def forward(self, x: Tensor) -> Scored:
        """(N, n, T, C+1) → scores (N, n, T), embedding (N, n, T, D)."""
        if x.ndim != 4 or x.shape[-1] != self.width + 1:
            raise ValueError(f"expected (videos, crops, snippets, {self.width} + 1), found {tuple(x.shape)}")
        crops = x.shape[:2]
        folded = x.flatten(0, 1).transpose(1, 2)  # (N·n, C+1, T)
        scores, embedding = self.head(self.run_stages(self.tokens(folded), range(len(self.plan))))
        return Scored(scores.unflatten(0, crops), embedding.unflatten(0, crops))

    # --- what may be computed in pieces ---------------------------------------------------------------------

    @property
    def local_stages(self) -> range:
        """The stages after the last glance: a snippet there depends only on its neighbours."""
        glances = [s for s, stage in enumerate(self.plan) if stage.attention == "glance"]
        return range(glances[-1] + 1 if glances else 0, len(self.plan))

    @property
    def halo(self) -> int:
        """How many snippets to either side decide the output of the local stages."""
        return LAYER_REACH * sum(self.plan[s].depth for s in self.local_stages)


def _transition(width: int, wider: int | None) -> nn.Module:
    return nn.Identity() if wider is None else nn.Sequential(ChannelNorm(width), nn.Conv1d(width, wider, 1))


def from_state(
    state: Mapping[str, Tensor], config: MGFNConfig | None = None, source: str = "weights"
) -> MGFN:
    """A network with public weights (names may begin with `module.`); the input width is read from them.

    Anything missing, unexpected or of the wrong shape is an error that lists every name.
    """
    plain = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    tokens = plain.get("to_tokens.weight")
    if tokens is None or tokens.ndim != 3:
        raise CheckpointError(f"{source}: not MGFN weights (no to_tokens.weight of three axes)")
    network = MGFN(tokens.shape[1], config)
    if problems := differences(network, plain):
        raise CheckpointError("\n".join([f"{source}: not the weights of this MGFN", *problems]))
    network.load_state_dict(plain, strict=False)
    return network
