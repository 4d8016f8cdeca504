"""What an anonymizer gives out is looked at, frame by frame, before it may leave; what does not pass is black.

Per frame: the shape and type of a picture, finite, and different from the input wherever there is something to see.
"Different" is asked of every block of the picture by itself, so that half a raw picture is found as well as a whole
one. A block without detail (sky, a wall, the black of a fade) may stay as it is: blurring it gives it back, and it
shows nobody. Detail is what a blur would take: the mean size of the Laplacian, zero for flat and for evenly shaded
blocks.

Where a network looks at a smaller picture, it is asked twice: of the small pictures, at which an anonymizer that does
nothing is seen as clearly as ever (what enlarging takes does not count as its work), and of the picture in the form in
which it is coded, beside the input in that same form. There a raw picture can have been converted to and fro, so that
what rounding moves does not count as a change.

Anonymizers that cover what a detector finds leave the rest of a picture alone. There, a frame that comes out untouched
is one in which nothing was found, be it that nobody is there or that the detector failed, which nobody can tell apart:
such a frame becomes black too, though it is no failure.

Per run: the anonymizer must stay what it was, by its content hash and, where copies of its weights do the work, by a
known answer (`engines`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from videoveil.errors import UsageError
from videoveil.pipeline.errors import WeightsChanged
from videoveil.pipeline.options import Options

BLOCK = 16  # pixels: a face that can be recognised is larger
DETAIL = 6.0  # grey levels: mean |Laplacian| of a block from which on something can be seen in it
ROUNDING = 0.25  # grey levels: more than conversion to RGB and back moves the pixels of a block, on average
LUMA = 219 / 255  # steps of coded luma per grey level
SECONDS = 20.0  # between two looks at the anonymizer's hash
NOT_CHANGED = "came out as it went in"
NOTHING_FOUND = "nothing was found to cover"


@dataclass(frozen=True, slots=True)
class Checked:
    """A frame that may leave. Where it was made black, why; `failed`: it should not have been."""

    image: Any
    """(H, W, 3) uint8 RGB, or a frame as it is coded."""
    reason: str = ""
    failed: bool = False


class FrameChecks:
    """Looks at every frame of one run and at the anonymizer itself.

    partly: the anonymizer covers parts of a picture and leaves the rest. empty: what becomes of a frame in which such a
    one found nothing, "black" or "keep". answer: a second opinion on whether the anonymizer is what it was; raises
    `WeightsChanged` if not; told whether every copy is to be asked, or only the one that is at hand.
    """

    def __init__(
        self,
        anonymizer: Any,
        *,
        least_change: float = 0.25,
        partly: bool | None = None,
        empty: str = "black",
        expect: str | None = None,
        seconds: float = SECONDS,
        answer: Callable[[bool], None] | None = None,
    ):
        self.anonymizer, self.least_change, self.empty = anonymizer, least_change, empty
        self.partly = covers_parts(anonymizer) if partly is None else partly
        self.hash = str(anonymizer.content_hash())
        if expect is not None and not (len(expect) >= 8 and self.hash.startswith(expect)):
            raise UsageError(
                f"the anonymizer has the hash {self.hash}, expected is {expect!r}: these are other weights or settings"
            )
        self.answer = answer
        self._seconds, self._next = seconds, time.monotonic() + seconds
        self._looking = threading.Lock()

    @classmethod
    def by(cls, anonymizer: Any, options: Options, *, seconds: float = SECONDS) -> FrameChecks:
        """As the options of a run say."""
        return cls(
            anonymizer,
            least_change=options.least_change,
            empty=options.empty_frames,
            expect=options.expect,
            seconds=seconds,
        )

    def frame(self, raw: np.ndarray, made: Any) -> Checked:
        """What may leave of one frame: `made` from `raw` (both (H, W, 3) uint8 RGB), or a black picture.

        Never raises: a check that breaks is a check that was not passed.
        """
        try:
            problem = not_a_picture(made, raw.shape) or self._unchanged(raw, made)
        except Exception as error:  # whatever it is, this frame was not found to be right
            return self.black(raw, f"could not be checked ({type(error).__name__})")
        if not problem:
            return Checked(made)
        if problem == NOTHING_FOUND:
            return Checked(made) if self.empty == "keep" else Checked(np.zeros_like(raw), problem)
        return self.black(raw, problem)

    def luma(self, raw: np.ndarray, made: np.ndarray) -> str:
        """Why `made` may not leave though it passed as a picture before it was enlarged; empty if it may.

        raw, made: (H, W) uint8, the luma of both in the form in which the result is coded. Raises what goes wrong.
        """
        if problem := not_a_picture(made, raw.shape):
            return problem
        least = (self.least_change + ROUNDING) * LUMA
        return NOT_CHANGED if unchanged_detail(raw, made, least, DETAIL * LUMA).any() else ""

    def black(self, raw: np.ndarray, reason: str) -> Checked:
        """In place of a frame that failed."""
        return Checked(np.zeros_like(raw), reason, True)

    def weights(self, *, now: bool = False) -> None:
        """Raise `WeightsChanged` unless the anonymizer is what it was; looks only every so often, or `now`.

        `now` is for before anything is released, and asks every copy. In between, while all hands are at work, a look
        must not take memory that they do not have: it is the calling one's alone.
        """
        if now:
            with self._looking:
                self._look(every=True)
        elif time.monotonic() >= self._next and self._looking.acquire(blocking=False):
            try:  # of several threads one looks; a change is noticed before anything is released
                self._look(every=False)
            finally:
                self._looking.release()

    def _look(self, every: bool) -> None:
        found = str(self.anonymizer.content_hash())
        if found != self.hash:
            raise WeightsChanged(
                f"the anonymizer changed while it was at work: its hash was {self.hash[:16]}…, now it is "
                f"{found[:16]}…; nothing it made is released"
            )
        if self.answer is not None:
            self.answer(every)
        self._next = time.monotonic() + self._seconds

    def _unchanged(self, raw: np.ndarray, made: np.ndarray) -> str:
        if self.partly:
            return NOTHING_FOUND if np.array_equal(raw, made) else ""
        return NOT_CHANGED if unchanged_detail(raw, made, self.least_change).any() else ""


def covers_parts(anonymizer: Any) -> bool:
    """Whether an anonymizer leaves the rest of a picture alone: a frame may then come out as it was."""
    from videoveil.anonymizers.obfuscate import Obfuscator

    return isinstance(anonymizer, Obfuscator)


def follows_people(anonymizer: Any) -> bool:
    """Whether it looks for people and follows them from frame to frame: it wants whole videos, and has a report."""
    from videoveil.anonymizers.obfuscate import Layered, Obfuscator

    return isinstance(anonymizer, Obfuscator | Layered)


def found(anonymizer: Any) -> dict[str, Any] | None:
    """What its detector found in the last video, for reports; None where it asks none."""
    return dict(anonymizer.report().to_json()) if follows_people(anonymizer) else None


def not_a_picture(made: Any, shape: tuple[int, ...]) -> str:
    """Why `made` is not a picture of this shape; empty if it is one."""
    if not isinstance(made, np.ndarray):
        return f"came out as {type(made).__name__}, not as a picture"
    if made.shape != shape:
        return f"came out with the shape {made.shape}, not {shape}"
    if made.dtype.kind == "f" and not np.isfinite(made).all():
        return "came out as NaN or infinite"
    if made.dtype != np.uint8:
        return f"came out as {made.dtype}, not as uint8"
    return ""


def unchanged_detail(
    raw: np.ndarray, made: np.ndarray, least_change: float, detail: float = DETAIL
) -> np.ndarray:
    """(rows, columns) of blocks: True where the input has detail and the output differs from it by less than that.

    raw, made: (H, W, 3) or (H, W) uint8.
    """
    unchanged = _block_means(raw, made).mean(2) < least_change
    if not unchanged.any():  # the usual case: the dearer half of the check is not needed
        return unchanged
    return unchanged & (_block_means(_laplacian(raw))[..., 0] >= detail)


def _laplacian(image: np.ndarray) -> np.ndarray:
    """(H, W[, 3]) → (H, W) uint8: how far each pixel is from what its neighbours would make of it."""
    green = np.ascontiguousarray(image[..., 1] if image.ndim == 3 else image)
    return cv2.convertScaleAbs(cv2.Laplacian(green, cv2.CV_16S, ksize=1, borderType=cv2.BORDER_REPLICATE))


def _block_means(image: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """(H, W[, C]) uint8 → (⌈H/16⌉, ⌈W/16⌉, C) float64 means; blocks at the edges hold what is left.

    With `other`: of the difference of the two. A row of blocks at a time, which stays in the cache.
    """
    height, width = image.shape[:2]
    rows, columns = np.arange(0, height, BLOCK), np.arange(0, width, BLOCK)
    sums = []
    for top in rows:
        strip = image[top : top + BLOCK]
        if other is not None:
            strip = cv2.absdiff(strip, other[top : top + BLOCK])
        strip = strip.reshape(len(strip), -1)  # (≤ 16, W·C)
        sums.append(cv2.reduce(strip, 0, cv2.REDUCE_SUM, dtype=cv2.CV_32S).reshape(1, width, -1))
    totals = np.add.reduceat(np.concatenate(sums), columns, axis=1)  # exact: 255 × 16 × 16 is a small number
    areas = np.outer(np.diff(rows, append=height), np.diff(columns, append=width))[..., None]
    return totals / areas
