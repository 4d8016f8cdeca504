"""One file through an anonymizer: decode → anonymize → check → encode, in threads of their own.

    report = anonymize_file("raw.mp4", "veiled.mp4", open_anonymizer("runs/spact"))

The result is H.264 in mp4 with the frames and times of the input, none of its tags, and its sound only when asked for.
It appears at its destination when every frame has passed; on any failure nothing does. Raw frames exist in memory
only: what is written, be it to a temporary name, has been through the anonymizer and the checks.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videoveil import files
from videoveil.errors import VeilError
from videoveil.pipeline.checks import Checked, found
from videoveil.pipeline.errors import FramesFailed, StageFailed, Stopped, WeightsChanged, told
from videoveil.pipeline.options import DEFAULTS, Options
from videoveil.pipeline.order import Order
from videoveil.pipeline.report import Progress, Report, Spans
from videoveil.pipeline.stages import Halted, Line

if TYPE_CHECKING:
    from videoveil.media.reader import Video, VideoInfo
    from videoveil.media.writer import VideoWriter
    from videoveil.pipeline.engines import Worker, Workshop
    from videoveil.pipeline.lanes import Lane

SUFFIXES = (".mp4", ".m4v")
WAITING = 96 * 2**20  # bytes of pictures in one queue, at most
OFTEN = 0.1  # seconds between two words about progress
STAGES = ("decode", "anonymize", "check", "encode")
Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Part:
    """Frames [first, stop) of a video, every time `shift` seconds later than there."""

    first: int
    stop: int
    shift: Fraction = Fraction(0)


def anonymize_file(
    source: str | Path,
    destination: str | Path,
    anonymizer: Any,
    options: Options = DEFAULTS,
    *,
    progress: Tell | None = None,
    stop: threading.Event | None = None,
    workshop: Workshop | None = None,
    part: Part | None = None,
) -> Report:
    """Write an anonymized copy of the video `source` to `destination` (.mp4), whole or not at all.

    Raises a `VeilError` on any failure, with a `report` where it came that far; `options.keep_partial` then leaves what
    there is, failed frames black, under a name with `.partial` in it. `stop` ends the run from another thread.
    `workshop` keeps engines from one file to the next. `part`: these frames only, to be joined with others
    (`media.join`).
    """
    order = Order.of(source, destination, anonymizer, options, stop, workshop)
    order.require_target(SUFFIXES, "video")
    sweep(order.destination.parent)
    from videoveil.media.reader import open_video

    began = time.perf_counter()
    with open_video(order.source, limits=options.limits, threads=_decoder_threads()) as video:
        try:
            run = _Run(order, video, began, part)
        except VeilError:
            raise
        except Exception as error:  # as in `through`: out of memory, a network that cannot run here, …
            raise StageFailed(f"{order.source}: {told(error)}") from None
        return run.through(progress)


def partial_name(destination: Path) -> Path:
    """Where a result goes that did not pass: `out.mp4` → `out.partial.mp4`."""
    return destination.with_name(f"{destination.stem}.partial{destination.suffix}")


def sweep(folder: Path) -> list[Path]:
    """Remove temporary files that killed runs left in `folder`; those of living processes stay."""
    left = [p for p in folder.glob(f"{files.TEMPORARY}*") if p.is_file() and not files.owner_alive(p)]
    for path in left:
        path.unlink(missing_ok=True)
    return left


# --- one run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Raw:
    """One frame as it goes in: what its lane took of it."""

    number: int
    time: Fraction
    taken: Any


@dataclass(frozen=True, slots=True)
class _Made:
    """What the anonymizer gave for one frame, or why it gave nothing."""

    raw: _Raw
    image: Any
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Ready:
    """One frame that may leave, and when it is shown. The raw picture is not in it."""

    number: int
    time: Fraction
    checked: Checked


class _Run:
    def __init__(self, order: Order, video: Video, began: float, part: Part | None):
        from videoveil.pipeline.engines import Workshop
        from videoveil.pipeline.hands import HANDS
        from videoveil.pipeline.lanes import lane

        self.order, self.source, self.destination = order, order.source, order.destination
        self.anonymizer, self.options, self.video, self.began = order.anonymizer, order.options, video, began
        self.checks = order.checks()
        self.info: VideoInfo = video.info
        self.part, self.total = part, self.info.frames if part is None else part.stop - part.first
        self.shape = self.options.size or (self.info.height, self.info.width)
        shop = order.workshop or Workshop()
        self.worker: Worker = shop.worker(self.anonymizer, self.shape, self.total, self.options, hands=HANDS)
        self.checks.answer = self.worker.answer
        self.lane: Lane = lane(self.worker, self.checks, self.shape)
        self.content = order.content()
        self.spans = Spans()
        self.frames = 0
        self.cut: VeilError | None = None  # the input ended before its end
        self.line = Line(order.stop)
        self.ready = time.perf_counter()  # from here on frames flow

    def through(self, tell: Tell | None) -> Report:
        """All frames; the report of a result that was released, or the error."""
        target = partial_name(self.destination) if self.options.keep_partial else self.destination
        try:
            with self._writer(target) as writer:
                try:
                    for batch in self._checked():
                        self._write(writer, batch)
                        self._tell(tell)
                except BaseException as error:
                    self.line.finish(error)
                    raise
                self.line.finish()
                self.checks.weights(now=True)
                self._judge()
                self._closing = time.perf_counter()
        except Halted:
            raise Stopped(f"{self.source}: stopped after {self.frames} frames", self._report("")) from None
        except WeightsChanged as error:
            raise WeightsChanged(f"{self.source}: {error}", self._report("", error)) from None
        except VeilError as error:
            if isinstance(error, FramesFailed | Stopped | StageFailed):
                error.report = self._report("", error)
            raise
        except Exception as error:  # unforeseen; its text may hold anything, so it is not passed on
            raise StageFailed(f"{self.source}: {told(error)}", self._report("", error)) from None
        self.line.seconds["encode"] += time.perf_counter() - self._closing
        return self._released(target)

    def _judge(self) -> None:
        """At the end of the frames: is this a result? Without `keep_partial`, only if nothing at all went wrong."""
        if self.cut is not None and not (self.options.keep_partial and self.frames):
            raise self.cut
        if self.part is not None and self.frames != self.total:
            raise FramesFailed(
                f"{self.source}: {self.frames} frames came of the {self.total} that were planned"
            )

    def _released(self, target: Path) -> Report:
        """The file is at `target`. Say what it is, and raise if it is a partial one."""
        if target == self.destination:
            return self._report(str(target))
        if not self.spans.failed and self.cut is None:
            target.replace(self.destination)
            files.fsync_directory(self.destination.parent)
            return self._report(str(self.destination))
        if self.cut is not None:
            message = f"{told(self.cut)}; the {self.frames} frames before are in {target}"
        else:
            message = f"{self._failures()}; what there is, with those black, is in {target}"
        raise FramesFailed(message, self._report(str(target), FramesFailed(message)))

    # --- the stages -----------------------------------------------------------------------------------------

    def _checked(self) -> Iterator[list[_Ready]]:
        """Batches of frames that may leave, by threads that decode, anonymize and check."""
        size = self.worker.batch
        room = max(1, min(self.options.queue, WAITING // (self.shape[0] * self.shape[1] * 3)) // size)
        decoded = self.line.source("decode", _batches(self._frames(), size), room)
        made = self.line.stage(
            "anonymize", self._anonymize, decoded, room, hands=self.worker.hands, begin=self.worker.begin
        )
        return self.line.stage("check", self._check, made, room)

    def _frames(self) -> Iterator[_Raw]:
        """Decoded, as the lane takes them. A damaged input ends the stream and is told at the end."""
        first, stop, shift = 0, None, Fraction(0)
        if self.part is not None:
            first, stop, shift = self.part.first, self.part.stop, self.part.shift
        try:
            for decoded in self.video.decoded(first, stop):
                yield _Raw(decoded.index, decoded.time + shift, self.lane.take(decoded))
        except VeilError as error:
            self.cut = error

    def _anonymize(self, batch: Sequence[_Raw]) -> list[_Made]:
        self.checks.weights()
        try:
            images = self.lane.anonymize([raw.taken for raw in batch], self.content)
            if len(images) != len(batch):
                raise StageFailed(f"{len(images)} pictures came out of {len(batch)}")
            return [_Made(raw, image) for raw, image in zip(batch, images)]
        except Exception as error:  # of any kind: the frames of this batch stay inside
            if len(batch) == 1:
                return [_Made(batch[0], None, f"the anonymizer failed: {told(error)}")]
        # a frame's result does not depend on its batch, so each gets a chance of its own
        return [one for raw in batch for one in self._anonymize([raw])]

    def _check(self, batch: Sequence[_Made]) -> list[_Ready]:
        done = []
        for made in batch:
            raw = made.raw
            if made.problem:
                checked = self.lane.black(raw.taken, made.problem)
            else:
                checked = self.lane.check(raw.taken, made.image)
            done.append(_Ready(raw.number, raw.time, checked))
        return done

    def _write(self, writer: VideoWriter, batch: Iterable[_Ready]) -> None:
        for ready in batch:
            if ready.checked.reason:
                self.spans.add(ready.number, ready.checked.reason, ready.checked.failed)
            if ready.checked.failed and not self.options.keep_partial:
                raise FramesFailed(f"{self.source}: {self._failures()}; nothing is released")
            self.line.busy("encode", writer.write, ready.checked.image, ready.time)
            self.frames += 1

    def _writer(self, target: Path) -> VideoWriter:
        from videoveil.media.writer import VideoWriter

        height, width = self.shape
        aspect = self.info.sample_aspect  # of pixels: the picture keeps its shape on the screen
        if self.options.size is not None:
            aspect = aspect * Fraction(self.info.width * height, self.info.height * width)
        chosen = {"threads": self.options.threads} if self.options.threads else {}
        self.line.seconds.update(dict.fromkeys(STAGES, 0.0))
        return VideoWriter(
            target,
            width=width,
            height=height,
            time_base=self.info.time_base,
            rate=self.info.rate,
            audio_from=self.source if self.options.audio and self.info.has_audio else None,
            sample_aspect=aspect.limit_denominator(10_000),
            crf=self.options.crf,
            preset=self.options.preset,
            limits=self.options.limits,
            **chosen,
        )

    # --- words ----------------------------------------------------------------------------------------------

    _told = _closing = 0.0

    def _tell(self, tell: Tell | None) -> None:
        now = time.perf_counter()
        if tell is None or (now - self._told < OFTEN and self.frames != self.total):
            return
        self._told = now
        fps = self.frames / max(1e-9, now - self.ready)
        total = self.total
        left = None if total is None else max(0, total - self.frames) / max(1e-9, fps)
        tell(Progress(self.frames, total, fps, left))

    def _failures(self) -> str:
        spans = [span for span in self.spans.all() if span.failed]
        more = f" and {len(spans) - 3} more" if len(spans) > 3 else ""
        return f"{self.spans.failed} frames failed ({'; '.join(map(str, spans[:3]))}{more})"

    def _report(self, destination: str, error: BaseException | None = None) -> Report:
        seconds = {name: round(self.line.seconds.get(name, 0.0), 3) for name in STAGES}
        detector = found(self.anonymizer)
        from videoveil.pipeline.inner import unmeasured_scale

        notes = []
        if self.options.audio and not self.info.has_audio:
            notes.append("there is no sound in the input")
        if warning := unmeasured_scale(self.anonymizer, self.shape, self.options.inner):
            notes.append(warning)
        return Report(
            source=str(self.source),
            destination=destination,
            frames=self.frames,
            width=self.shape[1],
            height=self.shape[0],
            duration=None if self.info.duration is None else float(self.info.duration),
            seconds=round(time.perf_counter() - self.began, 3),
            stage_seconds=seconds,
            bottleneck=max(seconds, key=lambda name: seconds[name]) if self.frames else "nothing to do",
            engine=self.worker.facts(),
            anonymizer=self.checks.hash,
            kind=str(getattr(self.anonymizer, "kind", type(self.anonymizer).__name__)),
            black=self.spans.all(),
            black_frames=self.spans.frames,
            failed_frames=self.spans.failed,
            detector=detector,
            audio=self.options.audio and self.info.has_audio,
            error="" if error is None else told(error),
            notes=tuple(notes),
        )


def _batches(frames: Iterator[_Raw], size: int) -> Iterator[list[_Raw]]:
    batch: list[_Raw] = []
    for frame in frames:
        batch.append(frame)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _decoder_threads() -> int:
    """One keeps up with any network on few cores; where there are many, they are for the decoder too."""
    return max(1, min(4, (os.cpu_count() or 1) // 4))
