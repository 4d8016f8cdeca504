"""Every covariance against its slow, obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from videoveil.anonymizers.scatter import MovingClips, group_means, shared_by_static
from videoveil.errors import UsageError

from .films import FILMS
from .pipelines import WIDTH, normal, videos


def outer_mean(vectors: list[np.ndarray], free: int) -> np.ndarray:
    total = np.zeros((WIDTH, WIDTH))
    for vector in vectors:
        total += np.outer(vector, vector)
    return total / free


def few() -> MovingClips:
    """Seven videos of three actions with one to three clips each; the action of the last is not known."""
    owners = torch.tensor([0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 6, 6])
    actions = torch.tensor([0, 0, 1, 0, 0, 0, 1, 2, 2, 2, -1, -1])
    return MovingClips(normal(12, WIDTH, seed=3), owners, actions)


def by_video(moving: MovingClips) -> list[np.ndarray]:
    rows, owner = moving.rows.numpy(), moving.owner.numpy()
    return [rows[owner == video].mean(0) for video in range(len(moving.videos))]


def test_what_static_clips_share_is_the_variance_of_means_less_what_chance_puts_there() -> None:
    clips = videos(9, 4).double().numpy()
    means = clips.mean(1)
    between = outer_mean([mean - means.mean(0) for mean in means], 8)
    inner = [clip - mean for video, mean in zip(clips, means) for clip in video]
    expected = between - outer_mean(inner, 9 * 3) / 4
    assert np.allclose(shared_by_static(torch.from_numpy(clips)), expected)


def test_around_actions_counts_a_degree_of_freedom_for_every_action_and_no_unknown_video() -> None:
    means, actions = by_video(few()), [0, 1, 0, 1, 2, 2]
    of_action = {a: np.mean([m for m, b in zip(means, actions) if a == b], axis=0) for a in set(actions)}
    expected = outer_mean([mean - of_action[a] for mean, a in zip(means, actions)], 6 - 3)
    assert np.allclose(few().around_actions(), expected)
    every = list(of_action.values())
    assert np.allclose(
        few().between_actions(), outer_mean([mean - np.mean(every, axis=0) for mean in every], 2)
    )


def test_around_and_between_videos() -> None:
    moving = few()
    means = by_video(moving)
    inner = [row - means[video] for row, video in zip(moving.rows.numpy(), moving.owner)]
    assert np.allclose(moving.around_videos(), outer_mean(inner, 12 - 7))
    assert np.allclose(
        moving.between_videos(), outer_mean([mean - np.mean(means, axis=0) for mean in means], 6)
    )


def test_means_of_groups() -> None:
    rows = torch.arange(8, dtype=torch.float64).reshape(4, 2)
    assert group_means(rows, torch.tensor([1, 0, 1, 1]), 2).tolist() == [[2, 3], [10 / 3, 13 / 3]]


def test_errors_name_the_stage_that_asked() -> None:
    with pytest.raises(UsageError, match="keep: no video's action is known"):
        MovingClips(FILMS.clips, FILMS.owners, torch.full_like(FILMS.actions, -1), "keep")
    with pytest.raises(UsageError, match="keep: static features"):
        shared_by_static(normal(5, 1, WIDTH), "keep")
