"""Covariances that say what features differ in: who and where, or what happens.

What static clips of one video share, and what moving clips of one action differ in from video to video, is who and
where. What changes inside a video, and what the means of actions differ in, is what happens. Everything is float64 on
the processor, (d, d); sums run in one order, so that the same features give the same bytes everywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from videoveil.anonymizers.stage import check_rows
from videoveil.anonymizers.static_residual import ridge
from videoveil.errors import UsageError

PREDICTION_RIDGE = 1.0  # in mean variances of the static features; less lets chance predict the action, too


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: the same bytes on any number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def shared_by_static(videos: Tensor, name: str = "erase") -> Tensor:
    """What static clips (V, K, d) of one video share and those of other videos do not.

    With B the covariance of the videos' means and W that of clips around their video's mean: B − W/K, because W/K is
    what chance alone puts into B. Some of its eigenvalues are therefore negative.
    """
    if videos.dim() != 3 or videos.shape[0] < 2 or videos.shape[1] < 2:
        raise UsageError(f"{name}: static features must be (V ≥ 2, K ≥ 2, d), not {tuple(videos.shape)}")
    width, clips = videos.shape[2], videos.shape[1]
    check_rows(videos.flatten(0, 1), width, 2, name)
    features = videos.detach().double().cpu()
    means = features.mean(1)  # (V, d)
    around = (features - means[:, None]).flatten(0, 1)
    centred = means - means.mean(0)
    between = centred.T @ centred / (len(means) - 1)
    within = around.T @ around / (len(means) * (clips - 1))
    return between - within / clips


class MovingClips:
    """Moving clips (n, d) with the video (n,) of each and, where known (not below 0), its action (n,)."""

    def __init__(self, clips: Tensor, owners: Tensor, actions: Tensor | None = None, name: str = "erase"):
        check_rows(clips, clips.shape[-1], 2, name)
        self.name = name
        self.rows = clips.detach().double().cpu()
        self.videos, self.owner = owners.detach().cpu().unique(return_inverse=True)
        self.means = group_means(self.rows, self.owner, len(self.videos))  # (V, d)
        self.actions = None if actions is None else self._of_videos(actions.detach().cpu())

    def _of_videos(self, label: Tensor) -> Tensor:
        if not bool((label >= 0).any()):
            raise UsageError(f"{self.name}: no video's action is known; leave `actions` out")
        of_video = torch.zeros(len(self.videos), dtype=label.dtype).scatter(0, self.owner, label)  # (V,)
        if bool((of_video[self.owner] != label).any()):
            raise UsageError(
                f"{self.name}: clips of one video have different actions; give the action of the video"
            )
        return of_video

    def _known(self) -> tuple[Tensor, Tensor, Tensor]:
        """Means (V′, d), action (V′,) and the actions' means (A, d) of the videos whose action is known."""
        assert self.actions is not None
        known = self.actions >= 0
        means, (classes, label) = self.means[known], self.actions[known].unique(return_inverse=True)
        return means, label, group_means(means, label, len(classes))

    def around_actions(self) -> Tensor:
        """Of video means around the mean of their action: who and where, not what."""
        means, label, of_actions = self._known()
        free = len(means) - len(of_actions)  # degrees of freedom: every action's mean takes one
        if free < 1:
            raise UsageError(
                f"{self.name}: {len(means)} videos of {len(of_actions)} actions; some action needs at least two videos"
            )
        centred = means - of_actions[label]
        return centred.T @ centred / free

    def between_actions(self) -> Tensor:
        """Of the means of the actions: what is done."""
        of_actions = self._known()[2]
        centred = of_actions - of_actions.mean(0)
        return centred.T @ centred / max(1, len(of_actions) - 1)

    def around_videos(self) -> Tensor:
        """Of clips around the mean of their video: what changes in it."""
        around = self.rows - self.means[self.owner]
        return around.T @ around / max(len(self.rows) - len(self.videos), 1)

    def between_videos(self) -> Tensor:
        """Of the means of the videos: everything that tells them apart."""
        if len(self.videos) < 2:
            raise UsageError(f"{self.name}: moving clips of {len(self.videos)} video; at least 2 are needed")
        centred = self.means - self.means.mean(0)
        return centred.T @ centred / (len(self.videos) - 1)

    def predicted_by_static(self, videos: Tensor) -> Tensor:
        """Of what a video's static clips (V, K, d) predict of its moving ones, by a ridge map."""
        if len(self.videos) < 2:
            raise UsageError(f"{self.name}: moving clips of {len(self.videos)} video; at least 2 are needed")
        if int(self.videos.max()) >= len(videos) or int(self.videos.min()) < 0:
            raise UsageError(
                f"{self.name}: a clip belongs to video {int(self.videos.max())}, static clips are given of 0 to "
                f"{len(videos) - 1}"
            )
        still = videos.detach().double().cpu().mean(1)[self.videos]
        still = still - still.mean(0)
        predicted = still @ ridge(still, self.means, PREDICTION_RIDGE)  # (V, d)
        return predicted.T @ predicted / (len(self.videos) - 1)


def group_means(rows: Tensor, group: Tensor, count: int) -> Tensor:
    """(n, d) and the group (n,) of each row → (count, d)."""
    total = rows.new_zeros(count, rows.shape[1]).index_add(0, group, rows)
    return total / torch.bincount(group, minlength=count)[:, None]
