"""The whole objective on a batch of segment features; gradients reach the network and the features.

Shapes: 2B videos, n crops, L segments, C channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from videoveil.tasks.mgfn import terms
from videoveil.tasks.mgfn.config import MGFNConfig
from videoveil.tasks.mgfn.network import Scored
from videoveil.tasks.mgfn.segments import with_magnitude
from videoveil.tasks.mgfn.selection import Selected, select, selection_mask


@dataclass(frozen=True, slots=True)
class Losses:
    """The terms as they enter the total (weights inside), each a scalar."""

    classification: Tensor
    smoothness: Tensor
    sparsity: Tensor
    contrastive: Tensor

    @property
    def total(self) -> Tensor:
        return self.classification + self.smoothness + self.sparsity + self.contrastive

    def values(self) -> dict[str, float]:
        """Plain numbers, the total among them."""
        names = [field.name for field in fields(self)]
        stacked = torch.stack([getattr(self, name).detach() for name in names] + [self.total.detach()])
        return dict(zip([*names, "total"], stacked.tolist()))  # one transfer from the device


def losses(
    network: Callable[[Tensor], Scored],
    features: Tensor,
    labels: Tensor,
    config: MGFNConfig | None = None,
    generator: torch.Generator | None = None,
    *,
    masked: bool = True,
) -> Losses:
    """L = L_sce + L_smooth + L_sparse + L_mc of segment features (2B, n, L, C), or (2B, L, C), with labels (2B,).

    Half of the labels must be 0 and half 1, in any order. The magnitude channel is made here, so that a module in front
    (SPLAVU's adapter) is reached through it too; such a module belongs before the segment averaging
    (`segments.segment_means`, `segments.draw_rows`). `masked=False` leaves the selection dropout out.
    """
    config = config or MGFNConfig()
    if features.ndim == 3:
        features = features.unsqueeze(1)
    order, per_class = normals_first(labels)
    scored = network(with_magnitude(features[order.to(features.device)]))
    normal, abnormal = (
        _select(Scored(scored.scores[part], scored.embedding[part]), config, generator, masked)
        for part in (slice(None, per_class), slice(per_class, None))
    )
    return _terms(normal, abnormal, features.shape[1], config)


def normals_first(labels: Tensor) -> tuple[Tensor, int]:
    """Positions of the normal videos, then of the anomalous ones, and B; the order inside a class is kept."""
    flat = labels.detach().reshape(-1).cpu()
    normal, abnormal = (flat == 0).nonzero().flatten(), (flat == 1).nonzero().flatten()
    if len(normal) + len(abnormal) != len(flat):
        raise ValueError(f"labels must be 0 or 1, found {sorted(set(flat.tolist()))}")
    if len(normal) != len(abnormal) or len(normal) == 0 or len(normal) % 2:
        raise ValueError(
            f"{len(normal)} normal and {len(abnormal)} anomalous videos: a batch needs the same even number of each"
        )
    return torch.cat((normal, abnormal)), len(normal)


def _select(scored: Scored, config: MGFNConfig, generator: torch.Generator | None, masked: bool) -> Selected:
    videos, _, length = scored.scores.shape
    mask = selection_mask(videos, length, config.selection_dropout, generator) if masked else None
    return select(scored, config.top, mask)


def _terms(normal: Selected, abnormal: Selected, crops: int, config: MGFNConfig) -> Losses:
    quiet, loud = (terms.segment_magnitudes(part.features) for part in (normal, abnormal))
    scores = normal.segment_scores, abnormal.segment_scores
    return Losses(
        classification=terms.classification(normal.video_scores, abnormal.video_scores),
        smoothness=terms.smoothness(*scores, config.smoothness_on, config.smoothness_weight),
        sparsity=terms.sparsity(*scores, config.sparsity_on, config.sparsity_weight),
        contrastive=terms.magnitude_contrastive(
            terms.inter_class(quiet, loud, config.margin),
            terms.intra_class(quiet, crops, config.pairs),
            terms.intra_class(loud, crops, config.pairs),
            config.contrastive_weight,
            config.inter_weight,
        ),
    )
