"""Where the actors are in a frame: the truth that a perfect detector of people would give."""

from __future__ import annotations

import numpy as np

from videoveil.data.theatre.play import Play
from videoveil.data.theatre.stage import Stage, _View

SPILL = 1  # pixels around the drawn ones, for what smooth edges and resampling spread


class Extents:
    """Boxes around the actors of a play.

    Each actor is drawn alone on a black and on a white canvas: whatever it touches differs on one of them, be it as
    dark or as light as it may. Somebody hidden behind another one therefore has a whole box too. What is carried is
    part of the actor; an object that was left behind is not.
    """

    def __init__(self, play: Play):
        self._stage = Stage(play)

    def frame(self, index: int) -> np.ndarray:
        """(n, 5) float32: x0, y0, x1, y1 in pixels and score 1, of those of whom something is in the picture."""
        stage, play = self._stage, self._stage.play
        if not 0 <= index < play.frames:
            raise IndexError(f"frame {index} of a play with {play.frames} frames")
        seconds = float(index / play.rate)
        view = _View(play, seconds, scroll=stage._scroll(seconds))
        found = []
        for actor in range(len(play.roles)):
            touched = np.zeros((play.height, play.width, 3), bool)
            for paper in (0, 255):
                canvas = np.full((play.height, play.width, 3), paper, np.uint8)
                stage._draw_actor(canvas, view, actor, index, seconds)
                touched |= canvas != paper
            rows = np.flatnonzero(touched.reshape(play.height, -1).any(1))
            columns = np.flatnonzero(touched.any((0, 2)))
            if rows.size:
                found.append(
                    (
                        max(0, columns[0] - SPILL),
                        max(0, rows[0] - SPILL),
                        min(play.width, columns[-1] + 1 + SPILL),
                        min(play.height, rows[-1] + 1 + SPILL),
                        1.0,
                    )
                )
        return np.array(found, np.float32).reshape(-1, 5)


def boxes(play: Play) -> list[np.ndarray]:
    """Boxes of every frame of a play."""
    extents = Extents(play)
    return [extents.frame(index) for index in range(play.frames)]
