"""A budget on what moves: against attributes that are carried by motion, such as gait.

SPLAVU's budget sees static clips only. Gait is not in them, and the consistency term protects it: the paper's own
table shows retrieval by gait falling far only where consistency is left out. This term is not in the paper. It asks
the question of the budget, can two views of a video find each other, of two *moving* clips, after taking away what
the static clips of the video already say, so that appearance has no part in the answer.

Three choices make it a question about the person rather than about something else.

- **Reference.** residual = anonymized clip − mean of K reference vectors of the same video (its static clips, or other
  clips of it). The two clips should have disjoint references: a shared one puts its own error into both residuals,
  which looks like a bond between them. The mean over "all clips of the video" must not contain the two clips
  themselves: with two clips, c₁ − mean = −(c₂ − mean), a perfect bond that says nothing.
- **Centring.** Moving and static clips differ by a shift common to all videos, which would make all residuals alike and
  the cosine blind. The batch mean of all residuals is taken away.
- **Same action.** Two clips of a video share the action as well as the person. Without care, the cheapest way to
  raise the loss is to destroy the action. With `actions`, a clip is compared with clips of the same action only: what
  the action tells is common to all candidates, and only what is beyond it counts.

References do not receive gradient: static clips have their own budget, and moving them would be a way round this one.

Shapes: N videos, K references, d channels.
"""

from __future__ import annotations

from torch import Tensor

from videoveil.errors import UsageError
from videoveil.objectives.contrastive import TEMPERATURE, nt_xent


def moving_residual(clip: Tensor, reference: Tensor) -> Tensor:
    """clip (N, d) minus the mean of its video's references (N, K, d), which receive no gradient: (N, d)."""
    if (
        clip.dim() != 2
        or reference.dim() != 3
        or reference.shape[::2] != clip.shape
        or not reference.shape[1]
    ):
        raise UsageError(
            f"clips must be (N, d) and their references (N, K, d) with K ≥ 1, not {tuple(clip.shape)} and "
            f"{tuple(reference.shape)}"
        )
    return clip - reference.detach().mean(1)


def temporal_budget(
    first: Tensor,
    second: Tensor,
    first_reference: Tensor,
    second_reference: Tensor,
    temperature: float = TEMPERATURE,
    *,
    actions: Tensor | None = None,
    margin: float | None = None,
) -> Tensor:
    """NT-Xent between the residuals of two different moving clips of each of N videos (or persons); maximised.

    first, second (N, d): two clips. Their references (N, K, d): anonymized static clips (or other clips) of the same
    video, best not the same ones for both. actions (N,): see above; margin: see `budget_guard`.
    """
    residuals = (moving_residual(first, first_reference), moving_residual(second, second_reference))
    centre = (residuals[0].mean(0) + residuals[1].mean(0)) / 2  # (d,)
    return nt_xent(residuals[0] - centre, residuals[1] - centre, temperature, groups=actions, margin=margin)
