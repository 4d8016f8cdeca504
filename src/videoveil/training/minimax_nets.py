"""The auxiliary players of the minimax: the utility net f_T and the budget nets f_B.

Shapes: N samples, V views of each, T frames, H×W pixels, d channels of an embedding, k labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from videoveil.encoders import Classifier, Encoder, create
from videoveil.encoders.base import seeded
from videoveil.errors import CheckpointError, UsageError
from videoveil.objectives import (
    ROTATION_CHANCE,
    PixelWeights,
    attribute_loss,
    budget_ceiling,
    clip_utility,
    local_temporal_contrast,
    negative_entropy,
    nt_xent,
    quarter_labels,
    rotate_quarters,
    rotation_loss,
    temporal_invariance,
    temporal_triplet,
    uniform_target,
)
from videoveil.training.minimax_settings import Budget, Utility

EMBEDDING = 128
Gather = Callable[[Tensor], Tensor]  # rows of this process → rows of all processes, with gradient


def alone(rows: Tensor) -> Tensor:
    """The gather of a single process."""
    return rows


# --- utility -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UtilityLoss:
    """L_T and what it was made of; `right` is the share of anchors whose action is told (for tags: 0)."""

    total: Tensor
    action: Tensor
    temporal: Tensor
    right: Tensor


class UtilityNet(nn.Module):
    """f_T: a video encoder with a layer for actions and, where a temporal term wants one, an embedding.

    The embedding is that of TeD-SPAD's code: Linear(C, 512)·BN·ReLU·Linear(512, 128)·BN, L2-normalised, so that
    distances lie in [0, 2], which is what makes a margin of 1 sensible.
    """

    def __init__(self, settings: Utility, size: int, classes: int, *, seed: int = 0):
        super().__init__()
        self.settings = settings
        self.weights = PixelWeights(temporal=settings.w_temporal)
        encoder = video_encoder(
            settings.encoder, settings.weights, size, settings.frames, settings.stride, seed
        )
        self.classifier = Classifier(encoder, classes, settings.dropout, seed=seed)
        self.norm_frozen = settings.freeze_norm  # the loop may freeze it for the start alone
        with seeded(seed + 1):
            self.embed = _embedding(encoder.width) if settings.temporal != "none" else None

    @property
    def encoder(self) -> Encoder:
        return self.classifier.encoder

    def train(self, mode: bool = True) -> UtilityNet:
        super().train(mode)
        if self.norm_frozen:
            for module in self.classifier.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor | None]:
        """(N, V, 3, T, H, W) → logits (N, classes) of the first view, embeddings (N, V, d) of all.

        The published loop asks for the action of the anchor alone; it still has to see the other views. A single view,
        as before the game, has nothing to be compared with: no embedding.
        """
        count, several = views.shape[:2]
        if self.embed is None:
            return self.classifier(views[:, 0]), None
        if several == 1:
            return self.classifier(views[:, 0]) + _idle(self.embed), None
        logits, features = self.classifier.with_features(views.flatten(0, 1))
        with torch.autocast(views.device.type, enabled=False):
            embedded = F.normalize(self.embed(features.float()), dim=1)
        logits = logits.view(count, several, -1)[:, 0]
        if not self.weights.temporal:  # no part of the loss, see `clip_utility`
            logits = logits + _idle(self.embed)
        return logits, embedded.view(count, several, -1)

    def loss(self, out: tuple[Tensor, Tensor | None], targets: Tensor, gather: Gather = alone) -> UtilityLoss:
        """L_T of what `forward` gave; targets (N,) class numbers or (N, k) tags."""
        logits, embedded = out
        logits = logits.float()
        if targets.dim() == 1:
            action = F.cross_entropy(logits, targets)
            right = (logits.argmax(1) == targets).float().mean()
        else:
            action = F.binary_cross_entropy_with_logits(logits, targets)
            right = torch.zeros((), device=logits.device)
        temporal = torch.zeros((), device=logits.device)
        if embedded is not None:
            temporal = self._temporal(embedded, gather)
        return UtilityLoss(clip_utility(action, temporal, self.weights), action, temporal, right)

    def _temporal(self, z: Tensor, gather: Gather) -> Tensor:
        """z (N, V, d)."""
        kind, heat = self.settings.temporal, self.settings.temperature
        if kind == "triplet":
            return temporal_triplet(z[:, 0], z[:, 1], z[:, 2], self.settings.margin)
        if kind == "local":
            return local_temporal_contrast(z[:, :4], z[:, 4:], heat)
        return temporal_invariance(gather(z[:, 0]), gather(z[:, 1]), heat)

    def feature_maps(self, clips: Tensor) -> list[Tensor]:
        """Maps after each stage of the network, for content and style: the layers that the encoder names so."""
        layers = [m for n, m in self.encoder.network.named_children() if n.startswith(("layer", "stages"))]
        if not layers:
            raise UsageError(
                f"{self.encoder.name}: has no layer1, layer2, … to compare feature maps of; use r3d.18"
            )
        found: list[Tensor] = []
        hooks = [layer.register_forward_hook(lambda _m, _i, out: found.append(out)) for layer in layers]
        try:
            self.encoder(clips)
        finally:
            for hook in hooks:
                hook.remove()
        return found


def _idle(part: nn.Module) -> Tensor:
    """0, with a gradient of 0 for a part that is not asked: several processes would wait for one for ever."""
    return 0 * torch.stack([weight.sum() for weight in part.parameters()]).sum()


def video_encoder(name: str, weights: str, size: int, frames: int, stride: int, seed: int) -> Encoder:
    """A video network as the pixel papers feed it: pixels in [0, 1], no mean subtracted unless weights want it."""
    encoder = _encoder(name, weights, seed, size=size, frames=frames, stride=stride)
    if encoder.kind != "video":
        raise UsageError(f"{encoder.name}: looks at single frames; the utility net needs a video network")
    return encoder


def _encoder(name: str, weights: str, seed: int, **options: int) -> Encoder:
    """Without its layer; weights bring the normalisation that they were learnt with."""
    norm = {} if weights else {"norm": "zero_one"}
    return create(name, weights=weights or "random", seed=seed, classes=0, **options, **norm)


def _member(settings: Budget, member: str, size: int, utility: Utility, seed: int) -> Encoder:
    """The encoder of a budget net, `NETWORK` or `NETWORK@WEIGHTS`."""
    name, weights = settings.start_of(member)
    try:
        if settings.kind == "clips":
            return video_encoder(name, weights, size, utility.frames, utility.stride, seed)
        encoder = _encoder(name, weights, seed, size=size)
    except CheckpointError as error:
        others = {settings.start_of(one)[0] for one in settings.members} - {name}
        if not others or "@" in member:
            raise
        raise CheckpointError(
            f"{error}; different budget nets name their own weights in members: {name}@FILE"
        ) from error
    if encoder.kind != "image":
        raise UsageError(f"{name}: is a video network; a budget on {settings.kind} needs an image network")
    return encoder


def _embedding(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Linear(512, EMBEDDING, bias=False),
        nn.BatchNorm1d(EMBEDDING),
    )


# --- budget --------------------------------------------------------------------------------------------------


class BudgetNet(nn.Module):
    """f_B: an image network (for "clips" a video network) with the head of its question; `name` as in `members`."""

    def __init__(
        self, settings: Budget, name: str, size: int, utility: Utility, labels: int, *, seed: int = 0
    ):
        super().__init__()
        self.settings = settings
        self.encoder = _member(settings, name, size, utility, seed)
        width = self.encoder.width
        with seeded(seed + 1):
            if settings.views == 2:
                self.head: nn.Module = nn.Sequential(
                    nn.Linear(width, width), nn.ReLU(), nn.Linear(width, EMBEDDING)
                )
            else:
                self.head = nn.Linear(width, 4 if settings.kind == "rotation" else labels)

    def forward(self, views: Tensor) -> Tensor:
        """(N, V, 3, H, W), or (N, V, 3, T, H, W) of clips → embeddings (N, 2, d), or logits (N, k), (4N, 4)."""
        count = len(views)
        if self.settings.kind == "rotation":
            turned, _ = rotate_quarters(views[:, 0])
            answers: Tensor = self.head(self.encoder(turned))
            return answers
        out: Tensor = self.head(self.encoder(views.flatten(0, 1)))
        return out.view(count, self.settings.views, -1) if self.settings.views == 2 else out

    def losses(self, out: Tensor, labels: Tensor | None, gather: Gather = alone) -> Tensor:
        """L_B of what `forward` gave, (N,) by sample where the question has samples, else (1,)."""
        out = out.float()
        kind = self.settings.kind
        if kind in ("pairs", "clips"):
            first, second = (gather(F.normalize(out[:, view], dim=1)) for view in (0, 1))
            return nt_xent(first, second, self.settings.temperature).view(1)
        if kind == "rotation":
            return rotation_loss(out, quarter_labels(len(out) // 4, out.device), per="sample")
        assert labels is not None
        return attribute_loss(out, labels, per="sample")

    def wishes(self, out: Tensor, labels: Tensor | None, gather: Gather = alone) -> Tensor:
        """What f_A minimises, by sample: −L_B, or how sure f_B is."""
        if self.settings.target == "negative":
            return -self.losses(out, labels, gather)
        how = negative_entropy if self.settings.target == "entropy" else uniform_target
        found = how(out, "softmax" if self.settings.kind == "rotation" else "sigmoid", per="sample")
        return found.view(4, -1).mean(0) if self.settings.kind == "rotation" else found

    def chance(self, samples: int, labels: Tensor | None) -> float:
        """L_B of an f_B that knows nothing: where the anonymizer wants it.

        labels (n, k): of all samples. Such an f_B always says how often a label is there; where some are not known,
        every one counts as in `losses`, which takes each sample's mean over its own.
        """
        kind = self.settings.kind
        if kind in ("pairs", "clips"):
            return budget_ceiling(samples)
        if kind == "rotation":
            return ROTATION_CHANCE
        assert labels is not None
        known = ~labels.isnan()
        counts = known * (labels.shape[1] / known.sum(1, keepdim=True).clamp_min(1))  # (n, k), 1 without gaps
        share = ((counts * labels.nan_to_num()).sum(0) / counts.sum(0)).clamp(1e-6, 1 - 1e-6)
        each = -(share * share.log() + (1 - share) * (1 - share).log())  # (k,), NaN for what nobody knows
        weight = counts.mean(0)
        return float((weight * each).nansum() / weight.sum())
