"""Videos of red squares, and a detector that finds them."""

from __future__ import annotations

import numpy as np

from videoveil import files
from videoveil.anonymizers.obfuscate.boxes import nobody

HEIGHT, WIDTH = 40, 64


class Red:
    """One box around all pixels that are red; counts how often it was asked."""

    name = "red"
    covers = "people"

    def __init__(self, level: int = 200):
        self.level, self.asked = level, 0

    def boxes(self, frame: np.ndarray) -> np.ndarray:
        self.asked += 1
        red = (frame[..., 0] >= self.level) & (frame[..., 1] < 40)
        rows, columns = np.flatnonzero(red.any(1)), np.flatnonzero(red.any(0))
        if not rows.size:
            return nobody()
        return np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1, 0.9]], np.float32)

    def identity(self) -> str:
        return files.value_hash({"detector": self.name, "level": self.level})


def red_video(frames: int, *, hidden: tuple[int, ...] = (), speed: int = 2) -> list[np.ndarray]:
    """Noise with a red square of 10×14 that moves to the right; in `hidden` frames it is too pale to be found."""
    rng = np.random.default_rng(frames)
    video = []
    for index in range(frames):
        image = rng.integers(60, 200, (HEIGHT, WIDTH, 3)).astype(np.uint8)
        x = 6 + speed * index
        image[12:26, x : x + 10] = (190, 20, 20) if index in hidden else (230, 20, 20)
        video.append(image)
    return video


def square(index: int, speed: int = 2) -> tuple[slice, slice]:
    """Rows and columns of the square."""
    x = 6 + speed * index
    return slice(12, 26), slice(x, x + 10)
