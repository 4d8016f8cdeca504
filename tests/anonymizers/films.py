"""Features of videos in which it is known what is who and what is what."""

from __future__ import annotations

import torch

from videoveil.anonymizers.erase import orthonormal

from .pipelines import WIDTH, normal


class Films:
    """Moving clips of videos: looks on 3 axes, gait on 2, action on 3; static clips have looks only."""

    def __init__(self, count: int = 240, clips: int = 4) -> None:
        axes = torch.linalg.qr(normal(WIDTH, WIDTH, seed=11))[0].T
        self.looks, self.gait, self.action = axes[:3], axes[3:5], axes[5:8]
        looks = 3 * normal(count, 3, seed=12) @ self.looks
        gait = 3 * normal(count, 2, seed=13) @ self.gait
        of_video = torch.arange(count) % 3
        self.owners = torch.arange(count).repeat_interleave(clips)
        self.actions = of_video[self.owners]
        what = 6 * self.action[of_video]
        self.clips = (looks + gait + what)[self.owners] + 0.3 * normal(count * clips, WIDTH, seed=14)
        self.videos = looks[:, None] + 0.3 * normal(count, 3, WIDTH, seed=15)

    def found(self, directions: torch.Tensor, of: torch.Tensor) -> float:
        """The part of the least covered of some axes that the span of the directions covers."""
        basis = orthonormal(directions.double())
        return float(torch.linalg.vector_norm(of.double() @ basis, dim=1).min())

    def touched(self, directions: torch.Tensor, of: torch.Tensor) -> float:
        """The part of the most covered of some axes."""
        basis = orthonormal(directions.double())
        return float(torch.linalg.vector_norm(of.double() @ basis, dim=1).max())


FILMS = Films()
