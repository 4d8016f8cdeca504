"""What a pipeline refuses or gives up, and how failures are put into words without a single pixel in them."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from videoveil.errors import VeilError

if TYPE_CHECKING:
    from videoveil.pipeline.report import Report

REFUSED, FAILED = 2, 3  # exit codes
_NUMBERS = re.compile(
    r"(?:[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?[\s,;\[\]()]+){7,}[-+]?\d*|(?:\\x[0-9a-f]{2}.?){4,}"
)
_LONGEST = 400


class Failed(VeilError):
    """A result that was not released. `report` tells what happened up to there, where there is one."""

    def __init__(self, message: str, report: Report | None = None):
        super().__init__(message)
        self.report = report


class FramesFailed(Failed):
    """Frames that did not pass the checks."""


class WeightsChanged(Failed):
    """An anonymizer that is not what it was when the run began: nothing it made can be trusted."""


class StageFailed(Failed):
    """A stage that broke in a way nobody foresaw."""


class Stopped(Failed):
    """Somebody asked the run to end."""


def told(error: BaseException) -> str:
    """An exception in words that may be shown and stored.

    The text of an exception that is not ours can hold anything, an array of raw pixels too: of it, only the kind and
    the place are told. Our own messages name files, sizes and counts; long rows of numbers are cut out all the same.
    """
    if not isinstance(error, VeilError):
        return f"{type(error).__name__}{_place(error)}"
    text, cause = str(error), error.__cause__
    if cause is not None and not isinstance(cause, VeilError | OSError) and str(cause):
        text = text.replace(str(cause), type(cause).__name__)
    text = _NUMBERS.sub("…", text[: 4 * _LONGEST])
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _place(error: BaseException) -> str:
    """Where it was raised: file, line and function, no values."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f" in {last.name} ({Path(last.filename).name}:{last.lineno})"
