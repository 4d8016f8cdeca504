"""Many videos by many workers, any of which may die at any time.

    corpus = Corpus(read_manifest("archive"), "out", "runs/veil")
    report = run_local(corpus, workers=4)

Long videos are cut into chunks of frames. Whoever has time takes the next piece of work that nobody has: planning a
video, one of its chunks, or joining its chunks. Everything that is known is in files below the destination:

    OUT/.veil-corpus/corpus.json           what all workers agree on
    OUT/.veil-corpus/plans/ID.json         a video's chunks
    OUT/.veil-corpus/parts/ID/N.mp4        a finished chunk, anonymized; N.json, there first, says what is black in it
    OUT/.veil-corpus/settled/ID.json       done, or why not
    OUT/NAME                               a finished video

A piece of work belongs to the process that holds its lock, which ends with the process; what it makes appears whole or
not at all. So every result is made once, and a worker that dies costs the chunk it was at. No step depends on who does
it: the result is the same, byte by byte, whatever dies, and however many work. A worker that is told to stop leaves
the chunk it is at as if it had never begun.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from videoveil import files
from videoveil.errors import UsageError, VeilError
from videoveil.pipeline.errors import Stopped, told
from videoveil.pipeline.manifest import Entry
from videoveil.pipeline.options import EngineName, Options
from videoveil.pipeline.process import no_memory_dumps
from videoveil.pipeline.records import Records, stamp, tidy

STATE = ".veil-corpus"
RETRY_SECONDS = 0.2


@dataclass(frozen=True)
class Plan:
    """How one video is cut: frames [bounds[n], bounds[n + 1]) are chunk n."""

    frames: int
    bounds: tuple[int, ...]
    shift: Fraction  # seconds by which everything is later, since mp4 knows no time below zero
    stamp: tuple[int, ...]  # of the source, which must not change meanwhile

    @property
    def chunks(self) -> int:
        return len(self.bounds) - 1

    def span(self, number: int) -> tuple[int, int]:
        return self.bounds[number], self.bounds[number + 1]

    def to_json(self) -> dict[str, Any]:
        return {
            "frames": self.frames,
            "bounds": list(self.bounds),
            "shift": str(self.shift),
            "stamp": list(self.stamp),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Plan:
        return cls(value["frames"], tuple(value["bounds"]), Fraction(value["shift"]), tuple(value["stamp"]))


def bounds(frames: int, length: int) -> tuple[int, ...]:
    """Where chunks of about `length` frames begin and end; all differ by one frame at most."""
    pieces = max(1, -(-frames // length))
    return tuple(frames * n // pieces for n in range(pieces + 1))


@dataclass(frozen=True)
class Settled:
    """What became of one video."""

    name: str
    source: str
    frames: int = 0
    chunks: int = 0
    black: tuple[dict[str, Any], ...] = ()
    reason: str = ""  # empty: it is done

    @property
    def done(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class CorpusReport:
    """What became of all videos."""

    settled: tuple[Settled, ...]
    seconds: float
    restarts: int = 0

    @property
    def failed(self) -> tuple[Settled, ...]:
        return tuple(one for one in self.settled if not one.done)

    @property
    def exit_code(self) -> int:
        return 3 if self.failed else 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"done": len(self.settled) - len(self.failed), "failed": len(self.failed)}

    def __str__(self) -> str:
        done = [one for one in self.settled if one.done]
        frames = sum(one.frames for one in done)
        rate = frames / self.seconds if self.seconds else 0.0
        lines = [
            f"{len(done)} of {len(self.settled)} videos done, {frames} frames in {self.seconds:.1f} s "
            f"({rate:.1f} frames/s); workers that died: {self.restarts}"
        ]
        return "\n".join([*lines, *(f"failed, {one.name}: {one.reason}" for one in self.failed)])


@dataclass(frozen=True)
class Corpus:
    """What all workers of a corpus agree on. `model` is what `open_anonymizer` takes; `chunk` is in frames."""

    entries: tuple[Entry, ...]
    destination: Path
    model: str
    options: Options = field(default_factory=Options)
    key: Path | None = None
    chunk: int = 3000
    attempts: int = 5  # of one piece of work, before it is held to be what kills its workers

    def __post_init__(self) -> None:
        object.__setattr__(self, "destination", Path(self.destination))
        if self.chunk < 1 or self.attempts < 1:
            raise UsageError(f"chunk={self.chunk} and attempts={self.attempts} must be at least 1")
        if self.options.keep_partial:
            raise UsageError("keep_partial is for single files; a corpus keeps whole results only")

    @property
    def state(self) -> Path:
        return self.destination / STATE

    @property
    def records(self) -> Records:
        return Records(self.state)

    # --- agreeing -------------------------------------------------------------------------------------------

    def prepared(self) -> Corpus:
        """Ready for workers: its engine is chosen once for all, since another one rounds otherwise.

        A destination that was begun with another anonymizer or other options is refused.
        """
        from videoveil.pipeline.inner import trained_size

        anonymizer = self.open()
        chosen = _engine(anonymizer, self._first_size(), self.options)
        options = replace(self.options, engine=chosen, expect=anonymizer.content_hash())
        decisive = options.decisive(trained_size(anonymizer))
        mine = {"options": decisive, "model": anonymizer.content_hash(), "chunk": self.chunk}
        path = self.state / "corpus.json"
        files.create_json(path, {**mine, "engine": chosen})
        there = json.loads(path.read_text())
        if {key: there.get(key) for key in mine} != mine:
            raise UsageError(
                f"{self.destination}: was begun with another anonymizer or other options; give another destination"
            )
        return replace(self, options=replace(options, engine=there["engine"]))

    def _first_size(self) -> tuple[int, int]:
        """Of the first video that can be read, for the choice of an engine."""
        from videoveil.media.reader import open_video

        for entry in self.entries:
            try:
                with open_video(entry.source, limits=self.options.limits) as video:
                    return video.info.height, video.info.width
            except VeilError:
                continue  # it will be reported when its turn comes
        return (224, 224)

    def open(self) -> Any:
        """Its anonymizer, which every worker opens for itself."""
        from videoveil.anonymizers import NoiseKey
        from videoveil.anonymizers.named import open_anonymizer
        from videoveil.pipeline.engines import require_usable

        anonymizer = open_anonymizer(self.model, key=None if self.key is None else NoiseKey.load(self.key))
        require_usable(anonymizer)
        return anonymizer

    # --- what is known --------------------------------------------------------------------------------------

    def settled(self, entry: Entry) -> Settled | None:
        value = self.records.get("settled", entry.id)
        return None if value is None else Settled(**{**value, "black": tuple(value["black"])})

    def plan_of(self, entry: Entry) -> Plan | None:
        value = self.records.get("plans", entry.id)
        return None if value is None else Plan.from_json(value)

    def part(self, entry: Entry, number: int) -> Path:
        return self.state / "parts" / entry.id / f"{number}.mp4"

    def frames_done(self) -> int:
        """For a progress bar."""
        total = 0
        for entry in self.entries:
            if (found := self.settled(entry)) is not None:
                total += found.frames
            elif (plan := self.plan_of(entry)) is not None:
                spans = (plan.span(n) for n in range(plan.chunks) if self.part(entry, n).is_file())
                total += sum(stop - first for first, stop in spans)
        return total

    def report(self, seconds: float, restarts: int = 0) -> CorpusReport:
        every = [self.settled(entry) for entry in self.entries]
        return CorpusReport(tuple(one for one in every if one is not None), seconds, restarts)

    def stopped(self) -> Stopped:
        """What is told of a run that was asked to end."""
        done = sum(self.settled(entry) is not None for entry in self.entries)
        return Stopped(
            f"{self.destination}: stopped; {done} of {len(self.entries)} videos are settled, the same command goes on"
        )

    def forgive(self) -> None:
        """Forget how often pieces of work were begun: those who were at them were told to stop, or ended."""
        shutil.rmtree(self.state / "attempts", ignore_errors=True)

    def tidy(self) -> None:
        """Remove what killed workers left, beside the results too."""
        tidy(self.destination)
        for entry in self.entries:
            if self.settled(entry) is not None:
                self._clear(entry)

    # --- pieces of work: each does nothing where it is done or somebody else is at it -------------------------

    def do_plan(self, entry: Entry, anonymizer: Any) -> bool:
        with self._owned(entry, "plan") as owned:
            if not owned or self.plan_of(entry) is not None or self.settled(entry) is not None:
                return False
            plan = self._attempt(entry, "plan", lambda: self._plan(entry, anonymizer))
            if plan is not None:
                self.records.put("plans", entry.id, plan.to_json())
            return True

    def do_chunk(
        self, entry: Entry, plan: Plan, number: int, anonymizer: Any, stop: threading.Event | None = None
    ) -> bool:
        part = self.part(entry, number)
        with self._owned(entry, str(number)) as owned:
            if not owned or part.is_file() or self.settled(entry) is not None:
                return False
            self._attempt(entry, str(number), lambda: self._chunk(entry, plan, number, anonymizer, stop))
            if self.settled(entry) is not None:  # somebody else failed at it meanwhile
                self._clear(entry)
            return True

    def do_join(self, entry: Entry, plan: Plan) -> bool:
        parts = [self.part(entry, n) for n in range(plan.chunks)]
        with self._owned(entry, "join") as owned:
            if not owned or self.settled(entry) is not None or not all(part.is_file() for part in parts):
                return False
            made = self._attempt(entry, "join", lambda: self._join(entry, plan, parts))
            if made is not None:
                self._settle(entry, made)
            return True

    def advance(self, entry: Entry, anonymizer: Any, stop: threading.Event | None = None) -> bool:
        """The next piece of work of one video; False where nothing can be done now. Raises `Stopped` at `stop`."""
        plan = self.plan_of(entry)
        if plan is None:
            return self.do_plan(entry, anonymizer)
        missing = [n for n in range(plan.chunks) if not self.part(entry, n).is_file()]
        if not missing:
            return self.do_join(entry, plan)
        return any(self.do_chunk(entry, plan, number, anonymizer, stop) for number in missing)

    # --- how they are done ----------------------------------------------------------------------------------

    def _plan(self, entry: Entry, anonymizer: Any) -> Plan:
        from videoveil.media.reader import open_video
        from videoveil.pipeline.checks import follows_people

        before = stamp(entry.source)
        with open_video(entry.source, limits=self.options.limits) as video:
            times = video.index()
            shift = max(Fraction(0), -int(times[0]) * video.info.time_base)
        follows = follows_people(anonymizer)  # somebody who is followed must not be lost at a seam
        whole = len(times) if follows else self.chunk
        return Plan(len(times), bounds(len(times), whole), shift, tuple(before))

    def _chunk(
        self, entry: Entry, plan: Plan, number: int, anonymizer: Any, stop: threading.Event | None
    ) -> bool:
        from videoveil.pipeline.anonymize import Part, anonymize_file

        part = self.part(entry, number)
        unseen = part.with_name(f"{number}.unseen.mp4")  # whoever sees the part may join it at once
        options = replace(self.options, audio=False)
        span = Part(*plan.span(number), plan.shift)
        report = anonymize_file(entry.source, unseen, anonymizer, options, stop=stop, part=span)
        if tuple(stamp(entry.source)) != plan.stamp:
            raise UsageError(f"{entry.source}: was changed while the corpus was at work")
        black = [asdict(span) for span in report.black]
        files.write_json(part.with_suffix(".json"), black)
        unseen.replace(part)
        files.fsync_directory(part.parent)
        return True

    def _join(self, entry: Entry, plan: Plan, parts: Sequence[Path]) -> Settled:
        from videoveil.media.join import join

        audio = entry.source if self.options.audio else None
        destination = self.destination / entry.name
        frames = join(parts, destination, audio_from=audio, shift=plan.shift, limits=self.options.limits)
        if frames != plan.frames:
            destination.unlink()
            raise UsageError(f"{entry.source}: {frames} frames came out of {plan.frames}")
        black = [span for part in parts for span in json.loads(part.with_suffix(".json").read_text())]
        return Settled(entry.name, entry.source, frames, plan.chunks, tuple(black))

    def _attempt(self, entry: Entry, what: str, step: Any) -> Any:
        """Do it, unless it has killed its worker too often; a failure settles the video and is no error here."""
        count = self.state / "attempts" / entry.id / what
        before = _counted(count)
        if before >= self.attempts:
            self._fail(entry, f"{_words(what)} ended its worker {before} times")
            return None
        _count(count, before + 1)
        try:
            return step()
        except Stopped:  # nobody's fault: it does not count as an attempt
            _count(count, before)
            raise
        except Exception as error:  # whatever it was, the other videos go on
            self._fail(entry, f"{_words(what)}: {told(error)}")
        return None

    def _fail(self, entry: Entry, reason: str) -> None:
        """The first reason stays: whoever is at another chunk fails too, since the folder is taken away."""
        if self.settled(entry) is None:
            self._settle(entry, Settled(entry.name, entry.source, reason=reason))

    def _settle(self, entry: Entry, found: Settled) -> None:
        self.records.put("settled", entry.id, asdict(found))
        self._clear(entry)

    def _clear(self, entry: Entry) -> None:
        """Remove what only unsettled videos need."""
        shutil.rmtree(self.state / "parts" / entry.id, ignore_errors=True)
        shutil.rmtree(self.state / "attempts" / entry.id, ignore_errors=True)

    def _owned(self, entry: Entry, what: str) -> Any:
        return self.records.claim(f"{entry.id}-{what}")


def _engine(anonymizer: Any, size: tuple[int, int], options: Options) -> EngineName:
    """The engine for a learned anonymizer: the one that was asked for, or the fastest here."""
    from videoveil.anonymizers.pixel.anonymizer import PixelAnonymizer
    from videoveil.pipeline.engines import Workshop
    from videoveil.pipeline.inner import of_the_whole

    whole = of_the_whole(anonymizer)
    if options.engine != "auto" or not isinstance(whole, PixelAnonymizer) or not whole.networks:
        return "torch" if options.engine == "auto" else options.engine
    found: EngineName = Workshop().worker(whole, size, None, options).facts()["name"]
    return found


def _counted(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _count(path: Path, number: int) -> None:
    """Counts are taken away with the last chunk of a video, or when another run was stopped: no reason to fail."""
    with contextlib.suppress(OSError):
        files.write_text(path, str(number))


def _words(what: str) -> str:
    return f"chunk {what}" if what.isdigit() else {"plan": "planning", "join": "joining"}[what]


def work(corpus: Corpus, number: int = 0, workers: int = 1, *, stop: threading.Event | None = None) -> None:
    """One worker: take what nobody has until everything is settled. `corpus` must be prepared.

    Raises `Stopped` soon after `stop` is set, in the middle of a chunk too.
    """
    stop = stop or threading.Event()
    no_memory_dumps()
    anonymizer = corpus.open()
    begin = len(corpus.entries) * number // max(1, workers)
    left = [*corpus.entries[begin:], *corpus.entries[:begin]]  # each begins elsewhere, so they seldom meet
    while left:
        busy = False
        for entry in left:
            if stop.is_set():
                raise corpus.stopped()
            busy |= corpus.settled(entry) is None and corpus.advance(entry, anonymizer, stop)
        left = _unsettled(corpus, left)
        if left and not busy:
            stop.wait(RETRY_SECONDS)


def _unsettled(corpus: Corpus, entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if corpus.settled(entry) is None]
