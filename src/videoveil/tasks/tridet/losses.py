"""The training loss: IoU-weighted focal classification and distance-IoU regression over a running normaliser.

Shapes: B sequences, D feature width, T padded length, Q instants of all levels, K classes, P positive (sequence,
class, instant) triples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from videoveil.errors import UsageError
from videoveil.tasks.tridet.assign import Assignment, Target, assign, points
from videoveil.tasks.tridet.config import TriDetConfig
from videoveil.tasks.tridet.network import Level
from videoveil.tasks.tridet.trident import decode_at

IOU_FLOOR = 1e-6  # IoU^0.2 has an infinite slope at 0

Network = Callable[..., list[Level]]


def focal(logits: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Sigmoid focal loss (Lin et al. 2017, Eq. 5): CE·(1 − p_t)^γ·α_t, element by element.

    α_t is `alpha` where the target is 1 and 1 − `alpha` where it is 0.
    """
    entropy = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p = torch.sigmoid(logits)
    p_t = p * targets + (1 - p) * (1 - targets)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return alpha_t * entropy * (1 - p_t) ** gamma


def overlap(predicted: Tensor, target: Tensor) -> Tensor:
    """IoU of intervals around the same instant, given as (left, right) distances (P, 2) → (P,)."""
    shared = torch.minimum(predicted, target).sum(-1)
    union = predicted.sum(-1) + target.sum(-1) - shared
    return shared / union.clamp(min=1e-8)


def distance_iou(predicted: Tensor, target: Tensor) -> Tensor:
    """Distance-IoU loss (Zheng et al. 2020, Eq. 7) in one dimension, (P, 2) and (P, 2) → (P,).

    1 − IoU + (ρ/C)² with ρ the distance of the two centres and C the length of the interval that encloses both.
    """
    enclosing = torch.maximum(predicted, target).sum(-1).clamp(min=1e-8)
    distance = 0.5 * ((predicted[..., 1] - predicted[..., 0]) - (target[..., 1] - target[..., 0]))
    return 1 - overlap(predicted, target) + (distance / enclosing) ** 2


@dataclass
class Normaliser:
    """A running number of positives, the same divisor for both losses: N ← m·N + (1 − m)·max(#positive, 1)."""

    value: float = 100.0
    momentum: float = 0.9

    @classmethod
    def of(cls, config: TriDetConfig) -> Normaliser:
        return cls(config.loss_norm, config.loss_norm_momentum)

    def update(self, positives: float) -> float:
        """Take in the positives of a step and return the divisor for that same step."""
        self.value = self.momentum * self.value + (1 - self.momentum) * max(positives, 1)
        return self.value


@dataclass(frozen=True)
class Losses:
    """The loss of a step and its terms; `total` has the gradient."""

    total: Tensor
    classification: Tensor
    regression: Tensor
    positives: int  # instants with a class
    normaliser: float


def pad(sequences: Sequence[Tensor], length: int) -> tuple[Tensor, Tensor]:
    """Sequences (D, T_i) → features (B, D, length) with zeros behind, mask (B, 1, length)."""
    too_long = [tuple(x.shape) for x in sequences if x.shape[-1] > length]
    if too_long:
        raise UsageError(
            f"TriDet: sequences of shape {too_long} do not fit into {length} steps; truncate them first"
        )
    batch = torch.stack([F.pad(x, (0, length - x.shape[-1])) for x in sequences])
    steps = torch.tensor([x.shape[-1] for x in sequences], device=batch.device)
    return batch, torch.arange(length, device=batch.device)[None, None] < steps[:, None, None]


def losses(
    network: Network,
    sequences: Sequence[Tensor],
    targets: Sequence[Target],
    normaliser: Normaliser,
    config: TriDetConfig,
    *,
    noise: Sequence[Tensor] | None = None,
    paths: Tensor | None = None,
    share: Callable[[int], float] = float,
) -> Losses:
    """The loss of TriDet on sequences (D, T_i), which may carry gradients of their own.

    Sequences are padded to `config.max_seq_len`, `noise` (each (D, max_seq_len), from `truncate.draw_noise`) is added
    to the padded ones, and `paths` (B, ·) are the residual paths kept (`network.draw_paths`); both default to none.
    `share` turns the number of positives here into the one the normaliser learns, for steps over several processes.
    """
    batch, mask = pad(sequences, config.max_seq_len)
    if noise is not None:
        batch = batch + torch.stack(tuple(noise))
    levels = network(batch, mask, paths)
    where = points(config.max_seq_len, config, batch.device)
    wanted = [assign(where, target, levels[0].logits.shape[1], config.centre_radius) for target in targets]
    return pyramid_loss(levels, wanted, normaliser, config, share)


def pyramid_loss(
    levels: Sequence[Level],
    wanted: Sequence[Assignment],
    normaliser: Normaliser,
    config: TriDetConfig,
    share: Callable[[int], float] = float,
) -> Losses:
    """TriDet's loss of the heads' outputs against one assignment per sequence (SPLAVU Eq. 8 restates it).

    Classification: focal loss over all real instants and classes, where the entry of a positive is multiplied by
    IoU(prediction, target)^0.2. Regression: distance-IoU over the positives. Both are sums divided by the normaliser.
    """
    classes = torch.stack([a.classes for a in wanted])  # (B, Q, K)
    offsets = torch.stack([a.offsets for a in wanted])  # (B, Q, 2)
    mask = torch.cat([level.mask for level in levels], 1)  # (B, Q)
    classes = classes * mask[..., None]
    entries = []
    predicted, truth = [], []
    first = 0
    for level in levels:
        instants = slice(first, first + level.logits.shape[-1])
        first = instants.stop
        hot, logits = classes[:, instants], level.logits.float().transpose(1, 2)  # (B, T_l, K)
        entry = focal(logits, hot) * level.mask[..., None]
        videos, places, labels = hot.nonzero(as_tuple=True)  # (P_l,) each
        found = decode_at(level, videos, labels, places, config.bins)
        true = offsets[:, instants][videos, places]
        weight = overlap(found.detach() if config.detach_iou_weight else found, true)
        weight = weight.clamp(min=IOU_FLOOR) ** config.iou_weight_power
        weights = torch.ones_like(entry).index_put((videos, places, labels), weight)
        entries.append((entry * weights).sum())
        predicted.append(found)
        truth.append(true)
    positives = int((classes.sum(-1) > 0).sum())
    norm = normaliser.update(share(positives))
    classification = torch.stack(entries).sum() / norm
    regression = distance_iou(torch.cat(predicted), torch.cat(truth)).sum() / norm
    # without positives the boundary heads must still be part of the graph: processes wait for each other's gradients
    silent = sum((level.start.sum() + level.end.sum() + level.centre.sum()) for level in levels) * 0.0
    total = classification + config.regression_weight * regression + silent
    return Losses(total, classification.detach(), regression.detach(), positives, norm)
