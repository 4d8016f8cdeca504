"""Directions eraser: a projection, in closed form, that takes chosen directions out of every feature.

Which directions tell who and where rather than what? Two answers, and both are needed. Static clips have no motion, so
whatever tells static clips of one video from those of another is appearance (`static_directions`). And what moving
clips of one action differ in from video to video is not the action (`moving_directions`). A feature that has lost the
first kind only is private when the picture stands still and readable when it moves; with the second kind only it is the
other way round.
"""

from __future__ import annotations

import torch
from torch import Tensor

from videoveil.anonymizers import config
from videoveil.anonymizers.scatter import MovingClips, one_thread, shared_by_static
from videoveil.anonymizers.stage import Context, FitData, FittedStage, check_rows
from videoveil.errors import UsageError

RELATIVE_RANK = 1e-7  # singular values below this part of the largest one count as 0


class Eraser(FittedStage):
    """y = x − (x − m)·E·Eᵀ with orthonormal columns E (d, k): the features keep their mean and lose k directions.

    How exactly E is orthonormal matters. With E in float32 about 1e-8 of every erased direction stays, which is as much
    as float32 features can hold: too little to see and enough for an attacker who whitens his inputs (he found .4 to .7
    of what was erased). So E is float64, and the projection is applied twice, which leaves less than the last bit.
    """

    centre: Tensor
    directions: Tensor

    def __init__(self, width: int, settings: config.Erase):
        super().__init__(width)
        self.source, self.each = settings.source, settings.count(width)
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("directions", torch.zeros(width, settings.room(width), dtype=torch.float64))

    def apply_to(self, x: Tensor, context: Context) -> Tensor:
        directions, centre = self.directions.to(x.dtype), self.centre.to(x.dtype)
        for _ in range(2):
            x = x - (x - centre) @ directions @ directions.T
        return x

    def fit_from(self, data: FitData) -> None:
        """Erase what tells videos apart in static clips, in moving clips or in both, sparing `data.spare`."""
        found = []
        with one_thread():
            if self.source != "moving":
                if data.videos is None:
                    raise UsageError(
                        "erase: fit_from needs videos= (V, K, d), K ≥ 2 static clips of each training video"
                    )
                found.append(static_directions(data.videos, self.each, data.spare))
            if self.source != "static":
                if data.owners is None:
                    raise UsageError(
                        "erase: fit_from needs owners= (n,), which video every moving clip belongs to"
                    )
                clips = data.features.mean(1) if data.features.dim() == 3 else data.features
                found.append(
                    moving_directions(
                        clips, data.owners, self.each, data.actions, data.spare, videos=data.videos
                    )
                )
            self.erase(torch.cat(found), data.rows.mean(0))

    @torch.no_grad()
    def erase(self, directions: Tensor, centre: Tensor) -> None:
        """Erase the span of `directions` (m, d); rows that depend on others add nothing. centre (d,) stays put."""
        found = orthonormal(directions.detach().double())
        if found.shape[1] > self.directions.shape[1]:
            raise UsageError(
                f"erase: {found.shape[1]} directions, this stage has room for {self.directions.shape[1]}"
            )
        self.directions.zero_()
        self.directions[:, : found.shape[1]] = found.to(self.directions)
        self.centre.copy_(centre)
        self.fitted.fill_(True)


def orthonormal(directions: Tensor) -> Tensor:
    """Rows (m, d) → orthonormal columns (d, r) of the same span.

    The sign of a column is free; its largest entry is made positive, so that the result is the same everywhere.
    """
    if not len(directions):
        return directions.new_zeros(directions.shape[1], 0)
    values, rows = torch.linalg.svd(directions, full_matrices=False)[1:]
    columns = rows[values > RELATIVE_RANK * values.max()].T
    largest = columns.gather(0, columns.abs().argmax(0, keepdim=True))  # (1, r)
    return columns * torch.where(largest < 0, -1.0, 1.0)


def outside(spare: Tensor | None, width: int) -> Tensor:
    """Orthonormal columns (d, r) of the space at right angles to all rows of `spare` (c, d)."""
    if spare is None:
        return torch.eye(width, dtype=torch.float64)
    check_rows(spare, width, 0, "spare")
    kept = orthonormal(spare.detach().double().cpu())
    return torch.linalg.qr(torch.cat((kept, torch.eye(width, dtype=torch.float64)), 1))[0][:, kept.shape[1] :]


def leading(matrix: Tensor, count: int, spare: Tensor | None) -> Tensor:
    """Up to `count` eigenvectors (count, d) of a symmetric (d, d) by falling eigenvalue, positive ones only.

    At right angles to all rows of `spare` (c, d), such as a linear head's, whose outputs then do not change.
    """
    free = outside(spare, len(matrix))
    values, vectors = torch.linalg.eigh(free.T @ matrix @ free)
    chosen = (free @ vectors.flip(1)[:, :count]).T  # (≤ count, d)
    positive = values.flip(0)[:count] > RELATIVE_RANK * values.abs().max()
    return chosen[positive]


def static_directions(videos: Tensor, count: int, spare: Tensor | None = None) -> Tensor:
    """Up to `count` directions (count, d) in which videos differ most beyond how their own frames differ.

    videos (V, K, d): K static clips of each of V videos. With B the covariance of the videos' means and W that of
    clips around their video's mean, the leading eigenvectors of B − W/K are what is shared inside a video and not
    across (W/K is what chance alone puts into B); only those with a positive share are returned.
    """
    return leading(shared_by_static(videos), count, spare)


def moving_directions(
    clips: Tensor,
    owners: Tensor,
    count: int,
    actions: Tensor | None = None,
    spare: Tensor | None = None,
    *,
    videos: Tensor | None = None,
) -> Tensor:
    """Up to `count` directions (count, d) in which moving clips tell videos apart, but not what is done in them.

    clips (n, d), owners (n,) the number of the video of each. What is known decides how "not what is done" is said:

    - `actions` (n,), one for each video: the covariance of video means around the mean of their action. Videos whose
      action is not known (below 0) do not count.
    - `videos` (V, K, d), the static clips of video 0, 1, …, and no actions: the covariance of what a video's static
      clips predict of its moving ones (ridge). Where a single frame does not tell the action, neither does that.
    - neither: the covariance of video means minus that of clips around their video's mean. In directions in which a
      video's own clips differ, what happens is what changes; they are left alone. For untrimmed videos only, in which
      many things happen: among trimmed ones, the action is one of the things that videos differ in.
    """
    moving = MovingClips(clips, owners, actions)
    if actions is not None:
        return leading(moving.around_actions(), count, spare)
    if videos is not None:
        return leading(moving.predicted_by_static(videos), count, spare)
    return leading(moving.between_videos() - moving.around_videos(), count, spare)


def label_directions(features: Tensor, labels: Tensor, spare: Tensor | None = None) -> Tensor:
    """Directions (≤ k, d) that carry all covariance of features (n, d) with labels (n, k); NaN labels do not count.

    Features without them have no covariance with the labels on the data fitted to, so that no linear predictor there
    does better than a constant (in squared error). With `spare` only what is at right angles to it can be taken.
    """
    check_rows(features, features.shape[-1], 2, "erase")
    if labels.dim() != 2 or len(labels) != len(features):
        raise UsageError(f"erase: labels must be ({len(features)}, k), not {tuple(labels.shape)}")
    rows, wanted = features.detach().double().cpu(), labels.detach().double().cpu()
    known = ~wanted.isnan()
    covariances = []
    for column, there in zip(wanted.T, known.T):
        if there.any():
            target = column[there] - column[there].mean()
            covariances.append(target @ (rows[there] - rows[there].mean(0)) / len(target))
    if not covariances:
        raise UsageError("erase: no label is known")
    free = outside(spare, rows.shape[1])
    return orthonormal(torch.stack(covariances) @ free @ free.T).T
