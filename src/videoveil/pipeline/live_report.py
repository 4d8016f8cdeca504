"""What a live run is asked to do, and what it says it did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from videoveil.errors import UsageError
from videoveil.pipeline.errors import FAILED
from videoveil.pipeline.live_sinks import SEGMENT
from videoveil.pipeline.report import Span, looked_at

STOPPED = "stopped"  # how a run ends that was asked to


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
    notes: tuple[str, ...] = ()
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
        lines += looked_at(self.engine)
        lines += [f"black, {span}" for span in self.black[:10]]
        lines += [f"{name}: {_words(facts)}" for name, facts in self.sinks.items()]
        return "\n".join([*lines, *self.notes])


def _words(facts: Mapping[str, Any]) -> str:
    """What a sink has to tell in one line: `segments 1, frames 250, last cam-00000.mp4`."""
    told = {name: " ".join(value) if isinstance(value, list) else value for name, value in facts.items()}
    return ", ".join(f"{name} {value}" for name, value in told.items() if value != "")
