"""Where live pictures come from: a source that is opened again after every loss, and how old its pictures are."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from videoveil.errors import MissingFile, ProtocolNotAllowed, UsageError, VeilError
from videoveil.pipeline.errors import told
from videoveil.pipeline.live_report import LiveReport

if TYPE_CHECKING:
    from videoveil.media.limits import Limits
    from videoveil.media.reader import Frame, VideoInfo

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a source is opened again
ENDED = "the source ended"


def address_of(source: str | int) -> str:
    """What the reader opens: camera 0 is /dev/video0."""
    text = str(source)
    if text.isdigit():
        text = f"/dev/video{text}"
    if Path(text).is_file():
        raise UsageError(f"{text}: is a file; use `veil anonymize` for files")
    return text


class Lag:
    """When the pictures of one connection were really there to be had.

    A reader that is slow to start, or a network that was held up, hands out many pictures at once, most of them old.
    Their times tell: the picture that came quickest, of the last few seconds, is taken for one that came at once, and
    all others are as old as they are behind it. One thread may ask while another one tells.
    """

    def __init__(self, window: float = 10.0):
        self._window = window
        self._lock = threading.Lock()
        self._quickest: deque[tuple[float, float]] = deque()  # (arrival, arrival − time), delays increasing
        self._last = -math.inf

    def arrived(self, now: float, at: float) -> None:
        with self._lock:
            if at < self._last:  # the source started its clock anew
                self._quickest.clear()
            self._last, delay = at, now - at
            while self._quickest and self._quickest[-1][1] >= delay:
                self._quickest.pop()
            self._quickest.append((now, delay))
            while self._quickest[0][0] < now - self._window:
                self._quickest.popleft()

    def came(self, at: float) -> float:
        """When a picture of that time was there, by what is known now."""
        with self._lock:
            return at + self._quickest[0][1]


@dataclass(frozen=True, slots=True)
class Raw:
    """A picture as it came."""

    at: float  # its own time
    arrived: float
    lag: Lag
    image: np.ndarray

    @property
    def came(self) -> float:
        return min(self.arrived, self.lag.came(self.at))


class Capture:
    """Takes pictures from a source until `over` is set, or until it has been gone for longer than `patience`.

    learn: told what each connection is; False: there is no working with it. arrived: given every picture. Counts its
    connections and losses in the report.
    """

    def __init__(
        self,
        source: str,
        limits: Limits,
        patience: float | None,
        over: threading.Event,
        report: LiveReport,
        learn: Callable[[VideoInfo], bool],
        arrived: Callable[[Frame, Lag], None],
    ):
        self.source, self.limits, self.patience = source, limits, patience
        self.over, self.report = over, report
        self._learn, self._arrived = learn, arrived

    def run(self) -> str:
        """Why nothing more will come; empty where it was told to end. Raises what no waiting will cure."""
        wait, seen = FIRST_WAIT, time.monotonic()
        while not self.over.is_set():
            before = self.report.arrived
            reason = self._connection()
            if not reason:
                return ""
            if self.report.arrived > before:
                wait, seen = FIRST_WAIT, time.monotonic()
            self.report.lost += 1
            self.report.losses = [*self.report.losses[-99:], reason]
            if self.patience is not None and time.monotonic() - seen >= self.patience:
                return reason
            self.over.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        return ""

    def _connection(self) -> str:
        """One connection to its end, and why it ended; empty where there should be no other."""
        from videoveil.media.reader import open_video

        try:
            with open_video(self.source, stream=True, limits=self.limits) as video:
                self.report.connections += 1
                if not self._learn(video.info):
                    return ""
                lag = Lag()
                for frame in video.frames():
                    if self.over.is_set():
                        return ""
                    self._arrived(frame, lag)
        except (ProtocolNotAllowed, UsageError):
            raise
        except VeilError as error:
            if isinstance(error, MissingFile) and "://" not in self.source:
                raise  # no such camera: it will not turn up
            return told(error)
        return ENDED
