"""The two ways that pictures take from the decoder to the encoder.

`Whole`: as RGB of the result's size, for every anonymizer that looks at all pixels. `Scaled`: for a network that looks
at a smaller picture. There nothing large is ever RGB: the decoder's own planes are made small and RGB in one step, and
what the network gives is made large and ready to be coded in another. That takes a third of the time, and the checks
see more (`checks`): what the network made of the small picture, and what is about to be coded beside the input in the
same form.

A lane's `take` belongs to one thread and `check` to another; `anonymize` can be called by several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from videoveil.media.pixels import UPRIGHT, RgbConverter
from videoveil.media.reader import Decoded
from videoveil.media.writer import Coding
from videoveil.pipeline.checks import Checked, FrameChecks
from videoveil.pipeline.engines import NetworkWorker, Worker

_AVERAGED = Interpolation.AREA | Interpolation.ACCURATE_RND | Interpolation.BITEXACT


class Lane(Protocol):
    """From decoded pictures to pictures that may leave."""

    def take(self, decoded: Decoded) -> Any:
        """What the other two need to have of a raw picture."""
        ...

    def anonymize(self, taken: Sequence[Any], content: str | None) -> list[Any]:
        """One picture for each; raises on any failure."""
        ...

    def check(self, taken: Any, made: Any) -> Checked:
        """What may leave for a raw picture of which `made` was made. Never raises."""
        ...

    def black(self, taken: Any, reason: str) -> Checked:
        """In place of one that failed."""
        ...


def lane(worker: Worker, checks: FrameChecks, size: tuple[int, int]) -> Lane:
    """The way to results of `size` (height, width)."""
    if isinstance(worker, NetworkWorker) and worker.scaled:
        return Scaled(worker, checks, size)
    return Whole(worker, checks, size)


class Whole:
    """RGB pictures of the result's size, (H, W, 3) uint8."""

    def __init__(self, worker: Worker, checks: FrameChecks, size: tuple[int, int]):
        self.worker, self.checks, self.size = worker, checks, size
        self._convert = RgbConverter()

    def take(self, decoded: Decoded) -> np.ndarray:
        image = self._convert(decoded.picture, decoded.turn)
        if image.shape[:2] == self.size:
            return image
        smaller = self.size[0] * self.size[1] < image.shape[0] * image.shape[1]
        return cv2.resize(
            image, self.size[::-1], interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
        )

    def anonymize(self, taken: Sequence[np.ndarray], content: str | None) -> list[Any]:
        return self.worker(taken, content)

    def check(self, taken: np.ndarray, made: Any) -> Checked:
        return self.checks.frame(taken, made)

    def black(self, taken: np.ndarray, reason: str) -> Checked:
        return self.checks.black(taken, reason)


@dataclass(frozen=True, slots=True)
class Seen:
    """A raw picture: as the network looks at it, (h, w, 3) uint8 RGB; and its luma, were it coded, (H, W) uint8."""

    small: np.ndarray
    luma: np.ndarray


class Scaled:
    """Small RGB pictures to the network and back; large ones only as they are coded."""

    def __init__(self, worker: NetworkWorker, checks: FrameChecks, size: tuple[int, int]):
        self.worker, self.checks = worker, checks
        self._upright = RgbConverter()
        self._small = VideoReformatter()
        self._raw, self._made = (Coding(size[1], size[0]) for _ in range(2))  # one for each thread

    def take(self, decoded: Decoded) -> Seen:
        picture, image = decoded.picture, None
        if decoded.turn == UPRIGHT and _planes_of_yuv(picture):
            small = self._smaller(picture)
        else:
            image = self._upright(picture, decoded.turn)
            small = cv2.resize(image, self.worker.engine.size[::-1], interpolation=cv2.INTER_AREA)
        if image is None and self._raw.has(picture):
            return Seen(small, luma(picture))
        if image is None:
            # another matrix or range: by way of RGB, as a raw picture would get into the result
            image = self._upright(picture, decoded.turn)
        return Seen(small, luma(self._raw.of_image(image)))

    def anonymize(self, taken: Sequence[Seen], content: str | None) -> list[Any]:
        return self.worker.inner([seen.small for seen in taken], content)

    def check(self, taken: Seen, made: Any) -> Checked:
        small = self.checks.frame(taken.small, made)
        if small.failed:
            return self.black(taken, small.reason)
        try:
            picture = self._made.of_image(small.image)
            problem = self.checks.luma(taken.luma, luma(picture))
        except Exception as error:  # whatever it is, this frame was not found to be right
            return self.black(taken, f"could not be checked ({type(error).__name__})")
        return self.black(taken, problem) if problem else Checked(picture, small.reason)

    def black(self, taken: Seen, reason: str) -> Checked:
        return Checked(self._made.of_image(np.zeros_like(taken.small)), reason, True)

    def _smaller(self, picture: av.VideoFrame) -> np.ndarray:
        """(h, w, 3) uint8 RGB at the size of the network's pictures, every pixel the mean of those it stands for."""
        high, wide = self.worker.engine.size
        small = self._small.reformat(
            picture,
            wide,
            high,
            format="gbrp",
            interpolation=_AVERAGED,
            dst_color_range=ColorRange.JPEG,
            threads=1,
        )
        green, blue, red = (_plane(small, number) for number in range(3))
        return cv2.merge((red, green, blue))


def luma(frame: av.VideoFrame) -> np.ndarray:
    """(H, W) uint8: the first plane of a coded picture, which it shares."""
    return _plane(frame, 0)


def _plane(frame: av.VideoFrame, number: int) -> np.ndarray:
    plane = frame.planes[number]
    return np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]


def _planes_of_yuv(picture: av.VideoFrame) -> bool:
    """Whether it can be scaled as it is: RGB would lose colour on the way, what is transparent has to lie on black."""
    form = picture.format
    return not (form.is_rgb or form.has_palette or any(part.is_alpha for part in form.components))
