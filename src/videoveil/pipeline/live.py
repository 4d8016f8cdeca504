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
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from videoveil.errors import MissingFile, ProtocolNotAllowed, UsageError, VeilError
from videoveil.pipeline.checks import Checked, FrameChecks
from videoveil.pipeline.errors import FAILED, StageFailed, WeightsChanged, told
from videoveil.pipeline.live_sinks import SEGMENT, Sink, sink_for
from videoveil.pipeline.options import Options
from videoveil.pipeline.report import Progress, Span, Spans

if TYPE_CHECKING:
    from videoveil.media.reader import Frame, VideoInfo
    from videoveil.pipeline.engines import Worker

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0  # seconds before a source is opened again
RATES = (Fraction(1), Fraction(60))  # that a source's own word is taken for
USUAL_RATE = Fraction(25)
WAITING = 2**28  # bytes of raw pictures that may wait
LOOKS = 5.0  # seconds between two looks at the anonymizer's weights
STALLED = "nothing came in time"
STOPPED = "stopped"  # how a run ends that was asked to
PATIENCE = 0.05
LEAVE = 2.0  # seconds that a thread gets to end


@dataclass(frozen=True)
class LiveOptions:
    """What a live run does about time."""

    latency: float = 1.0
    """Seconds after its arrival in which a picture must be shown, or it is dropped."""
    rate: Fraction | None = None
    """Pictures per second of the output; None: the source's."""
    duration: float | None = None
    """Seconds to run; None: until it is stopped."""
    stall: float = 10.0
    """Seconds without data after which a connection is given up and made again."""
    patience: float | None = None
    """Seconds without a picture after which the run ends; None: never. 0: when the source ends, so does the run."""
    segment: float = SEGMENT
    """Seconds per file."""

    def __post_init__(self) -> None:
        for name in ("latency", "stall", "segment"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name}={getattr(self, name)!r}: must be seconds above zero")
        if self.rate is not None and not Fraction(1, 10) <= self.rate <= 240:
            raise UsageError(f"rate={self.rate}: must be between 0.1 and 240 pictures per second")
        if self.duration is not None and not self.duration > 0:
            raise UsageError(f"duration={self.duration}: must be seconds above zero")
        if self.patience is not None and not self.patience >= 0:
            raise UsageError(f"patience={self.patience}: must be seconds, 0 or more")


@dataclass
class LiveReport:
    """What happened."""

    source: str
    sinks: dict[str, dict[str, Any]] = field(default_factory=dict)
    anonymizer: str = ""
    engine: dict[str, Any] = field(default_factory=dict)
    width: int = 0
    height: int = 0
    rate: str = ""
    seconds: float = 0.0
    frames: int = 0
    """Pictures that went out: fresh + repeated + black ones."""
    arrived: int = 0
    fresh: int = 0
    repeated: int = 0
    black_frames: int = 0
    failed_frames: int = 0
    """Of pictures that failed; they went out black."""
    dropped: int = 0
    """Pictures that came in and would have been too late."""
    skipped: int = 0
    """Ticks that the clock missed: the machine was asleep or far too busy."""
    not_written: int = 0
    """Pictures that a sink was too slow for."""
    connections: int = 0
    losses: list[str] = field(default_factory=list)
    """Why connections ended, the last hundred."""
    lost: int = 0
    latency_mean: float = 0.0
    latency_max: float = 0.0
    """Seconds from the arrival of a picture to the tick that showed it first."""
    black: tuple[Span, ...] = ()
    ended: str = ""
    error: str = ""

    @property
    def exit_code(self) -> int:
        """3 when a picture or the source failed or the run was stopped; drops and repeats are part of live pictures."""
        return FAILED if self.failed_frames or self.error or self.ended == STOPPED else 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"exit_code": self.exit_code}

    def __str__(self) -> str:
        lines = [
            f"{self.source}: {self.frames} pictures of {self.width}×{self.height} in {self.seconds:.1f} s; "
            f"{self.fresh} fresh, {self.repeated} repeated, {self.black_frames} black ({self.failed_frames} failed)",
            f"{self.arrived} came in, {self.dropped} dropped; latency {self.latency_mean * 1000:.0f} ms on average, "
            f"{self.latency_max * 1000:.0f} ms at most",
            f"connections: {self.connections}, lost: {self.lost}; ended: {self.ended}",
        ]
        lines += [f"black, {span}" for span in self.black[:10]]
        lines += [f"{name}: {_words(facts)}" for name, facts in self.sinks.items()]
        return "\n".join(lines)


def _words(facts: Mapping[str, Any]) -> str:
    """What a sink has to tell in one line: `segments 1, frames 250, last cam-00000.mp4`."""
    told = {name: " ".join(value) if isinstance(value, list) else value for name, value in facts.items()}
    return ", ".join(f"{name} {value}" for name, value in told.items() if value != "")


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


def address_of(source: str | int) -> str:
    """What the reader opens: camera 0 is /dev/video0."""
    text = str(source)
    if text.isdigit():
        text = f"/dev/video{text}"
    if Path(text).is_file():
        raise UsageError(f"{text}: is a file; use `veil anonymize` for files")
    return text


class _Lag:
    """When the pictures of one connection were really there to be had.

    A reader that is slow to start, or a network that was held up, hands out many pictures at once, most of them old.
    Their times tell: the picture that came quickest, of the last few seconds, is taken for one that came at once, and
    all others are as old as they are behind it.
    """

    def __init__(self, window: float = 10.0):
        self._window = window
        self._quickest: deque[tuple[float, float]] = deque()  # (arrival, arrival − time), delays increasing
        self._last = -math.inf

    def arrived(self, now: float, at: float) -> None:
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
        return at + self._quickest[0][1]


@dataclass(frozen=True, slots=True)
class _Raw:
    at: float  # its own time
    arrived: float
    lag: _Lag
    image: np.ndarray

    @property
    def came(self) -> float:
        return min(self.arrived, self.lag.came(self.at))


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
        self.checks = FrameChecks(
            anonymizer,
            least_change=options.least_change,
            empty=options.empty_frames,
            expect=options.expect,
            seconds=LOOKS,
        )
        self.report.anonymizer = self.checks.hash
        self.using = threading.Lock()  # of the worker: engines are asked one thing at a time
        self.worker: Worker | None = None
        self.shape: tuple[int, int] = (0, 0)
        self.rate = live.rate or USUAL_RATE
        self.room = 1
        self.change = threading.Condition()
        self.raw: deque[_Raw] = deque()
        self.ready: deque[_Ready] = deque()
        self.gone = ""  # why the source will give nothing more
        self.last: _Ready | None = None
        self.pace = 0.0  # seconds that a picture takes, lately

    def through(self, tell: Callable[[Progress], None] | None) -> LiveReport:
        began = time.monotonic()
        threads = [self._thread("capture", self._capture), self._thread("anonymize", self._anonymize)]
        outlets: list[_Outlet] = []
        try:
            if self._wait_for_first():
                outlets = self._open_sinks()
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
        from videoveil.media.reader import open_video

        limits = replace(self.options.limits, stall=self.live.stall)
        wait, seen = FIRST_WAIT, time.monotonic()
        while not self.over.is_set():
            reason, before = "the source ended", self.report.arrived
            try:
                with open_video(self.source, stream=True, limits=limits) as video:
                    self.report.connections += 1
                    if not self._learned(video.info):
                        return
                    lag = _Lag()
                    for frame in video.frames():
                        if self.over.is_set():
                            return
                        self._arrived(frame, lag)
            except (ProtocolNotAllowed, UsageError):
                raise
            except VeilError as error:
                if isinstance(error, MissingFile) and "://" not in self.source:
                    raise  # no such camera: it will not turn up
                reason = told(error)
            if self.report.arrived > before:
                wait, seen = FIRST_WAIT, time.monotonic()
            self._lost(reason)
            if self.live.patience is not None and time.monotonic() - seen >= self.live.patience:
                with self.change:
                    self.gone = reason
                    self.change.notify_all()
                return
            self.over.wait(wait)
            wait = min(2 * wait, LONGEST_WAIT)

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

        self.shape = self.options.size or (info.height, info.width)
        if self.live.rate is None and info.rate is not None and RATES[0] <= info.rate <= RATES[1]:
            self.rate = Fraction(info.rate).limit_denominator(1001)
        bytes_each = self.shape[0] * self.shape[1] * 3
        self.room = max(1, min(math.ceil(self.live.latency * self.rate), WAITING // bytes_each))
        self._new_worker = lambda: Workshop().worker(self.anonymizer, self.shape, None, self.options)
        worker = self._new_worker()
        self.checks.answer = worker.answer
        self.report.engine = worker.facts()
        self.report.height, self.report.width, self.report.rate = *self.shape, str(self.rate)
        self.worker = worker

    def _arrived(self, frame: Frame, lag: _Lag) -> None:
        now, at = time.monotonic(), float(frame.time)
        with self.change:
            lag.arrived(now, at)
            self.report.arrived += 1
            if len(self.raw) >= self.room:
                self.raw.popleft()
                self.report.dropped += 1
            self.raw.append(_Raw(at, now, lag, frame.image))
            self.change.notify_all()

    def _lost(self, reason: str) -> None:
        self.report.lost += 1
        self.report.losses = [*self.report.losses[-99:], reason]

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
                raw = self._take()
            if time.monotonic() - raw.came > self.live.latency:
                self.report.dropped += 1
                continue
            began = time.monotonic()
            checked = self._checked(self._fitted(raw.image))
            self.pace += 0.2 * (time.monotonic() - began - self.pace)
            with self.change:
                while len(self.ready) >= self.room:
                    self._drop_ready()
                self.ready.append(_Ready(raw.came, checked))
                self.change.notify_all()

    def _take(self) -> _Raw:
        """The oldest picture that will be done in good time: an anonymizer that cannot keep up works on fresh ones."""
        raw = self.raw.popleft()
        while self.raw and time.monotonic() - raw.came + self.pace > self.live.latency / 2:
            raw = self.raw.popleft()
            self.report.dropped += 1
        return raw

    def _checked(self, image: np.ndarray) -> Checked:
        assert self.worker is not None
        with self.using:
            self.checks.weights()
            try:
                made = self.worker([image], self.source)[0]
            except Exception as error:  # of any kind: the picture stays inside
                self.worker = self._new_worker()  # one that follows people has lost them
                return self.checks.black(image, f"the anonymizer failed: {told(error)}")
        return self.checks.frame(image, made)

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
                gone = bool(self.gone) and not self.raw and not self.report.arrived
            if gone or time.monotonic() >= deadline or self.asked.is_set() or self.over.is_set():
                reason = self.report.losses[-1] if self.report.losses else "nothing came"
                self.report.ended = STOPPED if self.asked.is_set() else "no picture came"
                if not self.asked.is_set():
                    self.report.error = f"no picture came from {self.source}: {reason}"
                return False

    def _open_sinks(self) -> list[_Outlet]:
        outlets = []
        for sink in self.sinks:
            sink.before_release = self._look
            sink.open(self.shape[1], self.shape[0], self.rate)
            outlets.append(_Outlet(sink, max(2, self.room), self._fall))
        return outlets

    def _look(self) -> None:
        """Before anything becomes final: the anonymizer is what it was."""
        with self.using:
            self.checks.weights(now=True)

    def _tick(self, outlets: Sequence[_Outlet], tell: Callable[[Progress], None] | None) -> None:
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
        elif self.gone and not self.raw and not self.ready:
            self.report.ended = self.gone
            if self.gone != "the source ended":
                self.report.error = self.gone
        else:
            return False
        return True

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
            self.report.failed_frames += shown.checked.failed and fresh is not None
        return shown.checked.image

    def _drop_ready(self) -> None:
        late = self.ready.popleft()
        self.report.dropped += 1
        self.report.failed_frames += late.checked.failed  # a failure is told, shown or not

    def _finish(self, outlets: Sequence[_Outlet]) -> None:
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


class _Outlet:
    """A thread before a sink, so that a slow one holds up nobody; the oldest waiting picture makes room."""

    def __init__(self, sink: Sink, room: int, fall: Callable[[BaseException], None]):
        self.sink, self.fall, self.missed = sink, fall, 0
        self._waiting: queue.Queue[tuple[int, np.ndarray] | None] = queue.Queue(room)
        self._thread = threading.Thread(target=self._run, name="veil-sink", daemon=True)
        self._thread.start()

    def put(self, tick: int, image: np.ndarray) -> None:
        while True:
            try:
                self._waiting.put_nowait((tick, image))
                return
            except queue.Full:
                try:
                    self._waiting.get_nowait()
                    self.missed += 1
                except queue.Empty:
                    continue

    def end(self) -> None:
        while self._thread.is_alive():
            try:
                self._waiting.put(None, timeout=PATIENCE)
                break
            except queue.Full:
                continue
        self._thread.join()

    def _run(self) -> None:
        try:
            while (item := self._waiting.get()) is not None:
                self.sink.write(*item)
        except BaseException as error:
            self.fall(error)
