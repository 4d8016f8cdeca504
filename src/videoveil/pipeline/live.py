"""Live pictures through an anonymizer: a camera or network stream in, files, a push or a preview page out.

    report = anonymize_stream("rtsp://camera/1", "door.mp4", open_anonymizer("runs/spact"),
                              live=LiveOptions(latency=0.5), stop=stop)

Three threads and a clock. One thread takes pictures from the source and comes back after every loss; one anonymizes and
checks; one per sink writes. The clock ticks at the rate of the output, whatever the others do, and shows at each tick
the next checked picture. A picture is shown at most `latency` seconds after it came in: what would be later is dropped,
the oldest first, and counted. When there is none, the last one stays until it is as old as that; then the output is
black. It is black too for every picture that failed.

Raw pictures are in the first two threads only and never wait longer than `latency`.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil.errors import UsageError, VeilError
from videoveil.pipeline.checks import Checked, FrameChecks
from videoveil.pipeline.errors import StageFailed, WeightsChanged, told
from videoveil.pipeline.live_outlet import Outlet
from videoveil.pipeline.live_report import STOPPED, LiveOptions, LiveReport
from videoveil.pipeline.live_sinks import Sink, sink_for
from videoveil.pipeline.live_source import ENDED, Capture, Lag, Raw, address_of
from videoveil.pipeline.options import Options
from videoveil.pipeline.report import Progress, Spans

if TYPE_CHECKING:
    from videoveil.media.reader import Frame, VideoInfo
    from videoveil.pipeline.engines import Worker

RATES = (Fraction(1), Fraction(60))  # that a source's own word is taken for
USUAL_RATE = Fraction(25)
WAITING = 2**28  # bytes of raw pictures that may wait
LOOKS = 5.0  # seconds between two looks at the anonymizer's weights
STALLED = "nothing came in time"
PATIENCE = 0.05
LEAVE = 2.0  # seconds that a thread gets to end


def anonymize_stream(
    source: str | int,
    sink: str | Path | Sink | Sequence[str | Path | Sink],
    anonymizer: Any,
    options: Options | None = None,
    live: LiveOptions | None = None,
    *,
    progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> LiveReport:
    """Run until `stop` is set, the duration is over, or the source has been gone for longer than the patience.

    source: the number of a camera, its device (/dev/video0), or an address (rtsp, rtmp, http(s), udp, srt, tcp).
    sink: see `sink_for`; several may be given. What makes the output untrustworthy or unwritable (changed weights, a
    full disk) raises, and what was not finished by then is not released.
    """
    from videoveil.pipeline.engines import require_usable

    options, live = options or Options(), live or LiveOptions()
    require_usable(anonymizer)
    if options.audio:
        raise UsageError("live pictures have no sound here: voices tell who speaks")
    given: Sequence[Any] = [sink] if isinstance(sink, str | Path) or hasattr(sink, "write") else sink  # type: ignore[assignment]
    sinks = [sink_for(s, options, segment=live.segment) if isinstance(s, str | Path) else s for s in given]
    if not sinks:
        raise UsageError("no sink was given: a file name, rtmp://…, rtsp://… or preview:PORT")
    return _Run(address_of(source), sinks, anonymizer, options, live, stop).through(progress)


@dataclass(frozen=True, slots=True)
class _Ready:
    came: float
    checked: Checked


class _Run:
    """One live run. Counters of the report are each written by one thread."""

    def __init__(
        self,
        source: str,
        sinks: Sequence[Sink],
        anonymizer: Any,
        options: Options,
        live: LiveOptions,
        stop: threading.Event | None,
    ):
        self.source, self.sinks, self.anonymizer, self.live = source, sinks, anonymizer, live
        self.options = replace(options, batch=1)  # waiting for a batch is latency
        self.asked = stop or threading.Event()
        self.over = threading.Event()  # tells all threads to end
        self.report = LiveReport(source)
        self.spans = Spans()
        self.error: BaseException | None = None
        self.checks = FrameChecks.by(anonymizer, options, seconds=LOOKS)
        self.report.anonymizer = self.checks.hash
        self.using = threading.Lock()  # of the worker: engines are asked one thing at a time
        self.worker: Worker | None = None
        self.shape: tuple[int, int] = (0, 0)
        self.rate = live.rate or USUAL_RATE
        self.room = 1
        self.change = threading.Condition()
        self.raw: deque[Raw] = deque()
        self.ready: deque[_Ready] = deque()
        self.gone = ""  # why the source will give nothing more
        self.at_one = False  # whether a picture is between `raw` and `ready`
        self.last: _Ready | None = None
        self.pace = 0.0  # seconds that a picture takes, lately

    def through(self, tell: Callable[[Progress], None] | None) -> LiveReport:
        began = time.monotonic()
        threads = [self._thread("capture", self._capture), self._thread("anonymize", self._anonymize)]
        outlets: list[Outlet] = []
        try:
            if self._wait_for_first():
                self._open_sinks(outlets)
                self._tick(outlets, tell)
        except BaseException as error:
            self._fall(error)
        finally:
            self.over.set()
            with self.change:
                self.change.notify_all()
            threads[1].join()  # it holds no connection, so it ends at once
            threads[0].join(LEAVE)  # may wait for data; it is a daemon and has nowhere to put any
        self._finish(outlets)
        self.report.seconds = round(time.monotonic() - began, 3)
        self.report.black = self.spans.all()
        self.report.sinks = {sink.name: sink.facts() for sink in self.sinks}
        if self.error is not None:
            self._raise(self.error)
        return self.report

    def _raise(self, error: BaseException) -> None:
        if isinstance(error, WeightsChanged):
            raise WeightsChanged(f"{self.source}: {error}") from None
        if isinstance(error, VeilError) or not isinstance(error, Exception):
            raise error
        raise StageFailed(f"{self.source}: {told(error)}") from None  # its text may hold anything

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # handed to the thread that ends the run
                self._fall(error)

        thread = threading.Thread(target=guarded, name=f"veil-{name}", daemon=True)
        thread.start()
        return thread

    def _fall(self, error: BaseException) -> None:
        with self.change:
            self.error = self.error or error
            self.over.set()
            self.change.notify_all()

    # --- the source -------------------------------------------------------------------------------------------

    def _capture(self) -> None:
        limits = replace(self.options.limits, stall=self.live.stall)
        capture = Capture(
            self.source, limits, self.live.patience, self.over, self.report, self._learned, self._arrived
        )
        if reason := capture.run():
            with self.change:
                self.gone = reason
                self.change.notify_all()

    def _learned(self, info: VideoInfo) -> bool:
        """False when there is no working with it: that is not the fault of the source, and no use trying again."""
        try:
            self._learn(info)
        except Exception as error:
            self._fall(error)
            return False
        return True

    def _learn(self, info: VideoInfo) -> None:
        """Size and rate are those of the first connection; later ones are made to fit."""
        if self.worker is not None:
            return
        from videoveil.pipeline.engines import Workshop
        from videoveil.pipeline.inner import unmeasured_scale

        self.shape = self.options.size or (info.height, info.width)
        if self.live.rate is None and info.rate is not None and RATES[0] <= info.rate <= RATES[1]:
            self.rate = Fraction(info.rate).limit_denominator(1001)
        bytes_each = self.shape[0] * self.shape[1] * 3
        self.room = max(1, min(math.ceil(self.live.latency * self.rate), WAITING // bytes_each))
        self._new_worker = lambda: Workshop().worker(self.anonymizer, self.shape, None, self.options)
        worker = self._new_worker()
        self.checks.answer = worker.answer
        self.report.engine = worker.facts()
        warning = unmeasured_scale(self.anonymizer, self.shape, self.options.inner)
        self.report.notes = (warning,) if warning else ()
        self.report.height, self.report.width, self.report.rate = *self.shape, str(self.rate)
        self.worker = worker

    def _arrived(self, frame: Frame, lag: Lag) -> None:
        now, at = time.monotonic(), float(frame.time)
        with self.change:
            lag.arrived(now, at)
            self.report.arrived += 1
            if len(self.raw) >= self.room:
                self.raw.popleft()
                self.report.dropped += 1
            self.raw.append(Raw(at, now, lag, frame.image))
            self.change.notify_all()

    # --- the anonymizer ---------------------------------------------------------------------------------------

    def _anonymize(self) -> None:
        while True:
            with self.change:
                self.change.wait_for(lambda: self.over.is_set() or self.raw, timeout=1.0)
                if self.over.is_set():
                    self.raw.clear()
                    return
                if not self.raw:
                    continue
                raw, self.at_one = self._take(), True
            checked = self._in_time(raw)
            with self.change:
                self.at_one = False
                if checked is None:
                    self.report.dropped += 1
                else:
                    while len(self.ready) >= self.room:
                        self._drop_ready()
                    self.ready.append(_Ready(raw.came, checked))
                self.change.notify_all()

    def _in_time(self, raw: Raw) -> Checked | None:
        """What may be shown of a picture; None where it is too late for that."""
        began = time.monotonic()
        if began - raw.came > self.live.latency:
            return None
        checked = self._checked(self._fitted(raw.image))
        self.pace += 0.2 * (time.monotonic() - began - self.pace)
        return checked

    def _take(self) -> Raw:
        """The oldest picture that will be done in good time: an anonymizer that cannot keep up works on fresh ones."""
        raw = self.raw.popleft()
        while self.raw and time.monotonic() - raw.came + self.pace > self.live.latency / 2:
            raw = self.raw.popleft()
            self.report.dropped += 1
        return raw

    def _checked(self, image: np.ndarray) -> Checked:
        from videoveil.pipeline.single import one_picture

        assert self.worker is not None
        with self.using:
            self.checks.weights()
            try:
                return one_picture(self.worker, self.checks, image, self.source)
            except Exception as error:  # of any kind: the picture stays inside
                self.worker = self._new_worker()  # one that follows people has lost them
                return self.checks.black(image, f"the anonymizer failed: {told(error)}")

    def _fitted(self, image: np.ndarray) -> np.ndarray:
        if image.shape[:2] == self.shape:
            return image
        import cv2

        return cv2.resize(image, self.shape[::-1], interpolation=cv2.INTER_AREA)

    # --- the clock --------------------------------------------------------------------------------------------

    def _wait_for_first(self) -> bool:
        """Until there is something to show; False when there never will be."""
        allowed = math.inf if self.live.duration is None else self.live.duration + self.live.stall
        deadline = time.monotonic() + allowed
        while True:
            with self.change:
                self.change.wait_for(lambda: self.ready or self.gone or self.over.is_set(), timeout=PATIENCE)
                if self.ready:
                    return True
                gone = self._drained()
            if gone or time.monotonic() >= deadline or self.asked.is_set() or self.over.is_set():
                reason = self.report.losses[-1] if self.report.losses else "nothing came"
                self.report.ended = STOPPED if self.asked.is_set() else "no picture came"
                if not self.asked.is_set():
                    self.report.error = f"no picture came from {self.source}: {reason}"
                return False

    def _open_sinks(self, outlets: list[Outlet]) -> None:
        for sink in self.sinks:
            sink.before_release = self._look
            sink.open(self.shape[1], self.shape[0], self.rate)
            outlets.append(Outlet(sink, max(2, self.room), self._fall))

    def _look(self) -> None:
        """Before anything becomes final: the anonymizer is what it was."""
        with self.using:
            self.checks.weights(now=True)

    def _tick(self, outlets: Sequence[Outlet], tell: Callable[[Progress], None] | None) -> None:
        step, start, tick = float(1 / self.rate), time.monotonic(), 0
        black = np.zeros((*self.shape, 3), np.uint8)
        told_at = start
        while not self.over.is_set():
            now = time.monotonic()
            if self._ended(now - start):
                return
            if now < start + tick * step:
                self.asked.wait(min(PATIENCE, start + tick * step - now))
                continue
            behind = int((now - start) / step) - tick
            if behind * step > max(self.live.latency, 1.0):  # asleep: catching up would show the past
                tick += behind
                self.report.skipped += behind
            image = self._pick(now, black)
            for outlet in outlets:
                outlet.put(tick, image)
            tick += 1
            self.report.frames += 1
            if tell is not None and now - told_at >= 0.2:
                told_at = now
                total = None if self.live.duration is None else round(self.live.duration / step)
                left = None if self.live.duration is None else self.live.duration - (now - start)
                tell(Progress(self.report.frames, total, self.report.frames / max(1e-9, now - start), left))

    def _ended(self, elapsed: float) -> bool:
        if self.asked.is_set():
            self.report.ended = STOPPED
        elif self.live.duration is not None and elapsed >= self.live.duration:
            self.report.ended = "the time is over"
        elif self._drained():
            self.report.ended = self.gone
            if self.gone != ENDED:
                self.report.error = self.gone
        else:
            return False
        return True

    def _drained(self) -> bool:
        """Nothing will come any more, and all that came has been shown or dropped."""
        with self.change:
            return bool(self.gone) and not (self.raw or self.at_one or self.ready)

    def _pick(self, now: float, black: np.ndarray) -> np.ndarray:
        """The picture of this tick."""
        number = self.report.frames
        with self.change:
            while self.ready and now - self.ready[0].came > self.live.latency:
                self._drop_ready()
            if len(self.ready) > max(1, self.room // 2):  # a queue that stays is delay that stays: catch up
                self._drop_ready()
            fresh = self.ready.popleft() if self.ready else None
        shown = fresh or self.last
        if shown is None or now - shown.came > self.live.latency:
            self.last = None
            self.report.black_frames += 1
            self.spans.add(number, STALLED, False)
            return black
        if fresh is not None:
            self.last = fresh
            self.report.fresh += 1
            waited = now - fresh.came
            self.report.latency_max = max(self.report.latency_max, waited)
            self.report.latency_mean += (waited - self.report.latency_mean) / self.report.fresh
        else:
            self.report.repeated += 1
        if shown.checked.reason:
            self.report.black_frames += 1
            self.spans.add(number, shown.checked.reason, shown.checked.failed)
            with self.change:
                self.report.failed_frames += shown.checked.failed and fresh is not None
        return shown.checked.image

    def _drop_ready(self) -> None:
        late = self.ready.popleft()
        self.report.dropped += 1
        self.report.failed_frames += late.checked.failed  # a failure is told, shown or not

    def _finish(self, outlets: Sequence[Outlet]) -> None:
        """End the sinks: well, or without leaving anything unfinished."""
        for outlet in outlets:
            outlet.end()
            self.report.not_written += outlet.missed
        for sink in self.sinks if outlets or self.error is not None else ():
            try:
                if self.error is None:
                    sink.close()
                else:
                    sink.abandon()
            except BaseException as error:  # the others are still to be ended
                self.error = self.error or error
                sink.abandon()
