"""What a run did: frames, seconds per stage, and every frame that is black, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from videoveil.pipeline.options import ALL


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one file is."""

    frames: int
    total: int | None
    fps: float
    remaining: float | None
    """Seconds, where the number of frames is known."""


@dataclass(frozen=True, slots=True)
class FolderProgress:
    """How far a folder is: files done (failed ones too), and how far the one at work is."""

    files: int
    total: int
    failed: int
    place: str
    file: Progress | None


@dataclass(frozen=True, slots=True)
class Span:
    """Frames [first, stop) that are black for one reason. `failed`: they should not be."""

    first: int
    stop: int
    reason: str
    failed: bool

    def __str__(self) -> str:
        which = (
            f"frame {self.first}"
            if self.stop == self.first + 1
            else f"frames {self.first} to {self.stop - 1}"
        )
        return f"{which}: {self.reason}"


class Spans:
    """Black frames as they come; neighbours with one reason are one span, and only the first `most` are kept apart."""

    def __init__(self, most: int = 1000):
        self._spans: list[Span] = []
        self._most = most
        self.failed = self.frames = 0

    def add(self, number: int, reason: str, failed: bool) -> None:
        self.frames += 1
        self.failed += failed
        last = self._spans[-1] if self._spans else None
        if last and last.stop == number and (last.reason, last.failed) == (reason, failed):
            self._spans[-1] = Span(last.first, number + 1, reason, failed)
        elif len(self._spans) < self._most:
            self._spans.append(Span(number, number + 1, reason, failed))
        elif last:  # a report must not grow with the length of a video: what follows is one span
            self._spans[-1] = Span(last.first, number + 1, "several, some frames between are not black", True)

    def all(self) -> tuple[Span, ...]:
        return tuple(self._spans)


@dataclass(frozen=True)
class Report:
    """One file."""

    source: str
    destination: str
    """Where the result is; empty where nothing was released."""
    frames: int
    width: int
    height: int
    duration: float | None
    """Seconds of the video."""
    seconds: float
    """The whole run took."""
    stage_seconds: Mapping[str, float]
    """In which each stage was busy."""
    bottleneck: str
    engine: Mapping[str, Any]
    """Which one, and what the choice was made from."""
    anonymizer: str
    """Its content hash."""
    kind: str
    black: tuple[Span, ...] = ()
    black_frames: int = 0
    failed_frames: int = 0
    detector: Mapping[str, Any] | None = None
    audio: bool = False
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def fps(self) -> float:
        return self.frames / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"fps": round(self.fps, 3)}

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.stage_seconds.items())
        lines = [
            f"{self.destination or self.source}: {self.frames} frames of {self.width}×{self.height} in "
            f"{self.seconds:.1f} s, {self.fps:.1f} frames/s by {self.engine.get('name', self.kind)}",
            f"busy: {stages}; bottleneck: {self.bottleneck}",
            *looked_at(self.engine),
        ]
        lines += [f"black, {span}" for span in self.black[:10]]
        if len(self.black) > 10:
            lines.append(f"black: {len(self.black) - 10} more spans, in the JSON report")
        return "\n".join([*lines, *self.notes])


def looked_at(engine: Mapping[str, Any]) -> list[str]:
    """A line where a network looked at smaller pictures than came in: the result has no more detail than those."""
    if "pictures" not in engine or engine["scale"] == ALL:
        return []
    high, wide = engine["pictures"]
    return [f"the network looked at pictures of {wide}×{high} ({engine['scale']}), enlarged again"]


@dataclass(frozen=True)
class FileResult:
    """One file of a folder."""

    source: str
    """Below the folder."""
    destination: str
    state: str
    """"done", "present" (was done before), "failed", "other" (not a video or picture: not copied)."""
    reason: str = ""
    report: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FolderReport:
    """All files of a folder."""

    source: str
    destination: str
    files: Sequence[FileResult]
    seconds: float
    frames: int
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    bottleneck: str = "nothing to do"

    def of(self, state: str) -> list[FileResult]:
        return [result for result in self.files if result.state == state]

    @property
    def failed(self) -> list[FileResult]:
        return self.of("failed")

    @property
    def exit_code(self) -> int:
        return 3 if self.failed else 0

    def to_json(self) -> dict[str, Any]:
        counts = {state: len(self.of(state)) for state in ("done", "present", "failed", "other")}
        return asdict(self) | {"counts": counts}

    def __str__(self) -> str:
        lines = [
            f"{self.destination}: {len(self.of('done'))} files done, {len(self.of('present'))} were there, "
            f"{len(self.failed)} failed, {len(self.of('other'))} others not copied; "
            f"{self.frames} frames in {self.seconds:.1f} s"
        ]
        lines += [f"failed, {result.source}: {result.reason}" for result in self.failed]
        lines += [f"not copied: {result.source}" for result in self.of("other")[:20]]
        return "\n".join(lines)
