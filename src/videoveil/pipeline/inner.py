"""At what size a learned network looks at pictures: `Options.inner`, for everything that takes pictures through one.

    inner_size((720, 1280), None, trained=112)      # (112, 199)

A network knows people as large as it was shown them, and what is known of its privacy was measured there. Training cuts
between six tenths and all of the short side out of a picture and brings that to the recorded size. So a whole picture
with its short side at that size is one that the network was trained on; of the scales it knows, it is the one with the
fewest pixels, and so the one at which the least of a person gets through. That is the default. A picture that is
smaller already is not enlarged: there is nothing more in it.
"""

from __future__ import annotations

from typing import Any

from videoveil.anonymizers.obfuscate import Layered
from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
from videoveil.anonymizers.pixel.stage import LEAST
from videoveil.pipeline.options import ALL, ASKED, TRAINED

Size = tuple[int, int]  # height, width

LARGER = 1.5  # times as large as in training, people are no longer what a network has learned


def of_the_whole(anonymizer: Any) -> Any:
    """The part of an anonymizer that changes whole pictures: of two layers the second, else itself."""
    return anonymizer.then if isinstance(anonymizer, Layered) else anonymizer


def trained_size(anonymizer: Any) -> int:
    """Short side of the pictures that a learned anonymizer was trained on; 0: it learned nothing, or does not say."""
    whole = of_the_whole(anonymizer)
    return whole.config.size if isinstance(whole, PixelAnonymizer) and whole.networks else 0


def inner_size(size: Size, inner: int | None, trained: int = 0) -> Size:
    """What the network looks at of a picture of `size`: all of it, or all of it made smaller.

    inner: the longest side; 0: every pixel; None: the short side becomes the one it was `trained` at, where that is
    known.
    """
    if inner is None:
        share = trained / min(size) if trained else 1.0
    else:
        share = inner / max(size) if inner else 1.0
    high, wide = (max(LEAST, round(side * min(1.0, share))) for side in size)
    return high, wide


def reason(size: Size, inner: int | None, trained: int) -> str:
    """Why the network looks at that, for reports."""
    if inner_size(size, inner, trained) == inner_size(size, 0):
        return ALL
    return TRAINED if inner is None else ASKED


def unmeasured_scale(anonymizer: Any, size: Size, inner: int | None) -> str:
    """A word of warning where a network looks at pictures in which people are much larger than where it was trained."""
    trained = trained_size(anonymizer)
    looks = min(inner_size(size, inner, trained))
    if not trained or looks <= LARGER * trained:
        return ""
    longest = max(inner_size(size, None, trained))
    return (
        f"the network was trained on pictures with a short side of {trained} and looked at {looks} here: what is known "
        f"of its privacy was measured there; without --inner (or with --inner {longest}) it sees what it knows"
    )
